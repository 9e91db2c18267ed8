//! Arrays against a standard map.

use std::collections::BTreeMap;

use mantissa_store::array::{Array, ELEMENT_TEXT_MAX, Element, INDEX_END};

use super::{Choices, Clones};

/// The elements, and the last index that was inserted at.
type Model = (BTreeMap<u64, Vec<u8>>, Option<u64>);

fn text_of(element: Element<'_>) -> Vec<u8> {
    element.text(&mut [0; ELEMENT_TEXT_MAX]).to_vec()
}

/// The elements between two indexes, in the order from one to the other.
fn check_range(array: &Array, (model, _): &Model, from: u64, to: u64) {
    let mut expected: Vec<(u64, &[u8])> =
        model.range(from.min(to)..=from.max(to)).map(|(index, text)| (*index, &text[..])).collect();
    if from > to {
        expected.reverse();
    }
    assert_eq!(array.count_in(from, to), expected.len() as u64);
    let mut expected = expected.into_iter();
    array.visit(from, to, |index, element| {
        let (at, text) = expected.next().expect("there are no more");
        assert_eq!((index, text_of(element)), (at, text.to_vec()));
        true
    });
    assert!(expected.next().is_none());
}

fn check(array: &Array, model: &Model) {
    assert_eq!((array.count(), array.cursor()), (model.0.len() as u64, model.1));
    assert_eq!(array.len(), model.0.last_key_value().map_or(0, |(index, _)| index + 1));
    check_range(array, model, 0, INDEX_END);
    check_range(array, model, INDEX_END, 0);
}

/// The same elements, set in the order of their indexes.
fn reloaded(array: &Array) -> Array {
    let mut copy = Array::new();
    copy.set_cursor(array.cursor());
    array.clone().into_each(&mut |index, element| assert!(copy.set(index, element)));
    copy
}

/// Does to an array and some clones of it what the bytes say.
pub fn array_operations(data: &[u8]) {
    let mut choices = Choices(data);
    let mut arrays = Clones::<Array, Model>::new();
    while let (Some(operation), Some(text), Some(place)) = (choices.next(), choices.text(), choices.number())
    {
        let (array, model) = arrays.chosen(operation);
        // Near the start, near other multiples of large powers of two, and at the end.
        let index = match place % 7 {
            0..4 => place as u64 % 900,
            4 => (place as u64) << 20,
            5 => (place as u64) << 47,
            _ => INDEX_END - 1 - place as u64 % 300,
        };
        match operation % 16 {
            0..6 => assert_eq!(array.set(index, Element::of(&text)), model.0.insert(index, text).is_none()),
            6 => {
                for index in index..index.saturating_add(place as u64 % 90) {
                    let number = (index % 1000).to_string().into_bytes();
                    assert_eq!(
                        array.set(index, Element::of(&number)),
                        model.0.insert(index, number).is_none()
                    );
                }
            }
            7 | 8 => assert_eq!(array.remove(index), model.0.remove(&index).is_some()),
            9 => {
                let to = index.saturating_add(place as u64 % 200);
                let before = model.0.len();
                model.0.retain(|at, _| !(index..=to).contains(at));
                let (count, rest) = array.remove_range(index, to);
                assert_eq!(count as usize, before - model.0.len());
                assert!(rest.count() <= count);
            }
            10 if place % 9 == 0 => {
                array.remove_range(index, INDEX_END);
                model.0.retain(|at, _| *at < index);
            }
            11 => {
                model.1 = (place % 3 != 0).then_some(index);
                array.set_cursor(model.1);
            }
            12 => check_range(array, model, index, place as u64),
            13 => arrays.clone_chosen(operation, check),
            14 => *array = reloaded(array),
            _ => assert_eq!(array.get(index).map(text_of).as_ref(), model.0.get(&index)),
        }
    }
    arrays.check(check);
}
