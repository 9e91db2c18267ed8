//! Lists: nodes of neighbouring elements, each a listpack, or one element alone where it is too large for
//! one.

use super::Encoder;
use crate::format::{put_length, quicklist_container};
use mantissa_number::{INTEGER_TEXT_MAX, integer_text_length};
use mantissa_store::List;
use mantissa_store::listpack::{Element, Listpack};

/// Bytes of a node for `list-max-listpack-size` -1 to -5.
const NODE_BYTES_MAX: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];
/// Bytes of a node that is bounded by its number of elements.
const COUNTED_NODE_BYTES_MAX: usize = 8192;
/// What Redis adds to an element's length to bound its size in a listpack.
const ELEMENT_OVERHEAD_BYTES: usize = 8;

/// When a node is full.
#[derive(Clone, Copy)]
struct NodeBounds {
    bytes_max: usize,
    elements_max: usize,
}

impl NodeBounds {
    /// As `list-max-listpack-size` says.
    fn new(size: i64) -> Self {
        match usize::try_from(size) {
            Ok(elements) => NodeBounds { bytes_max: COUNTED_NODE_BYTES_MAX, elements_max: elements.max(1) },
            Err(_) => {
                let index = usize::try_from(-1 - size.max(-5)).unwrap_or_default();
                NodeBounds { bytes_max: NODE_BYTES_MAX[index], elements_max: usize::MAX }
            }
        }
    }
}

impl Encoder<'_> {
    pub(super) fn list(&mut self, list: &List, out: &mut Vec<u8>) {
        let bounds = NodeBounds::new(self.options.limits.list_node_size);
        let start = out.len();
        let mut nodes = 0u64;
        let mut node = Listpack::new();
        let mut elements = 0;
        for element in list.iter() {
            let length = match element {
                Element::Integer(integer) => integer_text_length(integer),
                Element::Bytes(bytes) => bytes.len(),
            };
            let is_large = length > bounds.bytes_max;
            let grown = node.as_bytes().len() + length + ELEMENT_OVERHEAD_BYTES;
            if elements > 0 && (is_large || grown > bounds.bytes_max || elements >= bounds.elements_max) {
                self.packed_node(&node, out);
                nodes += 1;
                node.clear();
                elements = 0;
            }
            if is_large {
                put_length(quicklist_container::PLAIN, out);
                self.string(element.text(&mut [0; INTEGER_TEXT_MAX]), out);
                nodes += 1;
            } else {
                node.push_element(element);
                elements += 1;
            }
        }
        if elements > 0 {
            self.packed_node(&node, out);
            nodes += 1;
        }
        // The number of nodes goes first and is known last; moving them once is linear, like writing them.
        let mut count = Vec::with_capacity(9);
        put_length(nodes, &mut count);
        out.splice(start..start, count);
    }

    fn packed_node(&mut self, node: &Listpack, out: &mut Vec<u8>) {
        put_length(quicklist_container::PACKED, out);
        self.string(node.as_bytes(), out);
    }
}
