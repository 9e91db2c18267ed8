//! Functions and programs on the stack of Lua, through Lua.

use mantissa_lua::{End, Fault, Item, Program, Stack, function, function_before, maker};
use mlua::{Function, Lua, LuaOptions, StdLib};

const LIMIT: usize = 32 << 20;

/// A machine with a memory limit and this function as `f`.
fn machine(body: impl Fn(&mut Stack<'_>) -> Result<usize, Fault> + 'static) -> Lua {
    let libraries = StdLib::TABLE | StdLib::STRING;
    let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false)).unwrap();
    lua.set_memory_limit(LIMIT).unwrap();
    lua.globals().set("f", function(&lua, LIMIT, body).unwrap()).unwrap();
    lua
}

/// Makes a text of so many bytes that stays.
fn fill(lua: &Lua, len: usize) {
    lua.globals().set("full", lua.create_string(vec![b'x'; len]).unwrap()).unwrap();
}

fn text(lua: &Lua, code: &str) -> String {
    lua.load(code).eval::<mlua::LuaString>().unwrap().to_string_lossy()
}

#[test]
fn arguments_are_read_in_place_and_results_are_pushed() {
    let lua = machine(|stack| {
        let mut line = String::new();
        for slot in 1..=stack.arguments() + 1 {
            line.push_str(&match stack.argument(slot) {
                Item::Text(text) => format!("text {} ", text.len()),
                Item::Number(number) => format!("number {number} "),
                Item::Boolean(value) => format!("boolean {value} "),
                other => format!("{} ", other.type_name()),
            });
        }
        stack.push_text(line.as_bytes())?;
        Ok(1)
    });
    let found = text(&lua, "return f('a\\0b', 1.5, true, nil, {}, f, '7', coroutine.create(function() end))");
    assert_eq!(found, "text 3 number 1.5 boolean true nil table function text 1 thread no value ");
    // A number is not converted where it lies.
    assert_eq!(text(&lua, "local n = 7 f(n) return type(n)"), "number");
}

#[test]
fn tables_are_made_and_read() {
    let lua = machine(|stack| {
        stack.push_table(2, 2)?;
        for number in 1..=3 {
            stack.push_number(f64::from(number))?;
            stack.set_element(number as usize)?;
        }
        stack.push_text(b"name")?;
        stack.push_boolean(true)?;
        stack.set()?;
        // Keys that Lua refuses are left out.
        for key in [None, Some(f64::NAN)] {
            match key {
                Some(key) => stack.push_number(key)?,
                None => stack.push_nil()?,
            }
            stack.push_number(9.0)?;
            stack.set()?;
        }
        let (mut pairs, mut sum) = (0, 0.0);
        stack.each(-1, |stack| {
            pairs += 1;
            if let (Item::Number(_), Item::Number(value)) = (stack.item(-2), stack.item(-1)) {
                sum += value;
            }
            // What a visit leaves is taken off, and what was there before is not.
            stack.push_nil()?;
            stack.pop(1);
            stack.pop(100);
            stack.push_text(b"left")?;
            Ok::<_, Fault>(true)
        })?;
        stack.push_number(f64::from(pairs))?;
        stack.push_number(sum)?;
        Ok(3)
    });
    let found = text(&lua, "local t, pairs, sum = f() return #t .. tostring(t.name) .. pairs .. sum");
    assert_eq!(found, "3true46");
}

#[test]
fn no_argument_is_taken_off_or_replaced() {
    let lua = machine(|stack| {
        let Item::Text(first) = stack.argument(1) else { return Err(Fault::Raised) };
        stack.pop(10);
        stack.push_number(1.0)?;
        stack.replace(1);
        stack.replace(100);
        // There is no table here that belongs to the function.
        assert_eq!(stack.set_element(1), Err(Fault::Memory));
        assert_eq!(stack.set(), Err(Fault::Memory));
        assert_eq!(stack.call(5, None), Err(Fault::Memory));
        stack.push_text(first)?;
        Ok(1)
    });
    assert_eq!(text(&lua, "return f('kept')"), "kept");
}

#[test]
fn errors_are_values_that_scripts_can_catch() {
    let lua = machine(|stack| match stack.argument(1) {
        Item::Text(_) => {
            stack.push_copy(1)?;
            Err(Fault::Raised)
        }
        Item::Nil => Err(Fault::Memory),
        _ => panic!("a panic of the test"),
    });
    assert_eq!(text(&lua, "return select(2, pcall(f, 'raised'))"), "raised");
    assert_eq!(text(&lua, "return select(2, pcall(f, nil))"), "not enough memory");
    assert_eq!(text(&lua, "return select(2, pcall(f, 1))"), "internal error");
    // Within a coroutine too.
    assert_eq!(
        text(&lua, "return select(2, coroutine.resume(coroutine.create(function(...) f(...) end), 'there'))"),
        "there"
    );
}

#[test]
fn memory_ends_with_an_error_and_not_with_the_process() {
    let lua = machine(|stack| {
        stack.push_table(0, 0)?;
        match stack.argument(1) {
            Item::Text(_) => {
                // Many texts.
                for number in 1.. {
                    stack.push_text(format!("{number:0>100}").as_bytes())?;
                    stack.set_element(number)?;
                }
            }
            Item::Nil => {
                // Many fields.
                for number in 1.. {
                    stack.push_text(number.to_string().as_bytes())?;
                    stack.push_table(0, 0)?;
                    stack.set()?;
                }
            }
            Item::Boolean(_) => {
                stack.push_text(&vec![b'x'; 2 * LIMIT])?;
            }
            Item::Number(_) => stack.push_table(LIMIT, 0)?,
            _ => {
                // A table in a table.
                for _ in 0.. {
                    stack.push_table(0, 1)?;
                }
            }
        }
        Ok(1)
    });
    for argument in ["'texts'", "nil", "true", "1", "{}"] {
        let problem = text(&lua, &format!("return select(2, pcall(f, {argument}))"));
        assert_eq!(problem, "not enough memory", "{argument}");
        lua.gc_collect().unwrap();
    }
    assert!(lua.used_memory() < 1 << 20, "{}", lua.used_memory());
    // Near the limit small values still can be made.
    fill(&lua, 24 << 20);
    let kept = lua.load("local t = {} for i = 1, 100 do t[i] = select(2, pcall(f, {})) end return #t[100]");
    assert_eq!(kept.eval::<usize>().unwrap(), "not enough memory".len());
}

#[test]
fn operations_near_the_limit_do_the_same() {
    let lua = machine(|stack| {
        stack.push_table(0, 0)?;
        for number in 1..=1000 {
            stack.push_number(f64::from(number))?;
            stack.set_element(number as usize)?;
            stack.push_text(format!("key {number}").as_bytes())?;
            stack.push_text(format!("value {number}").as_bytes())?;
            stack.set()?;
        }
        Ok(1)
    });
    fill(&lua, 24 << 20);
    let code = "local t, count = f(), 0 for k, v in next, t do count = count + 1 end
        return count .. ' ' .. t[1000] .. ' ' .. t['key 1000'] .. ' ' .. #t";
    assert_eq!(text(&lua, code), "2000 1000 value 1000 1000");
}

#[test]
fn programs_run_kept_functions() {
    let lua = machine(|stack| {
        stack.push_copy(1)?;
        Ok(1)
    });
    let mut program = Program::new(&lua, LIMIT).unwrap();
    let kept: Function =
        lua.load("return function(a, b) if b then error({a}) end return f(a) end").eval().unwrap();
    let handler: Function = lua.load("return function(t) return 'handled ' .. t[1] end").eval().unwrap();
    let (kept, handler) = (program.keep(kept).unwrap(), program.keep(handler).unwrap());
    lua.gc_collect().unwrap();
    let mut run = |fails: bool| {
        program.run(|stack| {
            stack.push_kept(&handler).unwrap();
            stack.push_kept(&kept).unwrap();
            stack.push_text(b"text").unwrap();
            stack.push_boolean(fails).unwrap();
            let outcome = stack.call(2, Some(-4));
            let Item::Text(text) = stack.item(-1) else { panic!("{:?}", stack.item(-1)) };
            (outcome, String::from_utf8_lossy(text).into_owned())
        })
    };
    for _ in 0..1000 {
        assert_eq!(run(false), (Ok(()), "text".to_owned()));
        assert_eq!(run(true), (Err(Fault::Raised), "handled text".to_owned()));
    }
    // A kept value is freed with its keeper.
    let before = lua.used_memory();
    let large = lua.create_string(vec![b'x'; 1 << 20]).unwrap();
    let large = program.keep(large).unwrap();
    drop(large);
    lua.gc_collect().unwrap();
    assert!(lua.used_memory() < before + (1 << 19));
}

#[test]
fn places_are_those_of_the_callers() {
    let lua = machine(|stack| {
        let place = stack.place(1).unwrap();
        assert!(stack.place(100).is_none());
        let line = format!("{} {}:{}", place.what, place.short_source, place.line.unwrap_or(0));
        stack.push_text(line.as_bytes())?;
        Ok(1)
    });
    let found: String =
        lua.load("local a\nlocal place = f()\nreturn place").set_name("@code").eval().unwrap();
    assert_eq!(found, "main code:2");
}

#[test]
fn an_original_goes_on_with_the_arguments() {
    let lua = machine(|_| Ok(0));
    let globals = lua.globals();
    let unpack: Function = globals.get("unpack").unwrap();
    let other: Function = lua.load("return function(...) return 'other', ... end").eval().unwrap();
    let table: mlua::Table = lua.load("return {'own'}").eval().unwrap();
    let body = |stack: &mut Stack<'_>| {
        // What is pushed is not seen by the original.
        stack.push_text(b"left")?;
        if stack.argument(1) == Item::Nil {
            return Ok(End::Other(0));
        }
        if stack.table_len(1) == 0 {
            stack.push_own(1)?;
            stack.set_argument(1);
        }
        Ok(End::Original)
    };
    let made = function_before(&lua, LIMIT, Some(&unpack), (other, table), body).unwrap();
    globals.set("unpack", made).unwrap();
    assert_eq!(text(&lua, "return table.concat({unpack({'a', 'b'})}, ',')"), "a,b");
    assert_eq!(text(&lua, "return table.concat({unpack({})}, ',')"), "own");
    assert_eq!(text(&lua, "return table.concat({unpack(nil, 'x', 'y')}, ',', 3)"), "x,y");
    assert_eq!(text(&lua, "return tostring(select('#', unpack({}, 1, 100)))"), "100");
    // A text is not replaced, and the error is that of the original.
    let found = text(&lua, "return select(2, pcall(function() unpack('text') end))");
    assert!(found.ends_with("bad argument #1 to 'unpack' (table expected, got string)"), "{found}");
    // Only functions in C without values of their own can be originals.
    for code in ["return function() end", "return string.gmatch('a', 'a')"] {
        let original: Function = lua.load(code).eval().unwrap();
        assert!(function_before(&lua, LIMIT, Some(&original), (), |_| Ok(End::Original)).is_err());
    }
}

#[test]
fn results_of_an_original_that_failed_are_checked() {
    let lua = machine(|_| Ok(0));
    let pcall: Function = lua.globals().get("pcall").unwrap();
    let caught: Function =
        lua.load("return function(ok, problem) return ok, 'caught ' .. problem end").eval().unwrap();
    let made = function_before(&lua, LIMIT, Some(&pcall), caught, |_| Ok(End::Checked(0))).unwrap();
    lua.globals().set("pcall", made).unwrap();
    assert_eq!(text(&lua, "return select(2, pcall(error, 'it', 0))"), "caught it");
    assert_eq!(text(&lua, "return table.concat({select(2, pcall(unpack, {1, 2, 3}))}, ',')"), "1,2,3");
    assert_eq!(text(&lua, "return tostring(select('#', pcall(unpack, {}, 1, 7000)))"), "7001");
}

#[test]
fn a_maker_makes_functions_with_values() {
    let lua = machine(|_| Ok(0));
    let prepare = |stack: &mut Stack<'_>| {
        stack.push_copy(1)?;
        stack.push_number(0.0)?;
        stack.push_table(0, 0)?;
        stack.push_text(b"field")?;
        stack.push_boolean(true)?;
        stack.set()?;
        Ok(3)
    };
    let step = |stack: &mut Stack<'_>| {
        let (Item::Text(text), Item::Number(count)) = (stack.own(0), stack.own(1)) else {
            return Err(Fault::Memory);
        };
        stack.set_own_number(1, count + 1.0)?;
        // Texts stay, and values that are not there are none.
        stack.set_own_number(0, 1.0)?;
        assert_eq!(stack.own(0), Item::Text(text));
        assert_eq!(stack.own(300), Item::None);
        stack.push_text(b"field")?;
        stack.push_own_field(2, -1)?;
        assert_eq!(stack.item(-1), Item::Boolean(true));
        stack.push_own_field(0, -1)?;
        assert_eq!(stack.item(-1), Item::Nil);
        stack.push_text(format!("{}{count}", String::from_utf8_lossy(text)).as_bytes())?;
        Ok(1)
    };
    lua.globals().set("make", maker(&lua, LIMIT, prepare, step).unwrap()).unwrap();
    let code = "local a, b = make('a'), make('b') make = nil collectgarbage()
        return a() .. a() .. b() .. a() .. b()";
    assert_eq!(text(&lua, code), "a0a1b0a2b1");
}

#[test]
fn numbers_are_read_as_lua_reads_them() {
    let lua = machine(|stack| {
        let number = stack.to_number(1).map_or("none".to_owned(), |number| number.to_string());
        stack.push_text(number.as_bytes())?;
        Ok(1)
    });
    let found = "return table.concat({f(1.5), f('0x10'), f(' 0 '), f('x'), f(''), f(nil), f({}), f()}, ' ')";
    assert_eq!(text(&lua, found), "1.5 16 0 none none none none none");
}

#[test]
fn metatables_and_fields_are_pushed() {
    let lua = machine(|stack| {
        if !stack.push_metatable(1)? {
            return Ok(0);
        }
        stack.push_text(b"name")?;
        stack.get(-2)?;
        Ok(1)
    });
    assert_eq!(text(&lua, "return f(setmetatable({}, {name = 'found'}))"), "found");
    for arguments in ["{}", "1", ""] {
        assert_eq!(text(&lua, &format!("return tostring(select('#', f({arguments})))")), "0", "{arguments}");
    }
}
