//! The processor time of a thread, readable from other threads.

use std::io;
use std::time::Duration;

/// A thread's clock of processor time, user and system together. The thread may have ended.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread.
    pub fn current() -> io::Result<ThreadClock> {
        let mut clock = 0;
        // SAFETY: the calling thread exists, and `clock` is writable.
        match unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } {
            0 => Ok(ThreadClock(clock)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// The processor time that the thread has used; zero once it has ended.
    pub fn used(&self) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is writable; a clock whose thread has ended makes the call fail.
        let result = unsafe { libc::clock_gettime(self.0, &mut time) };
        if result == 0 { Duration::new(time.tv_sec as u64, time.tv_nsec as u32) } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_while_its_thread_works() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(ThreadClock::current().expect("a thread has a clock")).expect("somebody listens");
            let mut sum = 0u64;
            while ended.try_recv().is_err() {
                sum = std::hint::black_box(sum + 1);
            }
        });
        let clock = told.recv().expect("the thread tells its clock");
        let before = clock.used();
        while clock.used() == before {
            std::thread::yield_now();
        }
        assert!(clock.used() > before);
        end.send(()).expect("the thread listens");
        thread.join().expect("the thread does not panic");
    }
}
