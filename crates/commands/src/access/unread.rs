//! Values on disk that a command turns out to need: those of keys that follow from other values.

use mantissa_store::cold::Cold;
use mantissa_store::{Entry, KeyHash};

use super::Access;
use crate::error::{Error, Outcome};

/// A value that is on disk and not in memory: its database, the hash of its key, and its record.
pub type Unread = ((usize, KeyHash), Cold);

impl Access<'_> {
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

    /// Takes the values that are to be read before the command runs again, if there are some. Its lookups are
    /// forgotten then.
    #[inline]
    pub fn take_unread(&mut self) -> Option<Vec<Unread>> {
        self.collected.has_unread().then(|| self.collected.take_unread())
    }
}
