//! A value of a document, to read.

use mantissa_memory::NodeId;

use super::packed::{self, ARRAY, FALSE, Header, NULL, Number, OBJECT, TRUE};
use super::tree::{Part, Tree, tree_child};

/// A borrowed value of a document.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(super) form: Form<'a>,
}

/// The forms of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form<'a> {
    /// Bytes that begin with it; there may be more behind it.
    Packed(&'a [u8]),
    /// A large container.
    Tree(&'a Tree),
}

const _: () = assert!(size_of::<View<'_>>() == 16);

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
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        View { form: Form::Packed(if bytes.is_empty() { &[NULL] } else { bytes }) }
    }

    #[inline]
    fn packed(bytes: &'a [u8]) -> Self {
        View { form: Form::Packed(bytes) }
    }

    /// Whether the value is an array or an object: [`ARRAY`], [`OBJECT`], or none of both.
    #[inline]
    fn container(self) -> Option<u8> {
        match self.form {
            Form::Packed(bytes) => packed::container(bytes),
            Form::Tree(tree) => Some(tree.kind()),
        }
    }

    /// What the value is.
    #[inline]
    pub fn shape(self) -> Shape<'a> {
        match self.container() {
            Some(ARRAY) => return Shape::Array,
            Some(_) => return Shape::Object,
            None => {}
        }
        let Form::Packed(bytes) = self.form else { return Shape::Null };
        match bytes[0] {
            NULL => Shape::Null,
            FALSE => Shape::Boolean(false),
            TRUE => Shape::Boolean(true),
            _ => match packed::number(bytes) {
                Some(number) => Shape::Number(number),
                None => Shape::String(packed::string(bytes)),
            },
        }
    }

    /// The text, if it is a string.
    #[inline]
    pub fn string(self) -> Option<&'a [u8]> {
        match self.form {
            Form::Packed(bytes) if packed::is_string(bytes) => Some(packed::string(bytes)),
            _ => None,
        }
    }

    /// The number, if it is one.
    #[inline]
    pub fn number(self) -> Option<Number> {
        match self.form {
            Form::Packed(bytes) => packed::number(bytes),
            Form::Tree(_) => None,
        }
    }

    /// Whether it is an array.
    #[inline]
    pub fn is_array(self) -> bool {
        self.container() == Some(ARRAY)
    }

    /// Whether it is an object.
    #[inline]
    pub fn is_object(self) -> bool {
        self.container() == Some(OBJECT)
    }

    /// The number of elements or members; 0 if it is no container.
    #[inline]
    pub fn len(self) -> usize {
        match self.form {
            Form::Packed(bytes) if packed::container(bytes).is_some() => Header::read(bytes).count,
            Form::Packed(_) => 0,
            Form::Tree(tree) => tree.len(),
        }
    }

    /// Whether it has neither elements nor members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements of an array; none of anything else.
    pub fn elements(self) -> impl Iterator<Item = View<'a>> {
        self.elements_from(0)
    }

    /// The elements of an array from a place on; none of anything else.
    pub fn elements_from(self, index: usize) -> impl Iterator<Item = View<'a>> {
        let children = if self.is_array() { self.with_keys(index) } else { Children::default() };
        children.map(|(_, element)| element)
    }

    /// The members of an object; none of anything else.
    pub fn members(self) -> impl Iterator<Item = (&'a [u8], View<'a>)> {
        if self.is_object() { self.with_keys(0) } else { Children::default() }
    }

    /// The value of every element or member.
    pub fn children(self) -> impl Iterator<Item = View<'a>> {
        self.with_keys(0).map(|(_, child)| child)
    }

    /// The children from a place on.
    #[inline]
    fn with_keys(self, index: usize) -> Children<'a> {
        match self.form {
            Form::Packed(bytes) => {
                let Some(kind) = packed::container(bytes) else { return Children::default() };
                let header = Header::read(bytes);
                let mut children = Children::new(&bytes[header.size..][..header.body], kind, None);
                children.skip_packed(index);
                children
            }
            Form::Tree(tree) => tree.children_from(index),
        }
    }

    /// The element or the value of the member at a place.
    pub fn child(self, index: usize) -> Option<View<'a>> {
        self.with_keys(index).next().map(|(_, child)| child)
    }

    /// The key, the value or element, of the member or element at a place.
    pub(super) fn child_with_key(self, index: usize) -> Option<(&'a [u8], View<'a>)> {
        self.with_keys(index).next()
    }

    /// The value of a member, and its place.
    pub fn member(self, key: &[u8]) -> Option<(usize, View<'a>)> {
        if let Form::Tree(tree) = self.form
            && let Some(found) = tree.indexed_member(key)
        {
            return found;
        }
        let mut members = self.members().enumerate();
        members.find_map(|(index, (name, value))| (name == key).then_some((index, value)))
    }

    /// Whether both are the same: numbers of a kind by value, objects whatever their order.
    pub fn is_same(self, other: View<'_>) -> bool {
        if let (Form::Packed(mine), Form::Packed(theirs)) = (self.form, other.form) {
            let is_equal = || mine[..packed::size(mine)] == theirs[..packed::size(theirs)];
            // Scalars have one encoding each.
            if packed::container(mine).is_none() {
                return mine[0] == theirs[0] && is_equal();
            }
            if is_equal() {
                return true;
            }
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

    /// The bytes of its packed form.
    pub fn memory_usage(self) -> usize {
        match self.form {
            Form::Packed(bytes) => packed::size(bytes),
            Form::Tree(tree) => tree.size(),
        }
    }

    /// Appends its packed form.
    pub(super) fn pack(self, out: &mut Vec<u8>) {
        match self.form {
            Form::Packed(bytes) => out.extend_from_slice(&bytes[..packed::size(bytes)]),
            Form::Tree(tree) => tree.pack(out),
        }
    }
}

/// The children of a container, with their keys; an element's is empty.
#[derive(Clone, Copy, Default)]
pub(super) struct Children<'a> {
    /// Those that stand side by side, to come next.
    rest: &'a [u8],
    has_keys: bool,
    /// The tree, and the part of it that follows.
    tree: Option<(&'a Tree, Option<NodeId>)>,
}

impl<'a> Children<'a> {
    /// Children side by side, and then those of the parts of a tree from one on.
    #[inline]
    pub fn new(rest: &'a [u8], kind: u8, tree: Option<(&'a Tree, Option<NodeId>)>) -> Self {
        Children { rest, has_keys: kind != ARRAY, tree }
    }

    #[inline]
    fn step(&mut self) -> &'a [u8] {
        let (value, rest) = self.rest.split_at(packed::size(self.rest));
        self.rest = rest;
        value
    }

    /// Leaves out children that stand side by side.
    #[inline]
    fn skip_packed(&mut self, count: usize) {
        for _ in 0..count {
            if self.rest.is_empty() {
                return;
            }
            if self.has_keys {
                self.step();
            }
            self.step();
        }
    }

    /// Goes on to the next part of a tree, and returns the child of one that is a tree.
    #[inline(never)]
    fn next_part(&mut self) -> Option<(&'a [u8], View<'a>)> {
        let (tree, next) = self.tree?;
        let (part, next) = tree.part_and_next(next?);
        self.tree = Some((tree, next));
        match part {
            Part::Tree { key, tree } => Some(tree_child(key, tree)),
            block => {
                self.rest = block.children();
                None
            }
        }
    }
}

impl<'a> Iterator for Children<'a> {
    type Item = (&'a [u8], View<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            self.tree?;
            if let Some(child) = self.next_part() {
                return Some(child);
            }
            if self.rest.is_empty() {
                return None;
            }
        }
        let key = if self.has_keys { packed::string(self.step()) } else { &[] };
        Some((key, View::packed(self.step())))
    }
}
