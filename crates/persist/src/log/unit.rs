//! The commands that one commit logs.

use mantissa_protocol::{Args, encode_request};

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
/// Bytes kept free in front of the commands, for SELECT and MULTI, so that a unit is contiguous.
const FRONT_BYTES: usize = 64;
/// A buffer above this size is freed when the unit is emptied.
const BUFFER_KEPT_BYTES: usize = 64 << 10;

/// Commands that are logged together: either all of them are applied by a reader, or none.
#[derive(Debug, Default)]
pub struct Unit {
    /// [`FRONT_BYTES`], then the commands.
    bytes: Vec<u8>,
    commands: usize,
    first_database: usize,
    last_database: usize,
    /// The commands do not belong together.
    is_loose: bool,
    /// The bytes are logged as they are.
    is_verbatim: bool,
    /// They select no database, and mean the same whatever is selected.
    is_neutral: bool,
}

impl Unit {
    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.commands == 0
    }

    /// Whether the next command that is added would be its only one so far.
    #[inline]
    pub fn takes_first(&self) -> bool {
        self.commands == 0 && !self.is_verbatim
    }

    /// Makes these bytes the unit: whole commands, as a primary has sent them, SELECT, MULTI and EXEC
    /// included. Behind them `database` is selected. Until the unit is emptied, nothing is added to it.
    pub fn set_verbatim(&mut self, bytes: &[u8], database: usize) {
        self.bytes.clear();
        self.bytes.reserve(FRONT_BYTES + bytes.len());
        self.bytes.resize(FRONT_BYTES, 0);
        self.bytes.extend_from_slice(bytes);
        (self.first_database, self.last_database) = (database, database);
        // Not more than one, so nothing is wrapped.
        self.commands = usize::from(!bytes.is_empty());
        (self.is_loose, self.is_verbatim) = (false, true);
    }

    /// Makes one command the unit that means the same whatever database is selected, as PING does: no SELECT
    /// precedes it.
    pub fn set_neutral<'a>(
        &mut self,
        words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    ) {
        let mut bytes = Vec::new();
        encode_request(&mut bytes, words);
        self.set_verbatim(&bytes, 0);
        self.is_neutral = true;
    }

    /// Whether [`Unit::set_neutral`] made it.
    #[inline]
    pub(super) fn is_neutral(&self) -> bool {
        self.is_neutral
    }

    /// Whether [`Unit::set_verbatim`] made it.
    #[inline]
    pub fn is_verbatim(&self) -> bool {
        self.is_verbatim
    }

    /// Adds a command on a database; nothing to a verbatim unit.
    pub fn push<'a>(
        &mut self,
        database: usize,
        words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
    ) {
        if self.begin(database) {
            encode_request(&mut self.bytes, words);
        }
    }

    /// Adds a command as a client has sent it. Where its bytes are what [`Unit::push`] would encode, they are
    /// copied.
    #[inline]
    pub fn push_request(&mut self, database: usize, args: Args<'_>) {
        let Some(encoded) = args.encoded() else { return self.push(database, args) };
        if self.begin(database) {
            self.bytes.extend_from_slice(encoded);
        }
    }

    /// Prepares for the bytes of a command on a database. False if nothing is to be added.
    #[inline]
    fn begin(&mut self, database: usize) -> bool {
        if self.is_verbatim {
            return false;
        }
        if self.commands == 0 {
            self.bytes.resize(FRONT_BYTES, 0);
            self.first_database = database;
        } else if self.last_database != database {
            put_select(database, &mut self.bytes);
        }
        self.last_database = database;
        self.commands += 1;
        true
    }

    /// Says that the commands do not belong together: one of them may be applied without the next.
    pub fn loosen(&mut self) {
        self.is_loose = true;
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(BUFFER_KEPT_BYTES);
        (self.commands, self.is_loose, self.is_verbatim, self.is_neutral) = (0, false, false, false);
    }

    /// Puts several commands between MULTI and EXEC, unless they are loose. Returns where the unit begins.
    pub(super) fn wrap(&mut self) -> usize {
        if self.commands < 2 || self.is_loose {
            return FRONT_BYTES;
        }
        self.bytes.extend_from_slice(EXEC);
        self.put_in_front(FRONT_BYTES, MULTI)
    }

    /// Puts SELECT in front of the first command of the unit, which begins at `start`: behind MULTI, as Redis
    /// does. Returns where the unit begins then.
    #[cold]
    pub(super) fn select(&mut self, start: usize) -> usize {
        let mut front = Vec::with_capacity(FRONT_BYTES);
        if start < FRONT_BYTES {
            front.extend_from_slice(MULTI);
        }
        put_select(self.first_database, &mut front);
        self.put_in_front(FRONT_BYTES, &front)
    }

    fn put_in_front(&mut self, start: usize, bytes: &[u8]) -> usize {
        let new_start = start - bytes.len();
        self.bytes[new_start..start].copy_from_slice(bytes);
        new_start
    }

    /// The database of the first command, and of the last one.
    #[inline]
    pub(super) fn databases(&self) -> (usize, usize) {
        (self.first_database, self.last_database)
    }

    #[inline]
    pub(super) fn bytes(&self, start: usize) -> &[u8] {
        &self.bytes[start..]
    }

    /// Takes the buffer that begins with bytes that are not used.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

fn put_select(database: usize, out: &mut Vec<u8>) {
    encode_request(out, ["SELECT", &database.to_string()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_protocol::{RequestLimits, RequestParser};

    #[test]
    fn select_and_multi_fit_in_front() {
        let mut unit = Unit::default();
        unit.push(usize::MAX, [&b"DEL"[..], b"a"]);
        unit.push(0, [&b"DEL"[..], b"b"]);
        let start = unit.wrap();
        let start = unit.select(start);
        let expected = "*1\r\n$5\r\nMULTI\r\n*2\r\n$6\r\nSELECT\r\n$20\r\n18446744073709551615\r\n\
                        *2\r\n$3\r\nDEL\r\n$1\r\na\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n\
                        *2\r\n$3\r\nDEL\r\n$1\r\nb\r\n*1\r\n$4\r\nEXEC\r\n";
        assert_eq!(String::from_utf8_lossy(unit.bytes(start)), expected);
        unit.clear();
        assert!(unit.is_empty());
        unit.push(1, [&b"PING"[..]]);
        assert_eq!(unit.bytes(unit.bytes.len() - 14), b"*1\r\n$4\r\nPING\r\n");
        let start = unit.wrap();
        assert_eq!(unit.bytes(start), b"*1\r\n$4\r\nPING\r\n");
        unit.push(1, [&b"PING"[..]]);
        unit.loosen();
        assert_eq!(unit.wrap(), FRONT_BYTES);
    }

    #[test]
    fn a_request_is_added_as_it_came_or_encoded() {
        for (text, expected) in [
            ("*2\r\n$3\r\nDEL\r\n$1\r\na\r\n", "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"),
            ("*2\r\n$3\r\nDEL--$1\r\na--", "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"),
            ("DEL a\r\n", "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"),
        ] {
            let mut slices = Vec::new();
            RequestParser::default().parse(text.as_bytes(), &RequestLimits::default(), &mut slices);
            let mut unit = Unit::default();
            assert!(unit.takes_first());
            unit.push_request(3, Args::new(text.as_bytes(), &slices));
            let start = unit.wrap();
            assert_eq!((unit.bytes(start), unit.databases()), (expected.as_bytes(), (3, 3)));
            assert!(!unit.takes_first() && !unit.is_empty());
        }
    }

    #[test]
    fn nothing_is_added_to_a_verbatim_unit() {
        let mut unit = Unit::default();
        unit.push(3, [&b"DEL"[..], b"a"]);
        unit.set_verbatim(b"*1\r\n$4\r\nPING\r\n", 2);
        assert!(unit.is_verbatim() && !unit.is_empty());
        unit.push(1, [&b"DEL"[..], b"b"]);
        unit.push(2, [&b"DEL"[..], b"c"]);
        let start = unit.wrap();
        assert_eq!((unit.bytes(start), unit.databases()), (&b"*1\r\n$4\r\nPING\r\n"[..], (2, 2)));
        unit.clear();
        assert!(unit.is_empty() && !unit.is_verbatim());
        unit.set_verbatim(b"", 0);
        assert!(unit.is_empty() && unit.is_verbatim());
    }
}
