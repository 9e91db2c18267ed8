//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO: which messages for its cache a client wants.

use std::collections::BTreeSet;
use std::ops::Bound;

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use crate::invocation::Invocation;
use crate::session::flag;
use crate::tracking::{self, Mode};

/// What the options say.
#[derive(Default)]
struct Options<'a> {
    flags: u32,
    redirect: u64,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(invocation: &Invocation<'_, '_, '_>, args: Args<'a>) -> Outcome<Options<'a>> {
        const MODES: [(&str, u32); 4] = [
            ("BCAST", flag::TRACKING_BROADCAST),
            ("OPTIN", flag::TRACKING_OPT_IN),
            ("OPTOUT", flag::TRACKING_OPT_OUT),
            ("NOLOOP", flag::TRACKING_NO_LOOP),
        ];
        let mut options = Options::default();
        let mut at = 3;
        while let Some(option) = args.get(at) {
            let operand = args.get(at + 1);
            let mode = MODES.iter().find(|(name, _)| parse::is(option, name));
            match (mode, operand) {
                (Some((_, bit)), _) => options.flags |= bit,
                (None, Some(id)) if parse::is(option, "REDIRECT") => {
                    options.redirect = redirect(invocation, options.redirect, id)?;
                    at += 1;
                }
                (None, Some(prefix)) if parse::is(option, "PREFIX") => {
                    options.prefixes.push(prefix);
                    at += 1;
                }
                _ => return Err(Error::SYNTAX),
            }
            at += 1;
        }
        Ok(options)
    }

    /// Refuses options that do not go together, or not with what the client has on already.
    fn check(&self, invocation: &Invocation<'_, '_, '_>) -> Outcome {
        const OTHER_OPT: Error = Error::fixed(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
             re-enabling it with a different mode.",
        );
        let session = &invocation.session.shared;
        let wants = |bit: u32| self.flags & bit != 0;
        let broadcasts = wants(flag::TRACKING_BROADCAST);
        if !broadcasts && !self.prefixes.is_empty() {
            return Err(Error::fixed("ERR PREFIX option requires BCAST mode to be enabled"));
        }
        if session.has(flag::TRACKING) && session.has(flag::TRACKING_BROADCAST) != broadcasts {
            return Err(Error::fixed(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ));
        }
        if broadcasts && wants(flag::TRACKING_OPT_IN | flag::TRACKING_OPT_OUT) {
            return Err(Error::fixed("ERR OPTIN and OPTOUT are not compatible with BCAST"));
        }
        match (wants(flag::TRACKING_OPT_IN), wants(flag::TRACKING_OPT_OUT)) {
            (true, true) => {
                return Err(Error::fixed("ERR You can't specify both OPTIN mode and OPTOUT mode"));
            }
            (true, false) if session.has(flag::TRACKING_OPT_OUT) => return Err(OTHER_OPT),
            (false, true) if session.has(flag::TRACKING_OPT_IN) => return Err(OTHER_OPT),
            _ => {}
        }
        if broadcasts { self.check_prefixes(invocation) } else { Ok(()) }
    }

    /// Refuses prefixes of which one begins with another: their keys would be told twice.
    fn check_prefixes(&self, invocation: &Invocation<'_, '_, '_>) -> Outcome {
        let refused = |one: &[u8], what: &str, two: &[u8]| {
            let shown = String::from_utf8_lossy(one);
            let before = format!("ERR Prefix '{shown}' overlaps with {what} '");
            Err(Error::quoting(&before, two, "'. Prefixes for a single client must not overlap."))
        };
        let overlapping = first_overlapping(&self.prefixes);
        for (index, &prefix) in self.prefixes.iter().enumerate() {
            let tracker = invocation.session.tracker.as_ref();
            if let Some(other) = tracker.and_then(|tracker| known_overlap(&tracker.prefixes, prefix)) {
                return refused(prefix, "an existing prefix", other);
            }
            if overlapping == Some(index) {
                let mut later = self.prefixes[index + 1..].iter();
                let other = later.find(|other| overlap(prefix, other)).copied().unwrap_or_default();
                return refused(prefix, "another provided prefix", other);
            }
        }
        Ok(())
    }
}

fn overlap(one: &[u8], two: &[u8]) -> bool {
    one.starts_with(two) || two.starts_with(one)
}

/// The first of some prefixes that overlaps with this one. None of them overlaps with another, but for the
/// empty prefix, which BCAST without a prefix adds to others.
fn known_overlap<'k>(known: &'k BTreeSet<Box<[u8]>>, prefix: &[u8]) -> Option<&'k [u8]> {
    if let Some(first) = known.first().filter(|first| first.is_empty()) {
        return Some(first);
    }
    // What begins with it comes right after it, and what it begins with right before it.
    let before = known.range::<[u8], _>((Bound::Unbounded, Bound::Included(prefix))).next_back();
    let after = known.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded)).next();
    [before, after].into_iter().flatten().map(|other| &**other).find(|other| overlap(prefix, other))
}

/// The index of the first prefix that overlaps with a later one.
fn first_overlapping(prefixes: &[&[u8]]) -> Option<usize> {
    let mut order: Vec<usize> = (0..prefixes.len()).collect();
    order.sort_by_key(|&index| prefixes[index]);
    // Those that the present one begins with, each with the smallest index up to it.
    let mut chain: Vec<(&[u8], usize)> = Vec::new();
    let mut first = None;
    for index in order {
        let prefix = prefixes[index];
        while chain.last().is_some_and(|(shorter, _)| !prefix.starts_with(shorter)) {
            chain.pop();
        }
        let smallest = chain.last().map_or(index, |&(_, smallest)| smallest.min(index));
        if !chain.is_empty() {
            first = Some(first.map_or(smallest, |first: usize| first.min(smallest)));
        }
        chain.push((prefix, smallest));
    }
    first
}

/// The client that the messages are to go to, which must be there.
fn redirect(invocation: &Invocation<'_, '_, '_>, before: u64, id: &[u8]) -> Outcome<u64> {
    if before != 0 {
        return Err(Error::fixed("ERR A client can only redirect to a single other client"));
    }
    let id = u64::try_from(parse::integer(id)?).ok();
    let found = id.filter(|id| invocation.engine().clients.read().contains_key(id));
    found.ok_or(Error::fixed("ERR The client ID you want redirect to does not exist"))
}

pub(super) fn tracking(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let options = Options::parse(invocation, args)?;
    let engine = invocation.engine();
    if super::on_or_off(args.at(2))? {
        options.check(invocation)?;
        let mode = Mode { flags: options.flags, redirect: options.redirect };
        tracking::turn_on(engine, invocation.session, mode, &options.prefixes);
    } else {
        tracking::turn_off(engine, invocation.session);
    }
    reply.ok();
    Ok(())
}

pub(super) fn caching(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let session = &mut *invocation.session;
    let says;
    if !session.shared.has(flag::TRACKING) {
        return Err(Error::fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT \
             mode enabled",
        ));
    }
    if parse::is(args.at(2), "YES") {
        if !session.shared.has(flag::TRACKING_OPT_IN) {
            return Err(Error::fixed(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        says = true;
    } else if parse::is(args.at(2), "NO") {
        if !session.shared.has(flag::TRACKING_OPT_OUT) {
            return Err(Error::fixed(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        says = false;
    } else {
        return Err(Error::SYNTAX);
    }
    if let Some(tracker) = &mut session.tracker {
        tracker.caching = Some(says);
    }
    reply.ok();
    Ok(())
}

pub(super) fn getredir(
    invocation: &mut Invocation<'_, '_, '_>,
    _args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    reply.integer(invocation.session.shared.redirect_shown());
    Ok(())
}

pub(super) fn trackinginfo(
    invocation: &mut Invocation<'_, '_, '_>,
    _args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let session = &*invocation.session;
    let caching = session.tracker.as_ref().and_then(|tracker| tracker.caching);
    let has = |bit| session.shared.has(bit);
    let words = [
        (!has(flag::TRACKING), "off"),
        (has(flag::TRACKING), "on"),
        (has(flag::TRACKING_BROADCAST), "bcast"),
        (has(flag::TRACKING_OPT_IN), "optin"),
        (caching == Some(true), "caching-yes"),
        (has(flag::TRACKING_OPT_OUT), "optout"),
        (caching == Some(false), "caching-no"),
        (has(flag::TRACKING_NO_LOOP), "noloop"),
        (has(flag::TRACKING_BROKEN), "broken_redirect"),
    ];
    let words: Vec<&str> = words.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(words.len());
    words.iter().for_each(|word| reply.bulk(word.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(session.shared.redirect_shown());
    reply.bulk(b"prefixes");
    let prefixes = session.tracker.iter().flat_map(|tracker| &tracker.prefixes);
    reply.array(prefixes.clone().count());
    prefixes.for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_overlap_is_found() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..20_000 {
            let count = random(6);
            let texts: Vec<Vec<u8>> =
                (0..count).map(|_| (0..random(4)).map(|_| b'a' + random(2) as u8).collect()).collect();
            let prefixes: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
            let is_first =
                |&index: &usize| prefixes[index + 1..].iter().any(|other| overlap(prefixes[index], other));
            assert_eq!(first_overlapping(&prefixes), (0..prefixes.len()).find(is_first), "{texts:?}");
        }
    }
}
