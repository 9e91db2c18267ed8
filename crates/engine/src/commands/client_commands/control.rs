//! CLIENT KILL, PAUSE, UNPAUSE and UNBLOCK: what one client does to others.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use super::filters::Filters;
use crate::blocking;
use crate::host::Message;
use crate::invocation::Invocation;
use crate::session::{BlockedClient, SharedSession};

pub(super) fn kill(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    let filters = if args.len() == 3 {
        Filters::at_address(args.at(2))
    } else {
        let mut filters = Filters::all(false);
        filters.add(engine, args, 2)?;
        filters
    };
    let (me, now_ms) = (invocation.session.shared.id, invocation.context.now_ms);
    let chosen: Vec<Arc<SharedSession>> = {
        let clients = engine.clients.read();
        clients.values().filter(|session| filters.pass(session, me, now_ms)).cloned().collect()
    };
    kill_all(invocation, &chosen);
    if args.len() > 3 {
        reply.integer(chosen.len() as i64);
    } else if chosen.is_empty() {
        return Err(Error::fixed("ERR No such client"));
    } else {
        reply.ok();
    }
    Ok(())
}

/// Closes clients, the one that asks for it after its reply.
pub fn kill_all(invocation: &mut Invocation<'_, '_, '_>, clients: &[Arc<SharedSession>]) {
    for session in clients {
        if session.id == invocation.session.shared.id {
            invocation.session.closing = true;
        } else {
            invocation.context.engine.end_session(session);
        }
    }
}

pub(super) fn pause(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 4 {
        return Err(crate::commands::wrong_subcommand(args));
    }
    let pauses_all = match args.get(3) {
        None => true,
        Some(mode) if parse::is(mode, "ALL") => true,
        Some(mode) if parse::is(mode, "WRITE") => false,
        Some(_) => return Err(Error::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout_ms = parse::integer_or(args.at(2), "ERR timeout is not an integer or out of range")?;
    if timeout_ms < 0 {
        return Err(Error::fixed("ERR timeout is negative"));
    }
    let now_ms = invocation.context.now_ms;
    let until_ms = now_ms.checked_add(timeout_ms).ok_or(Error::fixed("ERR timeout is out of range"))?;
    let pause = &invocation.engine().pause;
    let before_ms = pause.until_ms.load(Ordering::Relaxed);
    // While a pause lasts, another one can only make it longer and stricter.
    let lasts = before_ms > now_ms;
    pause.all.store(pauses_all || (lasts && pause.all.load(Ordering::Relaxed)), Ordering::Relaxed);
    pause.until_ms.store(if lasts { until_ms.max(before_ms) } else { until_ms }, Ordering::Relaxed);
    invocation.engine().heed_pause(now_ms);
    reply.ok();
    Ok(())
}

pub(super) fn unpause(
    invocation: &mut Invocation<'_, '_, '_>,
    _args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let engine = invocation.engine();
    engine.pause.end();
    engine.heed_pause(invocation.context.now_ms);
    engine.send_all(|| Message::Resume);
    reply.ok();
    Ok(())
}

pub(super) fn unblock(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 4 {
        return Err(crate::commands::wrong_subcommand(args));
    }
    let with_error = match args.get(3) {
        None => false,
        Some(reason) if parse::is(reason, "TIMEOUT") => false,
        Some(reason) if parse::is(reason, "ERROR") => true,
        Some(_) => return Err(Error::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = parse::integer(args.at(2))?;
    let engine = invocation.engine();
    let blocked = u64::try_from(id).ok().and_then(|id| engine.blocked.lock().get(&id).cloned());
    let may_end = |blocked: &Arc<BlockedClient>| !blocked.waits_for_work();
    let released = blocked.filter(may_end).is_some_and(|blocked| {
        let bytes = if with_error {
            let mut error = Reply::new(blocked.protocol);
            error.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
            error.into_bytes()
        } else {
            blocking::timeout_reply(engine, &blocked)
        };
        blocking::release(engine, &blocked, bytes)
    });
    reply.integer(i64::from(released));
    Ok(())
}
