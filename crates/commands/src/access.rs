//! A handler's view of the keyspace: the locked shards of its keys, one database at a time.
//!
//! Handlers read and change values only through an [`Access`], and report changes ([`Access::changed`],
//! [`Access::event`], [`Access::log_instead`]). They never publish, log or wake anybody themselves: the
//! commit does, from the collected [`Effects`], while the shards are still locked.
//!
//! Handlers never see an expired key. Reads note it for removal by the commit; writes remove it at once. On a
//! replica reads only hide it ([`Keyspace::keeps_expired`]), and commands of its primary find it there.

mod carried;
mod collected;
mod evict;
pub(crate) mod image;
mod lookups;
pub(crate) mod selected;
mod strings;
mod sweep;
mod unread;
pub(crate) mod work;

pub use unread::{ForRequest, Lent, Take, TakenPart, Unread};

use std::cell::Cell;
use std::sync::Arc;

use mantissa_protocol::{OwnedArgs, Reply};
use mantissa_store::cold::Part;
use mantissa_store::{
    Before, Collection, Entry, Hash, KEY_BYTES_MAX, KeyHash, Keyspace, Kind, List, LockedShards, Lookup, Set,
    Shard, ShardSet, SortedSet, Stream, UnexpiredEntry, Value,
};

use crate::effects::{
    self, Blocking, Effects, Event, EventClass, LazyFree, LogChoice, TimeoutReply, removal,
};
use crate::error::{Error, Outcome};
use crate::settings::{AccessClock, Settings};
pub use collected::Collected;

/// The conditions under which a handler runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// The handler may ask to wait; not so inside MULTI and in scripts.
    pub may_block: bool,
    /// A blocked client's command is tried again because one of its keys became ready. Keys in shards that
    /// are not locked count as missing then: they cannot have changed.
    pub serving: bool,
    /// CLIENT NO-TOUCH is on: reads leave the access clock alone.
    pub no_touch: bool,
    /// Large values are to be read as images, once no shard is locked ([`Access::wants_image`]).
    pub leaves_large: bool,
}

/// The time while a log is loaded: before every expiry. Keys that had expired when the log was written are
/// removed by commands of the log; others take part in the commands that follow.
const LOADING_MS: i64 = 0;

/// Counts that a command without further effects leaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Changes.
    pub dirty: u64,
    /// Lookups that found their key.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
}

/// What happens to the expiry when a string is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewExpiry {
    /// The expiry is removed.
    Clear,
    /// The expiry stays.
    Keep,
    /// The expiry becomes this Unix time in ms.
    At(i64),
}

/// A command's view of the shards that are locked for it.
pub struct Access<'a> {
    locked: LockedShards<'a>,
    database: usize,
    now_ms: i64,
    clock_ms: i64,
    settings: &'a Settings,
    mode: Mode,
    is_logged: bool,
    /// The command comes from the primary that this server follows.
    is_applied: bool,
    /// A script has called the command.
    pub in_script: bool,
    collected: &'a mut Collected,
    random_state: &'a mut u64,
    /// The address and hash of the key that was hashed ahead of the command, which stays where it is until
    /// the command has run.
    hint: (*const [u8], KeyHash),
    /// What has been read of a string on disk for the command.
    part: Option<&'a Part>,
    /// Values that were read for this request.
    lent: unread::Lending<'a>,
    /// The only keys that are there, if no shard is locked.
    images: Option<&'a image::Images<'a>>,
    wants_image: Cell<image::Wanted>,
}

/// Short names for the most used types of [`Access::collection`], [`Access::collection_mut`] and
/// [`Access::collection_or_new`].
macro_rules! collection_access {
    ($type:ident, $read:ident, $write:ident, $write_or_new:ident) => {
        #[doc = concat!("The `", stringify!($type), "` at a key, to read.")]
        #[inline]
        pub fn $read(&self, key: &[u8]) -> Outcome<Option<&$type>> {
            self.collection(key)
        }

        #[doc = concat!("The `", stringify!($type), "` at a key, to change.")]
        ///
        /// If it becomes empty, remove the key.
        #[inline]
        pub fn $write(&mut self, key: &[u8]) -> Outcome<Option<&mut $type>> {
            self.collection_mut(key)
        }

        #[doc = concat!("The `", stringify!($type), "` at a key, to change; a new one if there is none.")]
        #[inline]
        pub fn $write_or_new(&mut self, key: &[u8]) -> Outcome<&mut $type> {
            self.collection_or_new(key)
        }
    };
}

impl<'a> Access<'a> {
    /// A view of `locked` through database number `database` at the time `now_ms` (Unix time in ms).
    /// `random_state` feeds [`Access::random`]; `collected` is empty, and takes what the commit needs to
    /// know.
    pub fn new(
        locked: LockedShards<'a>,
        database: usize,
        now_ms: i64,
        settings: &'a Settings,
        mode: Mode,
        random_state: &'a mut u64,
        collected: &'a mut Collected,
    ) -> Self {
        let is_logged = locked.keyspace().is_logged();
        Access {
            locked,
            database,
            now_ms,
            clock_ms: now_ms,
            settings,
            mode,
            is_logged,
            is_applied: false,
            in_script: false,
            collected,
            random_state,
            hint: NO_HINT,
            part: None,
            lent: unread::Lending::default(),
            images: None,
            wants_image: Cell::default(),
        }
    }

    /// Has nothing expire, for commands that are loaded from a log, and logs nothing.
    pub fn begin_loading(&mut self) {
        self.now_ms = LOADING_MS;
        self.is_logged = false;
    }

    /// The same for commands of the primary that this server follows: the caller logs the primary's bytes.
    pub fn begin_applying(&mut self) {
        self.begin_loading();
        self.is_applied = true;
    }

    /// Ends that for the commands that follow.
    pub fn end_loading(&mut self) {
        self.now_ms = self.clock_ms;
        self.is_logged = self.locked.keyspace().is_logged();
    }

    /// Whether the command comes from a log.
    pub(crate) fn is_loading(&self) -> bool {
        self.now_ms == LOADING_MS
    }

    /// Remembers the hash of a key that was computed ahead, so that it need not be computed again.
    #[inline]
    pub fn hint(&mut self, key: &[u8], hash: KeyHash) {
        self.hint = (std::ptr::from_ref(key), hash);
    }

    // ---- circumstances ----

    /// The time that decides what has expired, Unix time in ms. It stands still while a command, transaction
    /// or script runs.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Lets the clock go on, to a Unix time in ms.
    pub fn advance_clock(&mut self, now_ms: i64) {
        (self.now_ms, self.clock_ms) = (now_ms, now_ms);
    }

    /// The time that is noted, and that durations begin at, Unix time in ms. It differs from
    /// [`Access::now_ms`] only while a log is loaded.
    #[inline]
    pub fn clock_ms(&self) -> i64 {
        self.clock_ms
    }

    /// Whether what is written is logged.
    #[inline]
    pub fn logs(&self) -> bool {
        self.is_logged
    }

    /// The database number.
    #[inline]
    pub fn database(&self) -> usize {
        self.database
    }

    /// The number of databases.
    pub fn database_count(&self) -> usize {
        self.locked.keyspace().database_count()
    }

    /// Looks at another database from now on. `number` is below [`Access::database_count`].
    pub fn select(&mut self, number: usize) {
        debug_assert!(number < self.database_count());
        self.database = number;
    }

    /// The settings.
    #[inline]
    pub fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// The conditions under which the handler runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the circumstances, for the next command of a transaction.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// The keyspace.
    pub fn keyspace(&self) -> &'a Keyspace {
        self.locked.keyspace()
    }

    /// The locked shards, for the commit.
    pub fn locked_mut(&mut self) -> &mut LockedShards<'a> {
        &mut self.locked
    }

    /// A uniform random number.
    pub fn random(&mut self) -> u64 {
        split_mix(self.random_state)
    }

    /// A uniform random number below `bound`, which must not be 0.
    pub fn random_below(&mut self, bound: usize) -> usize {
        ((u128::from(self.random()) * bound as u128) >> 64) as usize
    }

    // ---- lookups ----

    #[inline]
    fn hash(&self, key: &[u8]) -> KeyHash {
        if std::ptr::eq(self.hint.0, key) { self.hint.1 } else { self.locked.keyspace().hash(key) }
    }

    /// The unexpired entry of a key, without marking it as used or counting the lookup.
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Option<&Entry> {
        let hash = self.hash(key);
        let index = self.locked.keyspace().shard_of(hash);
        let Some(shard) = self.locked.shard(index) else {
            return self.imaged(key);
        };
        let entry = shard.databases.get(self.database)?.get(hash, key)?;
        if entry.has_expired(self.now_ms) {
            if !self.locked.keyspace().keeps_expired() {
                self.collected.note_expired(self.database, key);
            }
            return None;
        }
        Some(entry)
    }

    /// The unexpired entry of a key, for reading: marks it as used and counts the lookup.
    #[inline]
    pub fn read(&self, key: &[u8]) -> Option<&Entry> {
        let entry = self.read_untouched(key);
        if let Some(entry) = entry {
            self.toucher().touch(entry);
        }
        entry
    }

    /// Marks a key as used, also where reads do not. False if it is not there.
    pub fn touch(&self, key: &[u8]) -> bool {
        let entry = self.read_untouched(key);
        let toucher = Toucher { clock: Some(self.settings.access_clock), now_ms: self.clock_ms };
        entry.inspect(|entry| toucher.touch(entry)).is_some()
    }

    /// The unexpired entry of a key, for reading: counts the lookup but does not mark the key as used.
    #[inline]
    pub fn read_untouched(&self, key: &[u8]) -> Option<&Entry> {
        let entry = self.peek(key);
        if entry.is_some() {
            self.collected.hit();
        } else {
            self.collected.miss();
            if self.settings.notify & EventClass::KEY_MISS.0 != 0 {
                self.collected.note_missed(self.database, key);
            }
        }
        entry
    }

    /// The unexpired entry of a key, to change; an expired one is removed.
    #[inline]
    pub fn find_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.find_unexpired(key).map(UnexpiredEntry::into_mut)
    }

    /// The same, with its expiry to change as well.
    #[inline]
    pub fn find_unexpired(&mut self, key: &[u8]) -> Option<UnexpiredEntry<'_>> {
        let hash = self.hash(key);
        let index = self.locked.keyspace().shard_of(hash);
        let (toucher, moment) = (self.toucher(), self.moment());
        let shard = self.locked.shard_mut(index)?;
        let watched = shard.wants_changes();
        match shard.databases.get_mut(self.database)?.find_unexpired(hash, key, self.now_ms) {
            Lookup::Unexpired(entry) => {
                toucher.touch(&entry);
                Some(entry)
            }
            Lookup::Expired(entry) => {
                note_expired(self.collected, self.settings, moment, watched, entry);
                None
            }
            Lookup::Missing => None,
        }
    }

    /// The unexpired entry of a key, to change, and false; if the key is not there, a new entry with this
    /// value, and true. A collection must not stay empty.
    #[inline]
    pub fn find_or_insert(
        &mut self,
        key: &[u8],
        value: impl Fn() -> Value,
    ) -> Outcome<(UnexpiredEntry<'_>, bool)> {
        let clock = self.next_clock();
        self.find_or_insert_entry(key, || Entry::new(key, value(), None, clock))
    }

    #[inline]
    fn find_or_insert_entry(
        &mut self,
        key: &[u8],
        make: impl Fn() -> Entry,
    ) -> Outcome<(UnexpiredEntry<'_>, bool)> {
        check_key(key)?;
        let hash = self.hash(key);
        let index = self.locked.keyspace().shard_of(hash);
        let (toucher, moment) = (self.toucher(), self.moment());
        let Some(shard) = self.locked.shard_mut(index) else { return Err(NOT_LOCKED) };
        let (watched, awaited) = (shard.wants_changes(), shard.has_waiters());
        let Some(database) = shard.databases.get_mut(self.database) else { return Err(NOT_LOCKED) };
        let (entry, before) = database.unexpired_or_insert(hash, key, self.now_ms, make);
        match before {
            Before::Unexpired => {
                toucher.touch(&entry);
                return Ok((entry, false));
            }
            Before::Expired(old) => {
                note_expired(self.collected, self.settings, moment, watched, old);
            }
            Before::Missing => {}
        }
        note_new(self.collected, self.settings, self.database, awaited, &entry);
        Ok((entry, true))
    }

    /// Whether a key is there.
    pub fn exists(&self, key: &[u8]) -> bool {
        self.peek(key).is_some()
    }

    /// The type of the value at a key.
    pub fn kind(&self, key: &[u8]) -> Option<Kind> {
        self.peek(key).map(Entry::kind)
    }

    /// When a key expires (Unix time in ms): `None` if the key is not there, `Some(None)` if it does not
    /// expire.
    pub fn expiry(&self, key: &[u8]) -> Option<Option<i64>> {
        self.peek(key).map(Entry::expiry)
    }

    /// The collection of a type at a key, to change.
    ///
    /// If it becomes empty, remove the key.
    #[inline]
    pub fn collection_mut<T: Collection>(&mut self, key: &[u8]) -> Outcome<Option<&mut T>> {
        let Some(entry) = self.find_mut(key) else { return Ok(None) };
        entry.collection_mut().and_then(T::of_mut).map(Some).ok_or(Error::WRONG_TYPE)
    }

    /// The collection of a type at a key, to change; a new one if there is none.
    #[inline]
    pub fn collection_or_new<T: Collection>(&mut self, key: &[u8]) -> Outcome<&mut T> {
        let (entry, _) = self.find_or_insert(key, || T::default().into_value())?;
        entry.into_mut().collection_mut().and_then(T::of_mut).ok_or(Error::WRONG_TYPE)
    }

    collection_access!(List, list, list_mut, list_or_new);
    collection_access!(Set, set, set_mut, set_or_new);
    collection_access!(SortedSet, sorted_set, sorted_set_mut, sorted_set_or_new);
    collection_access!(Hash, hash_value, hash_mut, hash_or_new);
    collection_access!(Stream, stream, stream_mut, stream_or_new);

    // ---- changes ----

    /// Sets a key to a string (or to the integer that `text` is the canonical form of), whatever was there.
    #[inline]
    pub fn set_string(&mut self, key: &[u8], text: &[u8], expiry: NewExpiry) -> Outcome {
        let clock = self.next_clock();
        let new_expiry = match expiry {
            NewExpiry::At(time) => Some(time),
            NewExpiry::Clear | NewExpiry::Keep => None,
        };
        let make = || Entry::string(key, text, new_expiry, clock);
        let (mut entry, is_new) = self.find_or_insert_entry(key, make)?;
        if is_new {
            return Ok(());
        }
        let before = entry.kind();
        let mut replaced = None;
        if before == Kind::String {
            entry.set_string(text);
        } else {
            let fresh = Entry::string(key, text, entry.expiry(), entry.clock());
            replaced = Some(entry.replace(fresh));
        }
        if expiry != NewExpiry::Keep && entry.expiry() != new_expiry {
            entry.set_expiry(new_expiry);
        }
        if let Some(old) = replaced {
            self.collected.free_later_as(self.settings.lazy_server_del, old);
        }
        if before.row().waiting.is_for_loss() {
            self.signal(key);
        }
        self.overwritten(key, before, Kind::String);
        Ok(())
    }

    /// Sets a key to a value, whatever was there, with this expiry (Unix time in ms). A collection must not
    /// stay empty.
    pub fn put(&mut self, key: &[u8], value: Value, expiry: Option<i64>) -> Outcome {
        check_key(key)?;
        let entry = Entry::new(key, value, expiry, self.next_clock());
        self.put_entry(entry)
    }

    /// Puts an entry in the place of whatever its key held.
    pub fn put_entry(&mut self, entry: Entry) -> Outcome {
        let hash = self.hash(entry.key());
        let index = self.locked.keyspace().shard_of(hash);
        if self.find_unexpired(entry.key()).is_none() {
            return self.insert(hash, entry);
        }
        let (key, after) = (Box::<[u8]>::from(entry.key()), entry.kind());
        let Some(shard) = self.locked.shard_mut(index) else { return Err(NOT_LOCKED) };
        let awaited = shard.has_waiters();
        let Lookup::Unexpired(mut present) =
            shard.databases[self.database].find_unexpired(hash, &key, self.now_ms)
        else {
            return Err(NOT_LOCKED);
        };
        note_ready(self.collected, self.database, awaited, &entry);
        let old = present.replace(entry);
        let before = old.kind();
        note_lost(self.collected, self.database, awaited, &old);
        self.collected.free_later_as(self.settings.lazy_server_del, old);
        self.overwritten(&key, before, after);
        Ok(())
    }

    /// Removes what the entry's key holds and puts the entry there, as a key that is new. Returns the type of
    /// what was there, for [`Access::overwritten`], whose events come later.
    pub fn put_entry_as_new(&mut self, entry: Entry) -> Outcome<Option<Kind>> {
        let hash = self.hash(entry.key());
        let old = self.take(entry.key());
        let before = old.as_ref().map(Entry::kind);
        if let Some(old) = old {
            self.collected.free_later_as(self.settings.lazy_server_del, old);
        }
        self.insert(hash, entry)?;
        Ok(before)
    }

    /// Removes a key. A value that takes long to free is freed after the commit. False if the key was not
    /// there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.remove_as(self.settings.lazy_server_del, key)
    }

    fn remove_as(&mut self, is_lazy: bool, key: &[u8]) -> bool {
        let Some(entry) = self.take(key) else { return false };
        self.collected.free_later_as(is_lazy, entry);
        true
    }

    /// Removes a key, and says that it was deleted, which is one change. False if it was not there.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        self.delete_as(self.settings.lazy_server_del, key)
    }

    /// The same. `is_lazy` says whether a value that takes long to free counts as freed in the background.
    pub fn delete_as(&mut self, is_lazy: bool, key: &[u8]) -> bool {
        let is_removed = self.remove_as(is_lazy, key);
        if is_removed {
            self.modified(key, EventClass::GENERIC, "del");
        }
        is_removed
    }

    /// Removes a collection whose last element a command has removed, with its event.
    pub fn remove_if_empty(&mut self, key: &[u8], is_empty: bool) {
        if is_empty {
            self.remove(key);
            self.event(EventClass::GENERIC, "del", key);
        }
    }

    /// Removes a key and returns its entry.
    pub fn take(&mut self, key: &[u8]) -> Option<Entry> {
        let hash = self.hash(key);
        let index = self.locked.keyspace().shard_of(hash);
        let entry = self.locked.shard_mut(index)?.databases[self.database].remove(hash, key)?;
        if entry.has_expired(self.now_ms) {
            let (watched, moment) =
                (self.locked.shard(index).is_some_and(Shard::wants_changes), self.moment());
            note_expired(self.collected, self.settings, moment, watched, entry);
            return None;
        }
        let awaited = self.locked.shard(index).is_some_and(Shard::has_waiters);
        note_lost(self.collected, self.database, awaited, &entry);
        Some(entry)
    }

    /// Sets or removes the expiry of a key (Unix time in ms). False if the key is not there.
    pub fn set_expiry(&mut self, key: &[u8], expiry: Option<i64>) -> bool {
        match self.find_unexpired(key) {
            Some(mut entry) => {
                entry.set_expiry(expiry);
                true
            }
            None => false,
        }
    }

    /// Gives a time series other labels.
    pub fn set_labels(&mut self, key: &[u8], labels: Box<[mantissa_store::series::Label]>) {
        let (hash, database) = (self.hash(key), self.database);
        let index = self.locked.keyspace().shard_of(hash);
        if let Some(shard) = self.locked.shard_mut(index) {
            shard.databases[database].set_labels(hash, key, labels);
        }
    }

    /// Notes keys whose values the command has found otherwise than by their names.
    pub(crate) fn note_found(&mut self, keys: impl IntoIterator<Item = Arc<[u8]>>) {
        self.collected.effects().found.extend(keys);
    }

    /// Takes these keys: the client must have the right to read them all.
    pub fn take_found(&mut self) -> Vec<Arc<[u8]>> {
        std::mem::take(&mut self.collected.effects().found)
    }

    /// Leaves a value to be freed after the command.
    pub fn free_later(&mut self, value: Value) {
        self.collected.effects().to_free.values.push(value);
    }

    // ---- saying what happened ----

    /// Says that a key was changed: it counts as one change, and its watchers are marked.
    #[inline]
    pub fn changed(&mut self, key: &[u8]) {
        self.changed_by(key, 1);
    }

    /// The same, counting as `changes` changes for save points.
    pub fn changed_by(&mut self, key: &[u8], changes: u64) {
        self.collected.dirty += changes;
        let index = self.locked.keyspace().shard_of(self.hash(key));
        if matches!(self.settings.access_clock, AccessClock::LeastRecentlyModified) {
            self.mark_modified(key);
        }
        if self.locked.shard(index).is_some_and(Shard::wants_changes) {
            self.note_change(key, index);
        }
    }

    /// Says that a keyspace event happened.
    #[inline]
    pub fn event(&mut self, class: EventClass, name: &'static str, key: &[u8]) {
        if self.settings.notify & class.0 != 0 {
            self.collected.effects().events.push(Event {
                class,
                name,
                database: self.database,
                key: key.into(),
            });
        }
    }

    /// A key was changed once, and this is the event: what most writes say.
    #[inline]
    pub fn modified(&mut self, key: &[u8], class: EventClass, name: &'static str) {
        self.changed(key);
        self.event(class, name, key);
    }

    /// Logs this command in the place of the one that came. Several calls log several commands, in their
    /// order.
    pub fn log_instead(&mut self, arguments: &[&[u8]]) {
        if !self.is_logged {
            return;
        }
        let command = OwnedArgs::from_slices(arguments);
        match &mut self.collected.effects().log {
            LogChoice::Instead(commands) => commands.push(command),
            log @ LogChoice::Verbatim => *log = LogChoice::Instead(vec![command]),
        }
    }

    /// Logs nothing for this command, although it changed something (what it changed is logged otherwise).
    pub fn log_nothing(&mut self) {
        if self.is_logged && matches!(self.collected.effects().log, LogChoice::Verbatim) {
            self.collected.effects().log = LogChoice::Instead(Vec::new());
        }
    }

    /// Logs nothing of this command, whatever its handler asked for: its script has switched that off.
    pub fn discard_log(&mut self) {
        if self.is_logged {
            self.collected.effects().log = LogChoice::Instead(Vec::new());
        }
    }

    /// Asks to wait until one of `keys` has a value of this type with something for the command, which is
    /// then run again. Where waiting is not allowed (MULTI, scripts), replies as if the time were up. `also`
    /// is a further key that the command may touch.
    pub fn block<'k>(
        &mut self,
        reply: &mut Reply,
        (kind, keys): (Kind, impl IntoIterator<Item = &'k [u8]>),
        also: Option<&[u8]>,
        deadline: Option<i64>,
        on_timeout: TimeoutReply,
    ) {
        if !self.mode.may_block {
            return on_timeout.write(reply);
        }
        let keys: Vec<Box<[u8]>> = keys.into_iter().map(Box::from).collect();
        let mut shards = ShardSet::EMPTY;
        for key in keys.iter().map(AsRef::as_ref).chain(also) {
            shards.insert(self.locked.keyspace().shard_of(self.hash(key)));
        }
        let (on_loss, on_growth, again_at_ms, instead) = (false, false, None, None);
        let blocking =
            Blocking { kind, keys, deadline, on_timeout, shards, on_loss, on_growth, again_at_ms, instead };
        self.collected.effects().blocking = Some(blocking);
    }

    /// The handler's wish to wait, to be refined.
    pub(crate) fn blocking_mut(&mut self) -> Option<&mut Blocking> {
        self.collected.effects().blocking.as_mut()
    }

    /// Notes that clients which wait for a key may be served, or that the key has lost what they need.
    pub fn signal(&mut self, key: &[u8]) {
        let index = self.locked.keyspace().shard_of(self.hash(key));
        if self.locked.shard(index).is_some_and(Shard::has_waiters) {
            self.collected.effects().ready.push((self.database, key.into()));
        }
    }

    /// Whether the shard of a key is locked. While a blocked client is served, those of its other keys may
    /// not be.
    pub fn is_locked(&self, key: &[u8]) -> bool {
        self.locked.shard(self.locked.keyspace().shard_of(self.hash(key))).is_some()
    }

    /// Counts changes without marking watchers.
    pub fn count_changes(&mut self, changes: u64) {
        self.collected.dirty += changes;
    }

    /// Puts keys that became ready back, for a commit that serves nobody yet.
    pub fn keep_ready(&mut self, ready: Vec<(usize, Box<[u8]>)>) {
        if !ready.is_empty() {
            effects::join(&mut self.collected.effects().ready, ready);
        }
    }

    /// Puts back what is to be freed, for a commit in the middle of a transaction.
    pub fn keep_lazy_free(&mut self, to_free: Option<LazyFree>) {
        if let Some(to_free) = to_free {
            self.collected.effects().to_free.append(to_free);
        }
    }

    /// Takes the databases that are to be freed, before the end.
    pub fn take_databases(&mut self) -> Option<LazyFree> {
        let databases = std::mem::take(&mut self.collected.effects().to_free.databases);
        LazyFree { databases, ..LazyFree::default() }.if_any()
    }

    /// Takes the handler's wish to wait.
    pub fn take_blocking(&mut self) -> Option<Blocking> {
        self.collected.effects().blocking.take()
    }

    /// Forgets the lookups of a command that is repeated.
    pub fn forget_lookups(&mut self) {
        self.collected.forget_lookups();
    }

    /// Whether the handler has asked to wait.
    #[inline]
    pub fn wants_to_wait(&self) -> bool {
        self.collected.noted().is_some_and(|effects| effects.blocking.is_some())
    }

    /// If all that has been collected since the last call is counts, takes them: the usual case, which the
    /// commit can settle without looking further.
    #[inline]
    pub fn take_counts(&mut self) -> Option<Counts> {
        self.collected.take_counts()
    }

    /// Takes what has been collected since the last call. The commit's business.
    pub fn take_effects(&mut self) -> Effects {
        self.hint = NO_HINT;
        self.collected.take()
    }

    /// Removes a key of any locked shard if it has expired, with its event; for the commit and for active
    /// expiry. Not where expired keys are kept.
    pub fn remove_if_expired(&mut self, key: &[u8]) -> bool {
        !self.locked.keyspace().keeps_expired() && self.remove_own_if_expired(key)
    }

    /// The same also where expired keys are kept: for a key that this server's own clients have written.
    pub fn remove_own_if_expired(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let (index, moment) = (self.locked.keyspace().shard_of(hash), self.moment());
        let Some(shard) = self.locked.shard_mut(index) else { return false };
        let watched = shard.wants_changes();
        let Some(database) = shard.databases.get_mut(self.database) else { return false };
        if database.with_expiry_len() == 0 && !database.may_have_expired_fields(self.now_ms) {
            return false;
        }
        let Lookup::Expired(entry) = database.find_unexpired(hash, key, self.now_ms) else { return false };
        note_expired(self.collected, self.settings, moment, watched, entry);
        true
    }

    // ---- inner parts ----

    fn insert(&mut self, hash: KeyHash, entry: Entry) -> Outcome {
        let index = self.locked.keyspace().shard_of(hash);
        let Some(shard) = self.locked.shard_mut(index) else { return Ok(()) };
        let awaited = shard.has_waiters();
        note_new(self.collected, self.settings, self.database, awaited, &entry);
        shard.databases[self.database].insert(hash, entry);
        Ok(())
    }

    /// Says that a value was replaced by another.
    pub fn overwritten(&mut self, key: &[u8], before: Kind, after: Kind) {
        self.event(EventClass::OVERWRITTEN, "overwritten", key);
        if before != after {
            self.event(EventClass::TYPE_CHANGED, "type_changed", key);
        }
    }

    /// The access clock of a key that is used now for the first time.
    fn next_clock(&self) -> u32 {
        match self.settings.access_clock {
            AccessClock::LeastRecentlyUsed | AccessClock::LeastRecentlyModified => {
                (self.clock_ms / 1000) as u32
            }
            AccessClock::LeastFrequentlyUsed { .. } => frequency_clock(self.clock_ms, FREQUENCY_INITIAL),
        }
    }

    #[inline]
    fn moment(&self) -> Moment {
        Moment { database: self.database, now_ms: self.now_ms, is_logged: self.is_logged }
    }

    #[inline]
    fn toucher(&self) -> Toucher {
        let clock = if self.mode.no_touch { None } else { Some(self.settings.access_clock) };
        Toucher { clock, now_ms: self.clock_ms }
    }
}

/// Marks entries as used.
#[derive(Clone, Copy)]
struct Toucher {
    /// `None` leaves them alone.
    clock: Option<AccessClock>,
    now_ms: i64,
}

impl Toucher {
    #[inline]
    fn touch(self, entry: &Entry) {
        match self.clock {
            None | Some(AccessClock::LeastRecentlyModified) => {}
            Some(AccessClock::LeastRecentlyUsed) => {
                // Written only if it differs, so that readers of a popular key share its cache line.
                let clock = (self.now_ms / 1000) as u32 & CLOCK_MASK;
                if entry.clock() != clock {
                    entry.set_clock(clock);
                }
            }
            Some(AccessClock::LeastFrequentlyUsed { log_factor, decay_minutes }) => {
                self.count_use(entry, log_factor, decay_minutes);
            }
        }
    }

    fn count_use(self, entry: &Entry, log_factor: u32, decay_minutes: u32) {
        let counter = decayed_frequency(entry.clock(), self.now_ms, decay_minutes);
        let dice = DICE.with(|state| {
            let mut next = state.get();
            let dice = split_mix(&mut next);
            state.set(next);
            dice
        });
        let base = u64::from(counter.saturating_sub(FREQUENCY_INITIAL));
        let odds = base * u64::from(log_factor) + 1;
        let grown = if counter < 255 && dice.is_multiple_of(odds) { counter + 1 } else { counter };
        entry.set_clock(frequency_clock(self.now_ms, grown));
    }
}

thread_local! {
    /// Decides whether an access counts: every thread throws the same sequence, in other places.
    static DICE: Cell<u64> = const { Cell::new(0) };
}

/// The database in which a key is found expired, the time, and whether that is logged.
#[derive(Clone, Copy)]
struct Moment {
    database: usize,
    now_ms: i64,
    is_logged: bool,
}

/// Notes for the commit that an entry was removed because it had expired.
#[cold]
fn note_expired(
    collected: &mut Collected,
    settings: &Settings,
    Moment { database, now_ms, is_logged }: Moment,
    watched: bool,
    entry: Entry,
) {
    let effects = collected.effects();
    let mut event = |class: EventClass, name| {
        if settings.notify & class.0 != 0 {
            effects.events.push(Event { class, name, database, key: entry.key().into() });
        }
    };
    if entry.expiry().is_some_and(|time| time <= now_ms) {
        event(EventClass::EXPIRED, "expired");
        effects.expired_count += 1;
    } else {
        event(EventClass::HASH, "hexpired");
        event(EventClass::GENERIC, "del");
        effects.expired_fields_count += entry.expired_fields(now_ms) as u64;
    }
    if is_logged {
        effects.removed_expired.push((database, entry.key().into(), removal(settings.lazy_expire)));
    }
    if watched {
        effects.changed_by_expiry.push((database, entry.key().into()));
    }
    note_lost(collected, database, true, &entry);
    collected.free_later_as(settings.lazy_expire, entry);
}

/// Notes for the commit that a key is new. `awaited`: a client waits for a key of its shard.
#[inline]
fn note_new(collected: &mut Collected, settings: &Settings, database: usize, awaited: bool, entry: &Entry) {
    if settings.notify & EventClass::NEW.0 != 0 {
        let key = entry.key().into();
        collected.effects().events.push(Event { class: EventClass::NEW, name: "new", database, key });
    }
    note_ready(collected, database, awaited, entry);
}

/// Notes that clients which wait for such a key may be served.
#[inline]
fn note_ready(collected: &mut Collected, database: usize, awaited: bool, entry: &Entry) {
    if awaited && entry.kind().row().waiting.is_for_arrival() {
        collected.effects().ready.push((database, entry.key().into()));
    }
}

/// Notes that clients which wait for such a key may have to know that it is gone. `awaited` may be true
/// without need.
#[inline]
fn note_lost(collected: &mut Collected, database: usize, awaited: bool, entry: &Entry) {
    if awaited && entry.kind().row().waiting.is_for_loss() {
        collected.effects().ready.push((database, entry.key().into()));
    }
}

/// No key lies at this address; an empty one may lie at any other.
const NO_HINT: (*const [u8], KeyHash) = (std::ptr::slice_from_raw_parts(std::ptr::null(), 0), KeyHash(0));

/// The error for a command that touches keys which its specification does not find: a program error.
const NOT_LOCKED: Error = Error::fixed("ERR the command's keys are not locked");

/// The next of a sequence of uniform random numbers (SplitMix64 of Guy Steele, Doug Lea and Christine Flood).
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The bits of an access clock that entries keep.
const CLOCK_MASK: u32 = 0xFF_FFFF;

/// What the access counter of a new key starts with.
pub const FREQUENCY_INITIAL: u32 = 5;

/// The access clock kept for LFU policies: minutes (16 bits) and a counter (8 bits).
pub fn frequency_clock(now_ms: i64, counter: u32) -> u32 {
    (((now_ms / 60_000) as u32 & 0xFFFF) << 8) | counter
}

/// The access counter of a clock kept for an LFU policy, less one for each `decay_minutes` since it was last
/// changed.
pub fn decayed_frequency(clock: u32, now_ms: i64, decay_minutes: u32) -> u32 {
    let elapsed = ((now_ms / 60_000) as u32).wrapping_sub(clock >> 8) & 0xFFFF;
    (clock & 0xFF).saturating_sub(elapsed.checked_div(decay_minutes).unwrap_or(0))
}

/// The access clock of a key of which a dump says how it was used: how many seconds ago, or how often.
pub fn restored_clock(kept: AccessClock, idle_s: Option<u64>, frequency: Option<u8>, now_ms: i64) -> u32 {
    match kept {
        AccessClock::LeastFrequentlyUsed { .. } => {
            frequency_clock(now_ms, frequency.map_or(FREQUENCY_INITIAL, u32::from))
        }
        AccessClock::LeastRecentlyUsed | AccessClock::LeastRecentlyModified => {
            let idle_s = idle_s.unwrap_or(0).min(u64::from(CLOCK_MASK)) as u32;
            ((now_ms / 1000) as u32).wrapping_sub(idle_s)
        }
    }
}

/// Seconds since the last access, of a clock kept for the other policies.
pub fn idle_seconds(clock: u32, now_ms: i64) -> u32 {
    ((now_ms / 1000) as u32).wrapping_sub(clock) & CLOCK_MASK
}

/// Refuses a key that is too long to be one.
pub fn check_key(key: &[u8]) -> Outcome {
    if key.len() > KEY_BYTES_MAX { Err(Error::STRING_TOO_LONG) } else { Ok(()) }
}
