//! Work of a request that is done while no shard is locked, before the request runs again.
//!
//! A command that has long to search before it changes little ends with the search as its work. The caller
//! makes an image of the value, unlocks, does the work on that, and runs the request again from its
//! beginning, with all checks; the command then finds what the work has come to.
//!
//! What holds then: the request has been admitted anew, like one that comes in now, so nothing that was found
//! out before the work counts, of the role, pauses, rights, memory, the disk, or the key. The work has
//! changed nothing. What it has come to is of an image: the command checks it against the value that the key
//! has now. It goes to no other request.

use std::any::Any;

use mantissa_store::Entry;

use super::{Access, Collected};
use crate::error::Error;

/// What the work has come to.
pub type WorkDone = Box<dyn Any + Send>;
/// The work, on an image of the value at the command's only key.
pub type Work = Box<dyn FnOnce(&Entry) -> WorkDone + Send>;

/// The work of a thread's present request.
#[derive(Default)]
pub(super) struct WorkSlot {
    left: Option<Work>,
    done: Option<WorkDone>,
}

impl Collected {
    /// Lets commands leave work from now on. Whoever runs them does it.
    pub fn allow_work(&mut self) {
        self.work = Some(Box::default());
    }

    /// Sets what the work of the request that runs now has come to, if there was some.
    pub fn set_work_done(&mut self, done: Option<WorkDone>) {
        if let Some(slot) = &mut self.work {
            slot.done = done;
        }
    }
}

impl Access<'_> {
    /// Whether the command may end with [`Access::leave_work`]: a client has called it, outside of
    /// transactions and scripts.
    pub fn may_leave_work(&self) -> bool {
        self.collected.work.is_some()
    }

    /// Ends the command, which has changed nothing, until this has been done.
    #[cold]
    pub fn leave_work(&mut self, work: Work) -> Error {
        if let Some(slot) = &mut self.collected.work {
            slot.left = Some(work);
            self.wants_image.set(super::image::Wanted::Yes);
        }
        Error::fixed("ERR the command has left work")
    }

    /// Takes the work that the command has left, and forgets its lookups: they will be made again.
    pub fn take_work(&mut self) -> Option<Work> {
        let work = self.collected.work.as_mut()?.left.take()?;
        self.collected.forget_lookups();
        Some(work)
    }

    /// What the command's work has come to, if it has left some before it runs now.
    pub fn take_work_done<T: 'static>(&mut self) -> Option<Box<T>> {
        self.collected.work.as_mut()?.done.take()?.downcast().ok()
    }

    /// Looks up keys without marking them as used.
    pub fn untouched<R>(&mut self, look_up: impl FnOnce(&mut Self) -> R) -> R {
        let before = std::mem::replace(&mut self.mode.no_touch, true);
        let result = look_up(self);
        self.mode.no_touch = before;
        result
    }
}
