//! Data of modules: refused by name, or stepped over where a file is only checked.

use crate::format::{module_name, module_opcode};
use crate::source::{LoadError, Source};
use std::io::Read;

/// Data that belongs to no key. `offset` is that of its opcode.
pub(super) fn read_aux<R: Read>(source: &mut Source<R>, offset: u64, skip: bool) -> Result<(), LoadError> {
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
    skip_value(source)
}

/// A key's value. `offset` is that of the value.
pub(crate) fn read_key<R: Read>(source: &mut Source<R>, offset: u64, skip: bool) -> Result<(), LoadError> {
    let name = module_name(source.length()?);
    if !skip {
        let reason = format!("the file has a key of a module type that is not there: '{name}'");
        return source.error(offset, reason);
    }
    skip_value(source)
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
