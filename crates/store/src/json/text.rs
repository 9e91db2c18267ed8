//! Documents as JSON text.

use std::fmt::Write as _;

use mantissa_number::{FloatText, format_f64, write_i64, write_u64};

use super::packed::Number;
use super::view::{Shape, View};

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
}

impl View<'_> {
    /// Appends the text.
    pub fn write(self, out: &mut Vec<u8>) {
        self.write_with(&Layout::default(), 0, out);
    }

    /// Appends the text with this layout, inside `depth` containers.
    pub fn write_with(self, layout: &Layout<'_>, depth: usize, out: &mut Vec<u8>) {
        match self.shape() {
            Shape::Null => out.extend_from_slice(b"null"),
            Shape::Boolean(true) => out.extend_from_slice(b"true"),
            Shape::Boolean(false) => out.extend_from_slice(b"false"),
            Shape::Number(number) => write_number(number, out),
            Shape::String(text) => write_string(text, out),
            Shape::Array => {
                write_list(b"[]", self.elements(), layout, depth, out, |element, out| {
                    element.write_with(layout, depth + 1, out);
                });
            }
            Shape::Object => {
                write_list(b"{}", self.members(), layout, depth, out, |(key, value), out| {
                    write_string(key, out);
                    out.push(b':');
                    out.extend_from_slice(layout.space);
                    value.write_with(layout, depth + 1, out);
                });
            }
        }
    }
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
    out.push(b'"');
    let mut rest = text;
    loop {
        let plain = super::parse::plain_end(rest, 0);
        out.extend_from_slice(&rest[..plain]);
        let Some(&byte) = rest.get(plain) else { break };
        match ESCAPES[usize::from(byte)] {
            b'u' => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', DIGITS[high], DIGITS[low]]);
            }
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        rest = &rest[plain + 1..];
    }
    out.push(b'"');
}
