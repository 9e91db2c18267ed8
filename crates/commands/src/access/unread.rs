//! Values on disk that a command turns out to need: those of keys that follow from other values.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use mantissa_store::cold::{Cold, RecordId};
use mantissa_store::{Entry, KeyHash, Value};

use super::Access;
use crate::error::{Error, Outcome};

/// Ends a command that is run again.
const RUN_AGAIN: Error = Error::fixed("ERR the command is run again once values have been read");

/// A value that is on disk and not in memory: its database, the hash of its key, and its record.
pub type Unread = ((usize, KeyHash), Cold);

/// What a request takes of a value that was read for it alone. It runs where the value is read, on another
/// thread, with nothing locked: the value itself leaves memory at once.
/// It returns the bytes of what it took as well, or the error that the request ends with.
pub type Take = Arc<dyn Fn(&Cold, Value) -> Outcome<(TakenPart, usize)> + Send + Sync>;

/// Anything that was taken of a value.
pub type TakenPart = Arc<dyn Any + Send + Sync>;

/// Records that are to be read for one request alone.
pub struct ForRequest {
    /// The command that asks: its place among those of a transaction, else 0.
    pub place: usize,
    /// The records.
    pub records: Vec<Cold>,
    /// What is taken of each.
    pub take: Take,
}

/// What was taken of records for one request.
#[derive(Default)]
pub struct Lent {
    /// By record, type and the place of the command that asked for it. Each names its record, so that no
    /// other value gets its place meanwhile.
    parts: HashMap<(RecordId, TypeId, usize), (Cold, TakenPart)>,
    /// The places of commands that do not get what they asked for, and why.
    refused: Vec<(usize, Error)>,
}

impl Lent {
    /// Adds what was taken of a record for the command at a place.
    pub fn add(&mut self, place: usize, cold: Cold, part: TakenPart) {
        self.parts.insert((cold.id(), (*part).type_id(), place), (cold, part));
    }

    /// Has the command at a place fail.
    pub fn refuse(&mut self, place: usize, error: Error) {
        self.refused.push((place, error));
    }
}

/// What is lent to the command that runs.
#[derive(Clone, Copy, Default)]
pub(super) struct Lending<'a> {
    lent: Option<&'a Lent>,
    /// As in [`ForRequest`].
    place: usize,
}

impl<'a> Access<'a> {
    /// Says whether values on disk that commands turn out to need are left to be read before they run again.
    /// To be said before each command.
    pub fn leave_unread(&mut self, leaves_unread: bool) {
        self.collected.leaves_unread = leaves_unread;
    }

    /// Whether they are.
    pub fn leaves_unread(&self) -> bool {
        self.collected.leaves_unread
    }

    /// Lends values that were read for this request.
    pub fn lend_values(&mut self, lent: Option<&'a Lent>) {
        self.lent.lent = lent;
    }

    /// Tells the place of the next command among those of a transaction.
    pub fn set_place(&mut self, place: usize) {
        self.lent.place = place;
    }

    /// What `take` makes of the values of these records, each with its key. Where none is locked they are
    /// read before the command is run again, which this error ends: a few as any value is, for their entries,
    /// and many for this request alone, so that memory need not have room for them. `take` also tells the
    /// bytes that it took.
    pub(crate) fn taken_of<T: Any + Send + Sync>(
        &self,
        records: Vec<(&[u8], &Cold)>,
        take: impl Fn(&Cold, Value) -> Outcome<(T, usize)> + Send + Sync + 'static,
    ) -> Outcome<Vec<Arc<T>>> {
        const FEW: usize = 64;
        const FEW_BYTES: usize = 1 << 20;
        let Lending { lent: all_lent, place } = self.lent;
        let mut refused = all_lent.into_iter().flat_map(|lent| &lent.refused);
        if let Some((_, error)) = refused.find(|(refused, _)| *refused == place) {
            return Err(error.clone());
        }
        let lent = |cold: &Cold| {
            let (_, part) = all_lent?.parts.get(&(cold.id(), TypeId::of::<T>(), place))?;
            Arc::clone(part).downcast::<T>().ok()
        };
        let read = |cold: &Cold| match cold.read() {
            Ok(value) => Ok(Arc::new(take(cold, value)?.0)),
            Err(reason) => Err(Error::unreadable(reason)),
        };
        if !self.collected.leaves_unread {
            return records.into_iter().map(|(_, cold)| lent(cold).map_or_else(|| read(cold), Ok)).collect();
        }
        let unread: Vec<_> = records.iter().filter(|(_, cold)| lent(cold).is_none()).collect();
        let bytes: usize = unread.iter().map(|(_, cold)| cold.place().len()).sum();
        if all_lent.is_none() && unread.len() <= FEW && bytes <= FEW_BYTES {
            for (key, cold) in unread {
                self.collected.note_unread(((self.database, self.hash(key)), (*cold).clone()));
            }
        } else if !unread.is_empty() {
            let records = unread.into_iter().map(|(_, cold)| (*cold).clone()).collect();
            let take: Take = Arc::new(move |cold, value| {
                let (part, bytes) = take(cold, value)?;
                Ok((Arc::new(part), bytes))
            });
            self.collected.note_for_request(ForRequest { place, records, take });
            return Err(RUN_AGAIN);
        }
        self.leave_if_unread()?;
        Ok(records.into_iter().filter_map(|(_, cold)| lent(cold)).collect())
    }

    /// Sees to it that the value of a key's entry is in memory. False if it has been noted to be read before
    /// the command is run again ([`super::Collected::leaves_unread`]): the command may go on to find more of
    /// them, must change nothing, and then ends by [`Access::leave_if_unread`].
    pub fn bring(&self, key: &[u8], entry: &Entry) -> Outcome<bool> {
        if self.collected.leaves_unread
            && let Some(cold) = entry.cold_only()
        {
            self.collected.note_unread(((self.database, self.hash(key)), cold));
            return Ok(false);
        }
        entry.bring().map_err(Error::unreadable)?;
        Ok(true)
    }

    /// Ends the command if values have to be read before it runs again.
    pub fn leave_if_unread(&self) -> Outcome {
        match self.collected.has_unread() {
            true => Err(RUN_AGAIN),
            false => Ok(()),
        }
    }

    /// Takes the values that are to be read before the command runs again, and the records that are to be
    /// read for it alone, if there are some. Its lookups are forgotten then.
    #[inline]
    pub fn take_unread(&mut self) -> Option<(Vec<Unread>, Option<ForRequest>)> {
        self.collected.has_unread().then(|| self.collected.take_unread())
    }
}
