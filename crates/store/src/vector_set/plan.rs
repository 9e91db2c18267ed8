//! Insertions that are planned on an image of the set, while others change it.
//!
//! A plan is all that an insertion has to find out: the nearest elements on each level, which of them become
//! neighbours, and which links they give up. It is made while the set is free for others, and applied to the
//! set as they have left it.
//!
//! Invariant: a plan that is applied leads to the set to which the insertion alone would lead there, bit for
//! bit. So sets stay the same on all servers that run the same commands in the same order.
//!
//! That is checked with what has been linked and unlinked since the image was made, which a journal has:
//!
//! - A search takes the same way, and ends with the same elements, if each change at an element that it has
//!   expanded leads to one that is farther than all that was expanded later, and farther than all that was
//!   found. Else the plan is void.
//! - Which link an element gives up follows from its own links, and from whether each of those has others.
//!   It is decided anew for elements that have changed.
//!
//! A plan is void too if an element was removed or got another vector, if the entry is another, or if the
//! number of the insertion makes it one for another level.

use std::sync::atomic::{AtomicU64, Ordering};

use super::graph::Graph;
use super::search::{Extent, Near, Scratch, Trace};
use super::space::Space;

/// Changes that a journal keeps: those of some 40 insertions with the usual number of links.
const CHANGES_MAX: usize = 2048;

/// A link that was made or removed.
#[derive(Clone, Copy, Debug)]
struct Change {
    one: u32,
    other: u32,
    level: u8,
}

/// What has been linked since the first of the plans that are being made.
#[derive(Debug)]
pub(super) struct Journal {
    /// A number that no other journal has.
    id: u64,
    /// The changes before those that are here.
    forgotten: usize,
    changes: Vec<Change>,
    /// Plans that are being made.
    plans: u32,
}

/// The journal of a graph, while plans are made. That of a clone is none.
#[derive(Debug, Default)]
pub(super) struct JournalCell(Option<Box<Journal>>);

impl Clone for JournalCell {
    fn clone(&self) -> Self {
        JournalCell(None)
    }
}

/// A state of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    journal: u64,
    changes: usize,
    /// Plans that were being made then, with this one.
    pub plans: u32,
}

impl JournalCell {
    /// The present state, to which a plan will refer.
    pub fn begin_plan(&mut self) -> Moment {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let journal = self.0.get_or_insert_with(|| {
            let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            Box::new(Journal { id, forgotten: 0, changes: Vec::new(), plans: 0 })
        });
        journal.plans += 1;
        let changes = journal.forgotten + journal.changes.len();
        Moment { journal: journal.id, changes, plans: journal.plans }
    }

    /// The changes since a plan has been begun, which ends. `None` if they are not known.
    fn end_plan(&mut self, moment: Moment) -> Option<Vec<Change>> {
        let journal = self.0.as_mut().filter(|journal| journal.id == moment.journal)?;
        let changes = journal.changes[moment.changes - journal.forgotten..].to_vec();
        journal.plans -= 1;
        if journal.plans == 0 {
            journal.forgotten += journal.changes.len();
            journal.changes.clear();
        }
        Some(changes)
    }

    /// Notes that a link was made or removed.
    #[inline]
    pub fn note(&mut self, one: u32, other: u32, level: u8) {
        let Some(journal) = &mut self.0 else { return };
        if journal.plans == 0 {
            return;
        }
        if journal.changes.len() == CHANGES_MAX {
            return self.end();
        }
        journal.changes.push(Change { one, other, level });
    }

    /// Makes all plans void.
    pub fn end(&mut self) {
        self.0 = None;
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        let bytes =
            |journal: &Journal| size_of::<Journal>() + journal.changes.capacity() * size_of::<Change>();
        self.0.as_deref().map_or(0, bytes)
    }
}

/// The way of a search on one level.
#[derive(Debug, Default)]
struct Way {
    /// Each element that was expanded, with the distance from which on another one at its links makes no
    /// difference.
    expanded: Vec<(u32, u32)>,
    /// They are in the order of their numbers.
    is_sorted: bool,
    /// Any change makes a difference: fewer elements were found than wanted, or some are as far as the last.
    is_open: bool,
}

impl Way {
    fn sort(&mut self) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            self.expanded.sort_unstable_by_key(|&(element, _)| element);
        }
    }

    /// Whether the search is the same if another element at this distance is linked with one, or no longer.
    /// The way has been sorted.
    fn bears(&self, element: u32, distance: impl FnOnce() -> u32) -> bool {
        match self.expanded.binary_search_by_key(&element, |&(expanded, _)| expanded) {
            Ok(at) => !self.is_open && distance() > self.expanded[at].1,
            Err(_) => true,
        }
    }
}

/// The ways of a search.
#[derive(Debug, Default)]
struct Ways {
    present: Way,
    /// Those of the levels that have been searched, the highest first.
    done: Vec<Way>,
}

impl Trace for Ways {
    #[inline]
    fn expands(&mut self, near: Near) {
        self.present.expanded.push((near.element(), near.distance_bits()));
    }

    #[inline]
    fn meets(&mut self, one: Near, worst: Near) {
        self.present.is_open |= one.distance_bits() == worst.distance_bits();
    }

    fn ends(&mut self, found: &[Near], wanted: usize) {
        let mut way = std::mem::take(&mut self.present);
        way.is_open |= found.len() < wanted;
        let mut bound = found.last().map_or(0, |last| last.distance_bits());
        for (_, distance) in way.expanded.iter_mut().rev() {
            let own = std::mem::replace(distance, bound);
            bound = bound.max(own);
        }
        self.done.push(way);
    }
}

/// The link that a full element gives up for the new one, if it does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// It depends on how many links others have.
    Unknown,
    /// So it is as long as this one has further links.
    Known(Option<u32>),
}

/// The neighbours of the new element on a level.
#[derive(Debug)]
struct Choice {
    chosen: Vec<Near>,
    answers: Vec<Answer>,
}

/// What an insertion does to a graph.
#[derive(Debug)]
pub(super) struct GraphPlan {
    moment: Moment,
    entry: (u32, u8),
    level: u8,
    /// The highest level first.
    ways: Vec<Way>,
    /// The highest level first.
    choices: Vec<Choice>,
}

impl Graph {
    /// Plans the insertion of an element with the vector of a row on levels up to this one. `self` is the
    /// image of that moment.
    pub fn plan(
        &self,
        space: &Space,
        (row, level, ef): (&[u64], u8, usize),
        moment: Moment,
        scratch: &mut Scratch,
    ) -> Option<GraphPlan> {
        let entry = self.entry()?;
        let highest = level.min(entry.1);
        let mut ways = Ways::default();
        self.search_down(space, row, highest, Extent::all(ef), scratch, &mut ways);
        let mut choices = Vec::new();
        for on in (0..=highest).rev() {
            if on < highest {
                self.search_level(space, row, on, Extent::all(ef), scratch, &mut ways);
            }
            let chosen = self.choose(space, &scratch.found);
            let answers = chosen.iter().map(|&near| self.answer(space, row, near, on)).collect();
            choices.push(Choice { chosen, answers });
        }
        if moment.plans > 1 {
            // There will be changes.
            ways.done.iter_mut().for_each(Way::sort);
        }
        Some(GraphPlan { moment, entry, level, ways: ways.done, choices })
    }

    /// What one of the chosen gives up.
    fn answer(&self, space: &Space, row: &[u64], near: Near, level: u8) -> Answer {
        if self.links(near.element(), level).len() < self.capacity(level) {
            return Answer::Unknown;
        }
        let (victim, is_sure) = self.victim(space, near.element(), row, near.distance(), level);
        if is_sure { Answer::Known(victim) } else { Answer::Unknown }
    }

    /// Inserts an element as planned, if the insertion alone would do the same. `false` and no change if not.
    pub fn insert_planned(
        &mut self,
        space: &Space,
        element: u32,
        (row, level): (&[u64], u8),
        mut plan: GraphPlan,
    ) -> bool {
        let Some(changes) = self.journal.end_plan(plan.moment) else { return false };
        if self.entry() != Some(plan.entry) || level != plan.level {
            return false;
        }
        let Some(changed) = self.changed(space, row, &mut plan, &changes) else { return false };
        self.place(element, row, level);
        let highest = level.min(plan.entry.1);
        for (on, Choice { chosen, answers }) in (0..=highest).rev().zip(&plan.choices) {
            self.connect(space, (element, row), chosen, on, |graph, index| {
                let has_changed = changed.binary_search(&(on, chosen[index].element())).is_ok();
                match answers[index] {
                    Answer::Known(victim)
                        if !has_changed && victim.is_none_or(|other| graph.links(other, on).len() > 1) =>
                    {
                        Some(victim)
                    }
                    _ => None,
                }
            });
        }
        true
    }

    /// The elements whose links have changed, with the level. `None` if that makes the plan void.
    fn changed(
        &self,
        space: &Space,
        row: &[u64],
        plan: &mut GraphPlan,
        changes: &[Change],
    ) -> Option<Vec<(u8, u32)>> {
        let mut changed = Vec::with_capacity(2 * changes.len());
        for &Change { one, other, level } in changes {
            let way = plan.ways.get_mut(usize::from(plan.entry.1.checked_sub(level)?))?;
            way.sort();
            for (from, to) in [(one, other), (other, one)] {
                let distance = || Near::new(space.distance(row, self.rows().get(to)), to).distance_bits();
                if !way.bears(from, distance) {
                    return None;
                }
                changed.push((level, from));
            }
        }
        changed.sort_unstable();
        Some(changed)
    }
}
