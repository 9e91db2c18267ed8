//! Data of modules: refused by name, or stepped over. A value is a list of elements that say their own
//! length, so it is read without its module.

use super::{Input, SkippedKey, Stop, skip_length, skip_string};
use crate::format::{module_name, module_opcode};
use crate::source::{LoadError, Source};
use mantissa_protocol::put_quoted;
use std::io::Read;

/// Steps over data that belongs to no key, and gives the name of their type. `offset` is that of its opcode.
pub(super) fn read_aux<R: Read>(
    source: &mut Source<R>,
    offset: u64,
    skip: bool,
) -> Result<String, LoadError> {
    let name = module_name(source.length()?);
    let when_opcode = source.length()?;
    source.length()?;
    if when_opcode != module_opcode::UINT {
        return source.error(offset, "module data does not begin with an integer");
    }
    if !skip {
        let reason = format!("the file has data of a module that is not there: '{name}'");
        return source.error(offset, reason);
    }
    skip_value(source)?;
    Ok(name)
}

/// Steps over a key's value, of which the type's name has been read. `offset` is that of the value.
pub(super) fn read_key<R: Read>(
    source: &mut Source<R>,
    offset: u64,
    skip: bool,
    key: &SkippedKey<'_>,
) -> Result<(), LoadError> {
    if !skip {
        return source.error(offset, refusal(key));
    }
    skip_value(source)
}

/// Why a key is not loaded.
fn refusal(key: &SkippedKey<'_>) -> String {
    let mut quoted = Vec::new();
    put_quoted(&mut quoted, key.key);
    let (quoted, SkippedKey { database, type_name, .. }) = (String::from_utf8_lossy(&quoted), key);
    format!("the key {quoted} of database {database} is of a module type that is not there: '{type_name}'")
}

/// Steps over data that belongs to no key, its opcode excluded.
pub(super) fn skip_aux(input: &mut impl Input) -> Result<(), Stop> {
    for _ in 0..3 {
        skip_length(input)?;
    }
    skip_elements(input)
}

/// Steps over a key's value, the type's name included.
pub(crate) fn skip_key(input: &mut impl Input) -> Result<(), Stop> {
    skip_length(input)?;
    skip_elements(input)
}

fn skip_elements(input: &mut impl Input) -> Result<(), Stop> {
    loop {
        match skip_length(input)? {
            module_opcode::EOF => return Ok(()),
            module_opcode::SINT | module_opcode::UINT => _ = skip_length(input)?,
            module_opcode::FLOAT => input.skip(4)?,
            module_opcode::DOUBLE => input.skip(8)?,
            module_opcode::STRING => skip_string(input)?,
            _ => return Err(Stop::Unknown),
        }
    }
}

fn skip_value<R: Read>(source: &mut Source<R>) -> Result<(), LoadError> {
    loop {
        let offset = source.offset();
        match source.length()? {
            module_opcode::EOF => return Ok(()),
            module_opcode::SINT | module_opcode::UINT => drop(source.length()?),
            module_opcode::FLOAT => drop(source.array::<4>()?),
            module_opcode::DOUBLE => drop(source.array::<8>()?),
            module_opcode::STRING => drop(source.string()?.len()),
            other => return source.error(offset, format!("module data has an unknown element {other}")),
        }
    }
}
