//! A value of a document, to read.

use super::packed::{self, ARRAY, FALSE, Header, NULL, Number, OBJECT, TRUE};

/// A borrowed value of a document.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Begins with the value; there may be more behind it.
    pub(super) bytes: &'a [u8],
}

/// What a value is.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// null
    Null,
    /// true or false
    Boolean(bool),
    /// A number.
    Number(Number),
    /// A string, which is UTF-8.
    String(&'a [u8]),
    /// An array; [`View::elements`] has its elements.
    Array,
    /// An object; [`View::members`] has its members.
    Object,
}

impl<'a> View<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        View { bytes: if bytes.is_empty() { &[NULL] } else { bytes } }
    }

    /// What the value is.
    #[inline]
    pub fn shape(self) -> Shape<'a> {
        match packed::container(self.bytes) {
            Some(ARRAY) => return Shape::Array,
            Some(_) => return Shape::Object,
            None => {}
        }
        match self.bytes[0] {
            NULL => Shape::Null,
            FALSE => Shape::Boolean(false),
            TRUE => Shape::Boolean(true),
            _ => match packed::number(self.bytes) {
                Some(number) => Shape::Number(number),
                None => Shape::String(packed::string(self.bytes)),
            },
        }
    }

    /// The text, if it is a string.
    #[inline]
    pub fn string(self) -> Option<&'a [u8]> {
        packed::is_string(self.bytes).then(|| packed::string(self.bytes))
    }

    /// The number, if it is one.
    #[inline]
    pub fn number(self) -> Option<Number> {
        packed::number(self.bytes)
    }

    /// Whether it is an array.
    #[inline]
    pub fn is_array(self) -> bool {
        packed::container(self.bytes) == Some(ARRAY)
    }

    /// Whether it is an object.
    #[inline]
    pub fn is_object(self) -> bool {
        packed::container(self.bytes) == Some(OBJECT)
    }

    /// The number of elements or members; 0 if it is no container.
    #[inline]
    pub fn len(self) -> usize {
        if packed::container(self.bytes).is_some() { Header::read(self.bytes).count } else { 0 }
    }

    /// Whether it has neither elements nor members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements of an array; none of anything else.
    pub fn elements(self) -> impl Iterator<Item = View<'a>> {
        let body = if self.is_array() { self.body() } else { &[] };
        Values { rest: body }
    }

    /// The members of an object; none of anything else.
    pub fn members(self) -> impl Iterator<Item = (&'a [u8], View<'a>)> {
        let mut values = Values { rest: if self.is_object() { self.body() } else { &[] } };
        std::iter::from_fn(move || {
            let key = packed::string(values.next()?.bytes);
            Some((key, values.next()?))
        })
    }

    /// The value of every element or member.
    pub fn children(self) -> impl Iterator<Item = View<'a>> {
        let mut values = Values { rest: self.body() };
        let is_object = self.is_object();
        std::iter::from_fn(move || {
            if is_object {
                values.next()?;
            }
            values.next()
        })
    }

    /// The element or the value of the member at a place.
    pub fn child(self, index: usize) -> Option<View<'a>> {
        self.children().nth(index)
    }

    /// The value of a member, and its place.
    pub fn member(self, key: &[u8]) -> Option<(usize, View<'a>)> {
        let mut members = self.members().enumerate();
        members.find_map(|(index, (name, value))| (name == key).then_some((index, value)))
    }

    /// Whether both are the same: numbers of a kind by value, objects whatever their order.
    pub fn is_same(self, other: View<'_>) -> bool {
        if self.bytes() == other.bytes() {
            return true;
        }
        match (self.shape(), other.shape()) {
            (Shape::Array, Shape::Array) => {
                let mut pairs = self.elements().zip(other.elements());
                self.len() == other.len() && pairs.all(|(mine, theirs)| mine.is_same(theirs))
            }
            (Shape::Object, Shape::Object) => {
                self.len() == other.len()
                    && self.members().all(|(key, value)| {
                        other.member(key).is_some_and(|(_, theirs)| value.is_same(theirs))
                    })
            }
            _ => false,
        }
    }

    /// Bytes that it takes.
    pub fn memory_usage(self) -> usize {
        self.bytes().len()
    }

    /// Its packed form.
    pub(super) fn bytes(self) -> &'a [u8] {
        &self.bytes[..packed::size(self.bytes)]
    }

    fn body(self) -> &'a [u8] {
        match packed::container(self.bytes) {
            Some(_) => {
                let header = Header::read(self.bytes);
                &self.bytes[header.size..][..header.body]
            }
            None => &[],
        }
    }
}

/// Values that stand one after the other.
#[derive(Clone, Copy)]
struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Values<'a> {
    type Item = View<'a>;

    #[inline]
    fn next(&mut self) -> Option<View<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (value, rest) = self.rest.split_at(packed::size(self.rest));
        self.rest = rest;
        Some(View { bytes: value })
    }
}
