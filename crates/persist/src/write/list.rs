//! Lists: nodes of neighbouring elements, each a listpack, or one element alone where it is too large for
//! one. They are written as they are, so that a list is the same after it has been loaded.

use super::{Encoder, Spill};
use crate::format::{put_length, quicklist_container};
use mantissa_store::listpack::Listpack;
use mantissa_store::{List, ListNode};

impl Encoder<'_> {
    pub(super) fn list(&mut self, list: &List, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_length(list.nodes().count() as u64, out);
        let mut listpack = Listpack::new();
        for node in list.nodes() {
            self.list_node(node, &mut listpack, out);
            spill(out);
        }
    }

    /// The same of a list that is given up on the way.
    pub(super) fn owned_list(&mut self, list: List, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_length(list.nodes().count() as u64, out);
        let mut listpack = Listpack::new();
        list.into_nodes(&mut |node| {
            self.list_node(node, &mut listpack, out);
            spill(out);
        });
    }

    fn list_node(&mut self, node: ListNode<'_>, listpack: &mut Listpack, out: &mut Vec<u8>) {
        match node {
            ListNode::Packed(elements) => {
                listpack.clear();
                elements.for_each(|element| listpack.push_element(element));
                put_length(quicklist_container::PACKED, out);
                self.string(listpack.as_bytes(), out);
            }
            ListNode::Plain(element) => {
                put_length(quicklist_container::PLAIN, out);
                self.string(element, out);
            }
        }
    }
}
