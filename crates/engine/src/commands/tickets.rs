//! MANTISSA.TICKET: a login for a WebSocket client that can send no header. Redis has no such command.

use std::sync::Arc;

use mantissa_commands::spec::{Categories, Flags, Group};
use mantissa_commands::{Error, Locks, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use crate::context::Context;
use crate::invocation::{EngineSpec, Invocation};
use crate::session::Session;

const SECONDS_DEFAULT: i64 = 30;
const SECONDS_MAX: i64 = 3600;

/// `MANTISSA.TICKET [SECONDS seconds]`.
fn ticket(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let seconds = match args.len() {
        1 => SECONDS_DEFAULT,
        3 if parse::is(args.at(1), "SECONDS") => parse::integer(args.at(2))?,
        _ => return Err(Error::SYNTAX),
    };
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(Error::fixed("ERR SECONDS must be between 1 and 3600"));
    }
    let (user, now_ms) = (&invocation.session.user, invocation.context.now_ms);
    let ticket = invocation.context.engine.acl.tickets.issue(user, now_ms, seconds * 1000);
    let ticket = ticket.ok_or(Error::fixed("ERR too many tickets are open"))?;
    reply.bulk(ticket.as_bytes());
    Ok(())
}

/// Makes a session one of the user for whom a ticket stands. False if the ticket is not good.
pub fn log_in_by_ticket(context: &Context, session: &mut Session, ticket: &str) -> bool {
    let Some(user) = context.engine.acl.tickets.redeem(ticket, context.now_ms) else { return false };
    let before = Arc::clone(&session.user);
    session.set_user(&user);
    // A user deleted meanwhile was not told of this client: checked once it is registered.
    if !context.engine.acl.is_current(&user) || !user.rights().enabled {
        session.set_user(&before);
        return false;
    }
    session.authenticated = true;
    true
}

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] =
    &[EngineSpec::new("mantissa.ticket", -1, ticket, Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE))
        .locks(Locks::Nothing)
        .categories(Categories::CONNECTION)
        .docs(
            Group::Connection,
            "1.0.0",
            "O(1)",
            "Returns a ticket by which a WebSocket client logs in once as the user of this connection.",
        )
        .arguments("seconds:integer@SECONDS?")];
