//! Reading the elements of an RDB file from any [`Read`], with the offset and the checksum kept.
//!
//! Lengths in a file are not believed: a string grows as its bytes arrive, so a damaged length costs no more
//! memory than the input has bytes (88 times that for a compressed one, the most that LZF can give).

use crate::format::{Checksum, encoding};
use crate::lzf;
use mantissa_number::{INTEGER_TEXT_MAX, format_i64};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes that are read at a time; a longer string goes through a buffer of its own.
const BUFFER_BYTES: usize = 256 << 10;
/// The least that is read at a time from an input that is known to be short; no number takes as much.
const BUFFER_BYTES_MIN: usize = 1 << 10;
/// Bytes of fields of hashes that any file may have copied for their numbers.
const TEMPLATE_BYTES_FREE: u64 = 64 << 20;
/// And for each byte of the file and of values: a value of a byte may have a field as long as this.
const TEMPLATE_FACTOR: u64 = 256;
/// Why a number names no fields.
pub const NO_TEMPLATE: &str = "hash's number of fields is unknown, or names none";
/// How often progress is reported.
const PROGRESS_STEP_BYTES: u64 = 2 << 20;
/// A scratch buffer above this is given back once it was used.
const SCRATCH_KEPT_BYTES: usize = 1 << 20;

/// Why a file was not loaded, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadError {
    /// Offset of the damage, or of the element that has it, from the start of the file.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at byte {}", self.reason, self.offset)
    }
}

impl std::error::Error for LoadError {}

/// A length, or the mark that stands in its place before an encoded string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// A length.
    Plain(u64),
    /// One of [`crate::format::encoding`], or a damaged file.
    Encoded(u8),
}

/// Where the bytes of the last string lie.
#[derive(Clone, Copy)]
enum Place {
    Buffer { start: usize, end: usize },
    Text,
}

/// Bytes of a dump, counted and summed as they are read.
pub struct Source<'a, R> {
    reader: R,
    /// `buffer[start..end]` is read and not consumed.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the file of the first byte of `buffer`.
    buffer_offset: u64,
    checksum: Checksum,
    /// Whether the checksum is kept.
    is_checked: bool,
    /// What comes before this in `buffer` is in the checksum.
    checksum_end: usize,
    /// Holds a string that is not in the buffer as it is: decoded, or too long.
    text: Vec<u8>,
    packed: Vec<u8>,
    total: Option<u64>,
    /// Fields of hashes, by the number that names them.
    templates: HashMap<u64, Arc<[Box<[u8]>]>>,
    /// Bytes of fields that [`Source::template`] has given.
    template_bytes: u64,
    /// Bytes of values that came with them, unpacked.
    template_values: u64,
    progress: Option<Box<dyn FnMut(u64) + 'a>>,
    progress_next: u64,
}

impl<'a> Source<'a, io::Empty> {
    /// Reads from bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let count = bytes.len();
        Source::from_beginning(bytes, count)
    }

    /// Reads the first `count` of these bytes.
    pub fn from_beginning(bytes: Vec<u8>, count: usize) -> Self {
        let mut source = Source::new(io::empty(), Some(count as u64));
        source.end = count.min(bytes.len());
        source.buffer = bytes;
        source
    }

    /// The memory of what was read from.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

impl<'a, R: Read> Source<'a, R> {
    /// Begins at what `reader` yields first. `total` is how many bytes there are, if known.
    pub fn new(reader: R, total: Option<u64>) -> Self {
        Source {
            reader,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            buffer_offset: 0,
            checksum: Checksum::default(),
            is_checked: true,
            checksum_end: 0,
            text: Vec::new(),
            packed: Vec::new(),
            total,
            templates: HashMap::new(),
            template_bytes: 0,
            template_values: 0,
            progress: None,
            progress_next: PROGRESS_STEP_BYTES,
        }
    }

    /// Goes on at an offset of a file: the first `filled` of `bytes` come next, then what `reader` yields.
    /// `checksum` is that of everything before.
    pub fn continuing(reader: R, (bytes, filled): (Vec<u8>, usize), offset: u64, checksum: Checksum) -> Self {
        let mut source = Source::new(reader, None).at_offset(offset);
        source.end = filled.min(bytes.len());
        (source.buffer, source.checksum) = (bytes, checksum);
        source
    }

    /// What [`Source::continuing`] takes: what was read ahead, the offset, and the checksum of everything
    /// before it.
    pub fn into_state(mut self) -> ((Vec<u8>, usize), u64, Checksum) {
        self.update_checksum();
        let offset = self.offset();
        self.buffer.copy_within(self.start..self.end, 0);
        ((self.buffer, self.end - self.start), offset, self.checksum)
    }

    /// Keeps fields of hashes, which a number names from here on. False if it names some already.
    pub fn add_template(&mut self, number: u64, fields: Vec<Box<[u8]>>) -> bool {
        self.templates.insert(number, fields.into()).is_none()
    }

    /// The fields that a number names, to be copied into a hash beside `values` bytes of values that have
    /// been read. A file gets no more bytes of fields than are in proportion to what it has.
    pub fn template(&mut self, number: u64, values: usize) -> Result<Arc<[Box<[u8]>]>, &'static str> {
        let fields = self.templates.get(&number).map(Arc::clone).filter(|fields| !fields.is_empty());
        let fields = fields.ok_or(NO_TEMPLATE)?;
        self.template_bytes += fields.iter().map(|field| field.len() as u64).sum::<u64>();
        self.template_values += values as u64;
        let read = self.offset().saturating_add(self.template_values);
        let most = TEMPLATE_BYTES_FREE + read.saturating_mul(TEMPLATE_FACTOR);
        if self.template_bytes > most {
            return Err("hashes that name their fields by numbers would take far more room than the file");
        }
        Ok(fields)
    }

    /// Says that the input is a part of a file and begins at this offset of it.
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.buffer_offset = offset;
        self.total = self.total.map(|total| total.saturating_add(offset));
        self.progress_next = offset.saturating_add(PROGRESS_STEP_BYTES);
        self
    }

    /// Keeps no checksum.
    pub fn unchecked(mut self) -> Self {
        self.is_checked = false;
        self
    }

    /// The checksum of everything consumed, to be joined with those of other parts.
    pub fn into_checksum(mut self) -> Checksum {
        self.update_checksum();
        self.checksum
    }

    /// Has `report` called with the offset every few megabytes.
    pub fn on_progress(&mut self, report: impl FnMut(u64) + 'a) {
        self.progress = Some(Box::new(report));
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.buffer_offset + self.start as u64
    }

    /// The number of bytes that are left, if known.
    pub fn left(&self) -> Option<u64> {
        self.total.map(|total| total.saturating_sub(self.offset()))
    }

    /// The checksum of everything consumed.
    pub fn checksum(&mut self) -> u64 {
        self.update_checksum();
        self.checksum.value()
    }

    /// What was read ahead, and the reader that yields the rest.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        (self.buffer[self.start..self.end].to_vec(), self.reader)
    }

    /// Drops what was read ahead: true when that and the reader hold no byte more.
    pub fn at_end(&mut self) -> bool {
        self.start == self.end && self.fill(1).is_err()
    }

    /// An error about the element that begins at `offset`.
    pub fn error<T>(&self, offset: u64, reason: impl Into<String>) -> Result<T, LoadError> {
        Err(LoadError { offset, reason: reason.into() })
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, LoadError> {
        if self.start == self.end {
            self.fill(1)?;
        }
        let byte = self.buffer[self.start];
        self.start += 1;
        Ok(byte)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], LoadError> {
        if self.end - self.start < N {
            self.fill(N)?;
        }
        let mut array = [0; N];
        array.copy_from_slice(&self.buffer[self.start..self.start + N]);
        self.start += N;
        Ok(array)
    }

    /// Eight bytes, little-endian: a time in milliseconds.
    pub fn milliseconds(&mut self) -> Result<i64, LoadError> {
        self.array().map(i64::from_le_bytes)
    }

    /// A binary double, little-endian.
    pub fn double(&mut self) -> Result<f64, LoadError> {
        self.array().map(f64::from_le_bytes)
    }

    /// A double as files up to version 7 have it: a length and its decimal text, or one byte for what is not
    /// finite.
    pub fn text_double(&mut self) -> Result<f64, LoadError> {
        let offset = self.offset();
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Ok(f64::NAN),
            length => {
                let text = self.raw(u64::from(length))?;
                let value = mantissa_number::parse_f64(text);
                value.map_or_else(|| self.error(offset, "score is no number"), Ok)
            }
        }
    }

    /// A length or the mark of an encoded string.
    #[inline]
    pub fn length_or_encoding(&mut self) -> Result<Length, LoadError> {
        let offset = self.offset();
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Plain(u64::from(low)),
            (1, _) => Length::Plain(u64::from(low) << 8 | u64::from(self.byte()?)),
            (3, _) => Length::Encoded(low),
            (_, 0x80) => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            (_, 0x81) => Length::Plain(u64::from_be_bytes(self.array()?)),
            _ => return self.error(offset, format!("unknown length encoding {first}")),
        })
    }

    /// A length.
    #[inline]
    pub fn length(&mut self) -> Result<u64, LoadError> {
        let offset = self.offset();
        match self.length_or_encoding()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => self.error(offset, "encoded string where a length should be"),
        }
    }

    /// A string, decoded. It stays until the next call.
    #[inline]
    pub fn string(&mut self) -> Result<&[u8], LoadError> {
        let place = match self.length_or_encoding()? {
            Length::Plain(length) => self.raw_place(length)?,
            Length::Encoded(mark) => self.decoded_place(mark)?,
        };
        Ok(self.at(place))
    }

    /// A string, decoded, with its own allocation.
    pub fn string_owned(&mut self) -> Result<Vec<u8>, LoadError> {
        let place = match self.length_or_encoding()? {
            Length::Plain(length) => self.raw_place(length)?,
            Length::Encoded(mark) => self.decoded_place(mark)?,
        };
        Ok(match place {
            Place::Buffer { start, end } => self.buffer[start..end].to_vec(),
            Place::Text => std::mem::take(&mut self.text),
        })
    }

    /// The next `length` bytes as they are. They stay until the next call.
    pub fn raw(&mut self, length: u64) -> Result<&[u8], LoadError> {
        let place = self.raw_place(length)?;
        Ok(self.at(place))
    }

    fn at(&self, place: Place) -> &[u8] {
        match place {
            Place::Buffer { start, end } => &self.buffer[start..end],
            Place::Text => &self.text,
        }
    }

    #[inline]
    fn raw_place(&mut self, length: u64) -> Result<Place, LoadError> {
        let length = self.possible(length)?;
        if self.end - self.start < length {
            if length > BUFFER_BYTES {
                self.release_scratch();
                let mut text = std::mem::take(&mut self.text);
                self.read_long(length, &mut text)?;
                self.text = text;
                return Ok(Place::Text);
            }
            self.fill(length)?;
        }
        let start = self.start;
        self.start += length;
        Ok(Place::Buffer { start, end: self.start })
    }

    fn decoded_place(&mut self, mark: u8) -> Result<Place, LoadError> {
        let offset = self.offset() - 1;
        let integer = match mark {
            encoding::INT8 => i64::from(i8::from_le_bytes(self.array()?)),
            encoding::INT16 => i64::from(i16::from_le_bytes(self.array()?)),
            encoding::INT32 => i64::from(i32::from_le_bytes(self.array()?)),
            encoding::LZF => return self.decompress(offset),
            _ => return self.error(offset, format!("unknown string encoding {mark}")),
        };
        let mut digits = [0; INTEGER_TEXT_MAX];
        self.text.clear();
        self.text.extend_from_slice(format_i64(&mut digits, integer));
        Ok(Place::Text)
    }

    fn decompress(&mut self, offset: u64) -> Result<Place, LoadError> {
        let packed_length = self.length()?;
        let length = self.length()?;
        let packed_length = self.possible(packed_length)?;
        let Ok(length) = usize::try_from(length) else {
            return self.error(offset, "compressed string states an impossible length");
        };
        self.release_scratch();
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let outcome = if packed_length > BUFFER_BYTES {
            let mut packed = std::mem::take(&mut self.packed);
            self.read_long(packed_length, &mut packed)?;
            self.packed = packed;
            lzf::decompress(&self.packed, length, &mut text)
        } else {
            if self.end - self.start < packed_length {
                self.fill(packed_length)?;
            }
            let packed = &self.buffer[self.start..self.start + packed_length];
            let outcome = lzf::decompress(packed, length, &mut text);
            self.start += packed_length;
            outcome
        };
        self.text = text;
        outcome.map_or_else(|reason| self.error(offset, reason), |()| Ok(Place::Text))
    }

    /// Refuses a length above what is left of the input, where that is known.
    fn possible(&self, length: u64) -> Result<usize, LoadError> {
        let left = self.total.map_or(u64::MAX, |total| total.saturating_sub(self.offset()));
        match usize::try_from(length) {
            Ok(length) if length as u64 <= left => Ok(length),
            _ => self.error(self.offset(), format!("string of {length} bytes ends past the end of the file")),
        }
    }

    fn release_scratch(&mut self) {
        for scratch in [&mut self.text, &mut self.packed] {
            if scratch.capacity() > SCRATCH_KEPT_BYTES {
                *scratch = Vec::new();
            }
        }
    }

    /// Makes at least `count` bytes available: at most [`BUFFER_BYTES`], and no more than the input is known
    /// to have, which [`Source::possible`] sees to, unless it is a number.
    #[cold]
    fn fill(&mut self, count: usize) -> Result<(), LoadError> {
        self.update_checksum();
        self.buffer_offset += self.start as u64;
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        self.checksum_end = 0;
        let left = self.total.map(|total| total.saturating_sub(self.buffer_offset));
        let total = left.and_then(|left| usize::try_from(left).ok());
        let wanted = total.map_or(BUFFER_BYTES, |total| total.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES));
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        while self.end < count {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => return self.error(self.buffer_offset + self.end as u64, "unexpected end of file"),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.error(self.buffer_offset + self.end as u64, read_failed(&error)),
            }
        }
        self.report_progress();
        Ok(())
    }

    /// Replaces `out` by the next `length` bytes, past the buffer.
    fn read_long(&mut self, length: usize, out: &mut Vec<u8>) -> Result<(), LoadError> {
        self.update_checksum();
        out.clear();
        let buffered = length.min(self.end - self.start);
        out.extend_from_slice(&self.buffer[self.start..self.start + buffered]);
        let offset = self.offset();
        let wanted = (length - buffered) as u64;
        let read = self.reader.by_ref().take(wanted).read_to_end(out);
        if self.is_checked {
            self.checksum.update(out);
        }
        self.buffer_offset = offset + out.len() as u64;
        self.end -= self.start + buffered;
        self.buffer.copy_within(self.start + buffered..self.start + buffered + self.end, 0);
        self.start = 0;
        self.checksum_end = 0;
        if let Err(error) = read {
            return self.error(self.buffer_offset, read_failed(&error));
        }
        if out.len() < length {
            return self.error(self.buffer_offset, "unexpected end of file");
        }
        self.report_progress();
        Ok(())
    }

    fn update_checksum(&mut self) {
        if self.is_checked {
            self.checksum.update(&self.buffer[self.checksum_end..self.start]);
        }
        self.checksum_end = self.start;
    }

    fn report_progress(&mut self) {
        let offset = self.offset();
        if let Some(report) = self.progress.as_mut().filter(|_| offset >= self.progress_next) {
            report(offset);
            self.progress_next = offset + PROGRESS_STEP_BYTES;
        }
    }
}

fn read_failed(error: &io::Error) -> String {
    format!("read failed: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{put_encoded_integer, put_length};

    /// Yields one byte at a time.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn lengths_of_every_width_read_back() {
        let lengths = [0, 63, 64, 0x3fff, 0x4000, u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX];
        let mut bytes = Vec::new();
        lengths.iter().for_each(|&length| put_length(length, &mut bytes));
        let mut source = Source::new(Trickle(&bytes), None);
        for length in lengths {
            assert_eq!(source.length(), Ok(length));
        }
        assert_eq!(source.offset(), bytes.len() as u64);
        assert_eq!(source.checksum(), Checksum::of(&bytes));
        assert!(source.at_end());
        assert_eq!(Source::from_bytes(vec![0x82, 0, 0]).length().map_err(|error| error.offset), Err(0));
    }

    #[test]
    fn strings_of_every_form_read_back() {
        let long = vec![b'x'; BUFFER_BYTES * 2 + 5];
        let mut bytes = Vec::new();
        for integer in [0, -128, 127, 128, -32768, 40000, i64::from(i32::MIN)] {
            assert!(put_encoded_integer(integer, &mut bytes));
        }
        put_length(long.len() as u64, &mut bytes);
        bytes.extend_from_slice(&long);
        bytes.extend_from_slice(b"\xc3\x04\x09\x00a\xc0\x00end of it");
        for (total, trickle) in [(Some(bytes.len() as u64), false), (None, true)] {
            let mut slow = Trickle(&bytes);
            let mut quick = &bytes[..];
            let reader: &mut dyn Read = if trickle { &mut slow } else { &mut quick };
            let mut source = Source::new(reader, total);
            for text in ["0", "-128", "127", "128", "-32768", "40000", "-2147483648"] {
                assert_eq!(source.string(), Ok(text.as_bytes()));
            }
            assert_eq!(source.string(), Ok(&long[..]));
            assert_eq!(source.string(), Ok(&b"aaaaaaaaa"[..]));
            assert_eq!(source.raw(9), Ok(&b"end of it"[..]));
            assert_eq!(source.checksum(), Checksum::of(&bytes));
            assert_eq!(source.offset(), bytes.len() as u64);
        }
    }

    #[test]
    fn a_length_without_bytes_takes_no_memory() {
        let bytes = b"\x81\x00\x00\x00\xff\x00\x00\x00\x00tail";
        let error = Source::from_bytes(bytes.to_vec()).string().map(<[u8]>::to_vec);
        assert_eq!(error.map_err(|error| error.offset), Err(9));
        let error = Source::new(&bytes[..], None).string().map(<[u8]>::to_vec);
        assert_eq!(error.map_err(|error| error.offset), Err(13));
    }
}
