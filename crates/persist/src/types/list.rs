//! Lists: nodes of neighbouring elements, each a listpack, or one element alone where it is too large for
//! one. They are written as they are, so that a list is the same after it has been loaded.

use super::Codec;
use super::reading::{damage, each_element, unpack};
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::{put_length, quicklist_container, value_type};
use crate::load::{Input, Stop, skip_each, skip_length, skip_string, skip_strings};
use crate::packed::{Damage, Packing};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target};
use mantissa_store::listpack::Listpack;
use mantissa_store::{EncodingLimits, List, ListNode};
use std::io::{Read, Write};

impl Codec for List {
    const FORMS: &'static [u8] = &[
        value_type::LIST,
        value_type::LIST_ZIPLIST,
        value_type::LIST_QUICKLIST,
        value_type::LIST_QUICKLIST_2,
    ];
    const DIGEST_NUMBER: u32 = 1;
    const MAY_BE_EMPTY: bool = false;

    fn form(&self, _target: Target) -> Option<u8> {
        Some(value_type::LIST_QUICKLIST_2)
    }

    fn write(&self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_length(self.node_count() as u64, out);
        let mut listpack = Listpack::new();
        for node in self.nodes() {
            write_node(node, &mut listpack, encoder, out);
            if !spill(out) {
                break;
            }
        }
    }

    fn write_owned(self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_length(self.node_count() as u64, out);
        let mut listpack = Listpack::new();
        self.into_nodes(&mut |node| {
            write_node(node, &mut listpack, encoder, out);
            spill(out);
        });
    }

    fn read<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<Self, LoadError> {
        if form == value_type::LIST_ZIPLIST { read_ziplist(source) } else { read_nodes(source, form, limits) }
    }

    fn skip(input: &mut impl Input, form: u8) -> Result<(), Stop> {
        match form {
            value_type::LIST_ZIPLIST => skip_string(input),
            value_type::LIST_QUICKLIST_2 => skip_each(input, |input| {
                skip_length(input)?;
                skip_string(input)
            }),
            _ => {
                let count = skip_length(input)?;
                skip_strings(input, count)
            }
        }
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        let mut push = to.gather(&[b"RPUSH", key], 1);
        self.iter().try_for_each(|element| push.add([element.to_vec()]))?;
        push.end()
    }

    fn digest(&self, digest: &mut Mixer) {
        self.iter().for_each(|element| digest.mix_element(element));
    }
}

fn write_node(node: ListNode<'_>, listpack: &mut Listpack, encoder: &mut Encoder<'_>, out: &mut Vec<u8>) {
    match node {
        ListNode::Packed(elements) => {
            listpack.clear();
            listpack.extend(elements);
            put_length(quicklist_container::PACKED, out);
            encoder.string(listpack.as_bytes(), out);
        }
        ListNode::Plain(element) => {
            put_length(quicklist_container::PLAIN, out);
            encoder.string(element, out);
        }
    }
}

/// A list that is one ziplist. It becomes one node, and the form of large lists, as in Redis.
fn read_ziplist<R: Read>(source: &mut Source<R>) -> Result<List, LoadError> {
    let mut list = List::new();
    let mut node = Listpack::new();
    let mut push = |element: &[u8]| {
        node.push(element);
        Ok(())
    };
    let offset = source.offset();
    unpack(source, |bytes| each_element(bytes, Packing::Ziplist, &mut push))?;
    if !node.is_empty() && list.push_listpack(node.as_bytes()).is_err() {
        return source.error(offset, "list has a node that cannot be converted".to_owned());
    }
    Ok(list)
}

/// A list as a count and that many nodes or elements.
fn read_nodes<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<List, LoadError> {
    let mut list = List::new();
    let count = source.length()?;
    for _ in 0..count {
        let (packing, has_own_node) = match form {
            value_type::LIST => (None, false),
            value_type::LIST_QUICKLIST => (Some(Packing::Ziplist), false),
            _ => {
                let offset = source.offset();
                match source.length()? {
                    quicklist_container::PLAIN => (None, true),
                    quicklist_container::PACKED => (Some(Packing::Listpack), false),
                    other => {
                        return source.error(offset, format!("list has a node of an unknown kind {other}"));
                    }
                }
            }
        };
        unpack(source, |bytes| {
            match packing {
                Some(Packing::Listpack) if count == 1 => {
                    list = List::from_listpack(bytes, limits).map_err(damage)?;
                }
                None if has_own_node => list.push_plain(bytes),
                None => list.push_back(bytes, limits),
                Some(Packing::Listpack) => push_node(&mut list, bytes)?,
                Some(packing) => {
                    let mut node = Listpack::new();
                    each_element(bytes, packing, |element| {
                        node.push(element);
                        Ok(())
                    })?;
                    push_node(&mut list, node.as_bytes())?;
                }
            }
            Ok(())
        })?;
    }
    // A list of elements has got its form with them.
    if form != value_type::LIST {
        list.settle(limits);
    }
    Ok(list)
}

/// Adds a node to a list; an empty one adds nothing.
fn push_node(list: &mut List, listpack: &[u8]) -> Result<(), Damage> {
    list.push_listpack(listpack).map_err(damage)
}

#[cfg(test)]
impl super::tests::Sample for List {
    fn with_elements(count: usize) -> Self {
        let mut value = List::new();
        (0..count)
            .for_each(|number| value.push_back(&super::tests::element(number), &EncodingLimits::default()));
        value
    }

    fn disturb(&mut self) {
        self.remove(0, 1);
    }
}
