//! The hand-over of a running server to another process.

pub mod channel;
pub mod freeze;
