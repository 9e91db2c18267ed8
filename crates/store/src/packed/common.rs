//! Which items of a table another one has as well, a bucket at a time.
//!
//! All tables of a process hash alike, and a bucket holds the items whose hashes end in a pattern of bits. So
//! what a bucket has in common with another table lies in those of its buckets whose patterns end alike: in
//! one, if that table has no more buckets, and else in a few. The items of such a bucket are put in lists by
//! their tags, and only items with equal tags are compared: no hash is computed.

use super::block::Block;
use super::buckets::Buckets;
use super::element::{are_equal, span};
use super::view::View;

/// How many more buckets the other table may have than this one, so that this is less work than looking items
/// up one by one.
const PARTNERS_MAX: usize = 8;
/// Buckets that are prefetched before they are compared.
const FETCHED_AHEAD: usize = 3;

impl Buckets {
    /// Whether [`Buckets::mark_common`] is less work than looking up each item in `other`.
    pub(crate) fn suits_marking(&self, other: &Buckets) -> bool {
        other.block_count() <= PARTNERS_MAX * self.block_count()
    }

    /// Sets the marks of those items of a bucket whose first element is one in `other` as well. There are as
    /// many marks as items. Buckets that come after this one are fetched meanwhile.
    pub(crate) fn mark_common(
        &self,
        bucket: usize,
        other: &Buckets,
        tagged: &mut Tagged,
        marks: &mut [bool],
    ) {
        let next = bucket + FETCHED_AHEAD;
        if next < self.block_count() {
            self.block(next).prefetch_all();
            self.partners(next, other).for_each(Block::prefetch_all);
        }
        for partner in self.partners(bucket, other) {
            tagged.mark_common(&self.block(bucket).view(), &partner.view(), marks);
        }
    }

    /// The blocks of `other` that may have items of a bucket of this table.
    fn partners<'o>(&self, bucket: usize, other: &'o Buckets) -> impl Iterator<Item = &'o Block> {
        let (first, step) = match other.block_count() <= self.block_count() {
            true => (other.index(bucket as u64), other.block_count()),
            false => (bucket, self.pattern_size(bucket)),
        };
        (first..other.block_count()).step_by(step).map(|partner| other.block(partner))
    }
}

/// The items of a block in lists by their tags. Items are numbered from 1; 0 ends a list.
pub(crate) struct Tagged {
    first: [u32; 256],
    /// For each item the next one with its tag, and where its elements begin.
    items: Vec<(u32, u32)>,
}

impl Tagged {
    /// Of no items.
    pub(crate) fn new() -> Self {
        Tagged { first: [0; 256], items: Vec::new() }
    }

    /// Puts the items of a block in lists.
    fn fill(&mut self, view: &View<'_>) {
        self.first.fill(0);
        self.items.clear();
        let mut offset = 0;
        let items = view.tags().iter().zip(view.codes().chunks_exact(view.form().stride()));
        for (number, (&tag, codes)) in (1..).zip(items) {
            self.items.push((self.first[usize::from(tag)], offset));
            self.first[usize::from(tag)] = number;
            offset += codes.iter().map(|&code| span(code) as u32).sum::<u32>();
        }
    }

    /// Sets the marks of the items of `one` whose first element is one in `other` as well.
    fn mark_common(&mut self, one: &View<'_>, other: &View<'_>, marks: &mut [bool]) {
        self.fill(other);
        let (mut rest, other_stride) = (one.data(), other.form().stride());
        let items = one.codes().chunks_exact(one.form().stride()).zip(one.tags()).zip(marks);
        for ((codes, &tag), mark) in items {
            let code = codes[0];
            let mut number = self.first[usize::from(tag)] as usize;
            while number > 0 && !*mark {
                let (next, offset) = self.items[number - 1];
                // SAFETY: both are elements with this code, of blocks that stay as they are meanwhile.
                *mark = other.codes()[(number - 1) * other_stride] == code
                    && unsafe { are_equal(code, &rest[..span(code)], &other.data()[offset as usize..]) };
                number = next as usize;
            }
            rest = &rest[codes.iter().map(|&code| span(code)).sum::<usize>()..];
        }
    }
}
