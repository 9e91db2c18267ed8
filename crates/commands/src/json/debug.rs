//! JSON.DEBUG.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Collection;

use super::query::{each_match, first_match};
use super::{Access, Error, Outcome, at_least, optional_path, read};

/// JSON.DEBUG MEMORY key [path], JSON.DEBUG HELP
pub(super) fn debug(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.debug")?;
    super::utf8(args.at(1))?;
    match args.at(1).to_ascii_uppercase().as_slice() {
        b"MEMORY" => {
            at_least(3, args, "json.debug")?;
            memory(access, args, reply)
        }
        b"HELP" => {
            reply.array(2);
            reply.bulk(b"MEMORY <key> [path] - reports memory usage");
            reply.bulk(b"HELP                - this message");
            Ok(())
        }
        _ => Err(Error::fixed("ERR unknown subcommand - try `JSON.DEBUG HELP`")),
    }
}

fn memory(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let path = optional_path(args, 3);
    match read(access, args.at(2))? {
        None if path.is_legacy => reply.integer(0),
        None => reply.array(0),
        Some(document) if path.is_root() => {
            if !path.is_legacy {
                reply.array(1);
            }
            reply.integer(document.memory_usage() as i64);
        }
        Some(_) if path.check().is_err() => return path.check(),
        Some(document) if path.is_legacy => {
            reply.integer(first_match(document, &path)?.memory_usage() as i64);
        }
        Some(document) => {
            each_match(document, &path, reply, |value, reply| reply.integer(value.memory_usage() as i64))?;
        }
    }
    Ok(())
}
