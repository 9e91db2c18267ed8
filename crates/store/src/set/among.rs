//! The members of a set that other sets have as well, or have not.

use super::integers::Sorted;
use super::{Body, Set, TABLE};
use crate::listpack::Element;
use crate::packed::{Buckets, Encoded, Tagged};
use smallvec::{SmallVec, smallvec};

/// Where a member is to be among other sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// In all of them.
    All,
    /// In none of them.
    None,
}

impl Presence {
    fn holds(self, member: Element<'_>, others: &[&Set]) -> bool {
        let is_in_all = self == Presence::All;
        others.iter().all(|other| other.contains_element(member) == is_in_all)
    }
}

impl Set {
    /// Visits the members that are in all or none of `others`, until `visit` returns false.
    pub fn visit_among(
        &self,
        presence: Presence,
        others: &[&Set],
        mut visit: impl FnMut(Element<'_>) -> bool,
    ) {
        if let Body::Integers(own) = self.body()
            && let Some(others) = others.iter().map(|other| other.integers()).collect::<Option<_>>()
        {
            return visit_integers_among(own, presence, others, visit);
        }
        let Body::Table(table) = self.body() else {
            for member in self.iter() {
                if presence.holds(member, others) && !visit(member) {
                    return;
                }
            }
            return;
        };
        let mut chooser = Chooser::new(table, presence, others);
        for bucket in 0..table.block_count() {
            let chosen = chooser.choose(bucket);
            if !table.block(bucket).view().visit_marked(chosen, &mut visit) {
                return;
            }
        }
    }

    /// Its members, if it is a set of integers.
    fn integers(&self) -> Option<Sorted<'_>> {
        match self.body() {
            Body::Integers(integers) => Some(integers),
            Body::Packed(_) | Body::Table(_) => None,
        }
    }

    /// The members that are in all or none of `others`, in the same encoding and order.
    pub(super) fn filtered_among(&self, presence: Presence, others: &[&Set]) -> Set {
        let Body::Table(table) = self.body() else {
            return self.filtered(|member| presence.holds(member, others));
        };
        let mut chooser = Chooser::new(table, presence, others);
        let filtered = table.filtered_by_block(|bucket, block| {
            let mut chosen = chooser.choose(bucket).iter();
            block.filtered(|_| chosen.next() == Some(&true))
        });
        Set::of(Box::new(filtered), TABLE)
    }
}

/// The same of integers, which rise: no set of integers is looked through from its beginning twice.
fn visit_integers_among(
    own: Sorted<'_>,
    presence: Presence,
    others: SmallVec<[Sorted<'_>; 4]>,
    mut visit: impl FnMut(Element<'_>) -> bool,
) {
    let mut places: SmallVec<[usize; 4]> = smallvec![0; others.len()];
    for index in 0..own.len() {
        let integer = own.get(index);
        let holds = others.iter().zip(&mut places).all(|(other, place)| {
            *place = other.seek(*place, integer);
            let is_there = *place < other.len() && other.get(*place) == integer;
            is_there == (presence == Presence::All)
        });
        if holds && !visit(Element::Integer(integer)) {
            return;
        }
    }
}

/// Chooses members of a table, a bucket at a time.
struct Chooser<'a> {
    table: &'a Buckets,
    presence: Presence,
    others: &'a [&'a Set],
    /// For each item of the bucket, whether it is chosen.
    chosen: Vec<bool>,
    /// For each, whether it is in one of the others; true where that does not matter any more.
    common: Vec<bool>,
    tagged: Tagged,
}

impl<'a> Chooser<'a> {
    fn new(table: &'a Buckets, presence: Presence, others: &'a [&'a Set]) -> Self {
        Chooser { table, presence, others, chosen: Vec::new(), common: Vec::new(), tagged: Tagged::new() }
    }

    /// For each item of a bucket, whether it is chosen.
    fn choose(&mut self, bucket: usize) -> &[bool] {
        let count = self.table.block(bucket).view().len();
        self.chosen.clear();
        self.chosen.resize(count, true);
        for other in self.others {
            match other.body() {
                Body::Table(other) if self.table.suits_marking(other) => self.compare(bucket, other),
                _ => self.look_up(bucket, other),
            }
        }
        &self.chosen
    }

    fn compare(&mut self, bucket: usize, other: &Buckets) {
        self.common.clear();
        self.common.extend(self.chosen.iter().map(|is_chosen| !is_chosen));
        self.table.mark_common(bucket, other, &mut self.tagged, &mut self.common);
        for (is_chosen, is_common) in self.chosen.iter_mut().zip(&self.common) {
            *is_chosen &= *is_common == (self.presence == Presence::All);
        }
    }

    /// Looks the items up one by one, after what that takes has been fetched for all of them.
    fn look_up(&mut self, bucket: usize, other: &Set) {
        let view = self.table.block(bucket).view();
        if let Body::Table(other) = other.body() {
            let _ = view.items().all(|item| other.fetch_ahead(Encoded::of(item.key).hash()));
        }
        for (item, is_chosen) in view.items().zip(&mut self.chosen) {
            *is_chosen = *is_chosen && self.presence.holds(item.key, &[other]);
        }
    }
}
