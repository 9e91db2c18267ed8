//! The arguments of a request, borrowed ([`Args`]) and owned ([`OwnedArgs`]).
//!
//! [`Args`] is four words and `Copy`; what its methods return borrows from the buffer, not from the `Args`.
//! [`OwnedArgs`] costs two allocations and 16 bytes an argument beside the bytes themselves.

use std::fmt;
use std::ops::{Index, Range};

/// Where an argument lies in its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Offset of the first byte.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

impl Slice {
    /// The same place as a range of offsets.
    #[inline]
    pub fn range(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// The arguments of one request, where they lie in the read buffer. The first is the name of the command.
///
/// Indexing (`args[1]`, [`Args::at`]) panics past the end, as for a slice: the command table has checked the
/// arity before a handler runs, and [`Args::get`] is for what may be missing.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buffer: &'a [u8],
    slices: &'a [Slice],
}

impl<'a> Args<'a> {
    /// The arguments that `slices` marks in `buffer`. Every slice must lie within the buffer.
    #[inline]
    pub fn new(buffer: &'a [u8], slices: &'a [Slice]) -> Self {
        debug_assert!(slices.iter().all(|slice| slice.start + slice.len <= buffer.len()));
        Args { buffer, slices }
    }

    /// The number of arguments, the name of the command included.
    #[inline]
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Argument `i`, or `None` past the end.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&'a [u8]> {
        self.slices.get(i).map(|slice| &self.buffer[slice.range()])
    }

    /// Argument `i`. Panics past the end.
    #[inline]
    pub fn at(&self, i: usize) -> &'a [u8] {
        &self.buffer[self.slices[i].range()]
    }

    /// The arguments in order.
    #[inline]
    pub fn iter(&self) -> ArgsIter<'a> {
        ArgsIter { buffer: self.buffer, slices: self.slices.iter() }
    }

    /// The arguments from `i` on; empty past the end.
    #[inline]
    pub fn from(&self, i: usize) -> Args<'a> {
        self.range(i..self.slices.len())
    }

    /// The arguments in `range` that exist.
    #[inline]
    pub fn range(&self, range: Range<usize>) -> Args<'a> {
        let end = range.end.min(self.slices.len());
        Args { buffer: self.buffer, slices: &self.slices[range.start.min(end)..end] }
    }

    /// The bytes from the beginning of the first argument to the end of the last.
    #[inline]
    pub fn span(&self) -> usize {
        match self.slices {
            [first, .., last] => (last.start + last.len).saturating_sub(first.start),
            [only] => only.len,
            [] => 0,
        }
    }

    /// A copy that owns its bytes.
    pub fn to_owned(&self) -> OwnedArgs {
        OwnedArgs::collect(self.iter())
    }

    /// The bytes in the buffer around the arguments, if they are what
    /// [`encode_request`](crate::encode_request) makes of them. `None` also for an argument of 1,000 bytes or
    /// more, and for more than nine arguments: there encoding costs little beside the rest.
    #[inline]
    pub fn encoded(&self) -> Option<&'a [u8]> {
        let (name, others) = self.slices.split_first()?;
        let (header, count) = (bulk_header(name.len)?, self.slices.len());
        let start = name.start.checked_sub(header.len + COUNT_BYTES)?;
        // Both lines end with CR LF: that of the count is a part of the header.
        if count > 9 || self.buffer[start..start + COUNT_BYTES] != [b'*', b'0' + count as u8] {
            return None;
        }
        let mut at = start + COUNT_BYTES;
        if !header.is_at(self.buffer, at) {
            return None;
        }
        at += header.len + name.len;
        for slice in others {
            let header = bulk_header(slice.len)?;
            if slice.start != at + header.len || !header.is_at(self.buffer, at) {
                return None;
            }
            at = slice.start + slice.len;
        }
        (self.buffer.get(at..at + 2)? == b"\r\n").then(|| &self.buffer[start..at + 2])
    }
}

/// Bytes of the number of arguments of a request, with its mark and without its end.
const COUNT_BYTES: usize = 2;

/// The end of the line or argument before an argument, and the line with its length.
struct BulkHeader {
    /// The bytes, the first of them lowest.
    bytes: u64,
    len: usize,
}

/// The header of an argument of this length, if it has three digits at most.
#[inline]
fn bulk_header(len: usize) -> Option<BulkHeader> {
    const START: u64 = u32::from_le_bytes(*b"\r\n$\0") as u64;
    const END: u64 = u16::from_le_bytes(*b"\r\n") as u64;
    let digit = |value: usize| u64::from(b'0') + value as u64;
    let (digits, count) = match len {
        0..10 => (digit(len), 1),
        10..100 => (digit(len / 10) | digit(len % 10) << 8, 2),
        100..1000 => (digit(len / 100) | digit(len / 10 % 10) << 8 | digit(len % 10) << 16, 3),
        _ => return None,
    };
    Some(BulkHeader { bytes: START | digits << 24 | END << (24 + 8 * count), len: 5 + count })
}

impl BulkHeader {
    /// Whether it is in a buffer at a place.
    #[inline]
    fn is_at(&self, buffer: &[u8], at: usize) -> bool {
        let found = buffer.get(at..).and_then(|bytes| bytes.first_chunk());
        let unused = u64::BITS - 8 * self.len as u32;
        found.is_some_and(|bytes| (u64::from_le_bytes(*bytes) ^ self.bytes) << unused == 0)
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, i: usize) -> &[u8] {
        self.at(i)
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgsIter<'a>;

    #[inline]
    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Args<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgsIter<'a>;

    #[inline]
    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Args<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Args<'_> {}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter().map(|arg| arg.escape_ascii().to_string())).finish()
    }
}

/// The arguments in order; see [`Args::iter`].
#[derive(Clone)]
pub struct ArgsIter<'a> {
    buffer: &'a [u8],
    slices: std::slice::Iter<'a, Slice>,
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.slices.next().map(|slice| &self.buffer[slice.range()])
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slices.size_hint()
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<&'a [u8]> {
        self.slices.nth(n).map(|slice| &self.buffer[slice.range()])
    }
}

impl DoubleEndedIterator for ArgsIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.slices.next_back().map(|slice| &self.buffer[slice.range()])
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}

impl std::iter::FusedIterator for ArgsIter<'_> {}

/// The arguments of a request, owning their bytes: for queued transactions, blocked clients, scripts and
/// commands that are passed on.
#[derive(Clone, Default)]
pub struct OwnedArgs {
    /// The arguments back to back.
    bytes: Box<[u8]>,
    /// Where each lies in `bytes`.
    slices: Box<[Slice]>,
}

impl OwnedArgs {
    /// A copy of the arguments given.
    pub fn from_slices(args: &[&[u8]]) -> Self {
        Self::collect(args.iter().copied())
    }

    /// The same, borrowed.
    #[inline]
    pub fn as_args(&self) -> Args<'_> {
        Args { buffer: &self.bytes, slices: &self.slices }
    }

    /// The number of arguments.
    #[inline]
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Bytes of memory that this takes, the structure itself included.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + size_of_val::<[Slice]>(&self.slices)
    }

    /// Copies in two passes, so that each allocation has its exact size.
    fn collect<'a>(args: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> Self {
        let mut slices = Vec::with_capacity(args.len());
        let mut start = 0;
        for arg in args.clone() {
            slices.push(Slice { start, len: arg.len() });
            start += arg.len();
        }
        let mut bytes = Vec::with_capacity(start);
        for arg in args {
            bytes.extend_from_slice(arg);
        }
        OwnedArgs { bytes: bytes.into_boxed_slice(), slices: slices.into_boxed_slice() }
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for OwnedArgs {
    fn from_iter<I: IntoIterator<Item = T>>(args: I) -> Self {
        let mut bytes = Vec::new();
        let mut slices = Vec::new();
        for arg in args {
            let arg = arg.as_ref();
            slices.push(Slice { start: bytes.len(), len: arg.len() });
            bytes.extend_from_slice(arg);
        }
        OwnedArgs { bytes: bytes.into_boxed_slice(), slices: slices.into_boxed_slice() }
    }
}

impl PartialEq for OwnedArgs {
    fn eq(&self, other: &Self) -> bool {
        self.as_args() == other.as_args()
    }
}

impl Eq for OwnedArgs {}

impl fmt::Debug for OwnedArgs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_args().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn args_are_views_of_their_buffer() {
        let owned = OwnedArgs::from_slices(&[b"SET", b"key", b"", b"value"]);
        let args = owned.as_args();
        assert_eq!(args.len(), 4);
        assert_eq!(&args[1], b"key");
        assert_eq!(args.at(2), b"");
        assert_eq!(args.get(4), None);
        assert_eq!(args.from(2).len(), 2);
        assert_eq!(args.from(9).len(), 0);
        assert_eq!(args.range(1..3).iter().collect::<Vec<_>>(), [&b"key"[..], b""]);
        assert!(args.range(3..99).iter().eq([b"value"]));
        assert!(args.range(7..99).is_empty());
        assert_eq!(args.iter().next_back(), Some(&b"value"[..]));
        assert_eq!(args.iter().len(), 4);
        assert_eq!(args.iter().nth(3), Some(&b"value"[..]));
        assert_eq!(args.to_owned(), owned);
        assert_eq!(["SET", "key", "", "value"].iter().collect::<OwnedArgs>(), owned);
        assert_eq!(format!("{owned:?}"), r#"["SET", "key", "", "value"]"#);
        assert_eq!(owned.memory_usage(), size_of::<OwnedArgs>() + 11 + 4 * size_of::<Slice>());
    }
}
