//! The append-only file as Redis 7 has it: a directory with a [manifest](manifest), a base (an RDB file, or
//! commands), and increments (commands).
//!
//! Commands are requests as clients send them, so a file can be read with any tool that knows the protocol.
//! Lines that begin with `#` stand between commands; `#TS:1700000000` says when what follows was written, and
//! `#REPL:` [where](position) it is in the stream of replication.
//! A file may begin with a whole RDB file; [`has_preamble`] tells.
//!
//! A length that is wrong or a line that is none is found; a byte that changed within an argument is not, as
//! in Redis, unless the command belongs to a frame with a checksum. Frames are written where every write is
//! made durable at once, over bytes [preallocated](preallocation) at the end of the file.

pub mod control;
pub mod manifest;
pub mod position;
pub mod preallocation;
pub mod read;
pub mod rebuild;
pub mod write;
pub mod writer;

pub use control::{NextFile, SyncPolicy, WriterControl};
pub use manifest::{AofFile, Manifest, ManifestError};
pub use position::{Position, put_position};
pub use read::{AofError, Item, Reader, has_preamble};
pub use rebuild::Rebuilder;
pub use write::put_timestamp;
pub use writer::{Writer, WriterError};
