//! Work of a command that is done while no shard is locked, before it runs again.
//!
//! A command that has long to search before it changes little ends with the search as its work, on an image
//! of the value. The caller unlocks, does it, and runs the command again from its beginning, which finds what
//! the work has come to. Others may have changed everything meanwhile: what was found has to be checked.

use std::any::Any;

use super::Access;
use crate::error::Error;

/// What the work has come to.
pub type WorkDone = Box<dyn Any + Send>;
/// The work.
pub type Work = Box<dyn FnOnce() -> WorkDone + Send>;

impl Access<'_> {
    /// Whether the command may end with [`Access::leave_work`].
    #[inline]
    pub fn may_leave_work(&self) -> bool {
        self.mode.leaves_work
    }

    /// Ends the command, which has changed nothing, until this has been done.
    #[cold]
    pub fn leave_work(&mut self, work: Work) -> Error {
        self.collected.work = Some(work);
        Error::fixed("ERR the command has left work")
    }

    /// Takes the work that the command has left, and forgets its lookups: they will be made again.
    pub fn take_work(&mut self) -> Option<Work> {
        let work = self.collected.work.take()?;
        self.collected.forget_lookups();
        Some(work)
    }

    /// What the command's work has come to, if it has left some before it runs now.
    pub fn take_work_done<T: 'static>(&mut self) -> Option<Box<T>> {
        if !self.mode.leaves_work {
            return None;
        }
        self.collected.work_done.take()?.downcast().ok()
    }
}
