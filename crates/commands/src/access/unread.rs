//! Values on disk that a command turns out to need: those of keys that follow from other values.

use std::collections::HashMap;

use mantissa_store::cold::{Cold, RecordId};
use mantissa_store::{Entry, KeyHash, Value};

use super::Access;
use crate::error::{Error, Outcome};

/// A value that is on disk and not in memory: its database, the hash of its key, and its record.
pub type Unread = ((usize, KeyHash), Cold);

/// Values of records that were read for one request. They are in no entry. Each names its record, so that no
/// other value gets its place meanwhile.
pub type Lent = HashMap<RecordId, (Cold, Value)>;

impl<'a> Access<'a> {
    /// Lends values that were read for this request.
    pub fn lend_values(&mut self, lent: &'a Lent) {
        self.lent = Some(lent).filter(|lent| !lent.is_empty());
    }

    /// The values of these records, each with its key. Where none is locked they are read before the command
    /// is run again, which this error ends: a few as any value is, for their entries, and many for this
    /// request alone.
    pub(crate) fn values_of(&self, records: Vec<(&[u8], &Cold)>) -> Outcome<Vec<Value>> {
        const FEW: usize = 64;
        let lent = |cold: &Cold| self.lent.and_then(|lent| lent.get(&cold.id()));
        let is_few = self.lent.is_none() && records.len() <= FEW;
        let is_left = self.collected.leaves_unread;
        for (key, cold) in records.iter().filter(|(_, cold)| is_left && lent(cold).is_none()) {
            match is_few {
                true => self.collected.note_unread(((self.database, self.hash(key)), (*cold).clone())),
                false => self.collected.note_record((*cold).clone()),
            }
        }
        self.leave_if_unread()?;
        let read = |(_, cold): (&[u8], &Cold)| match lent(cold) {
            Some((_, value)) => Ok(value.clone()),
            None => cold.read().map_err(|reason| Error::new(format!("ERR {reason}"))),
        };
        records.into_iter().map(read).collect()
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
        entry.bring().map_err(|reason| Error::new(format!("ERR {reason}")))?;
        Ok(true)
    }

    /// Ends the command if values have to be read before it runs again.
    pub fn leave_if_unread(&self) -> Outcome {
        match self.collected.has_unread() {
            true => Err(Error::fixed("ERR the command is run again once values have been read")),
            false => Ok(()),
        }
    }

    /// Takes the values that are to be read before the command runs again, and the records that are to be
    /// read for it alone, if there are some. Its lookups are forgotten then.
    #[inline]
    pub fn take_unread(&mut self) -> Option<(Vec<Unread>, Vec<Cold>)> {
        self.collected.has_unread().then(|| self.collected.take_unread())
    }
}
