//! The part of CLIENT that concerns client-side caching. No client can turn tracking on: what is asked about
//! it is answered as for one that has it off, and turning it on is refused in words.

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use crate::session::Session;

const NOT_SUPPORTED: Error =
    Error::fixed("ERR CLIENT TRACKING ON is not supported by this server: it sends no invalidation messages");

pub(super) fn tracking(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut at = 3;
    let mut redirects = false;
    while at < args.len() {
        let has_value = at + 1 < args.len();
        if parse::is(args.at(at), "REDIRECT") && has_value {
            if redirects {
                return Err(Error::fixed("ERR A client can only redirect to a single other client"));
            }
            redirects = true;
            let id = parse::integer(args.at(at + 1))?;
            let exists = u64::try_from(id).is_ok_and(|id| session.server().clients.read().contains_key(&id));
            if !exists {
                return Err(Error::fixed("ERR The client ID you want redirect to does not exist"));
            }
            at += 2;
        } else if parse::is(args.at(at), "PREFIX") && has_value {
            at += 2;
        } else if ["BCAST", "OPTIN", "OPTOUT", "NOLOOP"].iter().any(|name| parse::is(args.at(at), name)) {
            at += 1;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if super::on_or_off(args.at(2))? {
        return Err(NOT_SUPPORTED);
    }
    reply.ok();
    Ok(())
}

pub(super) fn caching(_session: &mut Session<'_, '_>, _args: Args<'_>, _reply: &mut Reply) -> Outcome {
    Err(Error::fixed(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
         enabled",
    ))
}

pub(super) fn getredir(_session: &mut Session<'_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(-1);
    Ok(())
}

pub(super) fn trackinginfo(_session: &mut Session<'_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.integer(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
    Ok(())
}
