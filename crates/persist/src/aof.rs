//! The append-only file as Redis 7 has it: a directory with a [manifest](manifest), a base (an RDB file, or
//! commands), and increments (commands).
//!
//! Commands are requests as clients send them, so a file can be read with any tool that knows the protocol.
//! Lines that begin with `#` stand between commands; `#TS:1700000000` says when what follows was written.
//! A file may begin with a whole RDB file; [`has_preamble`] tells.
//!
//! There is no checksum over commands. A length that is wrong or a line that is none is found; a byte that
//! changed within an argument is not, as in Redis.

pub mod log;
pub mod manifest;
pub mod read;
pub mod rebuild;
pub mod write;

pub use log::{Failure, Log, NextFile, SyncPolicy, Unit, Writer};
pub use manifest::{AofFile, Manifest, ManifestError};
pub use read::{AofError, Item, Reader, has_preamble};
pub use rebuild::Rebuilder;
pub use write::put_timestamp;
