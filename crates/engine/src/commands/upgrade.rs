//! MANTISSA.UPGRADE: the server goes on as another process.

use std::path::PathBuf;
use std::sync::Arc;

use mantissa_commands::spec::{Flags, Group};
use mantissa_commands::{Error, Locks, Outcome, TimeoutReply, parse};
use mantissa_protocol::{Args, Reply};

use crate::blocking;
use crate::host::Upgrade;
use crate::invocation::{EngineSpec, Invocation};

/// `MANTISSA.UPGRADE [BINARY path] [OPTION word ...]`: the words behind OPTION are directives as on a command
/// line.
fn upgrade(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, _reply: &mut Reply) -> Outcome {
    if invocation.in_transaction() {
        return Err(Error::fixed("ERR MANTISSA.UPGRADE is not possible inside a transaction"));
    }
    let (mut binary, mut options) = (None, Vec::new());
    let mut at = 1;
    while let Some(word) = args.get(at) {
        if parse::is(word, "BINARY") && at + 1 < args.len() {
            binary = Some(PathBuf::from(String::from_utf8_lossy(args.at(at + 1)).into_owned()));
            at += 2;
        } else if parse::is(word, "OPTION") && at + 1 < args.len() {
            options = args.from(at + 1).iter().map(<[u8]>::to_vec).collect();
            break;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if (binary.is_some() || !options.is_empty()) && !may_choose(invocation) {
        return Err(Error::fixed(NOT_ALLOWED));
    }
    let engine = invocation.engine();
    let session = &mut *invocation.session;
    let blocked = blocking::waiting_without_keys(engine, session, args, None, TimeoutReply::Null)?;
    blocking::wait(engine, session, Arc::clone(&blocked));
    let started = engine.host().upgrade(engine, Upgrade { binary, options, blocked: Arc::clone(&blocked) });
    if let Err(error) = started {
        let mut reply = Reply::new(blocked.protocol);
        reply.error(&format!("ERR {}", mantissa_config::reason(&error)));
        blocking::release(engine, &blocked, reply.into_bytes());
    }
    Ok(())
}

const NOT_ALLOWED: &str = "ERR BINARY and OPTION of MANTISSA.UPGRADE are for programs of the server's own \
                           user on its machine, and for others if enable-protected-configs allows it";

/// Whether the client may say which program goes on, and with which options. Whoever may has the rights of
/// the server's user, who runs programs anyway; others get them as far as protected settings are open to
/// them.
fn may_choose(invocation: &Invocation<'_, '_, '_>) -> bool {
    let peer = &invocation.session.shared.peer;
    let config = &invocation.context.active.config;
    config.enable_protected_configs.allows(peer.is_loopback()) || peer.is_of_own_user()
}

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] =
    &[EngineSpec::new("mantissa.upgrade", -1, upgrade, Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_MULTI))
        .locks(Locks::Nothing)
        .docs(
            Group::Server,
            "1.0.0",
            "O(N), N being all keys",
            "Has another process, of another version perhaps, go on.",
        )
        .arguments("path:string@BINARY? word:string@OPTION?*")];
