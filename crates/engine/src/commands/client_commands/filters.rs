//! The filters of CLIENT LIST and CLIENT KILL: those of Redis, and those of Valkey 9 with their NOT- forms.

use std::collections::HashSet;
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::Args;

use super::list::Kind;
use crate::acl::User;
use crate::client::Peer;
use crate::client_figures::letters;
use crate::engine::Engine;
use crate::session::{SharedSession, flag};

const BAD_ID: &str = "ERR client-id should be greater than 0";
/// The letters that FLAGS knows.
const LETTERS: &[u8] = b"OSMPxbtRBdcurAUTIiEeN";
/// The letters that CAPA knows: `r` for REDIRECT.
const ABILITIES: &[u8] = b"r";

/// Which clients are meant: those that pass all filters given. Of a filter that is repeated the last counts;
/// only those of NOT-ID add up.
pub(super) struct Filters<'a> {
    terms: Vec<(Term<'a>, IsNegated)>,
    /// MAXAGE.
    age_seconds_min: Option<i64>,
    idle_seconds_min: Option<i64>,
    includes_me: bool,
}

type IsNegated = bool;

/// One property of a client.
enum Term<'a> {
    Ids(HashSet<u64>),
    Kind(Kind),
    Remote(&'a [u8]),
    Local(&'a [u8]),
    Ip(&'a [u8]),
    User(Arc<User>),
    Flags(&'a [u8]),
    Abilities(&'a [u8]),
    Name(&'a [u8]),
    LibraryName(&'a [u8]),
    LibraryVersion(&'a [u8]),
    Database(u32),
}

impl<'a> Filters<'a> {
    /// Lets all clients pass, the one that asks only if it is included.
    pub fn all(includes_me: bool) -> Filters<'a> {
        Filters { terms: Vec::new(), age_seconds_min: None, idle_seconds_min: None, includes_me }
    }

    /// The old form of KILL: the address of one client.
    pub fn at_address(address: &'a [u8]) -> Filters<'a> {
        Filters { terms: vec![(Term::Remote(address), false)], ..Filters::all(true) }
    }

    /// Whether a word begins a filter.
    pub fn is_name(word: &[u8]) -> bool {
        const NAMES: [&str; 15] = [
            "ID", "TYPE", "ADDR", "LADDR", "IP", "USER", "FLAGS", "CAPA", "NAME", "LIB-NAME", "LIB-VER",
            "DB", "MAXAGE", "IDLE", "SKIPME",
        ];
        let (name, _) = split_negation(word);
        NAMES.iter().any(|known| parse::is(name, known))
    }

    /// Adds the filters from this argument on.
    pub fn add(&mut self, engine: &Engine, args: Args<'a>, mut at: usize) -> Outcome {
        while at < args.len() {
            let (name, is_negated) = split_negation(args.at(at));
            if parse::is(name, "ID") {
                at = self.add_ids(args, at + 1, is_negated)?;
                continue;
            }
            let value = args.get(at + 1).ok_or(Error::SYNTAX)?;
            if is_negated || !self.add_bound(name, value)? {
                let term = Term::parse(engine, name, value, is_negated)?;
                self.put(term, is_negated);
            }
            at += 2;
        }
        Ok(())
    }

    /// Adds the numbers from this argument on, and says where they end.
    fn add_ids(&mut self, args: Args<'a>, start: usize, is_negated: bool) -> Outcome<usize> {
        // Redis wants a number, and of several ID takes the last.
        if !is_negated && args.get(start).is_none_or(|first| parse::integer(first).is_err()) {
            return Err(Error::fixed(BAD_ID));
        }
        let mut ids = HashSet::new();
        let mut at = start;
        while let Some(id) = args.get(at).and_then(|argument| parse::integer(argument).ok()) {
            ids.insert(u64::try_from(id).ok().filter(|&id| id > 0).ok_or(Error::fixed(BAD_ID))?);
            at += 1;
        }
        if is_negated && let Some(Term::Ids(known)) = self.same(&Term::Ids(HashSet::new()), true) {
            known.extend(ids);
        } else {
            self.put(Term::Ids(ids), is_negated);
        }
        Ok(at)
    }

    /// Takes a filter that has no NOT- form, and says whether it is one.
    fn add_bound(&mut self, name: &[u8], value: &[u8]) -> Outcome<bool> {
        match &name.to_ascii_lowercase()[..] {
            b"maxage" => self.age_seconds_min = Some(seconds(value, "maxage")?),
            b"idle" => self.idle_seconds_min = Some(seconds(value, "idle")?),
            b"skipme" if parse::is(value, "YES") => self.includes_me = false,
            b"skipme" if parse::is(value, "NO") => self.includes_me = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn same(&mut self, term: &Term<'a>, is_negated: bool) -> Option<&mut Term<'a>> {
        let is_same = |known: &&mut (Term<'a>, IsNegated)| {
            discriminant(&known.0) == discriminant(term) && known.1 == is_negated
        };
        self.terms.iter_mut().find(is_same).map(|(known, _)| known)
    }

    fn put(&mut self, term: Term<'a>, is_negated: bool) {
        match self.same(&term, is_negated) {
            Some(known) => *known = term,
            None => self.terms.push((term, is_negated)),
        }
    }

    /// Whether a client passes all filters. `me` is the number of the one that asks.
    pub fn pass(&self, session: &SharedSession, me: u64, now_ms: i64) -> bool {
        let lasts = |minimum: Option<i64>, since_ms: i64| {
            minimum.is_none_or(|minimum| (now_ms - since_ms) / 1000 >= minimum)
        };
        (self.includes_me || session.id != me)
            && lasts(self.age_seconds_min, session.connected_ms)
            && lasts(self.idle_seconds_min, session.active_ms.load(Ordering::Relaxed))
            && self.terms.iter().all(|(term, is_negated)| term.holds(session) != *is_negated)
    }
}

impl<'a> Term<'a> {
    fn parse(engine: &Engine, name: &[u8], value: &'a [u8], is_negated: bool) -> Outcome<Term<'a>> {
        Ok(match &name.to_ascii_lowercase()[..] {
            b"type" => Term::Kind(Kind::parse(value)?),
            b"addr" => Term::Remote(value),
            b"laddr" => Term::Local(value),
            b"ip" => Term::Ip(value),
            b"user" => {
                let user = engine.acl.user(value);
                Term::User(user.ok_or_else(|| Error::quoting("ERR No such user '", value, "'"))?)
            }
            b"flags" => Term::Flags(letters_of(value, LETTERS, ("flags", "NOT-FLAGS"), is_negated)?),
            b"capa" => Term::Abilities(letters_of(value, ABILITIES, ("capa", "NOT-CAPA"), is_negated)?),
            b"name" => Term::Name(value),
            b"lib-name" => Term::LibraryName(value),
            b"lib-ver" => Term::LibraryVersion(value),
            b"db" => Term::Database(database(engine, value, is_negated)?),
            _ => return Err(Error::SYNTAX),
        })
    }

    fn holds(&self, session: &SharedSession) -> bool {
        let is_text = |wanted: &[u8], text: &dyn std::fmt::Display| text.to_string().as_bytes() == wanted;
        // What a client has not set is equal to nothing.
        let is_set = |wanted: &[u8], text: &[u8]| !text.is_empty() && text == wanted;
        match self {
            Term::Ids(ids) => ids.contains(&session.id),
            Term::Kind(kind) => Kind::of(session) == *kind,
            Term::Remote(address) => is_text(address, &session.peer.remote_text()),
            Term::Local(address) => is_text(address, &session.peer.local_text()),
            Term::Ip(ip) => matches!(&session.peer, Peer::Tcp { remote, .. } if is_text(ip, &remote.ip())),
            Term::User(user) => session.belongs_to(user),
            Term::Flags(flags) => {
                let has = letters(session);
                flags.iter().all(|letter| has.contains(letter))
            }
            Term::Abilities(letters) => letters.is_empty() || session.has(flag::REDIRECTED),
            Term::Name(name) => is_set(name, &session.identity.lock().name),
            Term::LibraryName(name) => is_set(name, &session.identity.lock().library_name),
            Term::LibraryVersion(version) => is_set(version, &session.identity.lock().library_version),
            Term::Database(number) => session.database.load(Ordering::Relaxed) == *number,
        }
    }
}

/// The name of a filter without `NOT-`, and whether it had that.
fn split_negation(word: &[u8]) -> (&[u8], IsNegated) {
    match word.split_at_checked(4) {
        Some((start, name)) if parse::is(start, "NOT-") => (name, true),
        _ => (word, false),
    }
}

/// Letters of which each is known.
fn letters_of<'a>(
    value: &'a [u8],
    known: &[u8],
    (what, negated_name): (&str, &str),
    is_negated: bool,
) -> Outcome<&'a [u8]> {
    if value.iter().all(|letter| known.contains(letter)) {
        return Ok(value);
    }
    let which = if is_negated { negated_name } else { "provided" };
    Err(Error::quoting(&format!("ERR Unknown {what} found in the {which} filter: "), value, ""))
}

fn seconds(value: &[u8], name: &str) -> Outcome<i64> {
    match parse::integer(value) {
        Err(_) => Err(Error::new(format!("ERR {name} is not an integer or out of range"))),
        Ok(seconds) if seconds > 0 => Ok(seconds),
        Ok(_) => Err(Error::new(format!("ERR {name} should be greater than 0"))),
    }
}

/// The number of a database that there is.
fn database(engine: &Engine, value: &[u8], is_negated: bool) -> Outcome<u32> {
    let name = if is_negated { "NOT-DB" } else { "DB" };
    let Ok(number) = parse::integer(value) else {
        return Err(Error::new(format!("ERR {name} is not an integer or out of range")));
    };
    let count = engine.keyspace.database_count();
    let known = usize::try_from(number).ok().filter(|&number| number < count);
    let refusal = || Error::new(format!("ERR {name} number should be between 0 and {}", count - 1));
    known.map(|number| number as u32).ok_or_else(refusal)
}
