//! Documents as JSON text.

use std::fmt::Write as _;

use mantissa_number::{
    FLOAT_TEXT_MAX, FloatText, INTEGER_TEXT_MAX, format_f64, format_i64, format_u64, last_eight_digits,
    print_f64,
};

use super::packed::{self, ARRAY, FALSE, NULL, Number, OBJECT, TRUE};
use super::plain::{EscapeTexts, Place, Sink};
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
        let (mut sink, place) = Sink::new(out);
        let place = match self.form {
            Form::Packed(bytes) => write_value(bytes, 0, &mut sink, place).1,
            Form::Tree(tree) => write_tree(tree, &mut sink, place),
        };
        let place = sink.back(place, 1);
        sink.finish(place);
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

/// Writes the text of a tree, and a comma. Recursion is as deep as trees are nested.
fn write_tree(tree: &Tree, sink: &mut Sink<'_>, place: Place) -> Place {
    let is_object = tree.kind() != ARRAY;
    let mut place = sink.byte(place, if is_object { b'{' } else { b'[' });
    for part in tree.parts() {
        if let Part::Tree { key, tree } = part {
            if is_object {
                (_, place) = write_key(key.payload(), 0, sink, place);
            }
            place = write_tree(tree, sink, place);
        }
        let children = part.children();
        place = match is_object {
            true => write_members(children, 0, children.len(), sink, place),
            false => write_elements(children, 0, children.len(), sink, place),
        };
    }
    if tree.len() > 0 {
        place = sink.back(place, 1);
    }
    sink.put(place, &[if is_object { b'}' } else { b']' }, b','], 2)
}

/// Writes the texts of the values `bytes[at..end]`, which stand side by side, and a comma behind each.
fn write_elements(bytes: &[u8], mut at: usize, end: usize, sink: &mut Sink<'_>, mut place: Place) -> Place {
    while at < end {
        (at, place) = write_value(bytes, at, sink, place);
    }
    place
}

/// The same of members.
fn write_members(bytes: &[u8], mut at: usize, end: usize, sink: &mut Sink<'_>, mut place: Place) -> Place {
    while at < end {
        (at, place) = write_key(bytes, at, sink, place);
        (at, place) = write_value(bytes, at, sink, place);
    }
    place
}

/// The text of an integer that the tag holds, and a comma.
const fn small_text(value: i64) -> [u8; 8] {
    let (magnitude, minus) = (value.unsigned_abs(), (value < 0) as usize);
    let (tens, ones) = (b'0' + (magnitude / 10) as u8, b'0' + (magnitude % 10) as u8);
    let mut text = [b','; 8];
    text[0] = b'-';
    let digits = if magnitude < 10 { 1 } else { 2 };
    text[minus] = if digits == 1 { ones } else { tens };
    if digits == 2 {
        text[minus + 1] = ones;
    }
    // The length of both.
    text[7] = (minus + digits + 1) as u8;
    text
}

/// The texts of the integers that a tag holds, each with a comma, and the length of each.
static SMALL_TEXTS: [[u8; 8]; packed::SMALL_COUNT] = {
    let mut texts = [[0; 8]; packed::SMALL_COUNT];
    let mut index = 0;
    while index < texts.len() {
        texts[index] = small_text(packed::SMALL_MIN + index as i64);
        index += 1;
    }
    texts
};

/// Writes the text of the key that begins at `at`, and a colon. Returns where the key ends.
#[inline(always)]
fn write_key(bytes: &[u8], at: usize, sink: &mut Sink<'_>, place: Place) -> (usize, Place) {
    if let tag @ packed::SHORT_STRING.. = bytes[at] {
        let len = usize::from(tag - packed::SHORT_STRING);
        return (at + 1 + len, sink.quoted(place, (&bytes[at + 1..], len), b':'));
    }
    write_long_string(bytes, at, b':', sink, place)
}

/// Writes the text of the value that begins at `at`, and a comma. Returns where the value ends. Recursion is
/// as deep as containers are nested.
#[inline(always)]
fn write_value(bytes: &[u8], at: usize, sink: &mut Sink<'_>, place: Place) -> (usize, Place) {
    if let tag @ packed::SHORT_STRING.. = bytes[at] {
        let len = usize::from(tag - packed::SHORT_STRING);
        return (at + 1 + len, sink.quoted(place, (&bytes[at + 1..], len), b','));
    }
    if let tag @ packed::SMALL.. = bytes[at] {
        let text = &SMALL_TEXTS[usize::from(tag - packed::SMALL)];
        return (at + 1, sink.put(place, text, usize::from(text[7])));
    }
    if let packed::FIRST_CONTAINER..=packed::LAST_CONTAINER = bytes[at] {
        return write_container(bytes, at, sink, place);
    }
    write_other(bytes, at, sink, place)
}

/// Writes the text of the value that begins at `at`, which is neither a short string nor a small integer nor
/// a container that may have elements, and a comma. Returns where the value ends.
#[inline(never)]
fn write_other(bytes: &[u8], at: usize, sink: &mut Sink<'_>, place: Place) -> (usize, Place) {
    match bytes[at] {
        NULL => (at + 1, sink.put(place, b"null,\0\0\0", 5)),
        FALSE => (at + 1, sink.put(place, b"false,\0\0", 6)),
        TRUE => (at + 1, sink.put(place, b"true,\0\0\0", 5)),
        tag @ packed::INT_8..=packed::INT_64 => {
            let (value, end) = packed::signed_at(bytes, at + 1, tag - packed::INT_8);
            let place = sink.with_room(place, |text: &mut [u8; INTEGER_TEXT_MAX + 1]| {
                let len = text.first_chunk_mut().map_or(0, |text| format_i64(text, value).len());
                text[len] = b',';
                len + 1
            });
            (end, place)
        }
        tag @ packed::DECIMAL_8..=packed::DECIMAL_64 => {
            let scale = usize::from(bytes[at + 1]);
            let (integer, end) = packed::signed_at(bytes, at + 2, tag - packed::DECIMAL_8);
            if is_plain_decimal(integer, scale) {
                return (end, write_decimal(integer, scale, sink, place));
            }
            write_wide_number(bytes, at, sink, place)
        }
        packed::STRING_8..=packed::STRING_32 | packed::ESCAPED_8..=packed::ESCAPED_32 => {
            write_long_string(bytes, at, b',', sink, place)
        }
        ARRAY => (at + 1, sink.put(place, b"[],\0", 3)),
        _ => write_wide_number(bytes, at, sink, place),
    }
}

/// Writes the text of the container that begins at `at`, and a comma. Returns where it ends.
#[inline(never)]
fn write_container(bytes: &[u8], at: usize, sink: &mut Sink<'_>, place: Place) -> (usize, Place) {
    let (start, end) = packed::body_at(bytes, at);
    // In the place of the comma behind the last child, if there is any.
    let back = usize::from(end > start);
    let (place, close) = if bytes[at] < OBJECT {
        let place = sink.byte(place, b'[');
        (write_elements(bytes, start, end, sink, place), b"],")
    } else {
        let place = sink.byte(place, b'{');
        (write_members(bytes, start, end, sink, place), b"},")
    };
    (end, sink.put(sink.back(place, back), close, 2))
}

/// Writes the text of a number that is none of the usual ones, and a comma. Returns where it ends.
#[inline(never)]
fn write_wide_number(bytes: &[u8], at: usize, sink: &mut Sink<'_>, place: Place) -> (usize, Place) {
    let value = &bytes[at..];
    let place = packed::number(value).map_or(place, |number| put_number(number, sink, place));
    (at + packed::size(value), sink.byte(place, b','))
}

/// Writes the text of the string that begins at `at` and is not short, and `behind`. Returns where it ends.
#[inline(never)]
fn write_long_string(
    bytes: &[u8],
    at: usize,
    behind: u8,
    sink: &mut Sink<'_>,
    place: Place,
) -> (usize, Place) {
    let range = packed::string_range(&bytes[at..]);
    let (start, end) = (at + range.start, at + range.end);
    if bytes[at] < packed::ESCAPED_8 {
        return (end, sink.quoted(place, (&bytes[start..], end - start), behind));
    }
    let place = sink.byte(place, b'"');
    let place = sink.escaped(place, bytes, start, end, &ESCAPE_TEXTS);
    (end, sink.put(place, &[b'"', behind], 2))
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
    let (mut sink, place) = Sink::new(out);
    let place = put_number(number, &mut sink, place);
    sink.finish(place);
}

/// The same.
#[inline]
fn put_number(number: Number, sink: &mut Sink<'_>, place: Place) -> Place {
    match number {
        Number::Integer(value) => {
            sink.with_room(place, |text: &mut [u8; INTEGER_TEXT_MAX]| format_i64(text, value).len())
        }
        Number::Unsigned(value) => {
            sink.with_room(place, |text: &mut [u8; INTEGER_TEXT_MAX]| format_u64(text, value).len())
        }
        Number::Double(value) => write_double(value, sink, place),
    }
}

/// What the decimals of a scale divide by.
const SCALES: [u32; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Whether [`write_decimal`] writes this number: it is at least [`PLAIN_MIN`] or zero, with eight decimals
/// at most.
#[inline(always)]
fn is_plain_decimal(integer: i64, scale: usize) -> bool {
    let magnitude = integer.unsigned_abs();
    scale < SCALES.len()
        && magnitude <= u64::from(u32::MAX)
        && (scale <= 5 || magnitude >= u64::from(SCALES[scale - 5]))
}

/// Writes the double `integer` / 10^`scale` and a comma: its shortest digits are those of the integer.
#[inline(always)]
fn write_decimal(integer: i64, scale: usize, sink: &mut Sink<'_>, place: Place) -> Place {
    let (magnitude, power) = (integer.unsigned_abs() as u32, SCALES[scale]);
    let (whole, decimals) = (magnitude / power, magnitude % power);
    // The decimal of an integer is a zero.
    let count = scale.max(1);
    let digits = u64::from_le_bytes(last_eight_digits(u64::from(decimals))) >> (64 - 8 * count);
    sink.with_room(place, |text: &mut [u8; 32]| {
        // It is written over where there is no minus.
        text[0] = b'-';
        let start = usize::from(integer < 0);
        let room = text[start..].first_chunk_mut();
        let point = start + room.map_or(0, |room| format_u64(room, u64::from(whole)).len());
        let Some(behind) = text[point.min(16)..].first_chunk_mut::<10>() else { return 0 };
        behind[0] = b'.';
        behind[1..9].copy_from_slice(&digits.to_le_bytes());
        behind[1 + count] = b',';
        point + 2 + count
    })
}

/// The exponents of ten, of the first digit, whose doubles have no exponent: from 1e-5 up to 1e16.
const PLAIN_MIN: f64 = 1e-5;
const PLAIN_END: f64 = 1e16;

fn write_double(value: f64, sink: &mut Sink<'_>, mut place: Place) -> Place {
    let magnitude = value.abs();
    if value == 0.0 || (PLAIN_MIN..PLAIN_END).contains(&magnitude) {
        place = sink.with_room(place, |text: &mut [u8; FLOAT_TEXT_MAX]| print_f64(text, value));
        let is_integer = value.trunc() == value;
        return if is_integer { sink.put(place, b".0", 2) } else { place };
    }
    let mut buffer = FloatText::new();
    let text = format_f64(&mut buffer, value);
    if (PLAIN_END..1e17).contains(&magnitude) {
        // The number core prints these in place; here they have an exponent of 16.
        let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
        let significant = digits.trim_end_matches('0');
        let (first, rest) = significant.split_at(1);
        place = sink.all(place, sign.as_bytes());
        place = sink.all(place, first.as_bytes());
        if !rest.is_empty() {
            place = sink.byte(place, b'.');
            place = sink.all(place, rest.as_bytes());
        }
        return sink.put(place, b"e16", 3);
    }
    // The exponent has neither a plus nor leading zeros.
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    place = sink.all(place, digits.as_bytes());
    let mut written = String::new();
    let _infallible = write!(written, "e{exponent}");
    sink.all(place, written.as_bytes())
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

/// The text of the escape of a byte that needs one, and its length in the last place.
static ESCAPE_TEXTS: EscapeTexts = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut texts = [[0; 8]; 256];
    let mut byte = 0;
    while byte < texts.len() {
        texts[byte] = match ESCAPES[byte] {
            0 => [byte as u8, 0, 0, 0, 0, 0, 0, 1],
            b'u' => [b'\\', b'u', b'0', b'0', DIGITS[byte >> 4], DIGITS[byte & 15], 0, 6],
            letter => [b'\\', letter, 0, 0, 0, 0, 0, 2],
        };
        byte += 1;
    }
    texts
};

/// Appends a string between quotes, with the escapes that JSON asks for.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    let (mut sink, place) = Sink::new(out);
    let place = sink.byte(place, b'"');
    let place = sink.escaped(place, text, 0, text.len(), &ESCAPE_TEXTS);
    let place = sink.byte(place, b'"');
    sink.finish(place);
}
