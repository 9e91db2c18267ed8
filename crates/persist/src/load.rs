//! Loading an RDB file: one pass over the bytes, values built as they are read. [`load_in_parallel`] and
//! [`load_stream_in_parallel`] split a file or a stream into parts, which several threads then load.
//!
//! What a file says is checked before it is used: bounds, counts, order, duplicates. A damaged file ends the
//! load with the offset and the reason; it never panics, recurses or allocates more than its own bytes
//! justify. The target gets every key that came before the damage, and is the caller's to throw away.
//!
//! As in Redis, keys that have expired are left out where [`LoadOptions::skip_expired`] says so, collections
//! without elements are left out and counted, and hash fields that have expired are kept for the expiry to
//! notice.

mod ahead;
mod module;
mod parallel;
mod parts;
mod replication;
mod skip;
mod stream;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use module::skip_key as skip_module_key;
pub use parallel::{LoadJob, load_in_parallel};
pub(crate) use skip::{Input, Stop, skip_each, skip_length, skip_string, skip_strings};
pub use stream::load_stream_in_parallel;
pub(crate) use target::printable;
pub use target::{KeyspaceTarget, LoadTarget, LoadedValue, Prepare, Record, SkippedKey};

use crate::delay::KeyDelay;
use crate::format::{Dialect, SIGNATURE_BYTES, VERSION_WITH_CHECKSUM, opcode, value_type};
use crate::source::{LoadError, Source};
use crate::types::{LAST_FORM, Outcome, read_value};
use crate::write::ReplicationFacts;
use mantissa_store::{EncodingLimits, KEY_BYTES_MAX};
use replication::Stated;
use std::io::Read;

/// What the file says about the use of a key, for the eviction policy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KeyUsage {
    /// Seconds since the key was last used.
    pub idle_s: Option<u64>,
    /// Logarithmic use counter.
    pub frequency: Option<u8>,
}

/// How to load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Thresholds of the collections' encodings.
    pub limits: EncodingLimits,
    /// The present, as unix time in milliseconds.
    pub now_ms: i64,
    /// Leaves out keys that have expired: right on a master, wrong for the base of an AOF and on a replica.
    pub skip_expired: bool,
    /// Compares the checksum at the end.
    pub verify_checksum: bool,
    /// Steps over the data of modules instead of refusing them. Their keys are counted and
    /// [`LoadTarget::skipped`] is told of each.
    pub skip_modules: bool,
    /// Delay after each key, for tests.
    pub key_delay: KeyDelay,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            limits: EncodingLimits::default(),
            now_ms: 0,
            skip_expired: false,
            verify_checksum: true,
            skip_modules: false,
            key_delay: KeyDelay::default(),
        }
    }
}

/// What was found at the end of the file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ChecksumState {
    /// The version has none.
    #[default]
    Absent,
    /// The file was written without computing it.
    NotComputed,
    /// It was not checked.
    Ignored,
    /// It is right.
    Verified,
}

/// The outcome of a load.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LoadSummary {
    /// Version of the format.
    pub version: u16,
    /// Keys delivered to the target.
    pub keys_loaded: u64,
    /// Keys left out because they have expired.
    pub keys_expired: u64,
    /// Keys left out because they are collections without elements.
    pub keys_empty: u64,
    /// Keys left out because they belong to modules.
    pub keys_of_modules: u64,
    /// Data of modules that belong to no key, left out as well.
    pub aux_of_modules: u64,
    /// Libraries of functions.
    pub functions: u64,
    /// Length of the file up to its end mark and checksum.
    pub bytes: u64,
    /// The outcome of the checksum.
    pub checksum: ChecksumState,
    /// Where replication stood, if the file says so.
    pub replication: Option<ReplicationFacts>,
}

/// What has been read of a key before its type.
#[derive(Clone, Copy, Default)]
struct Attributes {
    expiry: Option<i64>,
    usage: KeyUsage,
    database: usize,
}

/// How much a loader loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extent {
    /// All up to the end mark.
    All,
    /// What the source yields, whole records.
    Part,
    /// A key with what belongs to it, or one of the other records.
    Record,
}

/// Loads one snapshot file, record by record.
pub struct Loader<'a, R> {
    source: Source<'a, R>,
    options: LoadOptions,
    dialect: Dialect,
    summary: LoadSummary,
    key: Vec<u8>,
    stated: Stated,
}

impl<'a, R: Read> Loader<'a, R> {
    /// A loader of what `reader` yields, of which there are `total` bytes, if known.
    pub fn new(reader: R, total: Option<u64>, options: LoadOptions) -> Self {
        Loader {
            source: Source::new(reader, total),
            options,
            dialect: Dialect::default(),
            summary: LoadSummary::default(),
            key: Vec::new(),
            stated: Stated::default(),
        }
    }

    /// Has `report` called with the bytes read so far every few megabytes.
    pub fn on_progress(&mut self, report: impl FnMut(u64) + 'a) {
        self.source.on_progress(report);
    }

    /// Loads everything into `target`. After a success the loader stands right behind the file's end.
    pub fn load(&mut self, target: &mut dyn LoadTarget) -> Result<LoadSummary, LoadError> {
        self.header()?;
        self.records(0, target, Extent::All)?;
        target.finish()?;
        self.footer()?;
        self.summary.bytes = self.source.offset();
        self.summary.replication = self.stated.facts();
        Ok(self.summary.clone())
    }

    /// Loads what comes between the header and the end mark, or a part of it. `database` is the one that is
    /// selected at first; a part may say one that is not there.
    fn records(
        &mut self,
        database: usize,
        target: &mut dyn LoadTarget,
        extent: Extent,
    ) -> Result<(), LoadError> {
        let mut attributes = Attributes { database, ..Attributes::default() };
        if database != 0 {
            self.tell(self.source.offset(), target.select(database))?;
        }
        loop {
            if extent == Extent::Part && self.source.at_end() {
                return Ok(());
            }
            let offset = self.source.offset();
            let mark = self.source.byte()?;
            match mark {
                opcode::EOF => return Ok(()),
                opcode::SELECTDB => {
                    let database = self.source.length()?;
                    attributes.database = usize::try_from(database).unwrap_or(usize::MAX);
                    self.tell(offset, target.select(attributes.database))?;
                }
                opcode::EXPIRETIME_MS => attributes.expiry = expiry(self.source.milliseconds()?),
                opcode::EXPIRETIME => {
                    let seconds = i32::from_le_bytes(self.source.array()?);
                    attributes.expiry = expiry(i64::from(seconds)).map(|seconds| seconds * 1000);
                }
                opcode::IDLE => attributes.usage.idle_s = Some(self.source.length()?),
                opcode::FREQ => attributes.usage.frequency = Some(self.source.byte()?),
                value_type::STRING..=LAST_FORM => {
                    self.key(offset, self.dialect.form(mark), attributes, target)?;
                    attributes = Attributes { database: attributes.database, ..Attributes::default() };
                    if extent == Extent::Record {
                        return Ok(());
                    }
                }
                _ => {
                    self.other(offset, mark, target)?;
                    if extent == Extent::Record {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The offset that the load reached, also after an error.
    pub fn summary(&self) -> &LoadSummary {
        &self.summary
    }

    /// What was read past the end of the file, and the reader that yields the rest.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        self.source.into_rest()
    }

    fn header(&mut self) -> Result<(), LoadError> {
        let header = self.source.array::<SIGNATURE_BYTES>()?;
        let Some((dialect, version)) = Dialect::of_signature(&header) else {
            return self.source.error(0, "wrong signature: not an RDB file");
        };
        if version == 0 || Dialect::of_version(version) != Some(dialect) {
            let (at, version) = match dialect {
                Dialect::Redis => (5, format!("{version:04}")),
                Dialect::Valkey => (6, format!("{version:03} of Valkey")),
            };
            return self.source.error(at, format!("can't handle RDB format version {version}"));
        }
        (self.dialect, self.summary.version) = (dialect, version);
        Ok(())
    }

    /// Everything that is neither a key nor belongs to one.
    fn other(&mut self, offset: u64, mark: u8, target: &mut dyn LoadTarget) -> Result<(), LoadError> {
        match mark {
            opcode::RESIZEDB => {
                self.source.length()?;
                self.source.length()?;
            }
            opcode::SLOT_INFO => {
                for _ in 0..3 {
                    self.source.length()?;
                }
            }
            opcode::AUX => {
                self.key.clear();
                self.key.extend_from_slice(self.source.string()?);
                let value = self.source.string()?;
                target.describe(&self.key, value);
                self.stated.take(&self.key, value);
            }
            opcode::FUNCTION2 => {
                let outcome = target.function(self.source.string()?);
                self.tell(offset, outcome)?;
                self.summary.functions += 1;
            }
            opcode::HASH_TEMPLATE => {
                let (number, count) = (self.source.length()?, self.source.length()?);
                let mut fields = Vec::new();
                for _ in 0..count {
                    fields.push(self.source.string()?.into());
                }
                if !self.source.add_template(number, fields) {
                    return self.source.error(offset, "two lists of the fields of hashes have one number");
                }
            }
            opcode::FUNCTION_PRE_GA => {
                return self.source.error(offset, "pre-release function format not supported");
            }
            opcode::MODULE_AUX => {
                let name = module::read_aux(&mut self.source, offset, self.options.skip_modules)?;
                target.skipped_aux(&name);
                self.summary.aux_of_modules += 1;
            }
            _ => return self.source.error(offset, format!("unknown RDB encoding type {mark}")),
        }
        Ok(())
    }

    fn key(
        &mut self,
        offset: u64,
        value_type: u8,
        attributes: Attributes,
        target: &mut dyn LoadTarget,
    ) -> Result<(), LoadError> {
        self.key.clear();
        self.key.extend_from_slice(self.source.string()?);
        if self.key.len() > KEY_BYTES_MAX {
            return self.source.error(offset, "key is too long");
        }
        let Attributes { database, expiry, usage } = attributes;
        let expired = self.options.skip_expired && expiry.is_some_and(|expiry| expiry < self.options.now_ms);
        let value_at = self.source.offset();
        let value = if value_type == value_type::STRING {
            LoadedValue::Text(self.source.string()?)
        } else {
            match read_value(&mut self.source, value_type, &self.options.limits)? {
                Outcome::Value(value) => LoadedValue::Value(value),
                Outcome::Empty => {
                    self.summary.keys_empty += 1;
                    return Ok(());
                }
                Outcome::Module(type_name) => {
                    let skipped = SkippedKey { offset, database, key: &self.key, type_name: &type_name };
                    module::read_key(&mut self.source, value_at, self.options.skip_modules, &skipped)?;
                    target.skipped(&skipped);
                    self.summary.keys_of_modules += 1;
                    return Ok(());
                }
            }
        };
        if expired {
            self.summary.keys_expired += 1;
            return Ok(());
        }
        let outcome = target.insert(Record { offset, database, key: &self.key, value, expiry, usage });
        self.summary.keys_loaded += 1;
        self.options.key_delay.wait();
        self.tell(offset, outcome)
    }

    fn footer(&mut self) -> Result<(), LoadError> {
        if self.summary.version < VERSION_WITH_CHECKSUM {
            return Ok(());
        }
        let computed = self.source.checksum();
        let offset = self.source.offset();
        let stated = u64::from_le_bytes(self.source.array()?);
        let state = checksum_state(stated, computed, self.options.verify_checksum);
        self.summary.checksum = state.or_else(|reason| self.source.error(offset, reason))?;
        Ok(())
    }

    /// Turns an error of the target into one at `offset`.
    fn tell(&self, offset: u64, outcome: Result<(), String>) -> Result<(), LoadError> {
        outcome.or_else(|reason| self.source.error(offset, reason))
    }
}

/// An expiry as stored: -1 stands for none.
fn expiry(time: i64) -> Option<i64> {
    (time != -1).then_some(time)
}

/// What a file's checksum says: the one that it states, and the one that its bytes give. An error says why it
/// is wrong.
fn checksum_state(stated: u64, computed: u64, verify: bool) -> Result<ChecksumState, String> {
    match stated {
        _ if !verify => Ok(ChecksumState::Ignored),
        0 => Ok(ChecksumState::NotComputed),
        _ if stated == computed => Ok(ChecksumState::Verified),
        _ => Err(format!("RDB CRC error: the file says {stated:016x}, its bytes give {computed:016x}")),
    }
}
