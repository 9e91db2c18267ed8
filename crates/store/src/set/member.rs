//! A member of a large set: eight bytes, which hold it if it is short or an integer, and else point to it.
//!
//! ```text
//! lowest bit 1           an integer of 63 bits, in the others
//! lowest three bits 010  up to seven bytes: their number in the rest of the first byte, then they
//! lowest three bits 000  pointer to an allocation: length (1 byte, or 0xff and 8 bytes), then the bytes
//! ```
//!
//! What is the text of an integer of 63 bits is always stored as one, so that equal members look alike.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use mantissa_number::parse_i64;

use crate::allocator::class_size;
use crate::listpack::Element;

const INTEGER_BIT: usize = 1;
const SHORT_TAG: usize = 2;
const SHORT_BYTES_MAX: usize = 7;
const LONG_MARK: u8 = 0xff;

const _: () = assert!(size_of::<Member>() == 8 && cfg!(target_endian = "little"));

/// See the module's description.
pub(super) struct Member(*mut u8);

// SAFETY: a member owns what it points to and changes it never.
unsafe impl Send for Member {}
// SAFETY: as above.
unsafe impl Sync for Member {}

/// What a text is as a member: an integer where it is the text of one of 63 bits.
#[inline]
pub(super) fn element_of(text: &[u8]) -> Element<'_> {
    match parse_i64(text) {
        Some(integer) if fits(integer) => Element::Integer(integer),
        _ => Element::Bytes(text),
    }
}

fn fits(integer: i64) -> bool {
    (integer << 1) >> 1 == integer
}

/// The hash of bytes, with a seed of this process.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    static SEED: LazyLock<foldhash::quality::RandomState> = LazyLock::new(Default::default);
    let mut hasher = SEED.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// The hash of what [`element_of`] returns or [`Member::element`].
#[inline]
pub(super) fn hash_of(element: Element<'_>) -> u64 {
    match element {
        Element::Integer(integer) => hash_bytes(&integer.to_le_bytes()),
        Element::Bytes(bytes) => hash_bytes(bytes),
    }
}

fn layout_of(len: usize) -> Layout {
    let header = if len < usize::from(LONG_MARK) { 1 } else { 9 };
    // The sum does not overflow: `len` is the length of a slice, and so is what does not fit refused here.
    Layout::from_size_align(header + len, 8).expect("a member is shorter than half the address space")
}

impl Member {
    /// The member that `element` is, which [`element_of`] returned.
    pub(super) fn new(element: Element<'_>) -> Member {
        match element {
            Element::Integer(integer) => {
                debug_assert!(fits(integer));
                let word = (integer << 1) as usize | INTEGER_BIT;
                Member(std::ptr::without_provenance_mut(word))
            }
            Element::Bytes(bytes) if bytes.len() <= SHORT_BYTES_MAX => {
                let mut word = [0; 8];
                word[0] = (bytes.len() << 3 | SHORT_TAG) as u8;
                word[1..=bytes.len()].copy_from_slice(bytes);
                Member(std::ptr::without_provenance_mut(usize::from_le_bytes(word)))
            }
            Element::Bytes(bytes) => Member(allocate(bytes)),
        }
    }

    /// What it is.
    #[inline]
    pub(super) fn element(&self) -> Element<'_> {
        let word = self.0.addr();
        if word & INTEGER_BIT != 0 {
            return Element::Integer(word as i64 >> 1);
        }
        if word & SHORT_TAG != 0 {
            let len = (word & 0xff) >> 3;
            // SAFETY: the bytes of the word after the first, of which there are at least `len`.
            return Element::Bytes(unsafe {
                std::slice::from_raw_parts(std::ptr::from_ref(&self.0).cast::<u8>().add(1), len)
            });
        }
        // SAFETY: no tag, so it points to an allocation with a length and as many bytes.
        unsafe {
            let (start, len) = self.long();
            Element::Bytes(std::slice::from_raw_parts(start, len))
        }
    }

    /// Bytes of its allocation, if it has one.
    pub(super) fn heap_bytes(&self) -> usize {
        if !self.is_long() {
            return 0;
        }
        // SAFETY: it points to an allocation.
        class_size(layout_of(unsafe { self.long() }.1).size())
    }

    #[inline]
    fn is_long(&self) -> bool {
        self.0.addr() & (INTEGER_BIT | SHORT_TAG) == 0
    }

    /// Where the bytes start, and how many there are.
    ///
    /// # Safety
    /// It points to an allocation.
    #[inline]
    unsafe fn long(&self) -> (*const u8, usize) {
        // SAFETY: the caller's promise, and the layout that `allocate` writes.
        unsafe {
            match self.0.read() {
                LONG_MARK => (self.0.add(9), self.0.add(1).cast::<usize>().read_unaligned()),
                len => (self.0.add(1), usize::from(len)),
            }
        }
    }
}

fn allocate(bytes: &[u8]) -> *mut u8 {
    let layout = layout_of(bytes.len());
    // SAFETY: the layout is not empty; length and bytes are written within it.
    unsafe {
        let start = alloc(layout);
        if start.is_null() {
            handle_alloc_error(layout);
        }
        let header = layout.size() - bytes.len();
        if header == 1 {
            start.write(bytes.len() as u8);
        } else {
            start.write(LONG_MARK);
            start.add(1).cast::<usize>().write_unaligned(bytes.len());
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(header), bytes.len());
        start
    }
}

impl Clone for Member {
    fn clone(&self) -> Member {
        Member::new(self.element())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.is_long() {
            // SAFETY: it points to an allocation of this layout, which nothing else owns.
            unsafe { dealloc(self.0, layout_of(self.long().1)) }
        }
    }
}
