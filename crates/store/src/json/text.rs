//! Documents as JSON text.

use std::fmt::Write as _;
use std::ops::Range;

use mantissa_number::{FloatText, INTEGER_TEXT_MAX, format_f64, format_i64, write_i64, write_u64};

use super::packed::{self, ARRAY, FALSE, Header, NULL, Number, OBJECT, TRUE};
use super::plain;
use super::view::View;

/// What stands between the parts of a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout<'a> {
    /// Before each element, once for each container around it.
    pub indent: &'a [u8],
    /// Before each element and before the end of a container.
    pub newline: &'a [u8],
    /// After the colon of a member.
    pub space: &'a [u8],
}

impl Layout<'_> {
    fn break_line(&self, depth: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.newline);
        (0..depth).for_each(|_| out.extend_from_slice(self.indent));
    }

    fn is_plain(&self) -> bool {
        self.indent.is_empty() && self.newline.is_empty()
    }

    fn is_none(&self) -> bool {
        self.is_plain() && self.space.is_empty()
    }
}

impl View<'_> {
    /// Appends the text.
    pub fn write(self, out: &mut Vec<u8>) {
        write_plain(self.bytes, out);
    }

    /// Appends the text with this layout, inside `depth` containers.
    pub fn write_with(self, layout: &Layout<'_>, depth: usize, out: &mut Vec<u8>) {
        match packed::container(self.bytes) {
            Some(_) if layout.is_none() => self.write(out),
            Some(ARRAY) => write_list(b"[]", self.elements(), layout, depth, out, |element, out| {
                element.write_with(layout, depth + 1, out);
            }),
            Some(_) => write_list(b"{}", self.members(), layout, depth, out, |(key, value), out| {
                write_string(key, out);
                out.push(b':');
                out.extend_from_slice(layout.space);
                value.write_with(layout, depth + 1, out);
            }),
            None => drop(write_scalar(self.bytes, out)),
        }
    }
}

/// Appends the text of the value that begins here. Returns the bytes that it takes. Recursion is as deep as
/// values are nested.
fn write_plain(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    let Some(kind) = packed::container(bytes) else { return write_scalar(bytes, out) };
    let Header { size: mut at, count, .. } = Header::read(bytes);
    out.push(if kind == ARRAY { b'[' } else { b'{' });
    for index in 0..count {
        if index > 0 {
            out.push(b',');
        }
        if kind == OBJECT {
            at += write_scalar(&bytes[at..], out);
            out.push(b':');
        }
        at += write_plain(&bytes[at..], out);
    }
    out.push(if kind == ARRAY { b']' } else { b'}' });
    at
}

/// Appends the text of the value that begins here, which is no container. Returns the bytes that it takes.
#[inline]
fn write_scalar(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    if packed::is_string(bytes) {
        let text = packed::string_range(bytes);
        let end = text.end;
        write_escaped(bytes, text, out);
        return end;
    }
    match bytes[0] {
        NULL => out.extend_from_slice(b"null"),
        FALSE => out.extend_from_slice(b"false"),
        TRUE => out.extend_from_slice(b"true"),
        _ => match packed::decimal(bytes) {
            Some((integer, scale)) if scale <= PLAIN_SCALE_MAX => write_decimal(integer, scale, out),
            _ => write_number(packed::number(bytes).unwrap_or(Number::Integer(0)), out),
        },
    }
    packed::size(bytes)
}

/// Appends a list between two brackets, inside `depth` containers.
pub fn write_list<T>(
    brackets: &[u8; 2],
    items: impl Iterator<Item = T>,
    layout: &Layout<'_>,
    depth: usize,
    out: &mut Vec<u8>,
    mut write: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(brackets[0]);
    let is_plain = layout.is_plain();
    let mut is_empty = true;
    for item in items {
        if !is_empty {
            out.push(b',');
        }
        is_empty = false;
        if !is_plain {
            layout.break_line(depth + 1, out);
        }
        write(item, out);
    }
    if !is_empty && !is_plain {
        layout.break_line(depth, out);
    }
    out.push(brackets[1]);
}

/// Appends a number: a double has a point or an exponent, and the shortest digits that read back as the same.
pub fn write_number(number: Number, out: &mut Vec<u8>) {
    match number {
        Number::Integer(value) => write_i64(out, value),
        Number::Unsigned(value) => write_u64(out, value),
        Number::Double(value) => write_double(value, out),
    }
}

/// With as many decimal places no number but zero is below [`PLAIN_MIN`].
const PLAIN_SCALE_MAX: usize = 5;

/// Appends the double `integer` / 10^`scale`: its shortest digits are those of the integer.
fn write_decimal(integer: i64, scale: usize, out: &mut Vec<u8>) {
    let mut digits = [0; INTEGER_TEXT_MAX];
    let text = format_i64(&mut digits, integer.wrapping_abs());
    if integer < 0 {
        out.push(b'-');
    }
    match text.len().checked_sub(scale) {
        Some(whole @ 1..) => {
            out.extend_from_slice(&text[..whole]);
            out.push(b'.');
            out.extend_from_slice(if scale == 0 { b"0" } else { &text[whole..] });
        }
        _ => {
            out.extend_from_slice(b"0.");
            out.extend_from_slice(&b"000000000"[..scale - text.len()]);
            out.extend_from_slice(text);
        }
    }
}

/// The exponents of ten, of the first digit, whose doubles have no exponent: from 1e-5 up to 1e16.
const PLAIN_MIN: f64 = 1e-5;
const PLAIN_END: f64 = 1e16;

fn write_double(value: f64, out: &mut Vec<u8>) {
    let mut buffer = FloatText::new();
    let text = format_f64(&mut buffer, value);
    let magnitude = value.abs();
    if (PLAIN_END..1e17).contains(&magnitude) {
        // The number core prints these in place; here they have an exponent of 16.
        let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
        let significant = digits.trim_end_matches('0');
        let (first, rest) = significant.split_at(1);
        out.extend_from_slice(sign.as_bytes());
        out.extend_from_slice(first.as_bytes());
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest.as_bytes());
        }
        out.extend_from_slice(b"e16");
        return;
    }
    if value == 0.0 || (PLAIN_MIN..PLAIN_END).contains(&magnitude) {
        out.extend_from_slice(text.as_bytes());
        if !text.contains('.') {
            out.extend_from_slice(b".0");
        }
        return;
    }
    // The exponent has neither a plus nor leading zeros.
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    out.extend_from_slice(digits.as_bytes());
    out.push(b'e');
    let mut written = String::new();
    let _infallible = write!(written, "{exponent}");
    out.extend_from_slice(written.as_bytes());
}

/// For each byte what stands behind the backslash; 0 if nothing has to.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = b'u';
        byte += 1;
    }
    escapes[8] = b'b';
    escapes[9] = b't';
    escapes[10] = b'n';
    escapes[12] = b'f';
    escapes[13] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

/// Appends a string between quotes, with the escapes that JSON asks for.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    write_escaped(text, 0..text.len(), out);
}

/// The same for a part of what can be read.
#[inline]
fn write_escaped(bytes: &[u8], text: Range<usize>, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut at = text.start;
    loop {
        (at, _) = plain::append(bytes, at, text.end, out);
        if at == text.end {
            break;
        }
        let byte = bytes[at];
        match ESCAPES[usize::from(byte)] {
            b'u' => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', DIGITS[high], DIGITS[low]]);
            }
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        at += 1;
    }
    out.push(b'"');
}
