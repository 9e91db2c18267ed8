//! What a replica says to its primary before data come, as a state machine over bytes.
//!
//! ```text
//! PING                                       +PONG
//! AUTH [user] password                       +OK        if there is a password
//! REPLCONF listening-port, ip-address,       +OK        all sent at once; errors are no matter
//!          capa, version
//! PSYNC id offset                            +FULLRESYNC, +CONTINUE, or try again later
//! SYNC                                       the data   if PSYNC is not known
//! ```
//!
//! Bare line feeds are signs of life, anywhere between the replies.

use std::collections::VecDeque;

use mantissa_config::LogLevel;
use mantissa_protocol::encode_request;

use crate::state::replication::ID_DIGITS;

/// The longest reply in bytes, with its end.
const LINE_BYTES_MAX: usize = 1024;

/// The capability by which this server knows its like.
pub const CAPABILITY: &[u8] = b"mantissa";
/// What a capability begins with that says how many bytes of the stream a replica takes before the end of a
/// dump in parts.
pub const AHEAD_PREFIX: &str = "mantissa-ahead=";
/// The version of Valkey whose dumps are understood. It sends dumps of fields that expire to replicas only
/// that say so.
const VALKEY_VERSION: &str = "9.0.0";

/// What a replica tells of itself, and what it asks for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `masteruser`; empty for none.
    pub user: String,
    /// `masterauth`; empty for none.
    pub password: Vec<u8>,
    /// The port that it serves.
    pub port: u16,
    /// `replica-announce-ip`; empty for the address of the connection.
    pub address: String,
    /// The history that it has, and the offset of the first byte that it wants.
    pub wanted: Option<(String, u64)>,
    /// Bytes of the stream that are kept before the end of a dump.
    pub ahead_bytes_max: u64,
    /// The other server is to hand over the role of primary: PSYNC ... FAILOVER.
    pub takes_over: bool,
}

/// How the handshake ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All data follow: of this history, up to this offset; unknown after SYNC.
    Full(Option<(String, u64)>),
    /// The stream goes on where the replica is; the history may have a new name.
    Partial(Option<String>),
    /// The primary cannot serve replicas yet.
    Later,
    /// It makes no sense to go on.
    Failed,
    /// The other server does not take over the role of primary.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Pong,
    Login,
    /// The reply to REPLCONF with this option.
    Option(&'static str),
    Position,
}

/// A handshake.
#[derive(Debug)]
pub struct Handshake {
    options: Options,
    awaited: VecDeque<Awaited>,
    line: Vec<u8>,
    outcome: Option<Outcome>,
    /// What is to be sent.
    pub output: Vec<u8>,
    /// Lines for the log.
    pub notes: Vec<(LogLevel, String)>,
}

impl Handshake {
    /// Begins with PING.
    pub fn new(options: Options) -> Self {
        let mut handshake = Handshake {
            options,
            awaited: VecDeque::from([Awaited::Pong]),
            line: Vec::new(),
            outcome: None,
            output: Vec::new(),
            notes: Vec::new(),
        };
        handshake.send(&[b"PING"]);
        handshake
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Takes bytes of the primary, up to the end of the handshake. Returns how many.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.outcome.is_some() {
                return at;
            }
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() >= LINE_BYTES_MAX {
                    let shown = self.line[..64].escape_ascii().to_string();
                    self.fail(format!("The reply of MASTER is too long: '{shown}...'"));
                }
                continue;
            }
            let mut line = std::mem::take(&mut self.line);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if !line.is_empty() {
                self.take(&line);
            }
        }
        bytes.len()
    }

    fn send(&mut self, words: &[&[u8]]) {
        encode_request(&mut self.output, words);
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push((LogLevel::Notice, text.into()));
    }

    fn fail(&mut self, text: String) {
        self.notes.push((LogLevel::Warning, text));
        self.outcome = Some(Outcome::Failed);
    }

    /// Takes a line, which is not empty.
    fn take(&mut self, line: &[u8]) {
        let shown = line.escape_ascii().to_string();
        let is_error = line.starts_with(b"-");
        match self.awaited.pop_front() {
            Some(Awaited::Pong) => {
                // Who must log in first is told so.
                let is_known = [&b"-NOAUTH"[..], b"-NOPERM", b"-ERR operation not permitted"]
                    .iter()
                    .any(|known| line.starts_with(known));
                if !line.starts_with(b"+") && !is_known {
                    return self.fail(format!("Error reply to PING from master: '{shown}'"));
                }
                self.note("Master replied to PING, replication can continue...");
                self.introduce();
            }
            Some(Awaited::Login) if is_error => self.fail(format!("Unable to AUTH to MASTER: {shown}")),
            Some(Awaited::Option(name)) if is_error => {
                self.note(format!("(Non critical) Master does not understand REPLCONF {name}: {shown}"));
            }
            Some(Awaited::Login | Awaited::Option(_)) => {}
            Some(Awaited::Position) => return self.take_position(line, &shown),
            None => return self.fail(format!("MASTER sent what nobody asked for: '{shown}'")),
        }
        if self.awaited.is_empty() && self.outcome.is_none() {
            self.ask();
        }
    }

    /// Logs in and tells about the replica.
    fn introduce(&mut self) {
        let Options { user, password, port, address, .. } = self.options.clone();
        if !password.is_empty() {
            match user.is_empty() {
                true => self.send(&[b"AUTH", &password]),
                false => self.send(&[b"AUTH", user.as_bytes(), &password]),
            }
            self.awaited.push_back(Awaited::Login);
        }
        self.send(&[b"REPLCONF", b"listening-port", port.to_string().as_bytes()]);
        self.awaited.push_back(Awaited::Option("listening-port"));
        if !address.is_empty() {
            self.send(&[b"REPLCONF", b"ip-address", address.as_bytes()]);
            self.awaited.push_back(Awaited::Option("ip-address"));
        }
        // The last two are for this server: it takes the dialect of Redis, whatever the version below says.
        let ahead = format!("{AHEAD_PREFIX}{}", self.options.ahead_bytes_max);
        let capabilities = [b"eof", &b"psync2"[..], CAPABILITY, ahead.as_bytes()];
        let words = capabilities.into_iter().flat_map(|capability| [b"capa", capability]);
        self.send(&std::iter::once(&b"REPLCONF"[..]).chain(words).collect::<Vec<_>>());
        self.awaited.push_back(Awaited::Option("capa"));
        self.send(&[b"REPLCONF", b"version", VALKEY_VERSION.as_bytes()]);
        self.awaited.push_back(Awaited::Option("version"));
    }

    /// Asks for data.
    fn ask(&mut self) {
        let (id, offset) = match self.options.wanted.clone() {
            Some((id, offset)) => {
                self.note(format!("Trying a partial resynchronization (request {id}:{offset})."));
                (id, offset.to_string())
            }
            None => {
                self.note("Partial resynchronization not possible (no cached master)");
                ("?".to_owned(), "-1".to_owned())
            }
        };
        match self.options.takes_over {
            true => self.send(&[b"PSYNC", id.as_bytes(), offset.as_bytes(), b"FAILOVER"]),
            false => self.send(&[b"PSYNC", id.as_bytes(), offset.as_bytes()]),
        }
        self.awaited.push_back(Awaited::Position);
    }

    /// Takes the reply to PSYNC.
    fn take_position(&mut self, line: &[u8], shown: &str) {
        let mut words = line.split(|&byte| byte == b' ').map(|word| std::str::from_utf8(word).unwrap_or(""));
        let is_id = |id: &&str| id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_graphic());
        match words.next() {
            Some("+FULLRESYNC") => {
                let id = words.next().filter(is_id);
                let offset = words.next().and_then(|offset| offset.parse::<u64>().ok());
                // An offset beyond this is no number for Redis.
                let offset = offset.filter(|&offset| offset <= i64::MAX as u64);
                let (Some(id), Some(offset)) = (id, offset) else {
                    return self.fail(format!("Master replied with wrong +FULLRESYNC syntax: '{shown}'"));
                };
                self.note(format!("Full resync from master: {id}:{offset}"));
                self.outcome = Some(Outcome::Full(Some((id.to_owned(), offset))));
            }
            Some("+CONTINUE") if self.options.wanted.is_some() => {
                self.note("Successful partial resynchronization with master.");
                let id = words.next().filter(is_id).map(str::to_owned);
                let present = self.options.wanted.as_ref().map(|(id, _)| id);
                let id = id.filter(|id| Some(id) != present);
                if let Some(id) = &id {
                    self.note(format!("Master replication ID changed to {id}"));
                }
                self.outcome = Some(Outcome::Partial(id));
            }
            _ if self.options.takes_over => self.outcome = Some(Outcome::Refused),
            Some("-NOMASTERLINK" | "-LOADING") => {
                self.note(format!(
                    "Master is currently unable to PSYNC but should be in the future: {shown}"
                ));
                self.outcome = Some(Outcome::Later);
            }
            first => {
                match first {
                    Some("-ERR") => self
                        .note(format!("Master does not support PSYNC or is in error state (reply: {shown})")),
                    _ => self
                        .notes
                        .push((LogLevel::Warning, format!("Unexpected reply to PSYNC from master: {shown}"))),
                }
                self.note("Retrying with SYNC...");
                self.output.extend_from_slice(b"SYNC\r\n");
                self.outcome = Some(Outcome::Full(None));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789012345678901234567890123456789";
    const OTHER: &str = "abcdeabcdeabcdeabcdeabcdeabcdeabcdeabcde";

    fn options() -> Options {
        Options { port: 6380, wanted: Some((ID.to_owned(), 15)), ..Options::default() }
    }

    /// Gives it the replies, cut into two at `cut`. Returns what was sent, the outcome, what was not taken,
    /// and the lines for the log.
    fn talk(options: Options, replies: &[u8], cut: usize) -> (String, Option<Outcome>, Vec<u8>, String) {
        let mut handshake = Handshake::new(options);
        let (first, second) = replies.split_at(cut);
        let taken = handshake.receive(first);
        let mut rest = first[taken..].to_vec();
        let taken = if rest.is_empty() { handshake.receive(second) } else { 0 };
        rest.extend_from_slice(&second[taken..]);
        let notes: Vec<String> = handshake.notes.iter().map(|(_, text)| text.clone()).collect();
        (
            String::from_utf8(handshake.output.clone()).expect("all words are text"),
            handshake.outcome().cloned(),
            rest,
            notes.join("\n"),
        )
    }

    #[test]
    fn the_outcome_is_the_same_at_every_split() {
        let partial =
            format!("\n+PONG\r\n\n+OK\r\n\r\n\n+OK\r\n\n-ERR b\r\n+CONTINUE {OTHER}\r\n*1\r\n$4\r\nPING\r\n");
        let full = format!("+PONG\r\n-ERR a\r\n+OK\r\n\n+OK\r\n\n+FULLRESYNC {ID} 0\r\n\n$5\r\nREDIS");
        for (replies, outcome, rest) in [
            (&partial, Outcome::Partial(Some(OTHER.to_owned())), &b"*1\r\n$4\r\nPING\r\n"[..]),
            (&full, Outcome::Full(Some((ID.to_owned(), 0))), b"\n$5\r\nREDIS"),
        ] {
            for cut in 0..=replies.len() {
                let (sent, found, behind, _) = talk(options(), replies.as_bytes(), cut);
                assert_eq!((found.as_ref(), &behind[..]), (Some(&outcome), rest), "cut at {cut}");
                assert_eq!(
                    sent,
                    format!(
                        "*1\r\n$4\r\nPING\r\n*3\r\n$8\r\nREPLCONF\r\n$14\r\nlistening-port\r\n$4\r\n6380\r\n\
                         *9\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n$4\r\ncapa\r\n$6\r\npsync2\r\n\
                         $4\r\ncapa\r\n$8\r\nmantissa\r\n$4\r\ncapa\r\n$16\r\nmantissa-ahead=0\r\n\
                         *3\r\n$8\r\nREPLCONF\r\n$7\r\nversion\r\n$5\r\n9.0.0\r\n\
                         *3\r\n$5\r\nPSYNC\r\n$40\r\n{ID}\r\n$2\r\n15\r\n"
                    )
                );
            }
        }
    }

    #[test]
    fn it_logs_in_and_tells_its_address() {
        let options = Options {
            user: "joe".to_owned(),
            password: b"secret".to_vec(),
            address: "1.2.3.4".to_owned(),
            wanted: None,
            ..options()
        };
        let replies = "-NOAUTH x\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n-ERR x\r\n-LOADING x\r\n";
        let (sent, outcome, ..) = talk(options.clone(), replies.as_bytes(), 0);
        assert_eq!(outcome, Some(Outcome::Later));
        assert!(sent.contains("AUTH\r\n$3\r\njoe\r\n$6\r\nsecret\r\n"), "{sent}");
        assert!(sent.contains("ip-address\r\n$7\r\n1.2.3.4\r\n"), "{sent}");
        assert!(sent.ends_with("PSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"), "{sent}");
        let (sent, outcome, _, notes) = talk(options, b"+PONG\r\n-WRONGPASS x\r\n+OK\r\n", 0);
        assert_eq!(outcome, Some(Outcome::Failed));
        assert!(notes.ends_with("Unable to AUTH to MASTER: -WRONGPASS x") && !sent.contains("PSYNC"));
    }

    #[test]
    fn replies_that_make_no_sense_end_it() {
        let begin = "+PONG\r\n+OK\r\n+OK\r\n+OK\r\n";
        let long = "x".repeat(LINE_BYTES_MAX);
        for (replies, outcome, note) in [
            ("-ERR what\r\n".to_owned(), Outcome::Failed, "Error reply to PING from master: '-ERR what'"),
            ("hello\r\n".to_owned(), Outcome::Failed, "Error reply to PING"),
            (long, Outcome::Failed, "too long"),
            (format!("{begin}+FULLRESYNC bad\r\n"), Outcome::Failed, "wrong +FULLRESYNC syntax"),
            (format!("{begin}+FULLRESYNC {ID} -1\r\n"), Outcome::Failed, "wrong +FULLRESYNC syntax"),
            (
                format!("{begin}+FULLRESYNC {ID} 18446744073709551615\r\n"),
                Outcome::Failed,
                "wrong +FULLRESYNC syntax",
            ),
            (format!("{begin}-NOMASTERLINK x\r\n"), Outcome::Later, "unable to PSYNC"),
            (format!("{begin}-ERR unknown\r\n"), Outcome::Full(None), "Retrying with SYNC..."),
            (format!("{begin}+WHAT\r\n"), Outcome::Full(None), "Unexpected reply to PSYNC"),
            (format!("{begin}+CONTINUE\r\n"), Outcome::Partial(None), "Successful partial"),
            (format!("{begin}+CONTINUE {ID}\r\n"), Outcome::Partial(None), "Successful partial"),
        ] {
            let (sent, found, _, notes) = talk(options(), replies.as_bytes(), 0);
            assert_eq!(found.as_ref(), Some(&outcome), "{replies}");
            assert!(notes.contains(note), "{notes}");
            assert_eq!(
                sent.ends_with("SYNC\r\n") && !sent.ends_with("PSYNC\r\n"),
                outcome == Outcome::Full(None)
            );
        }
        // Without a history there is nothing to continue.
        let (_, outcome, ..) =
            talk(Options { wanted: None, ..options() }, format!("{begin}+CONTINUE {ID}\r\n").as_bytes(), 0);
        assert_eq!(outcome, Some(Outcome::Full(None)));
    }
}
