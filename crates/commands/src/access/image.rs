//! Long reads of large values: from an image, with no shard locked.
//!
//! A command that may read much runs twice if its value is large: under the lock until it asks for the value,
//! which ends it, and then as a whole on an image of the value as it was at that moment. One that reads
//! several values has an image of each. So the lock is held no longer than for any other command, readers of
//! one value do not wait for each other, and nobody waits for them.

use mantissa_store::{Collection, Entry, Keyspace, Kind};

use super::{Access, Collected, Mode};
use crate::error::{Error, Outcome};
use crate::settings::Settings;

/// Elements from which on a value is read from an image. HGETALL of so many takes some 10 microseconds, an
/// image and the second run 0.3.
pub(crate) const ELEMENTS_MIN: usize = 256;
/// Where several values are read, as many more for each of them: an image of one costs as much as looking at
/// some of its elements.
const ELEMENTS_MIN_EACH: usize = 32;

/// Whether a command has ended because its value is to be read as an image.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Wanted {
    #[default]
    No,
    Yes,
    /// The reply may be longer than the value.
    ForLongReply,
}

/// Images of the values that a command reads.
#[derive(Clone, Copy)]
pub struct Images<'a> {
    /// That of its first key, or of another one if that does not exist.
    pub first: &'a Entry,
    /// Those of its other keys that exist, in the order of their names.
    pub others: &'a [Entry],
}

impl<'a> Images<'a> {
    fn get(&self, key: &[u8]) -> Option<&'a Entry> {
        if self.first.key() == key {
            return Some(self.first);
        }
        let place = self.others.binary_search_by(|entry| entry.key().cmp(key)).ok()?;
        self.others.get(place)
    }
}

/// Whether reading a whole value takes long.
#[inline]
fn is_large<T: Collection>(value: &T) -> bool {
    value.is_large_form()
        && (value.element_count() > ELEMENTS_MIN as u64 || value.free_effort() > ELEMENTS_MIN)
}

impl<'a> Access<'a> {
    /// The collection of a type at a key, to read.
    #[inline]
    pub fn collection<T: Collection>(&self, key: &[u8]) -> Outcome<Option<&T>> {
        let found = self.collection_in_place(key)?;
        if self.mode.leaves_large && found.is_some_and(is_large) {
            Err(self.leave(Wanted::Yes))
        } else {
            Ok(found)
        }
    }

    /// The same for commands that find out how much of it they are going to read, and then call
    /// [`Access::leave_if_many`].
    #[inline]
    pub fn collection_in_place<T: Collection>(&self, key: &[u8]) -> Outcome<Option<&T>> {
        let value = self.read(key).map(|entry| self.value_of(entry));
        value.map(|value| T::of(value).ok_or(Error::WRONG_TYPE)).transpose()
    }

    /// Ends the command if the elements that it is going to read are more than `most` and the value large:
    /// they are better read from an image.
    #[inline]
    pub fn leave_if_many<T: Collection>(&self, value: &T, count: usize, most: usize) -> Outcome {
        if self.mode.leaves_large && count > most && is_large(value) {
            Err(self.leave(Wanted::Yes))
        } else {
            Ok(())
        }
    }

    /// Ends a command that reads so many keys, if the elements that it is going to look at are many.
    pub fn leave_if_many_in_all(&self, key_count: usize, count: usize) -> Outcome {
        let is_long = count > ELEMENTS_MIN.saturating_add(ELEMENTS_MIN_EACH.saturating_mul(key_count));
        if self.mode.leaves_large && is_long { Err(self.leave(Wanted::Yes)) } else { Ok(()) }
    }

    /// A view of images alone, at their keys, with no shard locked. Nothing can be changed through it.
    pub fn of_images(
        images: &'a Images<'a>,
        keyspace: &'a Keyspace,
        (database, now_ms): (usize, i64),
        settings: &'a Settings,
        random_state: &'a mut u64,
        collected: &'a mut Collected,
    ) -> Self {
        let none = keyspace.lock_none();
        let mut access =
            Access::new(none, database, now_ms, settings, Mode::default(), random_state, collected);
        access.images = Some(images);
        access
    }

    /// The image at a key, for keys whose shard is not locked.
    #[cold]
    pub(super) fn imaged(&self, key: &[u8]) -> Option<&Entry> {
        let image = self.images.and_then(|images| images.get(key));
        debug_assert!(
            self.mode.serving || self.images.is_some(),
            "a command touches only the keys that its specification finds"
        );
        image.filter(|image| !image.has_expired(self.now_ms))
    }

    /// Ends a command that is to read a value as an image.
    #[cold]
    fn leave(&self, wanted: Wanted) -> Error {
        self.wants_image.set(wanted);
        Error::fixed("ERR the value is read as an image")
    }

    /// Ends the command if a value that it is going to read as a whole is better read as an image.
    pub fn leave_if_large(&self, entry: &Entry) -> Outcome {
        // The image of a string is a copy.
        let is_large = entry.kind() != Kind::String && entry.is_large();
        if self.mode.leaves_large && is_large { Err(self.leave(Wanted::Yes)) } else { Ok(()) }
    }

    /// Ends a command that may read much, and whose reply may be longer than the value: an image of it is
    /// read then, however small it is.
    pub fn leave_for_long_reply(&self) -> Outcome {
        if self.mode.leaves_large { Err(self.leave(Wanted::ForLongReply)) } else { Ok(()) }
    }

    /// Whether the command has ended because its reply may be long.
    pub fn has_long_reply(&self) -> bool {
        self.wants_image.get() == Wanted::ForLongReply
    }

    /// Whether the command has ended because its value is to be read as an image.
    #[inline]
    pub fn wants_image(&self) -> bool {
        self.wants_image.get() != Wanted::No
    }
}
