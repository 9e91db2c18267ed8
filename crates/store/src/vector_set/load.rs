//! Making a set from what a file holds: elements with their links, in any order.
//!
//! A file names elements by their place in the order of all that were ever added. Links may lead to elements
//! that come later, so each name that is met gets the next number at once. What is refused: numbers out of
//! range, two elements of one name or place, links to elements that are not there or not on that level, to
//! oneself, or twice. Links that only one side has are dropped.
//!
//! What was written with [`VectorSetState`] becomes the same set in everything that a command can show: its
//! elements have the numbers that they had, and links lead to numbers.

use std::collections::HashMap;
use std::fmt;

use super::graph::LEVEL_MAX;
use super::names::Names;
use super::{Body, ElementText, VectorSet, VectorSetOptions};

/// Why parts do not make a vector set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorSetError(&'static str);

impl fmt::Display for VectorSetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "vector set: {}", self.0)
    }
}

const NONE: u32 = u32::MAX;
/// The highest place: elements can be added after it for as long as anybody will.
const UID_MAX: u64 = i64::MAX as u64;
/// Places below this many times the elements so far are looked up in an array.
const DENSE_FACTOR: u64 = 16;
const DENSE_MIN: u64 = 1024;

/// The numbers of places.
#[derive(Debug, Default)]
struct Numbers {
    dense: Vec<u32>,
    sparse: HashMap<u64, u32>,
    next: u32,
}

impl Numbers {
    /// The number of a place, which gets the next one if it has none.
    fn number(&mut self, uid: u64) -> u32 {
        let dense_max = u64::from(self.next) * DENSE_FACTOR + DENSE_MIN;
        if let Some(&number) = self.dense.get(uid as usize).filter(|_| uid < self.dense.len() as u64)
            && number != NONE
        {
            return number;
        }
        if !self.sparse.is_empty()
            && let Some(&number) = self.sparse.get(&uid)
        {
            return number;
        }
        let number = self.next;
        self.next += 1;
        if uid < dense_max {
            if uid >= self.dense.len() as u64 {
                self.dense.resize((uid as usize + 1).next_power_of_two(), NONE);
            }
            self.dense[uid as usize] = number;
        } else {
            self.sparse.insert(uid, number);
        }
        number
    }
}

/// An element as a file has it.
#[derive(Clone, Copy, Debug)]
pub struct LoadedElement<'b> {
    /// Its name.
    pub name: &'b [u8],
    /// Its attribute; empty if it has none.
    pub attribute: &'b [u8],
    /// The numbers of its vector.
    pub vector: &'b [u8],
    /// What 127 stands for.
    pub range: f32,
    /// The length of the vector.
    pub length: f32,
    /// Its place in the order of all that were ever added.
    pub uid: u64,
    /// The places of its neighbours by level, from 0 on; at least that level.
    pub links: &'b [Vec<u64>],
}

/// What a set is beside its options and its elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VectorSetState {
    /// How many elements were ever added.
    pub last_uid: u64,
    /// Where searches begin, if there is an element.
    pub entry: Option<u32>,
}

/// A set that is being loaded.
#[derive(Debug)]
pub struct VectorSetBuilder {
    set: VectorSet,
    numbers: Numbers,
    /// Elements so far, of those that [`VectorSetBuilder::push`] adds.
    pushed: u32,
    /// The most elements that there will be.
    elements_max: u64,
}

impl VectorSetBuilder {
    /// Begins with a set of these options, for so many elements at most.
    pub fn new(options: VectorSetOptions, elements_max: u64) -> Self {
        VectorSetBuilder {
            set: VectorSet::new(options),
            numbers: Numbers::default(),
            pushed: 0,
            elements_max,
        }
    }

    /// Adds an element.
    pub fn push(&mut self, loaded: LoadedElement<'_>) -> Result<(), VectorSetError> {
        let numbers = &mut self.numbers;
        let element = numbers.number(loaded.uid);
        put(&mut self.set, element, loaded, |uid| Some(numbers.number(uid)))?;
        self.pushed += 1;
        if u64::from(self.numbers.next) > self.elements_max {
            return Err(VectorSetError("a link to an element that is not there"));
        }
        Ok(())
    }

    /// Adds the element of the next number; its links are numbers too.
    pub fn push_next(&mut self, loaded: LoadedElement<'_>) -> Result<(), VectorSetError> {
        let element = self.set.body.elements.len() as u32;
        put(&mut self.set, element, loaded, |link| u32::try_from(link).ok())
    }

    /// The set, once all elements are there under their numbers.
    pub fn finish_as(mut self, state: &VectorSetState) -> Result<VectorSet, VectorSetError> {
        const UNSOUND: VectorSetError = VectorSetError("a state that does not fit the elements");
        let body = &mut *self.set.body;
        if state.last_uid > UID_MAX {
            return Err(UNSOUND);
        }
        body.last_uid = state.last_uid;
        if !body.graph.set_entry(state.entry) {
            return Err(UNSOUND);
        }
        finish(self.set)
    }

    /// The set, once all elements are there.
    pub fn finish(self) -> Result<VectorSet, VectorSetError> {
        if self.pushed != self.numbers.next {
            return Err(VectorSetError("a link to an element that is not there"));
        }
        finish(self.set)
    }
}

fn is_there(body: &Body, element: u32) -> bool {
    let elements = &body.elements;
    (element as usize) < elements.len() && elements.get(element as usize).text.is_there()
}

/// Adds an element under a number. `number` tells those of its links.
fn put(
    set: &mut VectorSet,
    element: u32,
    loaded: LoadedElement<'_>,
    mut number: impl FnMut(u64) -> Option<u32>,
) -> Result<(), VectorSetError> {
    let body = &mut *set.body;
    let Some(top) = loaded.links.len().checked_sub(1).filter(|&top| top <= usize::from(LEVEL_MAX)) else {
        return Err(VectorSetError("a level out of range"));
    };
    let Some(row) = body.space.row_of_bytes(loaded.vector, loaded.range, loaded.length) else {
        return Err(VectorSetError("a vector of the wrong size"));
    };
    let is_uid = |uid: u64| uid <= UID_MAX;
    if !is_uid(loaded.uid) || !loaded.links.iter().flatten().all(|&uid| is_uid(uid)) {
        return Err(VectorSetError("a place out of range"));
    }
    while body.elements.len() <= element as usize {
        body.elements.push(super::Element::default());
    }
    if body.elements.get(element as usize).text.is_there() {
        return Err(VectorSetError("two elements of one place"));
    }
    let text = ElementText::new(loaded.name, loaded.attribute);
    body.text_bytes += text.0.memory_usage();
    *body.elements.get_mut(element as usize) = super::Element { text, uid: loaded.uid };
    body.graph.place(element, &row, top as u8);
    for (level, links) in loaded.links.iter().enumerate() {
        let level = level as u8;
        for &link in links.iter().take(body.graph.capacity(level)) {
            let other = number(link).filter(|&other| other != element);
            let other = other.filter(|other| !body.graph.links(element, level).contains(other));
            let other = other.ok_or(VectorSetError("a link to itself, or twice"))?;
            body.graph.add_half(element, other, level);
        }
    }
    body.attributes += u32::from(!loaded.attribute.is_empty());
    body.last_uid = body.last_uid.max(loaded.uid);
    Ok(())
}

/// Checks the links of the elements, none of which is missing, and orders their names.
fn finish(mut set: VectorSet) -> Result<VectorSet, VectorSetError> {
    let mut elements: Vec<u32> = set.elements().collect();
    let body = &mut *set.body;
    for &element in &elements {
        for level in 0..=body.graph.level(element) {
            let is_on = |&other: &u32| is_there(body, other) && body.graph.level(other) >= level;
            if !body.graph.links(element, level).iter().all(is_on) {
                return Err(VectorSetError("a link to an element that is not on the level"));
            }
        }
    }
    body.graph.drop_one_sided();
    let name_of = |element: u32| body.elements.get(element as usize).text.parts().0;
    elements.sort_unstable_by(|&one, &other| name_of(one).cmp(name_of(other)));
    if elements.windows(2).any(|pair| name_of(pair[0]) == name_of(pair[1])) {
        return Err(VectorSetError("two elements of one name"));
    }
    body.names = Names::build(&elements);
    Ok(set)
}
