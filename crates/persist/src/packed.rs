//! The packed encodings that only files still hold: read, checked in one pass, never written.
//!
//! Each has an iterator that yields `Err` once and then ends where the bytes are damaged, so that a reader
//! needs one pass for both the check and the values. Listpacks, which the store uses too, are in
//! `mantissa_store::listpack`.

pub mod intset;
pub mod ziplist;
pub mod zipmap;

use mantissa_store::listpack::{self, Element, Elements};

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

/// How a list of elements is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// As a listpack.
    Listpack,
    /// As a ziplist.
    Ziplist,
}

/// The elements of a listpack or a ziplist.
#[derive(Clone)]
pub enum PackedElements<'a> {
    /// Of a listpack, which was checked as a whole.
    Listpack(Elements<'a>),
    /// Of a ziplist.
    Ziplist(ziplist::Entries<'a>),
}

/// The elements of `bytes`.
pub fn elements(bytes: &[u8], packing: Packing) -> Result<PackedElements<'_>, Damage> {
    match packing {
        Packing::Listpack => match listpack::validate(bytes) {
            Ok(_) => Ok(PackedElements::Listpack(Elements::new(bytes))),
            Err(error) => Err(Damage { at: error.at, reason: error.reason }),
        },
        Packing::Ziplist => ziplist::entries(bytes).map(PackedElements::Ziplist),
    }
}

impl<'a> Iterator for PackedElements<'a> {
    type Item = Result<Element<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            PackedElements::Listpack(elements) => elements.next().map(Ok),
            PackedElements::Ziplist(entries) => entries.next(),
        }
    }
}
