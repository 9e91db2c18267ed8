//! What a server asks of the operating system about its own process: going to the background, signals, the
//! limit of open files, processor time, resident memory, and the local time for logs.
//!
//! Everything here is safe to call from safe code; the reasons stand at each block. None of it is on a hot
//! path.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

// ---- Background -------------------------------------------------------------------------------------------

/// Goes to the background: the calling process ends with success, its child goes on in a session of its own,
/// without a terminal, with standard input, output and error at `/dev/null`.
///
/// Fails with [`io::ErrorKind::Unsupported`] once there are other threads, because these would not be in the
/// child.
pub fn daemonize() -> io::Result<()> {
    if thread_count() > 1 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let null = File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: there is one thread, so the child finds every lock as its parent left it.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        // SAFETY: ends the parent without running what the child will run at its own end.
        _ => unsafe { libc::_exit(0) },
    }
    // SAFETY: takes no pointers.
    check(unsafe { libc::setsid() })?;
    for standard in 0..=2 {
        // SAFETY: both descriptors are numbers; `null` is open.
        check(unsafe { libc::dup2(null.as_raw_fd(), standard) })?;
    }
    Ok(())
}

/// The threads of this process; 1 where the system does not say.
fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map(|entries| entries.count()).unwrap_or(1)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

// ---- Signals ----------------------------------------------------------------------------------------------

/// A signal that the server acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end.
    Terminate,
    /// SIGINT: end; somebody pressed Ctrl-C.
    Interrupt,
    /// SIGHUP: the terminal is gone, or files shall be opened anew.
    Hangup,
}

const HANDLED: [(libc::c_int, Signal); 3] =
    [(libc::SIGTERM, Signal::Terminate), (libc::SIGINT, Signal::Interrupt), (libc::SIGHUP, Signal::Hangup)];

/// The writing end of the pipe, for the handler; -1 before there is one.
static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);
/// Ctrl-Cs since the start or since the last one was forgiven.
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

/// The signals sent to this process, as bytes in a pipe that can be polled or waited for.
///
/// A second SIGINT ends the process at once with status 1, so that a shutdown that hangs can be broken off.
#[derive(Debug)]
pub struct Signals {
    pipe: File,
}

impl Signals {
    /// Takes over SIGTERM, SIGINT and SIGHUP. To be called once.
    pub fn install() -> io::Result<Signals> {
        let mut ends = [-1; 2];
        // SAFETY: `ends` has room for two descriptors.
        check(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
        // SAFETY: both were just opened and belong to nobody else. The writing end stays open for good: a
        // handler may run at any time.
        let (reader, writer) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        set_flags(&reader, false)?;
        set_flags(&writer, true)?;
        SIGNAL_PIPE.store(writer.as_raw_fd(), Ordering::Release);
        std::mem::forget(writer);
        for (number, _) in HANDLED {
            // SAFETY: an all-zero `sigaction` is valid: no mask, no flags, the default action.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: the handler only calls what is safe within one, and keeps `errno`.
            check(unsafe { libc::sigaction(number, &action, std::ptr::null_mut()) })?;
        }
        Ok(Signals { pipe: File::from(reader) })
    }

    /// Waits for a signal, or for the time to pass; with no time given, for ever.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Option<Signal>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        while !self.poll(deadline)? {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
        }
        let mut byte = [0];
        self.pipe.read_exact(&mut byte)?;
        let number = libc::c_int::from(byte[0]);
        Ok(HANDLED.iter().find(|(handled, _)| *handled == number).map(|(_, signal)| *signal))
    }

    /// Whether there is something to read; false also if a signal cut the wait short.
    fn poll(&self, deadline: Option<Instant>) -> io::Result<bool> {
        let milliseconds = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            // Rounded up: never wakes just before the time.
            Some(left) => left.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as libc::c_int,
            None => -1,
        };
        let mut poll = libc::pollfd { fd: self.pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one `pollfd`, that lives through the call.
        match check(unsafe { libc::poll(&mut poll, 1, milliseconds) }) {
            Ok(ready) => Ok(ready > 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes the next SIGINT ask again rather than end the process: the shutdown that the last one asked for
    /// was given up.
    pub fn forgive_interrupt(&self) {
        INTERRUPTS.store(0, Ordering::Relaxed);
    }
}

impl AsFd for Signals {
    /// Readable when a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Closes a descriptor in programs that this one starts; a full pipe must not block the handler.
fn set_flags(fd: &OwnedFd, nonblocking: bool) -> io::Result<()> {
    // SAFETY: the descriptor is open; the arguments are numbers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })?;
    if nonblocking {
        // SAFETY: as above.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
    }
    Ok(())
}

extern "C" fn on_signal(number: libc::c_int) {
    if number == libc::SIGINT && INTERRUPTS.fetch_add(1, Ordering::Relaxed) > 0 {
        // SAFETY: ends the process; allowed in a handler.
        unsafe { libc::_exit(1) };
    }
    let fd = SIGNAL_PIPE.load(Ordering::Acquire);
    let byte = number as u8;
    // SAFETY: `errno` belongs to this thread; `write` is allowed in a handler, and one byte is there to be
    // written. A full pipe loses the signal, behind thousands that say the same.
    unsafe {
        let errno = errno_location();
        let saved = *errno;
        libc::write(fd, (&raw const byte).cast(), 1);
        *errno = saved;
    }
}

#[cfg(any(target_os = "linux", target_os = "emscripten"))]
unsafe fn errno_location() -> *mut libc::c_int {
    // SAFETY: gives the address of this thread's `errno`.
    unsafe { libc::__errno_location() }
}

#[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
unsafe fn errno_location() -> *mut libc::c_int {
    // SAFETY: gives the address of this thread's `errno`.
    unsafe { libc::__error() }
}

// ---- Limits and use of resources --------------------------------------------------------------------------

/// Raises the limit of open files to at least `wanted`, or as far as the system lets us, and gives the limit
/// that then holds: (soft, hard). A process with the right to may pass the hard limit.
pub fn raise_nofile_limit(wanted: u64) -> io::Result<(u64, u64)> {
    let mut limit = nofile_limit()?;
    if limit.rlim_cur < wanted {
        let hard = limit.rlim_max.max(wanted);
        let passes_hard = set_nofile_limit(libc::rlimit { rlim_cur: wanted, rlim_max: hard });
        if passes_hard.is_err() && limit.rlim_cur < limit.rlim_max {
            // Some systems refuse even the hard limit that they report; the soft one then stays as it was.
            let _ = set_nofile_limit(libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max });
        }
        limit = nofile_limit()?;
    }
    Ok((limit.rlim_cur, limit.rlim_max))
}

fn nofile_limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills `limit`.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    Ok(limit)
}

fn set_nofile_limit(limit: libc::rlimit) -> io::Result<()> {
    // SAFETY: reads `limit`.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }).map(drop)
}

/// Processor time in user mode and in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

/// Processor time spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// By all threads of this process.
    pub process: CpuTime,
    /// By child processes that have ended.
    pub children: CpuTime,
    /// By the calling thread; zero where the system does not say.
    pub thread: CpuTime,
}

/// The processor time that was spent so far.
pub fn cpu_times() -> CpuTimes {
    #[cfg(target_os = "linux")]
    let thread = usage(libc::RUSAGE_THREAD);
    #[cfg(not(target_os = "linux"))]
    let thread = CpuTime::default();
    CpuTimes { process: usage(libc::RUSAGE_SELF), children: usage(libc::RUSAGE_CHILDREN), thread }
}

fn usage(who: libc::c_int) -> CpuTime {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: fills `usage`, of which every bit pattern, zeros too, is valid.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let duration = |time: libc::timeval| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    CpuTime { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
}

/// Whether the system has a locale of this name for the order of texts. An empty name is that of the
/// environment.
pub fn is_locale(name: &str) -> bool {
    let Ok(name) = std::ffi::CString::new(name) else { return false };
    // SAFETY: the name ends in a NUL byte, and no locale is changed.
    let locale = unsafe { libc::newlocale(libc::LC_COLLATE_MASK, name.as_ptr(), std::ptr::null_mut()) };
    if locale.is_null() {
        return false;
    }
    // SAFETY: the locale was made above, and nobody else has it.
    unsafe { libc::freelocale(locale) };
    true
}

/// Has the calling thread, and those that it starts from now on, give way to the others of this machine.
/// Nothing changes where the system knows no priorities of threads.
pub fn give_way() {
    #[cfg(target_os = "linux")]
    {
        const NICE: libc::c_int = 10;
        // SAFETY: takes numbers; 0 is the calling thread.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
        // Longer turns than those of others, who then need not wait for the end of one; and yet short ones:
        // the system counts a turn that is given up as a whole one.
        set_turn(2 * TURN);
    }
}

/// Has the calling thread, and those that it starts from now on, take its share of a processor in short
/// turns: so it is let in soon after it has something to do, where more threads want to run than there are
/// processors. Nothing changes where the system knows no such wish (Linux does from 6.12 on).
pub fn take_short_turns() {
    #[cfg(target_os = "linux")]
    set_turn(TURN);
}

/// See [`take_short_turns`].
#[cfg(target_os = "linux")]
const TURN: Duration = Duration::from_micros(100);

/// Sets how long the calling thread wants to run at a time.
#[cfg(target_os = "linux")]
fn set_turn(turn: Duration) {
    // SAFETY: the structure consists of integers.
    let mut wishes = unsafe { MaybeUninit::<libc::sched_attr>::zeroed().assume_init() };
    let size = size_of_val(&wishes) as libc::c_uint;
    // SAFETY: fills the structure, whose size it is told; 0 is the calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut wishes, size, 0) };
    if answer == 0 && wishes.sched_policy == libc::SCHED_OTHER as u32 {
        wishes.sched_runtime = turn.as_nanos() as u64;
        // SAFETY: reads the structure, which says how large it is.
        let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &wishes, 0) };
    }
}

/// The bytes of this process that are in memory; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    // The second number is the count of resident pages.
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|numbers| numbers.split(' ').nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    pages * page_bytes()
}

pub(crate) fn page_bytes() -> u64 {
    // SAFETY: takes a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The bytes of memory that the machine has; 0 where the system does not say.
pub fn machine_memory_bytes() -> u64 {
    // SAFETY: takes a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }).unwrap_or(0) * page_bytes()
}

// ---- Local time -------------------------------------------------------------------------------------------

/// A moment on the wall clock of the machine's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year, such as 2026.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u32,
    /// The day of the month, 1 to 31.
    pub day: u32,
    /// The hour, 0 to 23.
    pub hour: u32,
    /// The minute, 0 to 59.
    pub minute: u32,
    /// The second, 0 to 60.
    pub second: u32,
}

/// The local time of a moment in seconds since 1970 in UTC; the start of 1970 if the system can not tell.
pub fn local_time(unix_seconds: i64) -> LocalTime {
    let time = unix_seconds as libc::time_t;
    // SAFETY: an all-zero `tm` is valid; `localtime_r` fills it or gives null and leaves it.
    let parts = unsafe {
        let mut parts: libc::tm = MaybeUninit::zeroed().assume_init();
        if libc::localtime_r(&time, &mut parts).is_null() {
            parts = MaybeUninit::zeroed().assume_init();
            parts.tm_year = 70;
            parts.tm_mday = 1;
        }
        parts
    };
    let number = |number: libc::c_int| u32::try_from(number).unwrap_or(0);
    LocalTime {
        year: parts.tm_year.saturating_add(1900),
        month: number(parts.tm_mon) + 1,
        day: number(parts.tm_mday),
        hour: number(parts.tm_hour),
        minute: number(parts.tm_min),
        second: number(parts.tm_sec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_arrives_in_the_pipe() {
        let mut signals = Signals::install().expect("a pipe and three handlers");
        assert_eq!(signals.wait(Some(Duration::ZERO)).expect("poll works"), None);
        for (number, signal) in HANDLED {
            // SAFETY: the handler is installed, so the signal does not end the process.
            unsafe { libc::raise(number) };
            assert_eq!(signals.wait(None).expect("poll works"), Some(signal));
        }
        signals.forgive_interrupt();
        // SAFETY: as above; the interrupt before was forgiven.
        unsafe { libc::raise(libc::SIGINT) };
        assert_eq!(signals.wait(None).expect("poll works"), Some(Signal::Interrupt));
    }

    #[test]
    fn limits_are_raised_and_never_lowered() {
        let (soft, hard) = raise_nofile_limit(0).expect("limits are readable");
        assert!(soft <= hard);
        assert_eq!(raise_nofile_limit(soft).expect("limits are readable"), (soft, hard));
        let (raised, _) = raise_nofile_limit(hard).expect("limits are readable");
        assert!(raised >= soft && raised <= hard);
    }

    #[test]
    fn time_and_memory_are_counted() {
        assert!(resident_bytes() > 100_000);
        assert!(machine_memory_bytes() > resident_bytes());
        let before = cpu_times();
        let mut sum = 0u64;
        while cpu_times().process == before.process {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_times().process.user >= before.process.user);
    }

    #[test]
    fn local_time_is_a_whole_number_of_minutes_from_utc() {
        let seconds = 1_795_293_859;
        let time = local_time(seconds);
        assert_eq!((time.year, time.month, time.second), (2026, 11, (seconds % 60) as u32));
        assert!((1..=31).contains(&time.day) && time.hour < 24 && time.minute < 60);
    }

    #[test]
    fn no_background_with_threads() {
        // The test harness itself is a thread beside the first one.
        let error = daemonize().expect_err("there are threads");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}
