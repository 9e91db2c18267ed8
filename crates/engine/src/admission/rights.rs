//! What users may do: the checks of their calls, and what the client and the log of ACL are told.

use std::borrow::Cow;
use std::sync::Arc;

use mantissa_commands::spec::{Flags, Traits};
use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::Args;

use crate::acl::log::{Place, Reason, Refusal};
use crate::acl::{AclRequest, Denial, User};
use crate::client_figures::ClientFigures;
use crate::context::Context;
use crate::engine::Engine;
use crate::invocation::{Command, Invocation};
use crate::session::{BlockedClient, Session, SharedSession};
use mantissa_sys::clock::unix_ms;

/// A call that is refused.
struct RefusedCall<'a> {
    user: &'a User,
    command: &'a Command,
    args: Args<'a>,
    denial: Denial,
}

/// The call, if its user may not make it in this database.
fn refused<'a>(
    user: &'a User,
    command: &'a Command,
    args: Args<'a>,
    database: usize,
) -> Option<RefusedCall<'a>> {
    let denial = user.check(&AclRequest::new(command, args, database)).err()?;
    Some(RefusedCall { user, command, args, denial })
}

impl RefusedCall<'_> {
    /// The key or channel, and what it is; none if the command itself or a database is refused.
    fn object(&self) -> Option<(&[u8], &'static str)> {
        match self.denial {
            Denial::Command | Denial::Database(_) => None,
            Denial::Key(at) => Some((self.args.at(at), "key")),
            Denial::Channel(at) => Some((self.args.at(at), "channel")),
        }
    }

    /// What the log tells of it: the key, the channel, the argument that names a database, or the command.
    fn logged_object(&self) -> Cow<'_, [u8]> {
        match self.denial {
            Denial::Command => self.command.shown_name().into_owned().into_bytes().into(),
            Denial::Key(at) | Denial::Channel(at) | Denial::Database(at) => self.args.at(at).into(),
        }
    }

    /// Why, in words: with the key or channel itself if `in_full`.
    fn explain(&self, in_full: bool) -> Vec<u8> {
        let name = &self.user.name[..];
        if let Denial::Database(_) = self.denial {
            let before: &[u8] = b" has no permissions to access database ";
            return match in_full {
                false => b"No permissions to access database".to_vec(),
                true => [b"User ", name, before, &self.logged_object()].concat(),
            };
        }
        let Some((object, kind)) = self.object() else {
            let command = self.command.shown_name();
            let after = format!(" has no permissions to run the '{command}' command");
            return [b"User ", name, after.as_bytes()].concat();
        };
        if !in_full {
            return format!("No permissions to access a {kind}").into_bytes();
        }
        let after = format!("' {kind}");
        [b"User ", name, b" has no permissions to access the '", object, after.as_bytes()].concat()
    }

    /// Notes it in the log.
    fn note(&self, engine: &Engine, session: &SharedSession, place: Place) {
        let reason = match self.denial {
            Denial::Command => Reason::Command,
            Denial::Database(_) => Reason::Database,
            Denial::Key(_) => Reason::Key,
            Denial::Channel(_) => Reason::Channel,
        };
        let object = &self.logged_object();
        note(engine, session, Refusal { reason, place, object, username: &self.user.name });
    }
}

fn note(engine: &Engine, session: &SharedSession, refusal: Refusal<'_>) {
    let now_ms = unix_ms();
    let mut line = Vec::new();
    ClientFigures::of(engine, session.id).write_line(&mut line, session, now_ms);
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let entries_max = usize::try_from(engine.active_config().config.acllog_max_len).unwrap_or(usize::MAX);
    engine.acl.log.note(refusal, line, now_ms, entries_max);
}

/// The error reply of a refusal.
fn error(before: &str, explanation: &[u8]) -> Error {
    Error::from_bytes([before.as_bytes(), explanation].concat())
}

/// Whether a request may run or be queued.
pub fn admit(context: &Context, session: &Session, command: &Command, args: Args<'_>) -> Outcome {
    let Some(refused) = refused(&session.user, command, args, session.database) else { return Ok(()) };
    let place = if session.transaction.is_some() { Place::Multi } else { Place::TopLevel };
    refused.note(context.engine, &session.shared, place);
    Err(error("NOPERM ", &refused.explain(false)))
}

/// Whether a command of a transaction, which could be queued, may still run.
/// The refusal is noted if `is_noted`.
pub fn admit_queued(
    context: &Context,
    session: &Session,
    command: &Command,
    args: Args<'_>,
    is_noted: bool,
) -> Outcome {
    let Some(refused) = refused(&session.user, command, args, session.database) else { return Ok(()) };
    if is_noted {
        refused.note(context.engine, &session.shared, Place::Multi);
    }
    let reason = match refused.denial {
        Denial::Command => "no permission to execute the command or subcommand",
        Denial::Database(_) => "no permission to access the database",
        Denial::Key(_) => "no permission to touch the specified keys",
        Denial::Channel(_) => "no permission to access one of the channels used as arguments",
    };
    let before = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
                  call. This command is no longer allowed for the following reason: ";
    Err(error(before, reason.as_bytes()))
}

/// Whether a script may run a command. The refusal is noted if `is_noted`.
pub fn admit_in_script(
    context: &Context,
    session: &Session,
    command: &Command,
    args: Args<'_>,
    is_noted: bool,
) -> Outcome {
    let Some(refused) = refused(&session.user, command, args, session.database) else { return Ok(()) };
    if is_noted {
        refused.note(context.engine, &session.shared, Place::Script);
    }
    Err(error("ERR ACL failure in script: ", &refused.explain(false)))
}

/// Whether a client that waits in a blocking command may still be served.
pub fn admit_waiting(engine: &Engine, blocked: &BlockedClient) -> Outcome {
    let call = refused(&blocked.user, blocked.command, blocked.args.as_args(), blocked.database);
    let Some(refused) = call else { return Ok(()) };
    refused.note(engine, &blocked.session, Place::TopLevel);
    Err(error("NOPERM ", &refused.explain(false)))
}

/// Whether a user may run a command, for those who ask beforehand: if not, the reason in full.
pub fn try_run(user: &User, command: &Command, args: Args<'_>, database: usize) -> Result<(), Vec<u8>> {
    refused(user, command, args, database).map_or(Ok(()), |refused| Err(refused.explain(true)))
}

/// Notes a login that failed; `command` is the word that asked for it.
pub fn note_failed_login(invocation: &Invocation<'_, '_, '_>, name: &[u8], command: &[u8]) {
    let place = if invocation.in_transaction() { Place::Multi } else { Place::TopLevel };
    let refusal = Refusal { reason: Reason::Auth, place, object: command, username: name };
    note(invocation.engine(), &invocation.session.shared, refusal);
}

/// Whether the client may read all keys that a command has found by labels.
pub fn check_found(session: &Session, command: &Command, args: Args<'_>, keys: &[Arc<[u8]>]) -> Outcome {
    let (rights, request) = (session.user.rights(), AclRequest::new(command, args, session.database));
    if session.user.is_unrestricted() || keys.iter().all(|key| rights.check_reading(&request, key)) {
        return Ok(());
    }
    Err(Error::fixed(
        "NOPERM TSDB: Current user doesn't have read permission to all keys that match the filter",
    ))
}

/// The options of SORT that read keys which no rule can tell beforehand: only who may read every key may use
/// them. An option that does not parse is left to the command.
pub fn check_options(session: &Session, command: &Command, args: Args<'_>) -> Outcome {
    if !command.info.traits.has(Traits::READS_BY_PATTERN) {
        return Ok(());
    }
    let may_store = command.info.flags.has(Flags::WRITE);
    let is_full =
        || session.user.rights().check_reading_all_keys(&AclRequest::new(command, args, session.database));
    let mut at = 2;
    while let Some(option) = args.get(at) {
        let left = args.len() - at - 1;
        at += match option {
            _ if ["ASC", "DESC", "ALPHA"].iter().any(|word| parse::is(option, word)) => 1,
            _ if parse::is(option, "LIMIT") && left >= 2 => {
                let are_numbers = [at + 1, at + 2].map(|at| parse::integer(args.at(at)).is_ok());
                if are_numbers != [true; 2] {
                    return Ok(());
                }
                3
            }
            _ if parse::is(option, "STORE") && may_store && left >= 1 => 2,
            _ if parse::is(option, "BY") && left >= 1 => {
                if args.at(at + 1).contains(&b'*') && !is_full() {
                    return Err(Error::fixed(
                        "ERR BY option of SORT denied due to insufficient ACL permissions.",
                    ));
                }
                2
            }
            _ if parse::is(option, "GET") && left >= 1 => {
                if !is_full() {
                    return Err(Error::fixed(
                        "ERR GET option of SORT denied due to insufficient ACL permissions.",
                    ));
                }
                2
            }
            _ => return Ok(()),
        };
    }
    Ok(())
}
