//! The logs of commands that were slow, or had a large request or reply: what SLOWLOG and Valkey's COMMANDLOG
//! show.
//!
//! An entry keeps at most 32 arguments of at most 128 bytes each, or as many as settings say, so a log stays
//! below 4.5 KB times the entries that its setting allows, whatever clients send. It is for its owner to
//! lock, and only for commands that belong into it.

use mantissa_protocol::Reply;
use std::collections::VecDeque;

/// What brings a command into a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It took long.
    Slow,
    /// Its arguments have many bytes.
    LargeRequest,
    /// Its reply has many bytes.
    LargeReply,
}

impl Cause {
    /// The one of a name.
    pub fn of(name: &[u8]) -> Result<Cause, &'static str> {
        let named = [
            ("slow", Cause::Slow),
            ("large-request", Cause::LargeRequest),
            ("large-reply", Cause::LargeReply),
        ];
        let found = named.iter().find(|(other, _)| name.eq_ignore_ascii_case(other.as_bytes()));
        found
            .map(|&(_, cause)| cause)
            .ok_or("ERR type should be one of the following: slow, large-request, large-reply")
    }
}

/// Entries that SLOWLOG GET gives if it is not told a number.
pub const DEFAULT_COUNT: i64 = 10;

/// What SLOWLOG HELP says.
pub const HELP: &[&str] = &[
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Show the last <count> slow commands (10 if left out, all with -1), newest first.",
    "    Each is shown as: id, Unix time in seconds, duration in microseconds, arguments,",
    "    address of the client, name of the client.",
    "LEN",
    "    Show how many slow commands are kept.",
    "RESET",
    "    Forget all slow commands.",
    "HELP",
    "    Show this help.",
];

/// A command of a log.
struct Entry {
    id: i64,
    unix_seconds: i64,
    figure: i64,
    arguments: Box<[Box<[u8]>]>,
    peer: Box<[u8]>,
    client_name: Box<[u8]>,
}

/// The commands of one cause, newest first.
#[derive(Default)]
pub struct CommandLog {
    entries: VecDeque<Entry>,
    next_id: i64,
}

/// A command to record.
pub struct LoggedCommand<'a> {
    /// The moment it began, in seconds since 1970.
    pub unix_seconds: i64,
    /// How long it took, in microseconds, or its bytes.
    pub figure: i64,
    /// The client's address, as `CLIENT LIST` shows it.
    pub peer: &'a [u8],
    /// The client's name, or nothing.
    pub client_name: &'a [u8],
    /// How much is kept of its arguments.
    pub kept: Kept,
}

/// How much is kept of a command's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Arguments, at least two; the last of them tells how many more there were.
    pub arguments_max: usize,
    /// Bytes of each.
    pub argument_bytes_max: usize,
}

impl CommandLog {
    /// An empty log.
    pub fn new() -> CommandLog {
        CommandLog::default()
    }

    /// Adds a command with its arguments, its name being the first, and drops the oldest entries beyond
    /// `entries_max`. Secrets among the arguments are for the caller to replace.
    pub fn record<'a, I>(&mut self, command: LoggedCommand<'_>, arguments: I, entries_max: u64)
    where
        I: ExactSizeIterator<Item = &'a [u8]>,
    {
        if entries_max == 0 {
            return;
        }
        self.entries.push_front(Entry {
            id: self.next_id,
            unix_seconds: command.unix_seconds,
            figure: command.figure,
            arguments: command.kept.trim_arguments(arguments),
            peer: command.peer.into(),
            client_name: command.client_name.into(),
        });
        self.next_id += 1;
        self.entries.truncate(usize::try_from(entries_max).unwrap_or(usize::MAX));
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id and the figure of the newest entry.
    pub fn newest(&self) -> Option<(i64, i64)> {
        self.entries.front().map(|entry| (entry.id, entry.figure))
    }

    /// Whether there are no entries.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all entries. Ids go on.
    pub fn reset(&mut self) {
        self.entries.clear();
    }

    /// The reply of SLOWLOG GET and COMMANDLOG GET: up to `count` entries, all if it is -1.
    pub fn reply_get(&self, count: i64, reply: &mut Reply) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.entries.len());
        reply.array(count);
        for entry in self.entries.iter().take(count) {
            reply.array(6);
            reply.integer(entry.id);
            reply.integer(entry.unix_seconds);
            reply.integer(entry.figure);
            reply.array(entry.arguments.len());
            for argument in &entry.arguments {
                reply.bulk(argument);
            }
            reply.bulk(&entry.peer);
            reply.bulk(&entry.client_name);
        }
    }
}

/// The count of SLOWLOG GET and COMMANDLOG GET, or the error for what is none.
pub fn parse_count(text: &[u8]) -> Result<i64, &'static str> {
    let number = mantissa_number::parse_i64(text).filter(|&count| count >= -1);
    number.ok_or("ERR count should be greater than or equal to -1")
}

impl Kept {
    fn trim_arguments<'a>(self, arguments: impl ExactSizeIterator<Item = &'a [u8]>) -> Box<[Box<[u8]>]> {
        let count = arguments.len();
        let trim = |argument| self.trim_argument(argument);
        if count <= self.arguments_max {
            return arguments.map(trim).collect();
        }
        let mut kept: Vec<Box<[u8]>> = arguments.take(self.arguments_max - 1).map(trim).collect();
        let more = count - kept.len();
        kept.push(format!("... ({more} more arguments)").into_bytes().into());
        kept.into()
    }

    fn trim_argument(self, argument: &[u8]) -> Box<[u8]> {
        match argument.split_at_checked(self.argument_bytes_max) {
            Some((head, rest)) if !rest.is_empty() => {
                [head, format!("... ({} more bytes)", rest.len()).as_bytes()].concat().into()
            }
            _ => argument.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_protocol::Protocol;

    const KEPT: Kept = Kept { arguments_max: 32, argument_bytes_max: 128 };

    fn record(log: &mut CommandLog, arguments: &[&[u8]], entries_max: u64) {
        let command = LoggedCommand {
            unix_seconds: 1_795_297_078,
            figure: 13,
            peer: b"127.0.0.1:5",
            client_name: b"me",
            kept: KEPT,
        };
        log.record(command, arguments.iter().copied(), entries_max);
    }

    fn get(log: &CommandLog, count: i64) -> String {
        let mut reply = Reply::new(Protocol::Resp2);
        log.reply_get(count, &mut reply);
        String::from_utf8(reply.into_bytes()).expect("the arguments are text")
    }

    #[test]
    fn entries_are_shown_newest_first() {
        let mut log = CommandLog::new();
        record(&mut log, &[b"GET", b"a"], 128);
        record(&mut log, &[b"PING"], 128);
        let session = "$11\r\n127.0.0.1:5\r\n$2\r\nme\r\n";
        let ping = format!("*6\r\n:1\r\n:1795297078\r\n:13\r\n*1\r\n$4\r\nPING\r\n{session}");
        let get_a = format!("*6\r\n:0\r\n:1795297078\r\n:13\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n{session}");
        assert_eq!(get(&log, -1), format!("*2\r\n{ping}{get_a}"));
        assert_eq!(get(&log, DEFAULT_COUNT), get(&log, -1));
        assert_eq!(get(&log, 1), format!("*1\r\n{ping}"));
        assert_eq!(get(&log, 0), "*0\r\n");
        log.reset();
        assert!(log.is_empty());
        record(&mut log, &[b"PING"], 128);
        assert!(get(&log, 1).contains(":2\r\n"), "ids go on");
    }

    #[test]
    fn the_oldest_go_first() {
        let mut log = CommandLog::new();
        for _ in 0..5 {
            record(&mut log, &[b"PING"], 3);
        }
        assert_eq!(log.len(), 3);
        assert!(get(&log, 1).starts_with("*1\r\n*6\r\n:4\r\n"));
        record(&mut log, &[b"PING"], 0);
        assert!(get(&log, 1).starts_with("*1\r\n*6\r\n:4\r\n"), "a length of 0 keeps nothing new");
        record(&mut log, &[b"PING"], 1);
        assert_eq!(log.len(), 1);
    }

    #[test]
    fn long_commands_are_trimmed() {
        let words: Vec<Vec<u8>> = (0..40).map(|number: i32| number.to_string().into_bytes()).collect();
        let trim = |count: usize| KEPT.trim_arguments(words[..count].iter().map(Vec::as_slice));
        assert_eq!(trim(32).len(), 32);
        assert_eq!(trim(32)[31][..], *b"31");
        assert_eq!(trim(33).len(), 32);
        assert_eq!(trim(33)[31][..], *b"... (2 more arguments)");
        assert_eq!(trim(40)[31][..], *b"... (9 more arguments)");
        let few = Kept { arguments_max: 2, argument_bytes_max: 1 };
        let trimmed = few.trim_arguments(words[10..].iter().map(Vec::as_slice));
        assert_eq!(trimmed, [&b"1... (1 more bytes)"[..], b"... (29 more arguments)"].map(Box::from).into());
        assert_eq!(KEPT.trim_argument(&[b'x'; 128])[..], [b'x'; 128]);
        let mut expected = vec![b'x'; 128];
        expected.extend(b"... (72 more bytes)");
        assert_eq!(KEPT.trim_argument(&[b'x'; 200])[..], expected);
    }

    #[test]
    fn a_count_is_a_number_from_minus_one() {
        assert_eq!(parse_count(b"-1"), Ok(-1));
        assert_eq!(parse_count(b"3000000000"), Ok(3_000_000_000));
        for bad in [&b"-2"[..], b"x", b"", b"1.5", b"99999999999999999999"] {
            assert_eq!(parse_count(bad), Err("ERR count should be greater than or equal to -1"));
        }
    }
}
