//! Streams and their consumer groups against standard maps.

use std::collections::BTreeMap;

use mantissa_store::Stream;
use mantissa_store::stream::{Node, NodeLimits, References, StreamEntry, StreamId, Trim, TrimTo};

use super::stream_groups::{self, GroupModel};
use super::{Choices, Clones};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// What should be in a stream.
#[derive(Clone, Default)]
pub struct Model {
    pub entries: BTreeMap<StreamId, Pairs>,
    pub groups: BTreeMap<Vec<u8>, GroupModel>,
}

fn contents<'a>(entries: impl Iterator<Item = StreamEntry<'a>>) -> Vec<(StreamId, Pairs)> {
    let pairs = |entry: StreamEntry<'a>| {
        (entry.id, entry.fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect())
    };
    entries.map(pairs).collect()
}

fn range(model: &Model, start: StreamId, end: StreamId) -> Vec<(StreamId, Pairs)> {
    if start > end {
        return Vec::new();
    }
    model.entries.range(start..=end).map(|(id, pairs)| (*id, pairs.clone())).collect()
}

fn check(stream: &Stream, model: &Model) {
    assert_eq!((stream.len(), stream.is_empty()), (model.entries.len() as u64, model.entries.is_empty()));
    let mut expected = range(model, StreamId::MIN, StreamId::MAX);
    assert_eq!(contents(stream.entries()), expected);
    assert_eq!(stream.first_id(), model.entries.keys().next().copied().unwrap_or(StreamId::MIN));
    expected.reverse();
    assert_eq!(contents(stream.range_reversed(StreamId::MIN, StreamId::MAX)), expected);
    stream_groups::check(stream, &model.groups);
}

/// The stream, made again of the listpacks that a dump would have.
fn reloaded(stream: &Stream) -> Stream {
    let mut copy = Stream::new();
    for node in stream.nodes() {
        let node = Node::from_listpack(node.first(), &node.to_listpack()).expect("a valid node");
        copy.push_node(node).expect("in order");
    }
    copy.last_id = stream.last_id;
    stream_groups::rebuild(stream, &mut copy);
    copy
}

/// Trims both, or looks that only whole nodes went.
fn trim(stream: &mut Stream, model: &mut Model, trim: &Trim) {
    if trim.references != References::Keep {
        return trim_referenced(stream, model, trim);
    }
    let excess = match trim.to {
        TrimTo::Length(length) => model.entries.len().saturating_sub(length as usize),
        TrimTo::From(start) => model.entries.range(..start).count(),
    };
    let gone = stream.trim(trim).0 as usize;
    assert!(if trim.whole_nodes { gone <= excess } else { gone == excess }, "{gone} of {excess} went");
    (0..gone).for_each(|_| drop(model.entries.pop_first()));
}

/// The same where groups are asked about each entry.
fn trim_referenced(stream: &mut Stream, model: &mut Model, trim: &Trim) {
    let Model { entries, groups } = model;
    let mut left = match trim.to {
        _ if trim.whole_nodes => 0,
        TrimTo::Length(length) => entries.len().saturating_sub(length as usize),
        TrimTo::From(start) => entries.range(..start).count(),
    };
    let mut gone = 0;
    let is_bounded_by_place = matches!(trim.to, TrimTo::From(_));
    entries.retain(|id, _| {
        let is_kept =
            trim.references == References::Acknowledged && stream_groups::is_referenced(groups, *id);
        if left == 0 || is_kept {
            // Up to a place, an entry that is kept counts as well; up to a length, the next one goes.
            left -= usize::from(left > 0 && is_bounded_by_place);
            return true;
        }
        if trim.references == References::Delete {
            stream_groups::acknowledge_everywhere(groups, *id);
        }
        left -= 1;
        gone += 1;
        false
    });
    assert_eq!(stream.trim(trim).0, gone);
}

/// An identifier that is in the stream, or next to one.
pub fn near(model: &Model, place: usize) -> StreamId {
    let id =
        model.entries.keys().nth(place / 3 % model.entries.len().max(1)).copied().unwrap_or(StreamId::MIN);
    [Some(id), id.next(), id.previous()][place % 3].unwrap_or(id)
}

/// Does to a stream and some clones of it what the bytes say.
pub fn stream_operations(data: &[u8]) {
    let mut choices = Choices(data);
    let Some(limits) = choices.limits() else { return };
    let limits =
        NodeLimits { bytes_max: limits.stream_node_bytes_max, entries_max: limits.stream_node_entries_max };
    let mut streams = Clones::<Stream, Model>::new();
    while let (Some(operation), Some(text), Some(place)) = (choices.next(), choices.text(), choices.number())
    {
        let (stream, model) = streams.chosen(operation);
        match operation % 16 {
            0..5 => {
                let last = stream.last_id;
                let step = [0, 0, 1, place as u64, 1 << 40][place % 5];
                let id = StreamId {
                    ms: last.ms.saturating_add(step),
                    seq: last.seq.saturating_add(1 + place as u64 % 3),
                };
                let fields: Pairs = (0..1 + place % 4)
                    .map(|field| (format!("field{}", field + place % 2).into(), text.clone()))
                    .collect();
                let views: Vec<_> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
                if stream.append(id, &views, limits) {
                    assert!(id > last);
                    model.entries.insert(id, fields);
                } else {
                    assert!(id <= last);
                }
            }
            5..9 => {
                let Some(what) = choices.number() else { return };
                stream_groups::change(stream, model, what, place);
            }
            9 => {
                let id = near(model, place);
                assert_eq!(stream.contains(id), model.entries.contains_key(&id));
                assert_eq!(stream.delete(id), model.entries.remove(&id).is_some());
                assert!(!stream.delete(id));
            }
            10 => {
                let to = match place % 2 {
                    // Seldom much, so that streams become long.
                    0 if place % 64 < 60 => {
                        TrimTo::Length((model.entries.len() + 1).saturating_sub(place / 64 % 9) as u64)
                    }
                    0 => TrimTo::Length((place / 64 % (model.entries.len() + 2)) as u64),
                    _ if place % 64 < 60 => TrimTo::From(near(model, place / 64 % 30)),
                    _ => TrimTo::From(near(model, place / 64)),
                };
                let references = stream_groups::references(place / 3);
                trim(stream, model, &Trim { to, whole_nodes: place & 2 == 0, limit: 0, references });
            }
            11..13 => {
                let (start, end) = (near(model, place % 255), near(model, place / 255));
                let mut expected = range(model, start, end);
                assert_eq!(contents(stream.range(start, end)), expected);
                expected.reverse();
                assert_eq!(contents(stream.range_reversed(start, end)), expected);
                let found = stream.get(start).map(|entry| contents(std::iter::once(entry)));
                assert_eq!(found.map(|mut found| found.remove(0).1).as_ref(), model.entries.get(&start));
            }
            13 => check(stream, model),
            14 => *stream = reloaded(stream),
            _ => streams.clone_chosen(operation, check),
        }
    }
    streams.check(check);
}
