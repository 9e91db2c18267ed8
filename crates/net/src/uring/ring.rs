//! The submission and completion queues, and the one system call.
//!
//! Entries are submitted in the order in which they were pushed, and `push` never fails: what does not fit
//! waits in `backlog`. Completions are copied out at once, so the kernel's queue is emptied before any
//! handler runs.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, squeue};

const SUBMISSIONS: u32 = 512;
const COMPLETIONS: u32 = 4096;
const GETEVENTS: u32 = 1;
const EXT_ARG: u32 = 1 << 3;

/// What the kernel reports: the data of the entry, its result and its flags.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) data: u64,
    pub(crate) result: i32,
    pub(crate) flags: u32,
}

/// How long `enter` waits.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    /// Until that many completions have come,
    pub(crate) completions: u32,
    /// or this time is over,
    pub(crate) timeout: Option<Duration>,
    /// or, if not 0, that many microseconds are over and at least one completion has come.
    pub(crate) min_wait_us: u32,
}

impl Waiting {
    pub(crate) const NOT: Waiting = Waiting { completions: 0, timeout: None, min_wait_us: 0 };

    pub(crate) fn for_one(timeout: Option<Duration>) -> Waiting {
        Waiting { completions: 1, timeout, min_wait_us: 0 }
    }
}

pub(crate) struct Ring {
    ring: IoUring,
    backlog: VecDeque<squeue::Entry>,
    /// The entries ever pushed.
    pushed: u64,
}

impl Ring {
    pub(crate) fn new() -> io::Result<Ring> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let features = ring.params();
        let enough = features.is_feature_nodrop()
            && features.is_feature_ext_arg()
            && features.is_feature_submit_stable()
            && features.is_feature_skip_cqe_on_success();
        if !enough {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring { ring, backlog: VecDeque::new(), pushed: 0 })
    }

    /// Whether the kernel can wait for several completions, for a limited time.
    pub(crate) fn can_wait_for_several(&self) -> bool {
        self.ring.params().is_feature_min_timeout()
    }

    pub(crate) fn inner(&self) -> &IoUring {
        &self.ring
    }

    /// Queues an entry, submitting earlier ones if the queue is full. Returns its number: entries are
    /// submitted once `submitted` is above it.
    ///
    /// # Safety The memory and the descriptor that the entry names stay as they are until its completion
    /// has been taken.
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry) -> u64 {
        let number = self.pushed;
        self.pushed += 1;
        if self.backlog.is_empty() {
            // SAFETY: the caller vouches for the entry.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return number;
            }
            // Entries that the kernel does not take now stay queued. An error will come again in `enter`.
            let _ = self.enter_raw(Waiting::NOT);
        }
        self.backlog.push_back(entry);
        self.move_backlog();
        number
    }

    fn move_backlog(&mut self) {
        let mut queue = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: `push` demands of its caller what the kernel demands.
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// The number of entries that the kernel has taken.
    pub(crate) fn submitted(&mut self) -> u64 {
        let waiting = self.backlog.len() + self.ring.submission().len();
        self.pushed - waiting as u64
    }

    /// Submits everything and takes in what has completed, waiting as told.
    pub(crate) fn enter(&mut self, waiting: Waiting) -> io::Result<()> {
        self.move_backlog();
        while !self.backlog.is_empty() {
            let before = self.submitted();
            self.enter_raw(Waiting::NOT)?;
            if self.submitted() == before {
                // The kernel is out of memory or of completion slots. Taking completions frees some.
                return Ok(());
            }
            self.move_backlog();
        }
        self.enter_raw(waiting)
    }

    fn enter_raw(&mut self, waiting: Waiting) -> io::Result<()> {
        let count = self.ring.submission().len() as u32;
        let submitter = self.ring.submitter();
        let Waiting { completions, timeout, min_wait_us } = waiting;
        let result = if timeout.is_none() && min_wait_us == 0 {
            // SAFETY: no arguments are passed.
            unsafe { submitter.enter::<libc::sigset_t>(count, completions, GETEVENTS, None) }
        } else {
            let time = timeout.map(Timespec::from).unwrap_or_default();
            let mut arguments = SubmitArgs::new().min_wait_usec(min_wait_us);
            if timeout.is_some() {
                arguments = arguments.timespec(&time);
            }
            // SAFETY: the arguments outlive the call, and the flags say what they are.
            unsafe { submitter.enter(count, completions, GETEVENTS | EXT_ARG, Some(&arguments)) }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes all completions that there are, also those that did not fit into the kernel's queue.
    pub(crate) fn reap(&mut self, mut take: impl FnMut(Completion)) -> io::Result<()> {
        loop {
            for entry in self.ring.completion() {
                take(Completion { data: entry.user_data(), result: entry.result(), flags: entry.flags() });
            }
            // Only a kernel without memory drops completions. They cannot be recovered.
            if self.ring.completion().overflow() != 0 {
                return Err(io::Error::other("io_uring has lost completions"));
            }
            if !self.ring.submission().cq_overflow() {
                return Ok(());
            }
            self.enter_raw(Waiting::NOT)?;
        }
    }
}
