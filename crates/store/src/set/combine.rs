//! Sets made of other sets, and many members taken out at once.
//!
//! Redis makes the result of a STORE command member by member, from which its encoding follows. Here a result
//! begins as a copy of one of the sets, which shares its blocks, wherever the encoding would be the same, so
//! what it costs is what the sets do not have in common.

use super::{Body, EncodingLimits, INTEGERS, INTEGERS_MAX, Integers, LISTPACK, Presence, Set, TABLE};
use crate::listpack::Element;
use crate::packed::{Block, Buckets, View};
use crate::sample;

/// Where a smaller part of the members than one in this number is taken, they are drawn one by one, else all
/// are walked.
const DRAWN_FRACTION: usize = 8;

impl Set {
    /// The members that `keep` holds for, in the same encoding and order.
    pub fn filtered(&self, mut keep: impl FnMut(Element<'_>) -> bool) -> Set {
        match self.body() {
            Body::Integers(integers) => {
                let all = (0..integers.len()).map(|index| integers.get(index));
                let kept: Vec<i64> = all.filter(|&integer| keep(Element::Integer(integer))).collect();
                Set::of(Integers::of_rising(&kept), INTEGERS)
            }
            Body::Packed(_) => {
                // SAFETY: the tag tells what the pointer was made of, and the set is borrowed.
                let block = unsafe { self.0.peek::<Block>() };
                Set::of(block.filtered(|item| keep(item.key)), LISTPACK)
            }
            Body::Table(table) => Set::of(Box::new(table.filtered(|item| keep(item.key))), TABLE),
        }
    }

    /// The members of a set that `others` have as well, in the encoding that a result of SINTERSTORE has. The
    /// set is the smallest of all.
    pub fn intersection(&self, others: &[&Set], limits: &EncodingLimits) -> Set {
        let others: Vec<&Set> = others.iter().copied().filter(|other| !std::ptr::eq(*other, self)).collect();
        let mut result = match others[..] {
            [] => self.clone(),
            _ => self.filtered_among(Presence::All, &others),
        };
        result.repack(limits);
        let may_be_intset = result.len() <= limits.set_intset_entries_max;
        if may_be_intset && result.iter().all(|member| member.integer().is_some()) {
            result.make_intset(limits);
        }
        result
    }

    /// The members of all these sets, in the encoding that a result of SUNIONSTORE has.
    pub fn union(sets: &[&Set], limits: &EncodingLimits) -> Set {
        let tables = sets.iter().filter(|set| set.is_table_anyway(limits));
        let start = tables.max_by_key(|set| set.len()).or(sets.first().filter(|set| set.is_settled(limits)));
        let mut result = start.map_or_else(Set::new, |set| Set::clone(set));
        for set in sets.iter().filter(|set| start.is_none_or(|start| !std::ptr::eq(*start, **set))) {
            result.reserve_for(set, limits);
            set.iter().for_each(|member| _ = result.add_element(member, limits));
        }
        result.fit();
        result
    }

    /// The members that none of `others` has, in the encoding that a result of SDIFFSTORE has. Looks all
    /// members up in the others if `looks_up`, and else removes the others' members from a copy.
    pub fn difference(&self, others: &[&Set], looks_up: bool, limits: &EncodingLimits) -> Set {
        if looks_up {
            return self.filtered_among(Presence::None, others).settled(limits);
        }
        let mut result = self.clone().settled(limits);
        result.remove_all(others);
        result
    }

    /// Removes the members of other sets.
    pub fn remove_all(&mut self, others: &[&Set]) {
        for other in others {
            if self.is_empty() {
                return;
            }
            other.iter().for_each(|member| _ = self.remove_element(member));
        }
    }

    /// Takes out a member picked at random, shows it to `visit`, and says whether there was one.
    pub fn take_one(&mut self, mut random: impl FnMut() -> u64, mut visit: impl FnMut(Element<'_>)) -> bool {
        // SAFETY: the tag tells what the pointer was made of.
        unsafe {
            match self.0.tag() {
                _ if self.is_empty() => return false,
                INTEGERS => {
                    let mut integers = self.0.peek_mut::<Integers>();
                    let integer = integers.view().get(sample::below(random(), integers.len()));
                    visit(Element::Integer(integer));
                    integers.remove(integer);
                }
                LISTPACK => {
                    let mut packed = self.0.peek_mut::<Block>();
                    let view = packed.view();
                    let position = view.position(sample::below(random(), view.len()));
                    visit(view.item(position).key);
                    packed.remove(position);
                }
                _ => {
                    let table = self.0.boxed_mut::<Buckets>();
                    let Some(place) = table.random(random) else { return false };
                    visit(table.item(place).key);
                    table.remove(place);
                }
            }
        }
        true
    }

    /// Takes out `count` members picked at random, all selections being equally likely, or all if there are
    /// no more, and shows each to `visit`. Returns what is to be dropped, which may take long.
    pub fn take(
        &mut self,
        count: usize,
        mut random: impl FnMut() -> u64,
        mut visit: impl FnMut(Element<'_>),
    ) -> Set {
        if self.0.tag() == TABLE && count < self.len() / DRAWN_FRACTION {
            for _ in 0..count {
                self.take_one(&mut random, &mut visit);
            }
            return Set::new();
        }
        let (mut left, mut wanted) = (self.len(), count.min(self.len()));
        let rest = self.filtered(|member| {
            let is_taken = sample::below(random(), left) < wanted;
            left -= 1;
            if is_taken {
                wanted -= 1;
                visit(member);
            }
            !is_taken
        });
        std::mem::replace(self, rest)
    }

    /// Goes to the encoding that a set gets which begins as an empty one of the same encoding (`listpack` in
    /// the case of a table) and to which these members are added.
    pub fn repack(&mut self, limits: &EncodingLimits) {
        let (mut repacked, stays) = match self.body() {
            Body::Integers(integers) => (Set::new(), integers.len() <= limits.set_intset_entries_max),
            Body::Packed(view) => (Set::new_listpack(), fits_listpack(view, limits)),
            Body::Table(table) => (Set::new_listpack(), table.len() > limits.set_listpack_entries_max),
        };
        if !stays {
            self.iter().for_each(|member| _ = repacked.add_element(member, limits));
            *self = repacked;
        }
    }

    /// The set that comes of adding these members, one after the other, to a new one.
    fn settled(self, limits: &EncodingLimits) -> Set {
        if self.is_settled(limits) {
            return self;
        }
        let mut result = Set::new();
        self.iter().for_each(|member| _ = result.add_element(member, limits));
        result
    }

    /// Whether it looks like a new set to which these members have been added, one after the other.
    fn is_settled(&self, limits: &EncodingLimits) -> bool {
        match self.body() {
            Body::Integers(integers) => integers.len() <= limits.set_intset_entries_max.min(INTEGERS_MAX),
            Body::Packed(view) => view.starts_with_text() && fits_listpack(view, limits),
            Body::Table(_) => self.is_table_anyway(limits),
        }
    }

    /// Whether it is a table that could not be anything else, whatever was added before and after.
    fn is_table_anyway(&self, limits: &EncodingLimits) -> bool {
        let Body::Table(table) = self.body() else { return false };
        let has_text = || table.iter().next().is_some_and(|item| matches!(item.key, Element::Bytes(_)));
        table.len() > limits.set_listpack_entries_max
            && (table.len() > limits.set_intset_entries_max || has_text())
    }

    /// Reserves capacity for the members of another set, where both are packed.
    fn reserve_for(&mut self, other: &Set, limits: &EncodingLimits) {
        if self.0.tag() != LISTPACK {
            return;
        }
        let spare = limits.set_listpack_entries_max.saturating_sub(self.len());
        let (items, bytes) = match other.body() {
            Body::Integers(integers) => (integers.len(), integers.len() * size_of::<i64>()),
            Body::Packed(view) => (view.len(), view.data().len()),
            Body::Table(_) => return,
        };
        if items <= spare {
            // SAFETY: the tag tells what the pointer was made of.
            unsafe { self.0.peek_mut::<Block>() }.reserve(items, bytes);
        }
    }

    /// Frees reserved capacity that is not needed.
    fn fit(&mut self) {
        if self.0.tag() == LISTPACK {
            // SAFETY: the tag tells what the pointer was made of.
            unsafe { self.0.peek_mut::<Block>() }.fit();
        }
    }
}

/// Whether these members may be in a `listpack`.
fn fits_listpack(view: View<'_>, limits: &EncodingLimits) -> bool {
    view.len() <= limits.set_listpack_entries_max
        && view.has_texts_within(limits.set_listpack_value_bytes_max)
}
