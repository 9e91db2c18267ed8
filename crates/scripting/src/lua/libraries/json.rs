//! `cjson`: JSON, with the settings and error texts of the library of that name.

mod decode;
mod encode;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{LightUserData, Lua, Table, Value};

use crate::lua::native::{self, Arguments, Native, Problem};

/// The settings of an instance.
#[derive(Clone, Copy)]
struct Settings {
    /// A sparse array becomes an object instead of an error.
    convert_sparse: bool,
    /// An array is sparse if its highest index is more than this many times its elements ...
    sparse_ratio: i64,
    /// ... and above this.
    sparse_safe: i64,
    encode_depth_max: i64,
    decode_depth_max: i64,
    /// Digits of a number.
    precision: i64,
    keep_buffer: bool,
    /// What is written for numbers that JSON does not have.
    encode_invalid: Invalid,
    decode_invalid: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Invalid {
    Refuse,
    Write,
    Null,
}

const DEFAULTS: Settings = Settings {
    convert_sparse: false,
    sparse_ratio: 2,
    sparse_safe: 10,
    encode_depth_max: 1000,
    decode_depth_max: 1000,
    precision: 14,
    keep_buffer: true,
    encode_invalid: Invalid::Refuse,
    decode_invalid: true,
};

/// The range of the two limits of depth.
const DEPTHS: (i64, i64) = (1, i32::MAX as i64);

/// `cjson.null`.
fn null() -> Value {
    Value::LightUserData(LightUserData(std::ptr::null_mut()))
}

type Shared = Rc<Cell<Settings>>;

/// A new instance with its own settings.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let settings: Shared = Rc::new(Cell::new(DEFAULTS));
    let table = lua.create_table()?;
    let add = |name: &str, body: fn(&Lua, &Arguments, &Shared) -> Native<Vec<Value>>| {
        let settings = Rc::clone(&settings);
        let body = move |lua: &Lua, args: &Arguments| {
            body(lua, args, &settings).map(|values| values.into_iter().collect::<mlua::MultiValue>())
        };
        table.set(name, native::function(lua, body)?)
    };
    let (encoding, decoding) = (Rc::clone(&settings), Rc::clone(&settings));
    table.set("encode", native::in_place(lua, move |stack| encode::encode(stack, &encoding))?)?;
    table.set("decode", native::in_place(lua, move |stack| decode::decode(stack, &decoding))?)?;
    add("encode_sparse_array", |_, args, settings| {
        const NAME: &str = "encode_sparse_array";
        expect_at_most(args, 3, NAME)?;
        let mut new = settings.get();
        boolean(args, 0, &mut new.convert_sparse, NAME)?;
        integer(args, 1, &mut new.sparse_ratio, (0, i64::from(i32::MAX)), NAME)?;
        integer(args, 2, &mut new.sparse_safe, (0, i64::from(i32::MAX)), NAME)?;
        settings.set(new);
        let numbers = [new.sparse_ratio, new.sparse_safe].map(|number| Value::Number(number as f64));
        Ok([vec![Value::Boolean(new.convert_sparse)], numbers.to_vec()].concat())
    })?;
    add("encode_max_depth", |_, args, settings| {
        change(args, settings, |new| &mut new.encode_depth_max, DEPTHS, "encode_max_depth")
    })?;
    add("decode_max_depth", |_, args, settings| {
        change(args, settings, |new| &mut new.decode_depth_max, DEPTHS, "decode_max_depth")
    })?;
    add("encode_number_precision", |_, args, settings| {
        change(args, settings, |new| &mut new.precision, (1, 14), "encode_number_precision")
    })?;
    add("encode_keep_buffer", |_, args, settings| {
        expect_at_most(args, 1, "encode_keep_buffer")?;
        let mut new = settings.get();
        boolean(args, 0, &mut new.keep_buffer, "encode_keep_buffer")?;
        settings.set(new);
        Ok(vec![Value::Boolean(new.keep_buffer)])
    })?;
    add("encode_invalid_numbers", |lua, args, settings| {
        expect_at_most(args, 1, "encode_invalid_numbers")?;
        let mut new = settings.get();
        if !args.is_none(0) {
            new.encode_invalid = match choice(args, &["off", "on", "null"], "encode_invalid_numbers")? {
                0 => Invalid::Refuse,
                1 => Invalid::Write,
                _ => Invalid::Null,
            };
        }
        settings.set(new);
        Ok(vec![match new.encode_invalid {
            Invalid::Null => Value::String(lua.create_string("null")?),
            other => Value::Boolean(other == Invalid::Write),
        }])
    })?;
    add("decode_invalid_numbers", |_, args, settings| {
        expect_at_most(args, 1, "decode_invalid_numbers")?;
        let mut new = settings.get();
        boolean(args, 0, &mut new.decode_invalid, "decode_invalid_numbers")?;
        settings.set(new);
        Ok(vec![Value::Boolean(new.decode_invalid)])
    })?;
    table.set("null", null())?;
    table.set("_NAME", "cjson")?;
    table.set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn expect_at_most(args: &Arguments, count: usize, name: &str) -> Native<()> {
    if args.len() <= count {
        return Ok(());
    }
    Err(Problem::Text(format!("bad argument #{} to '{name}' (found too many arguments)", count + 1)))
}

/// Sets a number if the argument is there.
fn integer(
    args: &Arguments,
    index: usize,
    setting: &mut i64,
    (least, most): (i64, i64),
    name: &str,
) -> Native<()> {
    if args.is_none(index) {
        return Ok(());
    }
    let value = args.int(index, name)?;
    if !(least..=most).contains(&value) {
        let text = format!("bad argument #1 to '{name}' (expected integer between {least} and {most})");
        return Err(Problem::Text(text));
    }
    *setting = value;
    Ok(())
}

/// A function that sets one number, if it has an argument, and returns it.
fn change(
    args: &Arguments,
    settings: &Shared,
    field: fn(&mut Settings) -> &mut i64,
    range: (i64, i64),
    name: &str,
) -> Native<Vec<Value>> {
    expect_at_most(args, 1, name)?;
    let mut new = settings.get();
    integer(args, 0, field(&mut new), range, name)?;
    settings.set(new);
    Ok(vec![Value::Number(*field(&mut new) as f64)])
}

fn boolean(args: &Arguments, index: usize, setting: &mut bool, name: &str) -> Native<()> {
    match args.get(index) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(value)) => *setting = *value,
        Some(_) => *setting = choice_at(args, index, &["off", "on"], name)? == 1,
    }
    Ok(())
}

fn choice(args: &Arguments, names: &[&str], name: &str) -> Native<usize> {
    match args.get(0) {
        Some(Value::Boolean(value)) => Ok(usize::from(*value)),
        _ => choice_at(args, 0, names, name),
    }
}

fn choice_at(args: &Arguments, index: usize, names: &[&str], name: &str) -> Native<usize> {
    let text = args.text(index, name)?;
    names.iter().position(|known| known.as_bytes() == text.as_ref()).ok_or_else(|| {
        let shown = String::from_utf8_lossy(text.as_ref()).into_owned();
        Problem::Text(format!("bad argument #{} to '{name}' (invalid option '{shown}')", index + 1))
    })
}
