//! CLIENT and its subcommands: what a client says about itself, and what others may do to it.

mod control;
mod filters;
mod list;
mod table;
mod tracking;

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use super::connection::{NAME_NOT_PLAIN, is_plain_word};
use crate::invocation::Invocation;
use crate::session::{ReplyMode, flag};

pub(super) use table::COMMANDS;

pub use control::kill_all;

fn id(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(invocation.session.shared.id as i64);
    Ok(())
}

fn getname(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let identity = invocation.session.shared.identity.lock();
    if identity.name.is_empty() {
        reply.null()
    } else {
        reply.bulk(&identity.name)
    }
    Ok(())
}

fn setname(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !is_plain_word(args.at(2)) {
        return Err(NAME_NOT_PLAIN);
    }
    invocation.session.shared.change_identity(|identity| identity.name = args.at(2).to_vec());
    reply.ok();
    Ok(())
}

fn setinfo(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (option, value) = (args.at(2), args.at(3));
    let is_name = parse::is(option, "LIB-NAME");
    if !is_name && !parse::is(option, "LIB-VER") {
        return Err(Error::quoting("ERR Unrecognized option '", option, "'"));
    }
    if !is_plain_word(value) {
        const REFUSED: &str = " cannot contain spaces, newlines or special characters.";
        return Err(Error::quoting("ERR ", option, REFUSED));
    }
    invocation.session.shared.change_identity(|identity| {
        if is_name {
            identity.library_name = value.to_vec();
        } else {
            identity.library_version = value.to_vec();
        }
    });
    reply.ok();
    Ok(())
}

/// CLIENT CAPA, as in Valkey: what is not known is left out.
fn capa(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.from(2).into_iter().any(|ability| parse::is(ability, "REDIRECT")) {
        invocation.session.shared.mark(flag::REDIRECTED, true);
    }
    reply.ok();
    Ok(())
}

/// An argument that is ON or OFF.
fn on_or_off(argument: &[u8]) -> Outcome<bool> {
    match argument {
        word if parse::is(word, "ON") => Ok(true),
        word if parse::is(word, "OFF") => Ok(false),
        _ => Err(Error::SYNTAX),
    }
}

fn no_evict(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    invocation.session.shared.mark(flag::NO_EVICT, on_or_off(args.at(2))?);
    reply.ok();
    Ok(())
}

fn no_touch(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let on = on_or_off(args.at(2))?;
    invocation.session.no_touch = on;
    invocation.session.shared.mark(flag::NO_TOUCH, on);
    reply.ok();
    Ok(())
}

fn reply_mode(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let session = &mut *invocation.session;
    match args.at(2) {
        word if parse::is(word, "ON") => {
            session.set_reply_mode(ReplyMode::On);
            reply.ok();
        }
        word if parse::is(word, "OFF") => session.set_reply_mode(ReplyMode::Off),
        word if parse::is(word, "SKIP") => {
            if session.reply_mode != ReplyMode::Off {
                session.set_reply_mode(ReplyMode::SkipNext);
            }
        }
        _ => return Err(Error::SYNTAX),
    }
    Ok(())
}

fn help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "CLIENT",
        &[
            (
                "CACHING (YES|NO)",
                "Whether the keys of the next command are tracked, in modes OPTIN and OPTOUT.",
            ),
            ("CAPA <ability> [<ability> ...]", "Tells what the client can do. REDIRECT: follow -REDIRECT."),
            ("GETNAME", "The name of this connection."),
            ("GETREDIR", "The client that gets this connection's invalidations; -1 if it tracks nothing."),
            ("ID", "The number of this connection."),
            ("INFO", "What is known of this connection, as LIST shows it."),
            ("KILL <ip:port>", "Closes the connection from this address."),
            (
                "KILL <filter> <value> [<filter> <value> ...]",
                "Closes connections that pass all filters: ADDR <ip:port>, LADDR <ip:port>, IP <ip>, \
                 ID <id> [<id> ...], TYPE (NORMAL|MASTER|REPLICA|PUBSUB), USER <name>, NAME <name>, \
                 LIB-NAME <text>, LIB-VER <text>, FLAGS <letters>, CAPA <letters>, DB <number>, each also \
                 with NOT- before it; MAXAGE <seconds>, IDLE <seconds>, SKIPME (YES|NO).",
            ),
            (
                "LIST [<filter> <value> ...]",
                "What is known of connections that pass all filters, those of KILL.",
            ),
            ("NO-EVICT (ON|OFF)", "Keeps this connection when clients use too much memory."),
            ("NO-TOUCH (ON|OFF)", "Whether this connection leaves the idle times of keys as they are."),
            ("PAUSE <milliseconds> [WRITE|ALL]", "Holds back writes, or all commands, for some time."),
            ("REPLY (ON|OFF|SKIP)", "Whether this connection gets replies; SKIP leaves out the next one."),
            ("SETINFO (LIB-NAME|LIB-VER) <text>", "Tells which client library is in use."),
            ("SETNAME <name>", "Names this connection."),
            ("TRACKING (ON|OFF) [<option> ...]", "Turns invalidations for client-side caches on or off."),
            ("TRACKINGINFO", "How this connection tracks keys."),
            ("UNBLOCK <id> [TIMEOUT|ERROR]", "Ends the waiting of a client in a blocking command."),
            ("UNPAUSE", "Ends a pause before its time."),
        ],
    );
    Ok(())
}
