//! Items of one to three elements in few bytes: the parts that sets and hashes are made of.
//!
//! - [`element`]: how one text is stored;
//! - [`block`]: items in one allocation, shared by reference count;
//! - [`view`]: reading a block;
//! - [`bulk`]: making a block of all its elements;
//! - [`buckets`]: a hash table whose buckets are blocks;
//! - [`common`]: what two such tables have in common.
//!
//! An item's first element is the member of a set or the field of a hash, the second its value, the third its
//! expiry. Elements know nothing of each other, so each takes as many bytes as it needs.

mod block;
mod buckets;
mod bulk;
mod common;
mod element;
mod view;

pub(crate) use block::Block;
pub(crate) use buckets::{Buckets, Iter, Place};
pub(crate) use bulk::{Gathered, block_of, gather};
pub(crate) use common::Tagged;
pub(crate) use element::{Encoded, decode_integer, width_of};
pub(crate) use view::{Form, Item, Items, Position, View};
