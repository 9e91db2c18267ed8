//! Documents as JSON text.

use std::fmt::Write as _;

use mantissa_number::{FloatText, INTEGER_TEXT_MAX, format_f64, format_i64, format_u64};
use smallvec::SmallVec;

use super::packed::{self, ARRAY, FALSE, Header, NULL, Number, OBJECT, TRUE};
use super::plain::{Place, Sink};
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
            Form::Packed(bytes) => write_children(&bytes[..packed::size(bytes)], false, &mut sink, place),
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
                (_, place) = write_scalar(key.payload(), 0, b':', sink, place);
            }
            place = write_tree(tree, sink, place);
        }
        place = write_children(part.children(), is_object, sink, place);
    }
    if tree.len() > 0 {
        place = sink.back(place, 1);
    }
    sink.put(place, &[if is_object { b'}' } else { b']' }, b','], 2)
}

/// Writes the texts of values or members that stand side by side, and a comma behind each.
fn write_children(bytes: &[u8], mut is_object: bool, sink: &mut Sink<'_>, mut place: Place) -> Place {
    // Where the container around ends, and whether it is an object.
    let mut around: SmallVec<[(usize, bool); 16]> = SmallVec::new();
    let (mut at, mut end) = (0, bytes.len());
    loop {
        while at < end {
            if is_object {
                (at, place) = write_scalar(bytes, at, b':', sink, place);
            }
            if !matches!(bytes[at], packed::FIRST_CONTAINER..=packed::LAST_CONTAINER) || bytes[at] == OBJECT {
                (at, place) = write_scalar(bytes, at, b',', sink, place);
                continue;
            }
            around.push((end, is_object));
            let header = Header::read(&bytes[at..]);
            is_object = bytes[at] > OBJECT;
            at += header.size;
            end = at + header.body;
            place = sink.byte(place, if is_object { b'{' } else { b'[' });
        }
        // In the place of the comma behind the last child.
        let close = if is_object { b'}' } else { b']' };
        let Some(outer) = around.pop() else { return place };
        place = sink.put(sink.back(place, 1), &[close, b','], 2);
        (end, is_object) = outer;
    }
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

/// Writes the text of the value that begins at `at`, which is no container with elements, and `behind`.
/// Returns where the value ends.
#[inline(always)]
fn write_scalar(bytes: &[u8], at: usize, behind: u8, sink: &mut Sink<'_>, place: Place) -> (usize, Place) {
    if let tag @ packed::SHORT_STRING.. = bytes[at] {
        let len = usize::from(tag - packed::SHORT_STRING);
        let text = &bytes[at + 1..];
        return (at + 1 + len, sink.text_between(place, b'"', (text, len), [b'"', behind]));
    }
    if let tag @ packed::SMALL.. = bytes[at] {
        let text = &SMALL_TEXTS[usize::from(tag - packed::SMALL)];
        let place = sink.put(place, text, usize::from(text[3]));
        return (at + 1, sink.byte(place, behind));
    }
    let place = write_other(&bytes[at..], sink, place);
    (at + packed::size(&bytes[at..]), sink.byte(place, behind))
}

/// Writes the text of the value that begins here, which is neither a short string nor a small integer, nor a
/// container with elements.
#[inline(never)]
fn write_other(bytes: &[u8], sink: &mut Sink<'_>, place: Place) -> Place {
    match bytes[0] {
        NULL => sink.put(place, b"null", 4),
        FALSE => sink.put(place, b"false", 5),
        TRUE => sink.put(place, b"true", 4),
        ARRAY => sink.put(place, b"[]", 2),
        OBJECT => sink.put(place, b"{}", 2),
        packed::ESCAPED_8..=packed::ESCAPED_32 => write_escaped(packed::string(bytes), sink, place),
        _ => match packed::decimal(bytes) {
            Some((integer, scale)) if scale <= PLAIN_SCALE_MAX => write_decimal(integer, scale, sink, place),
            _ => match packed::number(bytes) {
                Some(number) => put_number(number, sink, place),
                None => {
                    let text = packed::string(bytes);
                    let place = sink.text_between(place, b'"', (text, text.len()), [b'"', 0]);
                    sink.back(place, 1)
                }
            },
        },
    }
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
    let mut digits = [0; INTEGER_TEXT_MAX];
    let len = match number {
        Number::Integer(value) => format_i64(&mut digits, value).len(),
        Number::Unsigned(value) => format_u64(&mut digits, value).len(),
        Number::Double(value) => return write_double(value, sink, place),
    };
    sink.put(place, &digits, len)
}

/// With as many decimal places no number but zero is below [`PLAIN_MIN`].
const PLAIN_SCALE_MAX: usize = 5;

/// Writes the double `integer` / 10^`scale`: its shortest digits are those of the integer.
#[inline]
fn write_decimal(integer: i64, scale: usize, sink: &mut Sink<'_>, mut place: Place) -> Place {
    let mut digits = [b'0'; INTEGER_TEXT_MAX];
    let len = format_i64(&mut digits, integer.wrapping_abs()).len();
    if integer < 0 {
        place = sink.byte(place, b'-');
    }
    let Some(whole @ 1..) = len.checked_sub(scale) else {
        let place = sink.put(place, b"0.0000", 2 + scale - len);
        return sink.put(place, &digits, len);
    };
    place = sink.put(place, &digits, whole);
    let mut decimals = [0; 2 + PLAIN_SCALE_MAX];
    decimals[..2].copy_from_slice(b".0");
    decimals[1..1 + scale].copy_from_slice(&digits[whole..len]);
    sink.put(place, &decimals, 1 + scale.max(1))
}

/// The exponents of ten, of the first digit, whose doubles have no exponent: from 1e-5 up to 1e16.
const PLAIN_MIN: f64 = 1e-5;
const PLAIN_END: f64 = 1e16;

fn write_double(value: f64, sink: &mut Sink<'_>, mut place: Place) -> Place {
    let mut buffer = FloatText::new();
    let text = format_f64(&mut buffer, value);
    let magnitude = value.abs();
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
    if value == 0.0 || (PLAIN_MIN..PLAIN_END).contains(&magnitude) {
        place = sink.all(place, text.as_bytes());
        return if text.contains('.') { place } else { sink.put(place, b".0", 2) };
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

/// Appends a string between quotes, with the escapes that JSON asks for.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    let (mut sink, place) = Sink::new(out);
    let place = write_escaped(text, &mut sink, place);
    sink.finish(place);
}

/// The same.
fn write_escaped(text: &[u8], sink: &mut Sink<'_>, place: Place) -> Place {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut place = sink.byte(place, b'"');
    let mut at = 0;
    loop {
        (at, place) = sink.plain(place, text, at, text.len());
        let Some(&byte) = text.get(at) else { break };
        place = match ESCAPES[usize::from(byte)] {
            b'u' => {
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                sink.put(place, &[b'\\', b'u', b'0', b'0', DIGITS[high], DIGITS[low]], 6)
            }
            letter => sink.put(place, &[b'\\', letter], 2),
        };
        at += 1;
    }
    sink.byte(place, b'"')
}
