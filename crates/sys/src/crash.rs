//! Crashes: what a signal such as SIGSEGV finds, kept for a thread that can write about it.
//!
//! The handler does only what is safe in one: it notes registers and return addresses, writes the addresses
//! as they are, and wakes the thread that waits in [`wait`]. It then waits until that thread has reported, at
//! most [`REPORT_TIME_MAX`], because the report may need a lock that the crashed thread holds. After that the
//! process dies by the signal. A fault within the handler skips what was being done; one in the reporting
//! thread ends the process.
//!
//! Threads have a stack of their own for handlers ([`prepare_thread`]), so that an overflow is reported too.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a report may take.
const REPORT_TIME_MAX: Duration = Duration::from_secs(20);
/// How long a thread may take to tell where it is.
const CAPTURE_TIME_MAX: Duration = Duration::from_millis(200);
/// Return addresses that are noted of a stack.
const FRAMES_MAX: usize = 100;
/// Words of the stack that are noted.
const STACK_WORDS: usize = 16;
/// The stack of a handler.
const HANDLER_STACK_BYTES: usize = 128 << 10;

/// The signals of a crash.
const CRASHES: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// Whether crashes are reported at all.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// The thread that has crashed; 0 for none.
static CRASHED: AtomicI32 = AtomicI32::new(0);
/// The thread that reports.
static REPORTER: AtomicI32 = AtomicI32::new(0);
/// The handler has noted everything.
static IS_NOTED: AtomicBool = AtomicBool::new(false);
/// The report is written.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);
/// The ends of the pipe that wakes the reporting thread.
static PIPE: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];
/// The log file; null for standard output.
static OUTPUT: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
/// What is known of the crash.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static SENDER: [AtomicI32; 2] = [AtomicI32::new(0), AtomicI32::new(0)];
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static REGISTERS: [AtomicU64; REGISTER_NAMES.len()] = [const { AtomicU64::new(0) }; REGISTER_NAMES.len()];
static FRAMES: Frames = Frames::new();
/// The address of the note, and that of its table of functions.
static NOTE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// The thread that is to tell where it is, and what it has told.
static CAPTURED: AtomicI32 = AtomicI32::new(0);
static CAPTURE: Frames = Frames::new();
static IS_CAPTURED: AtomicBool = AtomicBool::new(false);
/// A SIGALRM came from outside.
static ALARM: AtomicBool = AtomicBool::new(false);

thread_local! {
    static RUNNING: Cell<Option<&'static dyn Note>> = const { Cell::new(None) };
}

/// What a thread is doing, for the report of a crash.
pub trait Note {
    /// Says it. The thread that does it stands still meanwhile.
    fn describe(&self, tell: &mut dyn FnMut(Doing<'_>));
}

/// See [`Note`].
#[derive(Clone, Copy)]
pub struct Doing<'a> {
    /// The client's number.
    pub client: u64,
    /// The words of its command.
    pub words: &'a [&'a [u8]],
}

/// Runs `work`; a crash of this thread meanwhile is reported with `note`.
#[inline]
pub fn during<R>(note: &dyn Note, work: impl FnOnce() -> R) -> R {
    /// Puts back what was there before.
    struct Restore(Option<&'static dyn Note>);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            RUNNING.set(self.0);
        }
    }
    // SAFETY: it is forgotten when this function returns or unwinds, while `note` still lives.
    let lasting = unsafe { std::mem::transmute::<&dyn Note, &'static dyn Note>(note) };
    let _restore = Restore(RUNNING.replace(Some(lasting)));
    work()
}

/// Return addresses, innermost first.
struct Frames {
    addresses: [AtomicUsize; FRAMES_MAX],
    count: AtomicUsize,
}

impl Frames {
    const fn new() -> Self {
        Frames { addresses: [const { AtomicUsize::new(0) }; FRAMES_MAX], count: AtomicUsize::new(0) }
    }

    fn push(&self, address: usize) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let Some(place) = self.addresses.get(count) else { return false };
        place.store(address, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
        true
    }

    /// Those of the calling thread.
    fn note(&self) {
        self.count.store(0, Ordering::Relaxed);
        // SAFETY: the callback gets back the pointer to `self`, which outlives the call.
        unsafe { _Unwind_Backtrace(note_frame, std::ptr::from_ref(self).cast_mut().cast()) };
    }

    /// From `instruction` on, which a handler has interrupted; all if that is not among them.
    fn from(&self, instruction: usize) -> Vec<usize> {
        let count = self.count.load(Ordering::Acquire).min(FRAMES_MAX);
        let all = self.addresses[..count].iter().map(|address| address.load(Ordering::Relaxed));
        let all: Vec<usize> = all.collect();
        let first = all.iter().position(|&address| address == instruction).unwrap_or(0);
        all[first..].to_vec()
    }
}

unsafe extern "C" {
    // Of the unwinder that panics use.
    fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

extern "C" fn note_frame(context: *mut c_void, frames: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const END: c_int = 5;
    // SAFETY: the unwinder passes a context and the pointer that `Frames::note` has given it.
    let (address, frames) = unsafe { (_Unwind_GetIP(context), &*frames.cast::<Frames>()) };
    if address != 0 && frames.push(address) { GO_ON } else { END }
}

#[cfg(target_arch = "x86_64")]
const REGISTER_NAMES: [&str; 18] = [
    "RAX", "RBX", "RCX", "RDX", "RDI", "RSI", "RBP", "RSP", "R8 ", "R9 ", "R10", "R11", "R12", "R13", "R14",
    "R15", "RIP", "EFL",
];
#[cfg(target_arch = "x86_64")]
const STACK_AND_INSTRUCTION: (usize, usize) = (7, 16);

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> [u64; REGISTER_NAMES.len()] {
    const NUMBERS: [c_int; REGISTER_NAMES.len()] = [
        libc::REG_RAX,
        libc::REG_RBX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RDI,
        libc::REG_RSI,
        libc::REG_RBP,
        libc::REG_RSP,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
        libc::REG_RIP,
        libc::REG_EFL,
    ];
    NUMBERS.map(|number| context.uc_mcontext.gregs[number as usize] as u64)
}

#[cfg(target_arch = "aarch64")]
const REGISTER_NAMES: [&str; 34] = [
    "X00", "X01", "X02", "X03", "X04", "X05", "X06", "X07", "X08", "X09", "X10", "X11", "X12", "X13", "X14",
    "X15", "X16", "X17", "X18", "X19", "X20", "X21", "X22", "X23", "X24", "X25", "X26", "X27", "X28", "X29",
    "X30", "SP ", "PC ", "PST",
];
#[cfg(target_arch = "aarch64")]
const STACK_AND_INSTRUCTION: (usize, usize) = (31, 32);

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> [u64; REGISTER_NAMES.len()] {
    let machine = &context.uc_mcontext;
    let last = [machine.sp, machine.pc, machine.pstate];
    std::array::from_fn(|index| if index < 31 { machine.regs[index] } else { last[index - 31] })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REGISTER_NAMES: [&str; 2] = ["SP ", "PC "];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const STACK_AND_INSTRUCTION: (usize, usize) = (0, 1);

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn registers(_context: &libc::ucontext_t) -> [u64; REGISTER_NAMES.len()] {
    [0; REGISTER_NAMES.len()]
}

/// What a crash left.
pub struct Crash {
    /// The signal.
    pub signal: i32,
    /// Its `si_code`: above 0 where the processor has raised it.
    pub code: i32,
    /// The address that could not be accessed, or executed.
    pub address: usize,
    /// The process and the user that have sent the signal.
    pub sender: (i32, i32),
    /// The instruction that was running.
    pub instruction: usize,
    /// The thread.
    pub thread: i32,
    /// Its return addresses.
    pub frames: Vec<usize>,
    /// Its registers.
    pub registers: Vec<(&'static str, u64)>,
    /// The top of its stack: addresses and words.
    pub stack: Vec<(u64, u64)>,
}

impl Crash {
    /// Has the crashed thread's note tell what that was doing.
    pub fn describe(&self, tell: &mut dyn FnMut(Doing<'_>)) {
        let parts = [NOTE[0].load(Ordering::Relaxed), NOTE[1].load(Ordering::Relaxed)];
        if parts[0] != 0 {
            // SAFETY: these are the parts of a reference that the crashed thread had in `RUNNING`. It stands
            // still in the handler until the report is written, so the note lives.
            let note = unsafe { std::mem::transmute::<[usize; 2], &dyn Note>(parts) };
            note.describe(tell);
        }
    }
}

/// Has crashes be handled. The calling thread is the one that will [`wait`] for one.
pub fn install() -> io::Result<()> {
    let mut ends = [-1; 2];
    // SAFETY: `ends` takes two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    PIPE.iter().zip(ends).for_each(|(place, end)| place.store(end, Ordering::Release));
    REPORTER.store(thread_id(), Ordering::Release);
    prepare_thread();
    for signal in CRASHES {
        handle(
            signal,
            on_crash as *const () as usize,
            libc::SA_ONSTACK | libc::SA_SIGINFO | libc::SA_NODEFER,
        )?;
    }
    handle(
        libc::SIGUSR2,
        on_capture as *const () as usize,
        libc::SA_ONSTACK | libc::SA_SIGINFO | libc::SA_RESTART,
    )
}

/// Has SIGALRM be noted from now on; by itself it ends the process.
pub fn note_alarms() -> io::Result<()> {
    handle(libc::SIGALRM, on_alarm as *const () as usize, libc::SA_ONSTACK | libc::SA_RESTART)
}

/// Whether a SIGALRM has come since this was asked last.
pub fn take_alarm() -> bool {
    ALARM.swap(false, Ordering::Relaxed)
}

fn handle(signal: c_int, handler: usize, flags: c_int) -> io::Result<()> {
    // SAFETY: an all-zero `sigaction` is valid.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the handler is one of this module, which has the form that its flags say, or none.
    match unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether crashes are reported from now on.
pub fn enable(on: bool) {
    ENABLED.store(on, Ordering::Relaxed);
}

/// Where the handler writes: a file, or standard output. Called seldom: the former name is not freed, since
/// a handler may be using it.
pub fn set_output(path: Option<CString>) {
    OUTPUT.store(path.map_or(std::ptr::null_mut(), CString::into_raw), Ordering::Release);
}

/// Gives the calling thread a stack for handlers, and returns its number. That stack stays when it ends.
pub fn prepare_thread() -> i32 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: asks for new memory.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), HANDLER_STACK_BYTES, access, kind, -1, 0) };
    if memory != libc::MAP_FAILED {
        let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: HANDLER_STACK_BYTES };
        // SAFETY: the memory is as large as it says and used for nothing else.
        let _keeps_the_one_of_the_library = unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
    }
    thread_id()
}

fn thread_id() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

/// Waits for a crash. `None` if there will be none.
pub fn wait() -> Option<Crash> {
    let mut byte = 0u8;
    loop {
        // SAFETY: reads one byte into `byte`.
        let read = unsafe { libc::read(PIPE[0].load(Ordering::Acquire), (&raw mut byte).cast(), 1) };
        match read {
            1 => break,
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
    let values: Vec<u64> = REGISTERS.iter().map(|register| register.load(Ordering::Relaxed)).collect();
    let (stack, instruction) = STACK_AND_INSTRUCTION;
    let (top, instruction) = (values[stack], values[instruction] as usize);
    Some(Crash {
        signal: SIGNAL.load(Ordering::Relaxed),
        code: CODE.load(Ordering::Relaxed),
        address: ADDRESS.load(Ordering::Relaxed),
        sender: (SENDER[0].load(Ordering::Relaxed), SENDER[1].load(Ordering::Relaxed)),
        instruction,
        thread: CRASHED.load(Ordering::Relaxed),
        frames: FRAMES.from(instruction),
        registers: REGISTER_NAMES.into_iter().zip(values).collect(),
        stack: read_words(top),
    })
}

/// The words at an address, as many as are there.
fn read_words(address: u64) -> Vec<(u64, u64)> {
    let mut words = [0u64; STACK_WORDS];
    let bytes = size_of_val(&words);
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes };
    // SAFETY: writes to `words` only; an address that can not be read is an error.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    let count = usize::try_from(read).unwrap_or(0) / size_of::<u64>();
    words
        .into_iter()
        .take(count)
        .enumerate()
        .map(|(index, word)| (address + index as u64 * 8, word))
        .collect()
}

/// Says that the report is written: the process ends.
pub fn reported() {
    IS_REPORTED.store(true, Ordering::Release);
}

/// The return addresses of another thread; `None` if it does not answer.
pub fn capture(thread: i32) -> Option<Vec<usize>> {
    IS_CAPTURED.store(false, Ordering::Relaxed);
    CAPTURED.store(thread, Ordering::Release);
    send(thread, libc::SIGUSR2);
    let began = Instant::now();
    while !IS_CAPTURED.load(Ordering::Acquire) {
        if began.elapsed() > CAPTURE_TIME_MAX {
            CAPTURED.store(0, Ordering::Release);
            return None;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    CAPTURED.store(0, Ordering::Release);
    Some(CAPTURE.from(ADDRESS_OF_CAPTURED.load(Ordering::Relaxed)))
}

/// The instruction at which the captured thread was interrupted.
static ADDRESS_OF_CAPTURED: AtomicUsize = AtomicUsize::new(0);

/// The other threads of this process, with their names.
pub fn other_threads() -> Vec<(i32, String)> {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let own = thread_id();
    let threads = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let name = |thread: i32| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
        name.map(|name| name.trim_end().to_owned()).unwrap_or_default()
    };
    threads.filter(|&thread| thread != own).map(|thread| (thread, name(thread))).collect()
}

/// Accesses memory that can not be accessed.
pub fn fault() {
    // SAFETY: the page belongs to nobody and nothing may be written there; the process ends by it.
    unsafe {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, kind, -1, 0);
        page.cast::<u8>().write_volatile(b'x');
    }
}

fn send(thread: i32, signal: c_int) {
    // SAFETY: takes numbers.
    let _thread_may_have_ended = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
}

// ---- Handlers ---------------------------------------------------------------------------------------------

extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let thread = thread_id();
    let first = CRASHED.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire);
    match first {
        Ok(_) if !ENABLED.load(Ordering::Relaxed) => return die(signal),
        Ok(_) => {}
        Err(first) if first == thread && !IS_NOTED.load(Ordering::Acquire) => {
            // What was being noted can not be: the report goes without.
            finish();
            return die(SIGNAL.load(Ordering::Relaxed));
        }
        Err(first) if first == thread || thread == REPORTER.load(Ordering::Relaxed) => return die(signal),
        // The process ends soon.
        Err(_) => loop {
            pause();
        },
    }
    SIGNAL.store(signal, Ordering::Relaxed);
    // SAFETY: the system passes both to handlers with SA_SIGINFO.
    let (info, context) = unsafe { (&*info, &*context.cast::<libc::ucontext_t>()) };
    CODE.store(info.si_code, Ordering::Relaxed);
    if info.si_code > 0 {
        // SAFETY: such a signal has an address.
        ADDRESS.store(unsafe { info.si_addr() } as usize, Ordering::Relaxed);
    } else {
        // SAFETY: such a signal has a sender.
        let (process, user) = unsafe { (info.si_pid(), info.si_uid()) };
        SENDER[0].store(process, Ordering::Relaxed);
        SENDER[1].store(user as i32, Ordering::Relaxed);
    }
    REGISTERS.iter().zip(registers(context)).for_each(|(place, value)| place.store(value, Ordering::Relaxed));
    if let Some(note) = RUNNING.get() {
        // SAFETY: a reference to a trait object is two words.
        let parts = unsafe { std::mem::transmute::<&dyn Note, [usize; 2]>(note) };
        NOTE.iter().zip(parts).for_each(|(place, part)| place.store(part, Ordering::Relaxed));
    }
    write_out(b"\n\n=== REDIS BUG REPORT START: Cut & paste starting from here ===\n");
    FRAMES.note();
    finish();
    die(signal);
}

/// Writes the addresses as they are and has the report be written.
fn finish() {
    IS_NOTED.store(true, Ordering::Release);
    let mut line = Line::default();
    line.put(b"Return addresses:");
    let count = FRAMES.count.load(Ordering::Acquire).min(FRAMES_MAX);
    for address in &FRAMES.addresses[..count] {
        line.put(b" 0x");
        line.put_hexadecimal(address.load(Ordering::Relaxed) as u64);
    }
    line.put(b"\n");
    write_out(&line.bytes[..line.length]);
    // SAFETY: writes one byte that is there.
    let _the_wait_below_ends =
        unsafe { libc::write(PIPE[1].load(Ordering::Acquire), b"!".as_ptr().cast(), 1) };
    let steps = REPORT_TIME_MAX.as_millis() / PAUSE.as_millis();
    for _ in 0..steps {
        if IS_REPORTED.load(Ordering::Acquire) {
            return;
        }
        pause();
    }
    write_out(
        b"\nThe report could not be completed.\n\n\
          === REDIS BUG REPORT END. Make sure to include from START to END. ===\n",
    );
}

/// Has the signal end the process when the handler has returned.
fn die(signal: c_int) {
    let _default_is_always_possible = handle(signal, libc::SIG_DFL, 0);
    // SAFETY: blocks a signal for this thread, so that it comes when the handler has returned.
    unsafe {
        let mut set: libc::sigset_t = MaybeUninit::zeroed().assume_init();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    send(thread_id(), signal);
}

const PAUSE: Duration = Duration::from_millis(5);

fn pause() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: PAUSE.as_nanos() as _ };
    // SAFETY: reads `time`.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

extern "C" fn on_capture(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    if CAPTURED.load(Ordering::Acquire) == thread_id() {
        // SAFETY: the system passes it to handlers with SA_SIGINFO.
        let registers = registers(unsafe { &*context.cast::<libc::ucontext_t>() });
        ADDRESS_OF_CAPTURED.store(registers[STACK_AND_INSTRUCTION.1] as usize, Ordering::Relaxed);
        CAPTURE.note();
        IS_CAPTURED.store(true, Ordering::Release);
    }
}

extern "C" fn on_alarm(_signal: c_int) {
    ALARM.store(true, Ordering::Relaxed);
}

/// A line in memory that needs no allocation.
struct Line {
    bytes: [u8; 2048],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Line { bytes: [0; 2048], length: 0 }
    }
}

impl Line {
    fn put(&mut self, bytes: &[u8]) {
        let spare = &mut self.bytes[self.length..];
        let count = spare.len().min(bytes.len());
        spare[..count].copy_from_slice(&bytes[..count]);
        self.length += count;
    }

    fn put_hexadecimal(&mut self, number: u64) {
        let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            self.put(&[b"0123456789abcdef"[(number >> (digit * 4)) as usize & 15]]);
        }
    }
}

/// Writes into the log, with nothing but system calls.
fn write_out(bytes: &[u8]) {
    let path = OUTPUT.load(Ordering::Acquire);
    // SAFETY: the path ends with a zero and is never freed; the descriptor is open for as long as it is used.
    unsafe {
        let descriptor = match path.is_null() {
            true => libc::STDOUT_FILENO,
            false => {
                let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
                libc::open(CStr::from_ptr(path).as_ptr(), flags, 0o644)
            }
        };
        let _there_is_nowhere_to_complain = libc::write(descriptor, bytes.as_ptr().cast(), bytes.len());
        if !path.is_null() {
            libc::close(descriptor);
        }
    }
}
