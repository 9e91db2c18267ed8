//! What commands have left for the commit.

use std::cell::{Cell, RefCell};

use mantissa_store::Entry;

use super::work::WorkSlot;
use super::{Counts, ForRequest, Unread};
use crate::effects::{Effects, Event, EventClass};

/// Database and key of a lookup that found nothing, and how many events came before it.
type Missed = (usize, Box<[u8]>, usize);

/// What has been collected for the commit since the last one. It is lent to one [`Access`](super::Access)
/// after the other, and the commit leaves it empty: a command of which only counts remain, as of most, costs
/// no more.
#[derive(Default)]
pub struct Collected {
    /// Changes.
    pub(super) dirty: u64,
    hits: Cell<u64>,
    misses: Cell<u64>,
    /// Whether there may be more than these counts.
    has_more: Cell<bool>,
    effects: Effects,
    /// Keys that lookups with a shared borrow found expired.
    expired: RefCell<Vec<(usize, Box<[u8]>)>>,
    missed: RefCell<Vec<Missed>>,
    /// Values on disk that the command turns out to need are to be read once no shard is locked
    /// ([`super::Access::bring`]).
    pub leaves_unread: bool,
    /// Those, to be read before the command runs again.
    unread: RefCell<Vec<Unread>>,
    /// Records that are to be read for the command alone before it runs again.
    for_request: RefCell<Option<ForRequest>>,
    /// The present request's work, where one may leave some.
    pub(super) work: Option<Box<WorkSlot>>,
}

impl Collected {
    /// Everything but counts, to add to it.
    #[inline]
    pub(super) fn effects(&mut self) -> &mut Effects {
        self.has_more.set(true);
        &mut self.effects
    }

    /// Frees an entry that was taken out of the keyspace: at once if that takes but a moment, as for strings
    /// and what has been emptied, else after the commit.
    #[inline]
    pub(super) fn free_later(&mut self, entry: Entry) {
        const LONG_BYTES: usize = 1 << 20;
        if entry.free_effort() > 1 || entry.string_len().is_some_and(|len| len > LONG_BYTES) {
            self.effects().to_free.entries.push(entry);
        }
    }

    /// The same; `is_lazy` says that Redis would leave a value that takes long to free to its background
    /// thread.
    #[inline]
    pub(super) fn free_later_as(&mut self, is_lazy: bool, entry: Entry) {
        if is_lazy && is_freed_lazily(&entry) {
            self.effects().to_free.lazy_objects += 1;
        }
        self.free_later(entry);
    }

    /// Everything but counts, if there may be any.
    #[inline]
    pub(super) fn noted(&self) -> Option<&Effects> {
        self.has_more.get().then_some(&self.effects)
    }

    /// A lookup has found its key.
    #[inline]
    pub(super) fn hit(&self) {
        self.hits.set(self.hits.get() + 1);
    }

    /// A lookup has not found its key.
    #[inline]
    pub(super) fn miss(&self) {
        self.misses.set(self.misses.get() + 1);
    }

    /// Forgets what lookups have found, and what they have missed.
    pub(super) fn forget_lookups(&mut self) {
        (self.hits, self.misses) = Default::default();
        self.missed.get_mut().clear();
    }

    /// A lookup that is told of as an event has not found its key.
    #[cold]
    pub(super) fn note_missed(&self, database: usize, key: &[u8]) {
        self.has_more.set(true);
        self.missed.borrow_mut().push((database, key.into(), self.effects.events.len()));
    }

    /// A lookup has found a key expired.
    #[cold]
    pub(super) fn note_expired(&self, database: usize, key: &[u8]) {
        self.has_more.set(true);
        self.expired.borrow_mut().push((database, key.into()));
    }

    /// A value has to be read before the command runs again.
    #[cold]
    pub(super) fn note_unread(&self, unread: Unread) {
        self.has_more.set(true);
        self.unread.borrow_mut().push(unread);
    }

    /// Records have to be read for the command alone before it runs again.
    #[cold]
    pub(super) fn note_for_request(&self, records: ForRequest) {
        self.has_more.set(true);
        *self.for_request.borrow_mut() = Some(records);
    }

    /// Whether there are such values.
    pub(super) fn has_unread(&self) -> bool {
        self.has_more.get() && !(self.unread.borrow().is_empty() && self.for_request.borrow().is_none())
    }

    /// Takes them, and forgets lookups: they will be made again.
    pub(super) fn take_unread(&mut self) -> (Vec<Unread>, Option<ForRequest>) {
        self.forget_lookups();
        (self.unread.take(), self.for_request.take())
    }

    /// Takes the counts, if there is nothing else.
    #[inline]
    pub(super) fn take_counts(&mut self) -> Option<Counts> {
        let take = || Counts {
            dirty: std::mem::take(&mut self.dirty),
            hits: self.hits.take(),
            misses: self.misses.take(),
        };
        (!self.has_more.get()).then(take)
    }

    /// Takes everything.
    pub(super) fn take(&mut self) -> Effects {
        let Collected {
            dirty,
            hits,
            misses,
            has_more: _,
            mut effects,
            expired,
            missed,
            leaves_unread: _,
            unread: _,
            for_request: _,
            work,
        } = std::mem::take(self);
        self.work = work;
        effects.dirty += dirty;
        effects.hits += hits.get();
        effects.misses += misses.get();
        effects.expired.extend(expired.into_inner());
        let missed = missed.into_inner();
        if !missed.is_empty() {
            effects.events = with_misses(effects.events, missed);
        }
        effects
    }

    /// Forgets everything: what a command had left that failed inside the server.
    pub fn clear(&mut self) {
        let work = self.work.take().map(|_| Box::default());
        *self = Collected { work, ..Collected::default() };
    }
}

/// Puts an event for each missed key where it belongs among the others.
fn with_misses(events: Vec<Event>, missed: Vec<Missed>) -> Vec<Event> {
    let mut all = Vec::with_capacity(events.len() + missed.len());
    let mut others = events.into_iter().enumerate().peekable();
    for (database, key, place) in missed {
        while let Some((_, event)) = others.next_if(|(index, _)| *index < place) {
            all.push(event);
        }
        all.push(Event { class: EventClass::KEY_MISS, name: "keymiss", database, key });
    }
    all.extend(others.map(|(_, event)| event));
    all
}

/// Whether Redis would free the value in the background: it looks at the number of allocations.
fn is_freed_lazily(entry: &Entry) -> bool {
    const EFFORT_MAX: usize = 64;
    entry.is_in_memory() && entry.value().redis_free_effort(EFFORT_MAX) > EFFORT_MAX
}
