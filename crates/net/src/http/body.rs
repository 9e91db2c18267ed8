//! The content of a request: of a known length, or in chunks.

use super::{Framing, Status};

/// The most bytes of chunk extensions, and of the fields after the last chunk, that are skipped.
const SKIPPED_BYTES_MAX: usize = 4 << 10;
/// The most digits of a chunk's size.
const SIZE_DIGITS_MAX: u8 = 16;

/// What has become of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The bytes that belong to the content and its framing. The rest is the next request's.
    pub consumed: usize,
    /// The content is complete.
    pub is_done: bool,
}

/// Where the reader is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Bytes of content that are still to come, without chunks.
    Plain(u64),
    /// In the size of a chunk: what it is so far, and how many digits it has.
    Size(u64, u8),
    /// Behind the size of a chunk.
    Extension(u64),
    /// Before the line feed that ends the line of a size.
    SizeEnd(u64),
    /// In a chunk: bytes that are still to come.
    Chunk(u64),
    /// Behind a chunk.
    ChunkEnd,
    /// Before the line feed behind a chunk.
    ChunkLineFeed,
    /// At the beginning of a line behind the last chunk.
    TrailerBegin,
    /// In such a line.
    Trailer,
    /// Before the line feed that ends such a line.
    TrailerLineFeed,
    /// Before the last line feed.
    LastLineFeed,
    Done,
}

/// Reads the content of one request.
#[derive(Clone, Debug)]
pub struct BodyReader {
    state: State,
    bytes_max: usize,
    skipped: usize,
}

impl BodyReader {
    /// For content that is framed in this way; an error if it promises more than `bytes_max` bytes.
    pub fn new(framing: Framing, bytes_max: usize) -> Result<Self, Status> {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(len) if len > bytes_max as u64 => return Err(Status::ContentTooLarge),
            Framing::Length(len) => State::Plain(len),
            Framing::Chunked => State::Size(0, 0),
        };
        Ok(BodyReader { state, bytes_max, skipped: 0 })
    }

    /// Whether the content is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Moves content from the input to the end of `out`. An error is final.
    pub fn read(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Progress, Status> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if let State::Plain(left) | State::Chunk(left) = self.state {
                let taken = (input.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                out.extend_from_slice(&input[at..at + taken]);
                at += taken;
                let left = left - taken as u64;
                self.state = match self.state {
                    State::Plain(_) if left == 0 => State::Done,
                    State::Plain(_) => State::Plain(left),
                    _ if left == 0 => State::ChunkEnd,
                    _ => State::Chunk(left),
                };
                continue;
            }
            self.state = self.step(input[at], out.len())?;
            at += 1;
        }
        Ok(Progress { consumed: at, is_done: self.state == State::Done })
    }

    /// The state after a byte of the framing.
    fn step(&mut self, byte: u8, len: usize) -> Result<State, Status> {
        let refused = Err(Status::BadRequest);
        Ok(match (self.state, byte) {
            (State::Size(size, digits), _) if byte.is_ascii_hexdigit() => {
                if digits == SIZE_DIGITS_MAX {
                    return refused;
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                State::Size(size << 4 | u64::from(digit), digits + 1)
            }
            (State::Size(_, 0), _) => return refused,
            (State::Size(size, _), b'\r') => State::SizeEnd(size),
            (State::Size(size, _), b';') => State::Extension(size),
            (State::Extension(size), b'\r') => State::SizeEnd(size),
            (State::Extension(size), _) if byte == b'\t' || !byte.is_ascii_control() => {
                self.skip()?;
                State::Extension(size)
            }
            (State::SizeEnd(0), b'\n') => State::TrailerBegin,
            (State::SizeEnd(size), b'\n') if size > (self.bytes_max.saturating_sub(len)) as u64 => {
                return Err(Status::ContentTooLarge);
            }
            (State::SizeEnd(size), b'\n') => State::Chunk(size),
            (State::ChunkEnd, b'\r') => State::ChunkLineFeed,
            (State::ChunkLineFeed, b'\n') => State::Size(0, 0),
            (State::TrailerBegin, b'\r') => State::LastLineFeed,
            (State::Trailer, b'\r') => State::TrailerLineFeed,
            (State::TrailerBegin, b' ' | b'\t') => return refused,
            (State::TrailerBegin | State::Trailer, _) if byte == b'\t' || !byte.is_ascii_control() => {
                self.skip()?;
                State::Trailer
            }
            (State::TrailerLineFeed, b'\n') => State::TrailerBegin,
            (State::LastLineFeed, b'\n') => State::Done,
            _ => return refused,
        })
    }

    fn skip(&mut self) -> Result<(), Status> {
        self.skipped += 1;
        if self.skipped > SKIPPED_BYTES_MAX { Err(Status::HeadTooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], step: usize) -> Result<(Vec<u8>, usize), Status> {
        let mut reader = BodyReader::new(Framing::Chunked, 64)?;
        let (mut out, mut consumed) = (Vec::new(), 0);
        for part in text.chunks(step) {
            let progress = reader.read(part, &mut out)?;
            consumed += progress.consumed;
            if progress.is_done {
                return Ok((out, consumed));
            }
        }
        Ok((out, usize::MAX))
    }

    #[test]
    fn chunks_are_read_however_they_are_split() {
        let text = b"3\r\nabc\r\n0a;name=\"value\"\r\n0123456789\r\n000\r\nTrailer: x\r\n\r\nGET / HTTP/1.1";
        for step in 1..text.len() {
            let (out, consumed) = read(text, step).expect("it is well formed");
            assert_eq!((&out[..], &text[consumed..]), (&b"abc0123456789"[..], &b"GET / HTTP/1.1"[..]));
        }
        assert_eq!(read(b"0\r\n\r\n", 9), Ok((Vec::new(), 5)));
    }

    #[test]
    fn chunks_in_doubt_are_refused() {
        for text in [
            "\r\n",
            ";x\r\n",
            "x\r\n",
            "-1\r\na\r\n",
            "+1\r\na\r\n",
            "0x1\r\na\r\n",
            " 1\r\na\r\n",
            "1 \r\na\r\n",
            "1\na\n0\n\n",
            "1\r\na\n0\r\n\r\n",
            "1\r\nab\r\n",
            "1\r\na0\r\n\r\n",
            "1\ra\r\n",
            "1;a\nb\r\n",
            "1;\0\r\na\r\n",
            "0\r\nA: b\n\r\n",
            "0\r\nA: b\rX: c\r\n\r\n",
            "0\r\n folded\r\n\r\n",
            "0\r\n\n",
            "00000000000000001\r\na\r\n",
        ] {
            assert_eq!(read(text.as_bytes(), 3), Err(Status::BadRequest), "{text:?}");
        }
        for text in ["41\r\n", "20\r\n01234567890123456789012345678901\r\n21\r\n", "ffffffffffffffff\r\n"] {
            assert_eq!(read(text.as_bytes(), 7), Err(Status::ContentTooLarge), "{text:?}");
        }
        let extension = format!("1;{}\r\n", "x".repeat(SKIPPED_BYTES_MAX + 1));
        assert_eq!(read(extension.as_bytes(), 100), Err(Status::HeadTooLarge));
        let mut many = Vec::new();
        (0..SKIPPED_BYTES_MAX).for_each(|_| many.extend_from_slice(b"1;xx\r\na\r\n"));
        let mut reader = BodyReader::new(Framing::Chunked, usize::MAX).expect("nothing is promised");
        assert_eq!(reader.read(&many, &mut Vec::new()), Err(Status::HeadTooLarge));
    }

    #[test]
    fn a_length_is_kept_to() {
        let mut reader = BodyReader::new(Framing::Length(5), 5).expect("it may be that long");
        let mut out = Vec::new();
        assert_eq!(reader.read(b"abc", &mut out), Ok(Progress { consumed: 3, is_done: false }));
        assert_eq!(reader.read(b"defg", &mut out), Ok(Progress { consumed: 2, is_done: true }));
        assert_eq!((&out[..], reader.is_done()), (&b"abcde"[..], true));
        assert!(
            BodyReader::new(Framing::Length(6), 5).is_err_and(|status| status == Status::ContentTooLarge)
        );
        assert!(BodyReader::new(Framing::None, 5).is_ok_and(|reader| reader.is_done()));
    }
}
