//! Replication: the work on the state in [`crate::state::replication`].
//!
//! - A primary keeps a backlog of the log and, for each replica, a reader of it. The host's workers send
//!   what [`sending`] gives them.
//! - A replica has one thread, the link: it connects, synchronises, and applies the primary's stream. It puts
//!   the stream's bytes into its own log verbatim, so offsets of a whole chain agree.
//! - At a promotion the history gets a new name, and the old one stays known up to that offset.

pub mod apply;
pub mod backlog;
pub mod failover;
pub mod full_sync;
pub mod handshake;
pub mod install;
pub mod link;
pub mod own_expiry;
pub mod passing;
pub mod primary;
pub mod restore;
pub mod role;
pub mod sending;
pub mod topology;
pub mod waits;
pub mod wire;
