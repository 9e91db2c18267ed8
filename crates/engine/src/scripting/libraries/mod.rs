//! The libraries that scripts find beside Lua's own, in Rust: bit, struct, cmsgpack, cjson.

mod bit;
mod json;
mod messagepack;
pub mod pattern;
mod structure;

use mlua::{Lua, Table};

/// How deep nested data may be, whatever a script asks for: it is read and written by recursion.
const NESTING_MAX: usize = 1000;
/// Work that a value of a table takes besides its bytes.
const VALUE_WORK: usize = 32;

/// The native functions of each library, by its name.
pub fn all(lua: &Lua) -> mlua::Result<Table> {
    let all = lua.create_table()?;
    all.set("bit", bit::library(lua)?)?;
    all.set("struct", structure::library(lua)?)?;
    all.set("cmsgpack", messagepack::library(lua)?)?;
    all.set("cjson", json::library(lua)?)?;
    Ok(all)
}

/// A fresh cjson with settings of its own.
pub fn new_json(lua: &Lua) -> mlua::Result<Table> {
    json::library(lua)
}
