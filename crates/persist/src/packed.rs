//! The packed encodings that only files still hold: read, checked in one pass, never written.
//!
//! Each has an iterator that yields `Err` once and then ends where the bytes are damaged, so that a reader needs one
//! pass for both the check and the values. Listpacks, which the store uses too, are in `mantissa_store::listpack`.

pub mod intset;
pub mod ziplist;
pub mod zipmap;

/// Where packed bytes are damaged, counted from their start, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Position within the packed bytes.
    pub at: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

/// The four bytes at `at`, little-endian.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let raw = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(raw.try_into().ok()?))
}
