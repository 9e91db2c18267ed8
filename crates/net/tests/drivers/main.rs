//! The drivers over real sockets, one suite for both. Where io_uring is not to be had, its half says so and
//! passes.

#[macro_use]
mod common;
mod limits;
mod promises;
mod streams;
