-- What scripts see: the world of allowed functions, its tables sealed against changes.
--
-- The virtual machine is plain Lua 5.1, which knows no read-only tables. A sealed table is therefore an empty
-- one whose metatable leads to the real one; the functions that look into tables without asking metatables are
-- replaced by ones that know sealed tables. Errors of native functions are objects; what catches errors for a
-- script turns them into what they stand for.
--
-- Takes the table of native functions and returns a function that makes a world.

local native = ...

local assert, error, getmetatable, ipairs, next, pairs, pcall, rawequal =
  assert, error, getmetatable, ipairs, next, pairs, pcall, rawequal
local rawget, rawset, select, setfenv, setmetatable, tonumber, tostring, type, unpack, xpcall =
  rawget, rawset, select, setfenv, setmetatable, tonumber, tostring, type, unpack, xpcall
local resume = coroutine.resume
local concat, floor = table.concat, math.floor
local aborted, reveal, where = native.aborted, native.reveal, native.where

local READ_ONLY = 'Attempt to modify a readonly table'

-- Sealed tables and the real ones behind them.
local real_of = {}
-- What getmetatable shows of sealed tables that have a metatable of their own.
local shown_metatable = {}
local sealed_tables = {}

local function refuse()
  error(READ_ONLY, 2)
end

local function seal(real)
  local sealed = setmetatable({}, { __index = real, __newindex = refuse })
  real_of[sealed] = real
  sealed_tables[#sealed_tables + 1] = sealed
  return sealed
end

local function bad_argument(number, name, wanted, got, level)
  error(("bad argument #%d to '%s' (%s expected, got %s)"):format(number, name, wanted, got), level + 1)
end

-- The name of an argument's type for an error; `count` is the number of arguments given.
local function type_name(value, number, count)
  return number > count and 'no value' or type(value)
end

-- A script that is to end must not go on after pcall and its like.
local function caught(ok, problem, ...)
  if not ok then
    if aborted() then
      error(problem, 0)
    end
    if type(problem) == 'userdata' then
      problem = reveal(problem)
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

local function caught_whole(ok, problem, ...)
  if not ok then
    if aborted() then
      error(problem, 0)
    elseif type(problem) == 'userdata' then
      problem = reveal(problem)
    end
  end
  return ok, problem, ...
end

-- Makes an error a table with the position where it was raised.
local function describe(problem)
  local source, line = where()
  problem = reveal(problem)
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

local base = {}

function base.pcall(...)
  if select('#', ...) == 0 then
    error("bad argument #1 to 'pcall' (value expected)", 2)
  end
  return caught(pcall(...))
end

function base.xpcall(...)
  if select('#', ...) < 2 then
    error("bad argument #2 to 'xpcall' (value expected)", 2)
  end
  local f, handler = ...
  return caught_whole(xpcall(f, function(problem)
    -- Nothing would interrupt the handler of an error that ends the script.
    if aborted() then
      return problem
    end
    return handler(reveal(problem))
  end))
end

function base.next(...)
  local t, key = ...
  if type(t) ~= 'table' then
    bad_argument(1, 'next', 'table', type_name(t, 1, select('#', ...)), 2)
  end
  return next(real_of[t] or t, key)
end

function base.pairs(...)
  local t = ...
  if type(t) ~= 'table' then
    bad_argument(1, 'pairs', 'table', type_name(t, 1, select('#', ...)), 2)
  end
  return next, real_of[t] or t, nil
end

function base.rawget(...)
  local t, key = ...
  local count = select('#', ...)
  if type(t) ~= 'table' then
    bad_argument(1, 'rawget', 'table', type_name(t, 1, count), 2)
  elseif count < 2 then
    error("bad argument #2 to 'rawget' (value expected)", 2)
  end
  return rawget(real_of[t] or t, key)
end

function base.rawset(...)
  local t, key, value = ...
  local count = select('#', ...)
  if type(t) ~= 'table' then
    bad_argument(1, 'rawset', 'table', type_name(t, 1, count), 2)
  elseif count < 3 then
    error(("bad argument #%d to 'rawset' (value expected)"):format(count + 1), 2)
  elseif real_of[t] then
    error(READ_ONLY, 0)
  elseif key == nil or key ~= key then
    error(key == nil and 'table index is nil' or 'table index is NaN', 0)
  end
  return rawset(t, key, value)
end

function base.getmetatable(...)
  if select('#', ...) == 0 then
    error("bad argument #1 to 'getmetatable' (value expected)", 2)
  end
  local value = ...
  if real_of[value] then
    return shown_metatable[value]
  elseif type(value) == 'string' then
    return shown_metatable.string
  end
  return getmetatable(value)
end

function base.setmetatable(...)
  local t, metatable = ...
  local count = select('#', ...)
  if type(t) ~= 'table' then
    bad_argument(1, 'setmetatable', 'table', type_name(t, 1, count), 2)
  elseif count < 2 or (metatable ~= nil and type(metatable) ~= 'table') then
    error("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
  elseif real_of[t] then
    error(READ_ONLY, 0)
  end
  local before = getmetatable(t)
  if before ~= nil and (type(before) ~= 'table' or rawget(before, '__metatable') ~= nil) then
    error('cannot change a protected metatable', 2)
  end
  return setmetatable(t, real_of[metatable] or metatable)
end

-- An integer argument as C sees it, or the fallback if there is none.
local function integer_argument(value, fallback, number, name)
  if value == nil then
    return fallback
  end
  local converted = tonumber(value)
  if not converted or type(value) == 'boolean' then
    bad_argument(number, name, 'number', type(value), 3)
  end
  return converted < 0 and -floor(-converted) or floor(converted)
end

-- The most results that fit on the stack beside the arguments.
local RESULTS_MAX = 7999

function base.unpack(...)
  local t, first, last = ...
  local count = select('#', ...)
  if type(t) ~= 'table' then
    bad_argument(1, 'unpack', 'table', type_name(t, 1, count), 2)
  end
  local real = real_of[t] or t
  first = integer_argument(first, 1, 2, 'unpack')
  last = integer_argument(last, #real, 3, 'unpack')
  if first > last then
    return
  end
  local room = RESULTS_MAX - (count > 1 and count - 1 or 0)
  if not (first >= -2147483648 and last <= 2147483647 and last - first < room) then
    error('too many results to unpack', 2)
  end
  if count == 1 then
    return unpack(real)
  elseif count == 2 then
    return unpack(real, first)
  end
  return unpack(real, first, last)
end

function base.collectgarbage(option, argument)
  local result = native.collect(option or 'collect', argument)
  if not result then
    error(("bad argument #1 to 'collectgarbage' (invalid option '%s')"):format(tostring(option)), 2)
  end
  return result
end

function base.gcinfo()
  return floor(native.collect('count'))
end

-- Functions that make functions give them the world as their globals.
local function loaders(world)
  local function compile(code, name)
    local chunk, problem = native.load(code, name)
    if not chunk then
      return nil, problem
    end
    return setfenv(chunk, world.globals)
  end

  local function loadstring(...)
    local code, name = ...
    if type(code) == 'number' then
      code = tostring(code)
    elseif type(code) ~= 'string' then
      bad_argument(1, 'loadstring', 'string', type_name(code, 1, select('#', ...)), 2)
    end
    return compile(code, name or code)
  end

  -- Pieces are put together before the parser sees them: no code runs while it works.
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
    if type(reader) ~= 'function' then
      bad_argument(1, 'load', 'function', type_name(reader, 1, select('#', ...)), 2)
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
    bad_argument(number, name, 'string', type_name(value, number, count), 3)
  end
  return value
end

local search, replace = native.patterns.search, native.patterns.replace

local function gmatch(...)
  local count = select('#', ...)
  local text, pattern = ...
  text = text_argument(text, 1, count, 'gmatch')
  pattern = text_argument(pattern, 2, count, 'gmatch')
  local at = 1
  local function advance(first, last, ...)
    if first then
      at = (last >= first and last or first) + 1
      return ...
    end
    at = #text + 2
  end
  return function()
    return advance(search(text, pattern, at))
  end
end

-- What a function or table makes of a match.
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
  error(('invalid replacement value (a %s)'):format(type(value)), 4)
end

local function gsub(...)
  local text, pattern, by, most = ...
  local kind = type(by)
  if kind ~= 'function' and kind ~= 'table' then
    if kind ~= 'string' and kind ~= 'number' and select('#', ...) >= 2 then
      text_argument(text, 1, 3, 'gsub')
      text_argument(pattern, 2, 3, 'gsub')
      error("bad argument #3 to 'gsub' (string/function/table expected)", 2)
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

-- The libraries, the same in every world.
local libraries = {}

do
  local strings = copy(native.strings, copy(string, {}))
  strings.gmatch = gmatch
  strings.gfind = gmatch
  strings.gsub = gsub
  libraries.string = seal(strings)
  getmetatable('').__index = strings
  local shown = seal({ __index = libraries.string })
  shown_metatable.string = shown

  local tables = copy(table, {})
  function tables.foreach(t, f)
    for key, value in base.pairs(t) do
      local result = f(key, value)
      if result ~= nil then
        return result
      end
    end
  end
  libraries.table = seal(tables)

  local numbers = copy(math, {})
  numbers.random, numbers.randomseed = native.random, native.randomseed
  libraries.math = seal(numbers)

  libraries.os = seal({ clock = os.clock })

  local routines = copy(coroutine, {})
  routines.resume = function(...)
    return caught_whole(resume(...))
  end
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

-- Makes a world: its own globals, with these fields in `redis` besides the functions that run commands. A
-- world of libraries shows their code no more than `loading_fields` of `redis` while it is loaded.
local function new_world(fields, loading_fields)
  local world = {}
  local redis = copy(fields, { call = native.call, pcall = native.pcall })
  local globals = copy(libraries, copy(base, copy(plain, {})))
  globals.redis = seal(redis)
  globals._VERSION = _VERSION
  globals.loadstring, globals.load = loaders(world)
  local function missing(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end
  setmetatable(globals, { __index = missing })
  world.globals = seal(globals)
  globals._G = world.globals
  shown_metatable[world.globals] = seal({ __index = missing })

  -- Takes out what functions that ignore metatables have put into sealed tables.
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
  function world.compile(code, name)
    local chunk, problem = native.load(code, name)
    return chunk and setfenv(chunk, world.globals), problem
  end

  -- Runs the code of a library: whether it went well, and what it raised.
  if loading_fields then
    local door = getmetatable(world.globals)
    local loading_redis = setmetatable(loading_fields, { __index = missing })
    local loading = setmetatable({ redis = seal(loading_redis) }, { __index = missing })
    function world.load(chunk)
      door.__index = loading
      local ok, value = xpcall(chunk, describe)
      door.__index = globals
      clean()
      return ok, value
    end
  else
    function world.load()
      return false, 'this is no world of libraries'
    end
  end

  -- Runs a script: whether it went well, and what it returned or raised.
  function world.run(chunk, keys, arguments)
    globals.KEYS, globals.ARGV = keys, arguments
    local ok, value = xpcall(chunk, describe)
    clean()
    return ok, value
  end

  -- Runs a function of a library in the same way.
  function world.run_function(callback, keys, arguments)
    local ok, value = xpcall(function()
      return callback(keys, arguments)
    end, describe)
    clean()
    return ok, value
  end

  return world
end

return new_world
