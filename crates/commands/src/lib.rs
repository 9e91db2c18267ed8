//! The command table and the commands on data, one file per family.
//!
//! A family file holds its handlers and ends in its registration table (`COMMANDS`). A handler gets an
//! [`Access`] to the locked shards of its keys, its arguments, and the reply to write; see [`DataHandler`].
#![forbid(unsafe_code)]

mod access;
pub mod arguments;
mod array;
mod bitmap;
mod bloom;
mod cms;
mod collection_scan;
mod cuckoo;
mod effects;
mod error;
mod expire;
mod expire_cycle;
mod expiry;
mod families;
mod filter_settings;
mod generic;
mod geo;
pub mod glob;
mod hash;
mod hyperloglog;
pub mod json;
mod keys;
mod list;
pub mod long_reads;
mod module_rows;
mod object;
mod packed;
pub mod parse;
mod registry;
mod scan;
mod series;
mod series_settings;
mod set;
mod settings;
pub mod slots;
mod sort;
mod sorted_set;
pub mod spec;
mod stream;
mod string;
mod tdigest;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod topk;
mod unpack;
mod vector_set;

pub use access::image::Images;
pub use access::selected::Window;
pub use access::work::{Work, WorkDone};
pub use access::{
    Access, Collected, Counts, FREQUENCY_INITIAL, ForRequest, Lent, Mode, NewExpiry, Take, TakenPart, Unread,
    check_key, decayed_frequency, frequency_clock, idle_seconds, restored_clock,
};
pub use effects::{
    Blocking, Effects, Event, EventClass, ExpiredFields, LazyFree, LogChoice, TimeoutReply, removal,
};
pub use error::{Error, Outcome};
pub use expire_cycle::{ExpireProgress, expire_cycle};
pub use families::FAMILIES;
pub use filter_settings::{BloomMaking, CuckooMaking, FilterSettings};
pub use hash::import_hash;
pub use keys::{InvalidArguments, find_keys, key_flags};
pub use object::memory_usage;
pub use registry::{CARRIED_AT, Command, Registry};
pub use series::bring_links_of;
pub use series_settings::{Compaction, SeriesSettings, parse_compactions};
pub use settings::{AccessClock, Settings};
pub use spec::{Info, KeyPosition, KeyPositions, Locks, Spec};
pub use vector_set::Filter;

use mantissa_protocol::{Args, Reply};

/// A command on data. `args[0]` is its name. The arity has been checked, the shards of its keys are locked.
/// It writes exactly one reply, or returns an error, which then replaces whatever it has written.
pub type DataHandler = fn(&mut Access<'_>, Args<'_>, &mut Reply) -> Outcome;

/// A row of a family's table.
pub type DataSpec = Spec<DataHandler>;
