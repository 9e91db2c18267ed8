//! Elements: how one text is stored in a block, as a code of one byte and the bytes that the code tells.
//!
//! | code | bytes | what it is |
//! | --- | --- | --- |
//! | 0 to 223 | as many | text |
//! | 224 to 232 | code - 224 | integer of the least width, little-endian; 0 takes none |
//! | 248 | 8 | pointer to an [`External`]: longer text |
//!
//! What is the text of an integer is always stored as one, so that every text has exactly one form.

use std::hash::{BuildHasher, Hasher};
use std::ptr::NonNull;
use std::sync::LazyLock;
use std::sync::atomic::AtomicUsize;

use mantissa_memory::ref_count::RefCount;
use mantissa_memory::slab;
use mantissa_number::{INTEGER_TEXT_MAX, parse_i64};

use crate::listpack::Element;
use crate::seed;
use crate::short_text::{copy_short, fingerprint};

/// The longest text that lies in the block itself.
pub(super) const INLINE_BYTES_MAX: usize = 223;
const INTEGER_CODE: u8 = 0xe0;
const EXTERNAL_CODE: u8 = 0xf8;
const SPAN_MASK: u8 = 0x0f;

const _: () = assert!(INLINE_BYTES_MAX + 1 == INTEGER_CODE as usize);
const _: () = assert!((EXTERNAL_CODE & SPAN_MASK) as usize == size_of::<*mut u8>());
const _: () = assert!(cfg!(target_endian = "little"));

/// Bytes in the block of an element with this code.
#[inline]
pub(super) const fn span(code: u8) -> usize {
    (if code < INTEGER_CODE { code } else { code & SPAN_MASK }) as usize
}

/// Bytes of the elements with eight codes, in four sums of two.
#[inline]
fn spans_of_word(word: u64) -> u64 {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    const EVEN_BYTES: u64 = 0x00ff_00ff_00ff_00ff;
    // Codes that do not tell their bytes plainly are those whose three highest bits are set.
    let others = word & (word << 1) & (word << 2) & HIGH_BITS;
    let spans = word & !((others >> 7) * u64::from(!SPAN_MASK));
    (spans & EVEN_BYTES) + ((spans >> 8) & EVEN_BYTES)
}

/// Bytes of the elements with the first `count` of these codes together: eight at a time.
#[inline]
pub(super) fn spans(codes: &[u8], count: usize) -> usize {
    const EACH_SUM: u64 = 0x0001_0001_0001_0001;
    /// Words of which all sums together fit 16 bits: an element has at most 223 bytes.
    const WORDS_PER_SUM: usize = 36;
    let (words, rest) = codes[..count].as_chunks::<8>();
    // The rest is the beginning of a word, or lies within the last eight codes.
    let rest_at = count - rest.len();
    let (mut total, mut sums) = (0, 0);
    match codes.last_chunk::<8>() {
        Some(_) if rest.is_empty() => {}
        Some(&last) => {
            let word = match codes[rest_at..].first_chunk::<8>() {
                Some(&word) => u64::from_le_bytes(word),
                None => u64::from_le_bytes(last) >> (8 * (rest_at + 8 - codes.len())),
            };
            sums = spans_of_word(word & !(u64::MAX << (8 * rest.len())));
        }
        None => total = rest.iter().map(|&code| span(code)).sum::<usize>(),
    }
    let mut words = words;
    loop {
        let (now, later) = words.split_at(words.len().min(WORDS_PER_SUM - 1));
        sums += now.iter().map(|&word| spans_of_word(u64::from_le_bytes(word))).sum::<u64>();
        total += (sums.wrapping_mul(EACH_SUM) >> 48) as usize;
        if later.is_empty() {
            return total;
        }
        (words, sums) = (later, 0);
    }
}

/// Whether an element with this code is an integer.
#[inline]
pub(super) const fn is_integer(code: u8) -> bool {
    code >= INTEGER_CODE && code != EXTERNAL_CODE
}

/// Whether an element with one of these codes has an allocation of its own.
#[inline]
pub(super) fn has_external(codes: &[u8]) -> bool {
    codes.contains(&EXTERNAL_CODE)
}

/// The hash of bytes, with a seed of this process.
#[inline]
fn hash_bytes(bytes: &[u8]) -> u64 {
    static SEED: LazyLock<foldhash::quality::SeedableRandomState> = LazyLock::new(seed::quality);
    let mut hasher = SEED.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// The least number of bytes that holds an integer.
#[inline]
pub(crate) fn width_of(integer: i64) -> usize {
    if integer == 0 {
        return 0;
    }
    let bits = 65 - (integer ^ (integer >> 63)).leading_zeros() as usize;
    bits.div_ceil(8)
}

/// The integer in up to eight bytes.
#[inline]
pub(crate) fn decode_integer(bytes: &[u8]) -> i64 {
    match *bytes {
        [] => 0,
        [a] => i64::from(a as i8),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c] => i64::from(i32::from_le_bytes([0, a, b, c]) >> 8),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e] => i64::from_le_bytes([0, 0, 0, a, b, c, d, e]) >> 24,
        [a, b, c, d, e, f] => i64::from_le_bytes([0, 0, a, b, c, d, e, f]) >> 16,
        [a, b, c, d, e, f, g] => i64::from_le_bytes([0, a, b, c, d, e, f, g]) >> 8,
        [a, b, c, d, e, f, g, h, ..] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
    }
}

/// A text that is too long for a block, in an allocation of its own:
///
/// ```text
/// byte 0    number of blocks that refer to it
/// byte 8    length of the text
/// byte 16   hash of the text; 0 if it is not the first element of an item, as nobody asks for it then
/// byte 24   text
/// ```
///
/// Blocks that are copies of each other share it, so that copying a block costs nothing for the long values
/// in it.
#[derive(Clone, Copy)]
pub(super) struct External(NonNull<u8>);

type References = RefCount<AtomicUsize>;

const LENGTH_AT: usize = 8;
const HASH_AT: usize = 16;
const TEXT_AT: usize = 24;

impl External {
    fn create(text: &[u8], hash: u64) -> External {
        let start = slab::alloc(TEXT_AT + text.len());
        // SAFETY: header and text lie within the allocation, which is aligned to eight.
        unsafe {
            start.cast::<References>().write(References::new());
            start.add(LENGTH_AT).cast::<usize>().write(text.len());
            start.add(HASH_AT).cast::<u64>().write(hash);
            std::ptr::copy_nonoverlapping(text.as_ptr(), start.add(TEXT_AT).as_ptr(), text.len());
        }
        External(start)
    }

    /// The one that an element refers to.
    ///
    /// # Safety
    /// `at` holds the bytes of an element with [`EXTERNAL_CODE`] of a block.
    #[inline]
    unsafe fn read(at: *const u8) -> External {
        // SAFETY: the caller's promise: the bytes are those of a pointer, which is not null.
        unsafe { External(at.cast::<NonNull<u8>>().read_unaligned()) }
    }

    /// # Safety
    /// It is alive.
    #[inline]
    unsafe fn len(self) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(LENGTH_AT).cast::<usize>().read() }
    }

    /// # Safety
    /// It is alive and stays so for as long as the result.
    #[inline]
    unsafe fn text<'a>(self) -> &'a [u8] {
        // SAFETY: the caller's promise; nobody changes the text.
        unsafe { std::slice::from_raw_parts(self.0.add(TEXT_AT).as_ptr(), self.len()) }
    }

    /// # Safety
    /// It is alive.
    #[inline]
    unsafe fn references<'a>(self) -> &'a References {
        // SAFETY: the caller's promise; the count is only reached through such references.
        unsafe { self.0.cast::<References>().as_ref() }
    }

    /// # Safety
    /// It is alive, and the caller gives up one of the references that are counted.
    unsafe fn release(self) {
        // SAFETY: the caller's promise; after the last release nobody else has the allocation.
        unsafe {
            if self.references().release() {
                slab::dealloc(self.0, TEXT_AT + self.len());
            }
        }
    }
}

/// What is to be done with the allocations that elements refer to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// One more block refers to them.
    Retain,
    /// One block less refers to them.
    Release,
}

/// Counts the allocations that elements refer to once more or once less.
///
/// # Safety
/// The elements are alive, one after the other at `data`. If they are released, these references are not used
/// any more.
pub(super) unsafe fn count_externals(codes: &[u8], data: *const u8, count: Count) {
    if !has_external(codes) {
        return;
    }
    let mut at = data;
    for &code in codes {
        if code == EXTERNAL_CODE {
            // SAFETY: the caller's promise.
            unsafe {
                let external = External::read(at);
                match count {
                    Count::Retain => external.references().retain(),
                    Count::Release => external.release(),
                }
            }
        }
        // SAFETY: the elements lie one after the other.
        at = unsafe { at.add(span(code)) };
    }
}

/// Bytes of the allocations that elements refer to.
///
/// # Safety
/// The elements are alive, one after the other at the start of `data`.
pub(super) unsafe fn external_bytes(codes: &[u8], data: &[u8]) -> usize {
    if !has_external(codes) {
        return 0;
    }
    let mut at = 0;
    let mut bytes = 0;
    for &code in codes {
        if code == EXTERNAL_CODE {
            // SAFETY: the caller's promise.
            bytes += unsafe { slab::class_size(TEXT_AT + External::read(data[at..].as_ptr()).len()) };
        }
        at += span(code);
    }
    bytes
}

/// The element with a code and its bytes.
///
/// # Safety
/// They are those of an element in a block, which stays for as long as the result.
#[inline]
pub(super) unsafe fn decode<'a>(code: u8, bytes: &'a [u8]) -> Element<'a> {
    match code {
        0..INTEGER_CODE => Element::Bytes(bytes),
        // SAFETY: the caller's promise: the block keeps the allocation alive.
        EXTERNAL_CODE => Element::Bytes(unsafe { External::read(bytes.as_ptr()).text() }),
        _ => Element::Integer(decode_integer(bytes)),
    }
}

/// Whether two elements with the same code are the same, given the bytes of one, and of the other and what
/// follows it.
///
/// # Safety
/// As for [`decode`].
#[inline]
pub(super) unsafe fn are_equal(code: u8, one: &[u8], other: &[u8]) -> bool {
    let other = &other[..one.len()];
    match code {
        // SAFETY: the caller's promise.
        EXTERNAL_CODE => unsafe { decode(code, one) == decode(code, other) },
        // The last byte tells more often than the first that two are different.
        _ => one.last() == other.last() && one == other,
    }
}

/// The hash of the first element of an item, given its code and bytes.
///
/// # Safety
/// As for [`decode`].
#[inline]
pub(super) unsafe fn hash_of(code: u8, bytes: &[u8]) -> u64 {
    match code {
        0..INTEGER_CODE => hash_bytes(bytes),
        // SAFETY: the caller's promise.
        EXTERNAL_CODE => unsafe { External::read(bytes.as_ptr()).0.add(HASH_AT).cast::<u64>().read() },
        _ => hash_bytes(&decode_integer(bytes).to_le_bytes()),
    }
}

/// A text in the form in which it is stored, to be looked for or written.
#[derive(Clone, Copy)]
pub(crate) struct Encoded<'a> {
    code: u8,
    /// Only if the code says that it is one.
    integer: i64,
    /// Only if it is no integer.
    text: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// The integer 0, which takes no bytes.
    pub(crate) const ZERO: Encoded<'static> = Encoded { code: INTEGER_CODE, integer: 0, text: &[] };

    /// The form of a text.
    #[inline(always)]
    pub(crate) fn new(text: &'a [u8]) -> Encoded<'a> {
        let may_be_integer = text.len() <= INTEGER_TEXT_MAX
            && text.first().is_some_and(|&first| first.is_ascii_digit() || first == b'-');
        match if may_be_integer { parse_i64(text) } else { None } {
            Some(integer) => Encoded::integer(integer),
            None => Encoded::text(text),
        }
    }

    /// The form of an integer's text.
    #[inline]
    pub(crate) fn integer(integer: i64) -> Encoded<'a> {
        Encoded { code: INTEGER_CODE + width_of(integer) as u8, integer, text: &[] }
    }

    /// The form of an element of any collection: integers are known as such there.
    #[inline]
    pub(crate) fn of(element: Element<'a>) -> Encoded<'a> {
        match element {
            Element::Integer(integer) => Encoded::integer(integer),
            Element::Bytes(text) => Encoded::new(text),
        }
    }

    #[inline]
    fn text(text: &'a [u8]) -> Encoded<'a> {
        let code = if text.len() <= INLINE_BYTES_MAX { text.len() as u8 } else { EXTERNAL_CODE };
        Encoded { code, integer: 0, text }
    }

    /// The integer that the text is, if it is one.
    #[inline]
    pub(crate) fn as_integer(&self) -> Option<i64> {
        is_integer(self.code).then_some(self.integer)
    }

    /// What is the same where texts are the same.
    pub(super) fn to_comparable(self) -> (u8, i64, &'a [u8]) {
        (self.code, self.integer, self.text)
    }

    #[inline]
    pub(super) fn code(&self) -> u8 {
        self.code
    }

    /// Bytes in the block.
    #[inline]
    pub(super) fn span(&self) -> usize {
        span(self.code)
    }

    /// Bytes of the allocation of its own that it needs.
    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        if self.code == EXTERNAL_CODE { slab::class_size(TEXT_AT + self.text.len()) } else { 0 }
    }

    /// A number that is the same where texts are the same, and seldom otherwise.
    #[inline]
    pub(super) fn fingerprint(&self) -> u32 {
        match self.as_integer() {
            Some(integer) => fingerprint(&integer.to_le_bytes()),
            None => fingerprint(self.text),
        }
    }

    /// The hash of the text.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        match self.as_integer() {
            Some(integer) => hash_bytes(&integer.to_le_bytes()),
            None => hash_bytes(self.text),
        }
    }

    /// Whether an element that has this one's code is the same, given its bytes.
    ///
    /// # Safety
    /// They are those of an element with this code in a block.
    #[inline]
    pub(super) unsafe fn equals(&self, bytes: &[u8]) -> bool {
        match self.code {
            // The last byte tells more often than the first that two are different.
            0..INTEGER_CODE => bytes.last() == self.text.last() && bytes == self.text,
            // SAFETY: the caller's promise.
            EXTERNAL_CODE => unsafe { External::read(bytes.as_ptr()).text() == self.text },
            _ => decode_integer(bytes) == self.integer,
        }
    }

    /// Writes the bytes. `hash` is that of the text if it is the first element of an item.
    ///
    /// # Safety
    /// [`Self::span`] bytes at `at` can be written, and become an element of a block.
    #[inline]
    pub(super) unsafe fn write(&self, at: *mut u8, hash: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.code {
                0..INTEGER_CODE => copy_short(self.text, at),
                EXTERNAL_CODE => {
                    at.cast::<NonNull<u8>>().write_unaligned(External::create(self.text, hash).0);
                }
                _ => std::ptr::copy_nonoverlapping(self.integer.to_le_bytes().as_ptr(), at, self.span()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_the_least_width() {
        for shift in 0..64 {
            for offset in -2_i64..3 {
                for sign in [1, -1] {
                    let integer = (1_i64 << shift).wrapping_add(offset).wrapping_mul(sign);
                    let width = width_of(integer);
                    assert_eq!(decode_integer(&integer.to_le_bytes()[..width]), integer);
                    if width > 0 {
                        assert_ne!(decode_integer(&integer.to_le_bytes()[..width - 1]), integer);
                    }
                }
            }
        }
    }

    #[test]
    fn spans_add_up() {
        let plain = (0..INTEGER_CODE).chain(INTEGER_CODE..=INTEGER_CODE + 8).chain([EXTERNAL_CODE]);
        let codes: Vec<u8> = plain.cycle().take(20_000).collect();
        for (start, end) in [(0, 0), (3, 4), (0, 8), (5, 234), (1, 9_999), (0, 20_000)] {
            let expected = codes[start..end].iter().map(|&code| span(code)).sum::<usize>();
            assert_eq!(spans(&codes[start..], end - start), expected);
            assert_eq!(spans(&codes[start..end], end - start), expected);
        }
        assert_eq!(spans(&[INTEGER_CODE - 1; 5_000], 5_000), 5_000 * INLINE_BYTES_MAX);
    }
}
