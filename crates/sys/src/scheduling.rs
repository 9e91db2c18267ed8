//! How the system shares processors among threads. Every wish is lost silently where the system does not know
//! it.

use std::time::Duration;

/// The time slice that threads ask for.
#[cfg(target_os = "linux")]
const TIME_SLICE: Duration = Duration::from_micros(100);

/// Lowers the priority of the calling thread and of those that it starts from now on: nice 10.
pub fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        const NICE: i32 = 10;
        let _the_priority_stays = rustix::process::setpriority_process(None, NICE);
        // A longer slice than others ask for, so that these need not wait for its end. Still a short one:
        // the system counts a slice that was given up early as a whole one.
        set_time_slice(2 * TIME_SLICE);
    }
}

/// Asks for time slices of 100 microseconds for the calling thread and those that it starts from now on.
///
/// Where more threads want to run than there are processors, such a thread is run soon after it has something
/// to do. Linux knows this from 6.12 on.
pub fn use_short_time_slices() {
    #[cfg(target_os = "linux")]
    set_time_slice(TIME_SLICE);
}

/// Lets the timed waits of the calling thread end within a microsecond of when they are due. The system's
/// default is 50 microseconds.
pub fn use_precise_timeouts() {
    #[cfg(target_os = "linux")]
    {
        const SLACK_NS: std::num::NonZeroU64 = std::num::NonZeroU64::new(1000).expect("it is not zero");
        let _the_slack_stays = rustix::thread::set_current_timer_slack(Some(SLACK_NS));
    }
}

#[cfg(target_os = "linux")]
fn set_time_slice(slice: Duration) {
    // SAFETY: the structure consists of integers.
    let mut attributes = unsafe { std::mem::MaybeUninit::<libc::sched_attr>::zeroed().assume_init() };
    let size = size_of_val(&attributes) as libc::c_uint;
    // SAFETY: fills the structure, whose size it is told; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut attributes, size, 0) };
    if result == 0 && attributes.sched_policy == libc::SCHED_OTHER as u32 {
        attributes.sched_runtime = slice.as_nanos() as u64;
        // SAFETY: reads the structure, which says how large it is.
        let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) };
    }
}
