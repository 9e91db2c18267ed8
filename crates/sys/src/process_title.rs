//! The title of this process: what `ps` shows, and `/proc/PID/cmdline` holds.
//!
//! The kernel shows the memory where it has put the arguments of the program, and that of the environment
//! behind it where the text goes on there. [`prepare`] moves both to other places, so that [`set`] may write
//! to this memory. Nothing else does: what reads arguments and environment finds the copies.

use std::ffi::{CStr, CString, c_char};
use std::ops::Range;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::process::thread_count;

/// Bytes of the longest title, as with redis-server.
const TITLE_BYTES_MAX: usize = 255;

unsafe extern "C" {
    /// The environment: pointers to `NAME=VALUE`, and a null pointer at the end.
    static mut environ: *mut *mut c_char;
}

/// The memory that holds the title.
struct Room {
    start: *mut u8,
    bytes: usize,
    /// Bytes from the start on that have been given to titles, at first those of the arguments. What follows
    /// still shows the environment in `/proc/PID/environ`.
    used: usize,
}

// SAFETY: the memory belongs to the process for its whole life, and only the owner of this value uses it.
unsafe impl Send for Room {}

static ROOM: Mutex<Option<Room>> = Mutex::new(None);

/// Makes room for titles. Does nothing where that has been done, where there are other threads, which might
/// be reading the environment, and where the memory does not look as Linux lays it out.
pub fn prepare() {
    let mut room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
    if room.is_none() && thread_count() == 1 {
        *room = layout().and_then(|layout| vacate(&layout));
    }
}

/// Shows a title, cut off after 255 bytes or where the memory ends. Does nothing before [`prepare`].
pub fn set(title: &str) {
    let mut room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(room) = &mut *room else { return };
    let len = title.len().min(TITLE_BYTES_MAX).min(room.bytes - 1);
    room.used = room.used.max(len + 1);
    // SAFETY: the memory is as long as that, and the lock makes this the only one to write to it.
    unsafe {
        ptr::copy_nonoverlapping(title.as_ptr(), room.start, len);
        ptr::write_bytes(room.start.add(len), 0, room.used - len);
    }
}

/// Addresses of what the kernel has put on the stack of a new process.
struct Layout {
    /// The number of arguments. The pointers to them follow, a null pointer, those to the environment.
    count: usize,
    arguments: Range<usize>,
    environment: Range<usize>,
}

/// The layout that proc(5) tells.
fn layout() -> Option<Layout> {
    let stat = std::fs::read("/proc/self/stat").ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name of the program, in parentheses, is the second field. It may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let field = |number: usize| fields.split_ascii_whitespace().nth(number - 3)?.parse::<usize>().ok();
    Some(Layout { count: field(28)?, arguments: field(48)?..field(49)?, environment: field(50)?..field(51)? })
}

/// Moves the arguments and the environment away. Returns the memory where they were.
fn vacate(layout: &Layout) -> Option<Room> {
    const POINTER_BYTES: usize = size_of::<*mut c_char>();
    let count = std::env::args_os().len();
    // SAFETY: there is one thread, so nobody changes it.
    let variables = unsafe { environ };
    let expected = layout.count + POINTER_BYTES * (1 + count + 1);
    if count == 0 || variables.is_null() || variables.addr() != expected || layout.arguments.is_empty() {
        return None;
    }
    let arguments = variables.wrapping_sub(count + 1);
    // SAFETY: the pointers to the arguments lie right before those to the environment. Each points to a text
    // with a zero at its end. The copies are never freed, and there is no other thread.
    unsafe {
        let start = (*arguments).cast::<u8>();
        if start.addr() != layout.arguments.start || !(*variables.sub(1)).is_null() {
            return None;
        }
        for index in 0..count {
            let argument = arguments.add(index);
            *argument = copy_of(*argument);
        }
        let mut copies = Vec::new();
        let mut variable = variables;
        while !(*variable).is_null() {
            copies.push(copy_of(*variable));
            variable = variable.add(1);
        }
        copies.push(ptr::null_mut());
        environ = copies.leak().as_mut_ptr();
        let is_adjacent = layout.environment.start == layout.arguments.end;
        let end = if is_adjacent { layout.environment.end } else { layout.arguments.end };
        Some(Room { start, bytes: end - layout.arguments.start, used: layout.arguments.len() })
    }
}

/// A copy of a text that is never freed.
///
/// # Safety
///
/// The text has a zero at its end.
unsafe fn copy_of(text: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    CString::from(unsafe { CStr::from_ptr(text) }).into_raw()
}
