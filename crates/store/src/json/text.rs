//! Documents as JSON text.

use std::fmt::Write as _;
use std::ops::Range;

use mantissa_number::{FloatText, INTEGER_TEXT_MAX, format_f64, format_i64, write_u64};

use super::packed::{self, ARRAY, FALSE, Header, NULL, Number, TRUE};
use super::plain;
use super::tree::{Part, Tree};
use super::view::{Form, Shape, View};

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
        match self.form {
            Form::Packed(bytes) => _ = write_plain(bytes, 0, out),
            Form::Tree(tree) => write_tree(tree, 0, out),
        }
        out.pop();
    }

    /// Appends the text with this layout, inside `depth` containers.
    pub fn write_with(self, layout: &Layout<'_>, depth: usize, out: &mut Vec<u8>) {
        match self.shape() {
            Shape::Array | Shape::Object if layout.is_none() => self.write(out),
            Shape::Array => {
                let mut list = ListWriter::begin(b"[]", layout, depth, out);
                for element in self.elements() {
                    list.item(out);
                    element.write_with(layout, depth + 1, out);
                }
                list.end(out);
            }
            Shape::Object => {
                let mut list = ListWriter::begin(b"{}", layout, depth, out);
                for (key, value) in self.members() {
                    list.item(out);
                    write_string(key, out);
                    out.push(b':');
                    out.extend_from_slice(layout.space);
                    value.write_with(layout, depth + 1, out);
                }
                list.end(out);
            }
            _ => self.write(out),
        }
    }
}

/// Appends the text of a tree, and `behind`. Recursion is as deep as values are nested.
fn write_tree(tree: &Tree, behind: u8, out: &mut Vec<u8>) {
    let is_object = tree.kind() != ARRAY;
    out.push(if is_object { b'{' } else { b'[' });
    for part in tree.parts() {
        if let Part::Tree { key, tree } = part {
            if is_object {
                write_scalar(key.payload(), b':', out);
            }
            write_tree(tree, b',', out);
        }
        let (children, mut at) = (part.children(), 0);
        while at < children.len() {
            if is_object {
                at += write_scalar(&children[at..], b':', out);
            }
            at += write_plain(&children[at..], b',', out);
        }
    }
    if tree.len() > 0 {
        out.pop();
    }
    out.extend_from_slice(&[if is_object { b'}' } else { b']' }, behind]);
}

/// Appends the text of the value that begins here, and `behind`. Returns the bytes that the value takes.
/// Recursion is as deep as values are nested.
fn write_plain(bytes: &[u8], behind: u8, out: &mut Vec<u8>) -> usize {
    let (is_object, close) = match packed::container(bytes) {
        None => return write_scalar(bytes, behind, out),
        Some(ARRAY) => (false, b']'),
        Some(_) => (true, b'}'),
    };
    let Header { size: mut at, count, .. } = Header::read(bytes);
    out.push(if is_object { b'{' } else { b'[' });
    for _ in 0..count {
        if is_object {
            at += write_scalar(&bytes[at..], b':', out);
        }
        at += write_plain(&bytes[at..], b',', out);
    }
    if count > 0 {
        out.pop();
    }
    plain::push(out, &[close, behind], 2);
    at
}

/// The text of an integer that the tag holds.
const fn small_text(value: i64) -> [u8; 4] {
    let (magnitude, minus) = (value.unsigned_abs(), (value < 0) as usize);
    let (tens, ones) = (b'0' + (magnitude / 10) as u8, b'0' + (magnitude % 10) as u8);
    let mut text = [b'-'; 4];
    let digits = if magnitude < 10 { 1 } else { 2 };
    text[minus] = if digits == 1 { ones } else { tens };
    if digits == 2 {
        text[minus + 1] = ones;
    }
    // Its length.
    text[3] = (minus + digits) as u8;
    text
}

/// The texts of the integers that a tag holds, and the length of each.
static SMALL_TEXTS: [[u8; 4]; packed::SMALL_COUNT] = {
    let mut texts = [[0; 4]; packed::SMALL_COUNT];
    let mut index = 0;
    while index < texts.len() {
        texts[index] = small_text(packed::SMALL_MIN + index as i64);
        index += 1;
    }
    texts
};

/// Appends the text of the value that begins here, which is no container, and `behind`. Returns the bytes
/// that the value takes.
#[inline]
fn write_scalar(bytes: &[u8], behind: u8, out: &mut Vec<u8>) -> usize {
    match bytes[0] {
        tag @ packed::SHORT_STRING.. => {
            let end = 1 + usize::from(tag - packed::SHORT_STRING);
            write_escaped(bytes, 1..end, behind, out);
            return end;
        }
        tag @ packed::SMALL.. => {
            let text = &SMALL_TEXTS[usize::from(tag - packed::SMALL)];
            plain::push(out, text, usize::from(text[3]));
        }
        NULL => plain::push(out, b"null", 4),
        FALSE => plain::push(out, b"false", 5),
        TRUE => plain::push(out, b"true", 4),
        _ => match packed::decimal(bytes) {
            Some((integer, scale)) if scale <= PLAIN_SCALE_MAX => write_decimal(integer, scale, out),
            _ => match packed::number(bytes) {
                Some(number) => write_number(number, out),
                None => write_long(bytes, packed::string_range(bytes), out),
            },
        },
    }
    out.push(behind);
    packed::size(bytes)
}

/// Writes a list between two brackets, item by item.
pub struct ListWriter<'l> {
    layout: &'l Layout<'l>,
    depth: usize,
    close: u8,
    is_empty: bool,
}

impl<'l> ListWriter<'l> {
    /// Begins a list that stands inside `depth` containers.
    pub fn begin(brackets: &[u8; 2], layout: &'l Layout<'l>, depth: usize, out: &mut Vec<u8>) -> Self {
        out.push(brackets[0]);
        ListWriter { layout, depth, close: brackets[1], is_empty: true }
    }

    /// Begins an item, which is to be written next.
    #[inline]
    pub fn item(&mut self, out: &mut Vec<u8>) {
        if !self.is_empty {
            out.push(b',');
        }
        self.is_empty = false;
        if !self.layout.is_plain() {
            self.layout.break_line(self.depth + 1, out);
        }
    }

    /// Ends the list.
    pub fn end(self, out: &mut Vec<u8>) {
        if !self.is_empty && !self.layout.is_plain() {
            self.layout.break_line(self.depth, out);
        }
        out.push(self.close);
    }
}

/// Appends a number: a double has a point or an exponent, and the shortest digits that read back as the same.
pub fn write_number(number: Number, out: &mut Vec<u8>) {
    match number {
        Number::Integer(value) => {
            let mut digits = [0; INTEGER_TEXT_MAX];
            let len = format_i64(&mut digits, value).len();
            plain::push(out, &digits, len);
        }
        Number::Unsigned(value) => write_u64(out, value),
        Number::Double(value) => write_double(value, out),
    }
}

/// With as many decimal places no number but zero is below [`PLAIN_MIN`].
const PLAIN_SCALE_MAX: usize = 5;

/// Appends the double `integer` / 10^`scale`: its shortest digits are those of the integer.
fn write_decimal(integer: i64, scale: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; INTEGER_TEXT_MAX];
    let len = format_i64(&mut digits, integer.wrapping_abs()).len();
    if integer < 0 {
        out.push(b'-');
    }
    match len.checked_sub(scale) {
        Some(whole @ 1..) => {
            plain::push(out, &digits, whole);
            out.push(b'.');
            if scale == 0 {
                out.push(b'0');
            }
            let mut decimals = [0; PLAIN_SCALE_MAX];
            decimals[..scale].copy_from_slice(&digits[whole..len]);
            plain::push(out, &decimals, scale);
        }
        _ => {
            plain::push(out, b"0.0000", 2 + scale - len);
            plain::push(out, &digits, len);
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
    write_escaped(text, 0..text.len(), b'"', out);
    out.pop();
}

/// The same for a part of what can be read, and `behind`.
#[inline(always)]
fn write_escaped(bytes: &[u8], text: Range<usize>, behind: u8, out: &mut Vec<u8>) {
    if let Some(chunk) = bytes[text.start..].first_chunk::<{ plain::STEP }>()
        && text.len() <= plain::look(chunk).plain
    {
        return plain::push_between(out, b'"', (chunk, text.len()), [b'"', behind]);
    }
    write_long(bytes, text, out);
    out.push(behind);
}

#[inline(never)]
fn write_long(bytes: &[u8], text: Range<usize>, out: &mut Vec<u8>) {
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
