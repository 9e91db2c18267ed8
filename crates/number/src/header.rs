//! The C header's functions, and the checks that turn them safe.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::slice;

/// `mn_result`: where the number ends, and how it went.
#[repr(C)]
struct Answer {
    end: *const c_char,
    status: u32,
}

const INVALID: u32 = 1;

/// `MN_F64_MAX` and `MN_F32_MAX`: a printer may scribble over this many bytes.
pub(crate) const FLOAT_BUFFER: usize = 40;

unsafe extern "C" {
    fn mn_parse_f64(first: *const c_char, last: *const c_char, out: *mut f64) -> Answer;
    fn mn_parse_f32(first: *const c_char, last: *const c_char, out: *mut f32) -> Answer;
    fn mn_write_f64(out: *mut c_char, value: f64) -> *mut c_char;
    fn mn_write_f32(out: *mut c_char, value: f32) -> *mut c_char;
    fn mn_try_write_score(out: *mut c_char, value: f64) -> *mut c_char;
    fn mn_encode_f64_be(out: *mut u8, values: *const f64, count: usize) -> usize;
    fn mn_encode_f64_le(out: *mut u8, values: *const f64, count: usize) -> usize;
    fn mn_encode_f32_be(out: *mut u8, values: *const f32, count: usize) -> usize;
    fn mn_encode_f32_le(out: *mut u8, values: *const f32, count: usize) -> usize;
    fn mn_decode_f64_be(out: *mut f64, bytes: *const u8, count: usize) -> usize;
    fn mn_decode_f64_le(out: *mut f64, bytes: *const u8, count: usize) -> usize;
    fn mn_decode_f32_be(out: *mut f32, bytes: *const u8, count: usize) -> usize;
    fn mn_decode_f32_le(out: *mut f32, bytes: *const u8, count: usize) -> usize;
}

macro_rules! parser {
    ($name:ident, $function:ident, $number:ty) => {
        /// Reads the whole text.
        #[inline]
        pub(crate) fn $name(text: &[u8]) -> Option<$number> {
            let range = text.as_ptr_range();
            let mut value: $number = 0.0;
            // SAFETY: both pointers delimit `text`, of which the function reads nothing outside; `value` is
            // writable.
            let answer = unsafe { $function(range.start.cast(), range.end.cast(), &mut value) };
            (answer.status != INVALID && answer.end == range.end.cast()).then_some(value)
        }
    };
}

parser!(parse_f64, mn_parse_f64, f64);
parser!(parse_f32, mn_parse_f32, f32);

macro_rules! printer {
    ($name:ident, $function:ident, $number:ty) => {
        /// Prints into the buffer and returns the text.
        #[inline]
        pub(crate) fn $name(buffer: &mut [MaybeUninit<u8>; FLOAT_BUFFER], value: $number) -> &str {
            let start: *mut c_char = buffer.as_mut_ptr().cast();
            // SAFETY: the buffer has the size that the function asks for. The end that it returns lies
            // inside, and it fills what comes before that with ASCII.
            unsafe {
                let length = $function(start, value).offset_from_unsigned(start);
                debug_assert!(length <= FLOAT_BUFFER);
                str::from_utf8_unchecked(slice::from_raw_parts(start.cast(), length))
            }
        }
    };
}

/// Prints into a buffer of bytes that are there, and returns the length of the text.
#[inline]
pub(crate) fn print_f64(buffer: &mut [u8; FLOAT_BUFFER], value: f64) -> usize {
    let start: *mut c_char = buffer.as_mut_ptr().cast();
    // SAFETY: the buffer has the size that the function asks for, and the end that it returns lies inside.
    unsafe { mn_write_f64(start, value).offset_from_unsigned(start) }
}

printer!(format_f64, mn_write_f64, f64);
printer!(format_f32, mn_write_f32, f32);

/// Prints a fraction as Redis prints a score; `None` where that takes Redis's own algorithm.
#[inline]
pub(crate) fn try_format_score(buffer: &mut [u8; FLOAT_BUFFER], value: f64) -> Option<usize> {
    let start: *mut c_char = buffer.as_mut_ptr().cast();
    // SAFETY: the buffer has the size that the function asks for.
    let end = unsafe { mn_try_write_score(start, value) };
    // The end lies inside the buffer or is null.
    (!end.is_null()).then(|| end.addr() - start.addr())
}

macro_rules! bulk {
    ($encode:ident, $mn_encode:ident, $decode:ident, $mn_decode:ident, $number:ty) => {
        /// Appends the numbers as bytes.
        pub(crate) fn $encode(out: &mut Vec<u8>, values: &[$number]) {
            let size = size_of_val(values);
            out.reserve(size);
            // SAFETY: the reserved capacity takes `size` bytes, which the function fills before the length
            // counts them; the vector is borrowed mutably, so it does not overlap `values`.
            unsafe {
                let written = $mn_encode(out.as_mut_ptr().add(out.len()), values.as_ptr(), values.len());
                debug_assert_eq!(written, size);
                out.set_len(out.len() + size);
            }
        }

        /// Appends the numbers that the bytes hold; bytes left over at the end are ignored.
        pub(crate) fn $decode(out: &mut Vec<$number>, bytes: &[u8]) {
            let count = bytes.len() / size_of::<$number>();
            out.reserve(count);
            // SAFETY: the reserved capacity takes `count` numbers, which the function fills from as many
            // whole words of `bytes` before the length counts them; any bits are a valid number.
            unsafe {
                let read = $mn_decode(out.as_mut_ptr().add(out.len()), bytes.as_ptr(), count);
                debug_assert_eq!(read, count * size_of::<$number>());
                out.set_len(out.len() + count);
            }
        }
    };
}

bulk!(encode_f64_be, mn_encode_f64_be, decode_f64_be, mn_decode_f64_be, f64);
bulk!(encode_f64_le, mn_encode_f64_le, decode_f64_le, mn_decode_f64_le, f64);
bulk!(encode_f32_be, mn_encode_f32_be, decode_f32_be, mn_decode_f32_be, f32);
bulk!(encode_f32_le, mn_encode_f32_le, decode_f32_le, mn_decode_f32_le, f32);
