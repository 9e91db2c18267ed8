//! Libraries in Rust: bit, struct, cmsgpack, cjson, and the patterns of Lua's `string`.

mod bit;
mod json;
mod messagepack;
pub mod pattern;
mod structure;

use mlua::{Lua, Table};

/// How deep data may nest, whatever limit a script sets: it is read and written by recursion.
const NESTING_MAX: usize = 1000;
/// Units of work for a value of a table, besides its bytes.
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

/// A new cjson with its own settings.
pub fn new_json(lua: &Lua) -> mlua::Result<Table> {
    json::library(lua)
}
