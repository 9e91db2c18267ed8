-- The environments of scripts: the functions that they may call, in read-only tables.
--
-- Lua 5.1 has no read-only tables. A sealed table is an empty one whose metatable points to the real one.
-- Functions that ignore metatables, such as rawget and next, are replaced by ones that know sealed tables.
--
-- An error of a native function is a userdata. Where an error is caught for a script, it is replaced by the
-- text or table that it represents (native.error_value).
--
-- This chunk gets the table of native functions and returns new_environment.

local native = ...

local assert, error, getmetatable, ipairs, next, pcall, rawequal =
  assert, error, getmetatable, ipairs, next, pcall, rawequal
local rawget, rawset, select, setfenv, setmetatable, tonumber, tostring, type, xpcall =
  rawget, rawset, select, setfenv, setmetatable, tonumber, tostring, type, xpcall
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield
local concat, sort = table.concat, table.sort
local find, floor, sub = string.find, math.floor, string.sub
local gcinfo, newproxy = gcinfo, newproxy
local aborted, after_cycle, at, error_value, switched, where =
  native.aborted, native.after_cycle, native.at, native.error_value, native.switched, native.where

local READ_ONLY = 'Attempt to modify a readonly table'

-- The real tables by their sealed ones, and the other way round. Scripts must never get a real table.
local real_of, sealed_of = {}, {}
-- What getmetatable returns for sealed tables whose real table has a metatable.
local shown_metatable = {}
local sealed_tables = {}

local function refuse()
  error(READ_ONLY, 2)
end

local function seal(real)
  local sealed = setmetatable({}, { __index = real, __newindex = refuse })
  real_of[sealed], sealed_of[real] = real, sealed
  sealed_tables[#sealed_tables + 1] = sealed
  return sealed
end

-- Raises an error whose text begins with the position where the script called a function of this file.
local function fail(text)
  error(at(false) .. text, 0)
end

local function bad_argument(number, name, wanted, got)
  fail(("bad argument #%d to '%s' (%s expected, got %s)"):format(number, name, wanted, got))
end

-- The name of an argument's type in errors; `count` is the number of arguments that were given.
local function type_name(value, number, count)
  return number > count and 'no value' or type(value)
end

-- Errors of functions of Lua that this file calls name a line of this file. This replaces it by the line of
-- the script. Errors of comparisons get no line.
local function relocate(problem)
  local _, last = find(problem, '^prelude:%d+: ')
  if not last then
    return problem
  end
  local text = sub(problem, last + 1)
  if find(text, '^attempt to compare ') then
    return text
  end
  return at(true) .. text
end

-- Handles the results of pcall. A script that is to end must not catch errors, so they are raised again.
local function caught(ok, problem, ...)
  if not ok then
    if aborted() then
      error(problem, 0)
    end
    if type(problem) == 'string' then
      return ok, relocate(problem)
    elseif type(problem) == 'userdata' then
      problem = error_value(problem)
    end
    if type(problem) == 'table' then
      local text = rawget(problem, 'err')
      if text ~= nil then
        return false, text
      end
    end
  end
  return ok, problem, ...
end

-- The same for xpcall and coroutine.resume, which pass error tables on as they are.
local function caught_whole(ok, problem, ...)
  if not ok then
    if aborted() then
      error(problem, 0)
    elseif type(problem) == 'userdata' then
      problem = error_value(problem)
    end
  end
  return ok, problem, ...
end

-- The error handler of scripts: makes a table of the error, with the position where it was raised.
local function describe(problem)
  local source, line = where()
  problem = error_value(problem)
  if type(problem) == 'string' then
    problem = relocate(problem)
  end
  if type(problem) ~= 'table' then
    problem = { err = 'ERR ' .. tostring(problem) }
  end
  if source and not real_of[problem] then
    rawset(problem, 'source', source)
    rawset(problem, 'line', line)
  end
  return problem
end

-- ---- replacements for functions of the base library ----

-- next, pairs, rawget, rawset, getmetatable, setmetatable and unpack.
local base = native.base(real_of, sealed_of, shown_metatable)

base.pcall = native.new_pcall(caught)

function base.xpcall(...)
  if select('#', ...) < 2 then
    fail("bad argument #2 to 'xpcall' (value expected)")
  end
  local f, handler = ...
  return caught_whole(xpcall(f, function(problem)
    -- The handler of a script that is to end does not run, because nothing could end it.
    if aborted() then
      return problem
    end
    return handler(error_value(problem))
  end))
end

-- An integer argument as C converts it, or the fallback if there is none.
local function integer_argument(value, fallback, number, name)
  if value == nil then
    return fallback
  end
  local converted = tonumber(value)
  if not converted or type(value) == 'boolean' then
    bad_argument(number, name, 'number', type(value))
  end
  converted = converted < 0 and -floor(-converted) or floor(converted)
  if converted >= -2147483648 and converted < 2147483648 then
    return converted
  elseif not (converted >= -9223372036854775808 and converted < 9223372036854775808) then
    return 0
  end
  return (converted + 2147483648) % 4294967296 - 2147483648
end

function base.collectgarbage(option, argument)
  if option ~= nil and type(option) ~= 'string' and type(option) ~= 'number' then
    bad_argument(1, 'collectgarbage', 'string', type(option))
  end
  local result = native.collect(option or 'collect', argument)
  if not result then
    fail(("bad argument #1 to 'collectgarbage' (invalid option '%s')"):format(tostring(option)))
  end
  integer_argument(argument, nil, 2, 'collectgarbage')
  return result
end

function base.gcinfo()
  return floor(native.collect('count'))
end

-- load and loadstring: the functions that they make have the globals of the environment.
local function loaders(environment)
  local function compile(code, name)
    local chunk, problem = native.load(code, name)
    if not chunk then
      if type(problem) == 'userdata' then
        error(problem, 0)
      end
      return nil, problem
    end
    return setfenv(chunk, environment.globals)
  end

  local function check_name(name, function_name)
    if name ~= nil and type(name) ~= 'string' and type(name) ~= 'number' then
      bad_argument(2, function_name, 'string', type(name))
    end
  end

  local function loadstring(...)
    local code, name = ...
    if type(code) == 'number' then
      code = tostring(code)
    elseif type(code) ~= 'string' then
      bad_argument(1, 'loadstring', 'string', type_name(code, 1, select('#', ...)))
    end
    check_name(name, 'loadstring')
    return compile(code, name or code)
  end

  -- The pieces are put together before the parser runs, so that no code of the script runs inside it.
  local function gather(reader)
    local pieces, count = {}, 0
    while true do
      local piece = reader()
      if piece == nil or piece == '' then
        return concat(pieces)
      elseif type(piece) ~= 'string' and type(piece) ~= 'number' then
        error('reader function must return a string', 0)
      end
      count = count + 1
      pieces[count] = tostring(piece)
    end
  end

  local function load(...)
    local reader, name = ...
    check_name(name, 'load')
    if type(reader) ~= 'function' then
      bad_argument(1, 'load', 'function', type_name(reader, 1, select('#', ...)))
    end
    local ok, code = caught_whole(pcall(gather, reader))
    if not ok then
      return nil, describe(code)
    end
    return compile(code, name or '=(load)')
  end

  return loadstring, load
end

local plain = {
  assert = assert, error = error, ipairs = ipairs, rawequal = rawequal, select = select, tonumber = tonumber,
  tostring = tostring, type = type,
}

local function copy(from, into)
  for key, value in next, from do
    into[key] = value
  end
  return into
end

-- A text argument, which may be a number.
local function text_argument(value, number, count, name)
  if type(value) == 'number' then
    return tostring(value)
  elseif type(value) ~= 'string' then
    bad_argument(number, name, 'string', type_name(value, number, count))
  end
  return value
end

local search, replace = native.patterns.search, native.patterns.replace

-- The replacement that a function or table gives for a match.
local function substitute(by, whole, first_capture, ...)
  local value
  if type(by) == 'function' then
    value = by(first_capture, ...)
  else
    value = by[first_capture]
  end
  if not value then
    return whole
  elseif type(value) == 'string' or type(value) == 'number' then
    return tostring(value)
  end
  fail(('invalid replacement value (a %s)'):format(type(value)))
end

local function gsub(...)
  local text, pattern, by, most = ...
  local kind = type(by)
  if kind ~= 'function' and kind ~= 'table' then
    if kind ~= 'string' and kind ~= 'number' and select('#', ...) >= 2 then
      text_argument(text, 1, 3, 'gsub')
      text_argument(pattern, 2, 3, 'gsub')
      integer_argument(most, nil, 4, 'gsub')
      fail("bad argument #3 to 'gsub' (string/function/table expected)")
    end
    return replace(...)
  end
  local count = select('#', ...)
  text = text_argument(text, 1, count, 'gsub')
  pattern = text_argument(pattern, 2, count, 'gsub')
  most = integer_argument(most, #text + 1, 4, 'gsub')
  local anchored = pattern:sub(1, 1) == '^'
  if anchored then
    pattern = pattern:sub(2)
  end
  local pieces, number, found, at = {}, 0, 0, 1
  local function take(first, last, ...)
    if not first then
      return false
    end
    found = found + 1
    pieces[number + 1] = text:sub(at, first - 1)
    pieces[number + 2] = substitute(by, text:sub(first, last), ...)
    number = number + 2
    if last >= first then
      at = last + 1
    else
      number = number + 1
      pieces[number] = text:sub(first, first)
      at = first + 1
    end
    return true
  end
  while found < most and at <= #text + 1 and take(search(text, pattern, at, anchored)) do
    if anchored then
      break
    end
  end
  pieces[number + 1] = text:sub(at)
  return concat(pieces), found
end

-- ---- coroutines ----

local routines = copy(coroutine, {})

-- Called when a coroutine goes on: the interval of ticks may have changed while another one ran.
local function back(...)
  switched()
  return ...
end

function routines.resume(...)
  return caught_whole(back(resume(...)))
end

function routines.yield(...)
  return back(yield(...))
end

local function pass(ok, problem, ...)
  if not ok and type(problem) == 'string' then
    fail(problem)
  elseif not ok then
    error(problem, 0)
  end
  return problem, ...
end

function routines.wrap(...)
  local f = ...
  if type(f) ~= 'function' or native.is_native(f) then
    fail("bad argument #1 to 'wrap' (Lua function expected)")
  end
  local routine = create(f)
  return function(...)
    return pass(back(resume(routine, ...)))
  end
end

-- ---- replacements for functions of the table library, which may take long ----

local function insert_far(t, place, value)
  place = integer_argument(place, nil, 2, 'insert')
  for index = #t, place, -1 do
    rawset(t, index + 1, rawget(t, index))
  end
  rawset(t, place, value)
end

local function remove_far(t, place)
  local last = #t
  place = integer_argument(place, nil, 2, 'remove')
  local removed = rawget(t, place)
  for index = place, last - 1 do
    rawset(t, index, rawget(t, index + 1))
  end
  rawset(t, last, nil)
  return removed
end

-- insert and remove call these functions where many elements move: ticks cannot interrupt Lua's own ones.
local tables = copy(native.tables(real_of, insert_far, remove_far), copy(table, {}))
-- table.sort of Lua is used up to so many elements times kilobytes in use ...
local SORT_MAX = 50000
-- ... or elements times bytes of the longest one, because ticks cannot interrupt it.
local SORT_BYTES_MAX = 4e6

local function table_argument(t, name, count)
  if type(t) ~= 'table' then
    bad_argument(1, name, 'table', type_name(t, 1, count))
  end
end

function tables.foreach(...)
  local t, f = ...
  local count = select('#', ...)
  table_argument(t, 'foreach', count)
  if type(f) ~= 'function' then
    bad_argument(2, 'foreach', 'function', type_name(f, 2, count))
  end
  for key, value in next, real_of[t] or t do
    local result = f(key, value)
    if result ~= nil then
      return result
    end
  end
end

function tables.foreachi(...)
  local t, f = ...
  local count = select('#', ...)
  table_argument(t, 'foreachi', count)
  if type(f) ~= 'function' then
    bad_argument(2, 'foreachi', 'function', type_name(f, 2, count))
  end
  for index = 1, #t do
    local result = f(index, rawget(t, index))
    if result ~= nil then
      return result
    end
  end
end

local function less(left, right)
  return left < right
end

-- Sorts t[low] to t[high] by the quicksort of Lua 5.1. Ticks can interrupt it.
local function sort_range(t, low, high, before)
  while low < high do
    if before(t[high], t[low]) then
      t[low], t[high] = t[high], t[low]
    end
    if high - low == 1 then
      return
    end
    local middle = floor((low + high) / 2)
    if before(t[middle], t[low]) then
      t[middle], t[low] = t[low], t[middle]
    elseif before(t[high], t[middle]) then
      t[middle], t[high] = t[high], t[middle]
    end
    if high - low == 2 then
      return
    end
    local pivot = t[middle]
    t[middle], t[high - 1] = t[high - 1], pivot
    local left, right = low, high - 1
    while true do
      left = left + 1
      while before(t[left], pivot) do
        if left > high then
          error('invalid order function for sorting')
        end
        left = left + 1
      end
      right = right - 1
      while before(pivot, t[right]) do
        if right < low then
          error('invalid order function for sorting')
        end
        right = right - 1
      end
      if right < left then
        break
      end
      t[left], t[right] = t[right], t[left]
    end
    t[high - 1], t[left] = t[left], t[high - 1]
    if left - low < high - left then
      sort_range(t, low, left - 1, before)
      low = left + 1
    else
      sort_range(t, left + 1, high, before)
      high = left - 1
    end
  end
end

-- Whether all elements are numbers or strings that are short enough to be compared quickly.
local function is_light(t, count)
  local longest = 16
  for index = 1, count do
    local value = rawget(t, index)
    local kind = type(value)
    if kind == 'string' and #value > longest then
      longest = #value
    elseif kind ~= 'string' and kind ~= 'number' then
      return false
    end
  end
  return count * longest < SORT_BYTES_MAX
end

function tables.sort(...)
  local t, before = ...
  table_argument(t, 'sort', select('#', ...))
  if before ~= nil and type(before) ~= 'function' then
    bad_argument(2, 'sort', 'function', type(before))
  end
  local count = #t
  if before and not native.is_native(before) then
    sort(t, before)
    return
  elseif not before and (count * gcinfo() < SORT_MAX or count < SORT_BYTES_MAX / 16 and is_light(t, count)) then
    sort(t)
    return
  elseif getmetatable(t) == nil then
    return sort_range(t, 1, count, before or less)
  end
  -- The functions of the table library ignore metatables.
  local plain = {}
  for index = 1, count do
    plain[index] = rawget(t, index)
  end
  sort_range(plain, 1, count, before or less)
  for index = 1, count do
    rawset(t, index, plain[index])
  end
end

-- Each cycle of the collector finalizes this object, which calls after_cycle and makes the next object.
getmetatable(newproxy(true)).__gc = function(object)
  newproxy(object)
  after_cycle()
end

-- The libraries, which all environments share.
local libraries = {}

do
  local strings = copy(native.strings, copy(string, {}))
  strings.gsub = gsub
  libraries.string = seal(strings)
  getmetatable('').__index = strings
  local shown = seal({ __index = libraries.string })
  shown_metatable.string = shown

  libraries.table = seal(tables)

  local numbers = copy(math, {})
  numbers.random, numbers.randomseed = native.random, native.randomseed
  libraries.math = seal(numbers)

  libraries.os = seal({ clock = os.clock })

  libraries.coroutine = seal(routines)

  for name, raw in next, native.libraries do
    libraries[name] = seal(raw)
    if name == 'cjson' then
      raw.new = function()
        return seal(native.new_cjson())
      end
    end
  end
end

-- Makes an environment with its own globals. `redis` has these fields and the functions that run commands;
-- `server` is the same table, as in Valkey. With `loading_fields` it is one of libraries: while their code is
-- loaded, `redis` has these fields only.
local function new_environment(fields, loading_fields)
  local environment = {}
  local redis = copy(fields, { call = native.call, pcall = native.pcall })
  local globals = copy(libraries, copy(base, copy(plain, {})))
  globals.redis = seal(redis)
  globals.server = globals.redis
  globals._VERSION = _VERSION
  globals.loadstring, globals.load = loaders(environment)
  local function missing(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end
  setmetatable(globals, { __index = missing })
  environment.globals = seal(globals)
  globals._G = environment.globals
  shown_metatable[environment.globals] = seal({ __index = missing })

  -- Removes what a script has stored in sealed tables.
  local function clean()
    for index = 1, #sealed_tables do
      local sealed = sealed_tables[index]
      if next(sealed) ~= nil then
        for key in next, sealed do
          rawset(sealed, key, nil)
        end
      end
    end
  end

  -- Compiles a script.
  function environment.compile(code, name)
    local chunk, problem = native.load(code, name)
    return chunk and setfenv(chunk, environment.globals), problem
  end

  -- Runs the code of a library. Returns whether it went well, and what it raised.
  if loading_fields then
    local door = getmetatable(environment.globals)
    local loading_redis = seal(setmetatable(loading_fields, { __index = missing }))
    local loading = setmetatable({ redis = loading_redis, server = loading_redis }, { __index = missing })
    function environment.load(chunk)
      door.__index = loading
      local ok, value = xpcall(chunk, describe)
      door.__index = globals
      clean()
      return ok, value
    end
  else
    function environment.load()
      return false, 'this is no environment of libraries'
    end
  end

  environment.inner_globals, environment.describe, environment.clean = globals, describe, clean
  return environment
end

return new_environment
