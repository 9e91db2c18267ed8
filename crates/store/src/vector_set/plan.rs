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
//! number of the insertion makes it one for another level. None is made if a distance is not a number.
//!
//! The journal reaches back to the oldest open plan, but has a bound: what is older then is void.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::graph::Graph;
use super::search::{Extent, Near, Scratch, Trace};
use super::space::Space;

/// Changes that a journal keeps for each open plan, in multiples of the most links of an element: those of
/// some eight insertions.
const CHANGES_PER_LINK: usize = 16;
/// Plans in a row that any change made void, from which on insertions are not planned for a while. One alone
/// is by chance: two elements were equally far.
const FUTILE_MIN: u8 = 2;
/// Insertions that are not planned then.
const UNPLANNED: u8 = 32;

/// Plans in a row beside which no other was open, from which on most insertions are not planned: one client
/// alone adds 8 to 10 % fewer elements a second with plans.
const ALONE_MIN: u8 = 16;
/// One insertion in this many is planned then. Others find that plan open if they add at the same time.
const PROBED: u8 = 8;

/// A link that was made or removed.
#[derive(Clone, Copy, Debug)]
struct Change {
    one: u32,
    other: u32,
    level: u8,
}

/// A plan that is being made or waits to be applied, as the journal knows it.
#[derive(Debug)]
struct OpenPlan {
    /// Changes before it was begun.
    since: usize,
    /// The last element's number when it was begun, in the order of all that were ever added.
    last_uid: u64,
    /// Whether it is still open.
    token: Weak<()>,
}

/// What has been linked since the oldest open plan was begun.
///
/// Invariant: the changes that are here follow those that are forgotten, and no open plan is older than the
/// last that was forgotten.
#[derive(Debug)]
struct Journal {
    /// A number that no other journal has.
    id: u64,
    /// The number of changes before those that are here.
    forgotten: usize,
    changes: VecDeque<Change>,
    /// The oldest first.
    plans: VecDeque<OpenPlan>,
    /// Changes that are kept for each of them.
    changes_per_plan: usize,
}

impl Journal {
    /// Forgets the changes before the oldest open plan.
    fn trim(&mut self) {
        while self.plans.pop_front_if(|plan| plan.token.strong_count() == 0).is_some() {}
        let end = self.forgotten + self.changes.len();
        let oldest = self.plans.front().map_or(end, |plan| plan.since);
        self.changes.drain(..oldest - self.forgotten);
        self.forgotten = oldest;
    }
}

/// The journal of a graph, once plans have been made. That of a clone is none.
#[derive(Debug, Default)]
pub(super) struct JournalCell {
    journal: Option<Box<Journal>>,
    /// Plans in a row that any change made void.
    futile: u8,
    /// Insertions that are not to be planned.
    unplanned: u8,
    /// Insertions in a row that found no open plan, up to a bound.
    alone: u8,
}

impl Clone for JournalCell {
    fn clone(&self) -> Self {
        JournalCell::default()
    }
}

/// A state of a graph, on which a plan is made. The plan is open until this is dropped.
#[derive(Debug)]
pub(super) struct Moment {
    journal: u64,
    since: usize,
    token: Arc<()>,
    /// The number that the new element will have, if the plans that were open then are applied first.
    pub uid: u64,
    /// There were such plans.
    is_shared: bool,
}

impl JournalCell {
    /// The present state, to which a plan will refer. `None` if a plan would not pay.
    fn begin_plan(&mut self, links_max: u32, last_uid: u64) -> Option<Moment> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        if self.unplanned > 0 {
            self.unplanned -= 1;
            return None;
        }
        let journal = self.journal.get_or_insert_with(|| {
            Box::new(Journal {
                id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
                forgotten: 0,
                changes: VecDeque::new(),
                plans: VecDeque::new(),
                changes_per_plan: CHANGES_PER_LINK * links_max as usize,
            })
        });
        journal.trim();
        self.alone = if journal.plans.is_empty() { self.alone + 1 } else { 0 };
        if self.alone > ALONE_MIN {
            if self.alone < ALONE_MIN + PROBED {
                return None;
            }
            self.alone = ALONE_MIN;
        }
        let (since, token) = (journal.forgotten + journal.changes.len(), Arc::new(()));
        // Plans are applied in about the order in which they were begun. One that has not been when as many
        // others have is stalled: its thread does not run. It comes later.
        let open = journal.plans.len() as u64;
        let is_next = |plan: &&OpenPlan| last_uid.wrapping_sub(plan.last_uid) <= open;
        let uid = last_uid + 1 + journal.plans.iter().filter(is_next).count() as u64;
        journal.plans.push_back(OpenPlan { since, last_uid, token: Arc::downgrade(&token) });
        Some(Moment { journal: journal.id, since, token, uid, is_shared: open > 0 })
    }

    /// The changes since a plan has been begun, which ends. `None` if they are not known.
    fn end_plan(&mut self, moment: &Moment) -> Option<Vec<Change>> {
        let journal = self.journal.as_mut().filter(|journal| journal.id == moment.journal)?;
        let begin = moment.since.checked_sub(journal.forgotten)?;
        let changes = journal.changes.range(begin..).copied().collect();
        journal.plans.retain(|plan| !std::ptr::eq(plan.token.as_ptr(), Arc::as_ptr(&moment.token)));
        journal.trim();
        Some(changes)
    }

    /// Notes that a link was made or removed.
    #[inline]
    pub fn note(&mut self, one: u32, other: u32, level: u8) {
        if let Some(journal) = &mut self.journal
            && !journal.plans.is_empty()
        {
            if journal.changes.len() >= journal.changes_per_plan * journal.plans.len() {
                // The oldest plan becomes void, unless another has ended.
                journal.trim();
                if journal.changes.len() >= journal.changes_per_plan * journal.plans.len() {
                    journal.plans.pop_front();
                    journal.trim();
                }
            }
            journal.changes.push_back(Change { one, other, level });
        }
    }

    /// Notes a plan that any change has made void: after some, the next insertions are not planned.
    fn note_futile(&mut self) {
        self.futile = (self.futile + 1).min(FUTILE_MIN);
        if self.futile == FUTILE_MIN {
            self.unplanned = UNPLANNED;
        }
    }

    /// Makes all plans void.
    pub fn end(&mut self) {
        self.journal = None;
    }

    /// Changes that are kept.
    #[cfg(test)]
    pub fn change_count(&self) -> usize {
        self.journal.as_deref().map_or(0, |journal| journal.changes.len())
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.journal.as_deref().map_or(0, |journal| {
            size_of::<Journal>()
                + journal.changes.capacity() * size_of::<Change>()
                + journal.plans.capacity() * size_of::<OpenPlan>()
        })
    }
}

/// A distance that is not a number, as [`Near::distance_bits`] has it.
const NAN_BITS: u32 = f32::NAN.to_bits();

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
            Ok(at) => !self.is_open && (self.expanded[at].1 + 1..NAN_BITS).contains(&distance()),
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
    /// A distance was not a number.
    has_nan: bool,
}

impl Trace for Ways {
    #[inline]
    fn expands(&mut self, near: Near) {
        self.present.expanded.push((near.element(), near.distance_bits()));
    }

    #[inline]
    fn meets(&mut self, one: Near, worst: Near) {
        self.present.is_open |= one.distance_bits() == worst.distance_bits();
        self.has_nan |= one.distance_bits() == NAN_BITS;
    }

    fn ends(&mut self, found: &[Near], wanted: usize) {
        let mut way = std::mem::take(&mut self.present);
        way.is_open |= found.len() < wanted;
        let mut bound = found.last().map_or(0, |last| last.distance_bits());
        for (_, distance) in way.expanded.iter_mut().rev() {
            let own = std::mem::replace(distance, bound);
            bound = bound.max(own);
        }
        self.has_nan |= bound == NAN_BITS;
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
    /// The present state, to which a plan will refer. `None` if a plan would not pay.
    pub fn begin_plan(&mut self, last_uid: u64) -> Option<Moment> {
        let links_max = self.links_max();
        self.journal.begin_plan(links_max, last_uid)
    }

    /// Plans the insertion of an element with the vector of a row on levels up to this one. `self` is the
    /// image of that moment. `None` if it cannot be planned.
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
        if ways.has_nan {
            return None;
        }
        if moment.is_shared {
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

    /// Ends a plan that is not applied.
    pub fn give_up(&mut self, plan: &GraphPlan) {
        self.journal.end_plan(&plan.moment);
    }

    /// Inserts an element as planned, if the insertion alone would do the same. `false` and no change if not.
    pub fn insert_planned(
        &mut self,
        space: &Space,
        element: u32,
        (row, level): (&[u64], u8),
        mut plan: GraphPlan,
    ) -> bool {
        let Some(changes) = self.journal.end_plan(&plan.moment) else { return false };
        if self.entry() != Some(plan.entry) || level != plan.level {
            return false;
        }
        let Some(changed) = self.changed(space, row, &mut plan, &changes) else {
            if plan.ways.last().is_some_and(|way| way.is_open) {
                self.journal.note_futile();
            }
            return false;
        };
        self.journal.futile = 0;
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
