//! This process: going to the background, the limit of open files, processor time, memory.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
    rustix::process::setsid()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// The threads of this process; 1 where the system does not say.
pub(crate) fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map(|entries| entries.count()).unwrap_or(1)
}

/// Raises the limit of open files to at least `wanted`, or as far as the system lets us, and gives the limit
/// that then holds: (soft, hard); `u64::MAX` for no limit. A process with the right to may pass the hard
/// limit.
pub fn raise_nofile_limit(wanted: u64) -> io::Result<(u64, u64)> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|soft| soft < wanted) {
        let hard = limit.maximum.map(|hard| hard.max(wanted));
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: hard });
        if raised.is_err() {
            // Some systems refuse even the hard limit that they report; the soft one then stays as it was.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        }
        limit = getrlimit(Resource::Nofile);
    }
    Ok((limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX)))
}

/// The file in which the kernel keeps how much sooner or later its out-of-memory killer chooses this process.
const OOM_SCORE_FILE: &str = "/proc/self/oom_score_adj";

/// How much sooner, or if negative later, the kernel's out-of-memory killer chooses this process, from -1000
/// to 1000.
pub fn oom_score_adj() -> io::Result<i32> {
    let text = std::fs::read_to_string(OOM_SCORE_FILE)?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Sets what [`oom_score_adj`] tells. Without the right to, it can not be set below what was given to the
/// process.
pub fn set_oom_score_adj(value: i32) -> io::Result<()> {
    std::fs::write(OOM_SCORE_FILE, value.to_string())
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

/// The bytes of this process that are in memory; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    // The second number is the count of resident pages.
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|numbers| numbers.split(' ').nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    pages * page_bytes() as u64
}

/// The bytes of a page of memory.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// The bytes of memory that the machine had when this was first asked.
pub fn machine_memory_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let machine = rustix::system::sysinfo();
        // The types of the fields differ between architectures.
        #[allow(clippy::useless_conversion)]
        let (units, unit_bytes) = (u64::from(machine.totalram), u64::from(machine.mem_unit));
        units * unit_bytes
    })
}

/// The name of this machine; `None` if it has none.
pub fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The bytes of memory that can be used without swapping, by what the kernel and the control group of this
/// process say; `None` if they say nothing.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.trim().trim_end_matches(" kB").parse::<u64>().ok()?.saturating_mul(1024);
    Some(group_memory().map_or(machine, |group| group.min(machine)))
}

/// What the limit of the control group leaves.
fn group_memory() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup{path}/{name}")).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn no_background_with_threads() {
        // The test harness itself is a thread beside the first one.
        let error = daemonize().expect_err("there are threads");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}
