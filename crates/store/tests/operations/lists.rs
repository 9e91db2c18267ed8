//! Lists against a standard deque.

use std::collections::VecDeque;

use mantissa_store::listpack::Listpack;
use mantissa_store::{EncodingLimits, List, ListEnd, ListNode, Sought};

use super::{Choices, Clones};

type Model = VecDeque<Vec<u8>>;

/// Elements from `from` up to `to` that are compared, read from both ends in turn.
fn check_range(list: &List, model: &Model, from: usize, to: usize) {
    let mut range = list.range(from, to);
    let mut expected = model.range(from.min(to)..to);
    assert_eq!(range.len(), expected.len());
    for step in 0.. {
        let (ours, theirs) = match step % 3 {
            0 => (range.next_back(), expected.next_back()),
            _ => (range.next(), expected.next()),
        };
        assert_eq!(ours.map(|element| element.to_vec()).as_ref(), theirs);
        if theirs.is_none() {
            break;
        }
    }
}

fn check(list: &List, model: &Model) {
    assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
    assert!(list.iter().map(|element| element.to_vec()).eq(model.iter().cloned()));
    check_range(list, model, 0, model.len());
}

/// The list, made again of the nodes that a dump would have.
fn reloaded(list: &List, limits: &EncodingLimits) -> List {
    let mut copy = List::new();
    for node in list.nodes() {
        match node {
            ListNode::Plain(element) => copy.push_plain(element),
            ListNode::Packed(elements) => {
                let mut listpack = Listpack::new();
                listpack.extend(elements);
                copy.push_listpack(listpack.as_bytes()).expect("a node is a valid listpack");
            }
        }
    }
    copy.settle(limits);
    copy
}

/// Removes elements equal to one from both, the first `count_max` seen from an end.
fn remove_equal(list: &mut List, model: &mut Model, text: &[u8], end: ListEnd, count_max: usize) {
    let mut places: Vec<usize> = (0..model.len()).filter(|&at| model[at] == text).collect();
    if end == ListEnd::Tail {
        places.reverse();
    }
    places.truncate(count_max);
    assert_eq!(list.remove_equal(end, count_max, Sought::new(text)), places.len());
    places.sort_unstable_by(|left, right| right.cmp(left));
    places.into_iter().for_each(|at| drop(model.remove(at)));
}

/// Does to a list and some clones of it what the bytes say.
pub fn list_operations(data: &[u8]) {
    let mut choices = Choices(data);
    let Some(limits) = choices.limits() else { return };
    let mut lists = Clones::<List, Model>::new();
    while let (Some(operation), Some(text), Some(place)) = (choices.next(), choices.text(), choices.number())
    {
        let (list, model) = lists.chosen(operation);
        let len = model.len();
        let at = place % (len + 1);
        match operation % 16 {
            0..2 => (list.push_front(&text, &limits), model.push_front(text)).1,
            2..4 => (list.push_back(&text, &limits), model.push_back(text)).1,
            4 => {
                // Some that are alike, and now and then one that gets a node of its own.
                let mut many: Vec<Vec<u8>> =
                    (0..place % 90).map(|number| (number % 11).to_string().into()).collect();
                many.push(text.repeat(1 + place % 70));
                let end = if place & 1 == 0 { ListEnd::Head } else { ListEnd::Tail };
                list.extend(end, many.iter().map(|element| &element[..]), &limits);
                match end {
                    ListEnd::Head => many.into_iter().for_each(|element| model.push_front(element)),
                    ListEnd::Tail => model.extend(many),
                }
            }
            5..8 if at < len => {
                let after = operation % 16 == 6;
                list.insert(at, after, &text, &limits);
                model.insert(at + usize::from(after), text);
            }
            8 if at < len => {
                list.set(at, &text, &limits);
                model[at] = text;
            }
            9 => {
                let end = if place & 1 == 0 { ListEnd::Head } else { ListEnd::Tail };
                let count_max = if place & 6 == 0 { usize::MAX } else { place & 3 };
                remove_equal(list, model, &text, end, count_max);
            }
            10..12 => {
                let span = if place % 16 == 0 { len / 2 } else { place % 6 };
                list.remove(at, at + span);
                model.drain(at..(at + span).min(len));
                list.shrink(&limits);
            }
            12 => {
                assert_eq!(list.get(at).map(|element| element.to_vec()).as_ref(), model.get(at));
                check_range(list, model, at, (at + place % 300).min(len));
            }
            13 => (check(list, model), *list = reloaded(list, &limits)).1,
            14 => (list.prepare_insert(&text, &limits), _ = list.compact(0)).1,
            15 => lists.clone_chosen(operation, check),
            _ => {}
        }
    }
    lists.check(check);
}
