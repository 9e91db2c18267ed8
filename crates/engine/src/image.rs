//! A large value that is read after its shard has been unlocked.

use std::sync::Arc;

use mantissa_commands::{Images, Work};
use mantissa_store::cold::{Part, Selected};
use mantissa_store::{Entry, Kind};

use crate::state::tier::PartRead;

/// Elements from which on a sink for the reply pays. One costs 0.3 microseconds and some allocations, HGETALL
/// of so many fields 40.
const STREAMED_ELEMENTS_MIN: u64 = 1024;

/// What a request has left to read.
pub(crate) struct Image {
    /// The value, which shares its memory with the one in the keyspace. The first that there is of several.
    pub(crate) entry: Entry,
    /// Those at the command's other keys, in the order of their names.
    pub(crate) others: Vec<Entry>,
    /// What was read of a value that is only on disk, if the request needs no more of it.
    pub(crate) read: Option<Arc<PartRead>>,
    /// How often large values had been freed when it was made.
    pub(crate) freed: u64,
    /// What is to be done with it before the request runs again, if it has not left it to read.
    pub(crate) work: Option<Work>,
    /// Whether the reply may be longer than the value.
    pub(crate) has_long_reply: bool,
    /// The request was put off, and is to run again later. It has counted no lookups.
    pub(crate) is_put_off: bool,
}

impl Image {
    /// The part of the value that is lent to the request.
    pub(crate) fn part(&self) -> Option<&Part> {
        self.read.as_ref()?.part()
    }

    /// The number of elements that there are to be read.
    fn element_count(&self) -> Option<u64> {
        let selected = self.part().and_then(|part| self.entry.selected_in(part));
        selected.map_or_else(|| self.entry.element_count(), |(_, selected)| Some(Selected::count(selected)))
    }

    /// The values as a command finds them.
    pub(crate) fn images(&self) -> Images<'_> {
        Images { first: &self.entry, others: &self.others }
    }

    /// Brings what is on disk of the values to memory, unless the part of it that is needed is there.
    pub(crate) fn bring(&self) -> Result<(), String> {
        if self.read.is_some() {
            return Ok(());
        }
        self.entry.bring()?;
        self.others.iter().try_for_each(Entry::bring)
    }

    /// Whether commands may stream what it holds, and the reply is long.
    pub(crate) fn is_streamed(&self) -> bool {
        let kind = self.entry.kind();
        self.others.is_empty()
            && matches!(
                kind,
                Kind::Hash
                    | Kind::List
                    | Kind::Set
                    | Kind::SortedSet
                    | Kind::Stream
                    | Kind::Series
                    | Kind::Array
            )
            && (self.has_long_reply
                || self.element_count().is_some_and(|count| count >= STREAMED_ELEMENTS_MIN))
    }
}
