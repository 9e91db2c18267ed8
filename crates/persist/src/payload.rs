//! The payload of DUMP and RESTORE: one value as a file holds it, with a version and a checksum.
//!
//! ```text
//! value type (1 byte) | value | version (u16 LE) | CRC-64 of all before it (u64 LE)
//! ```

use crate::format::{
    Checksum, Dialect, LATEST_VERSION, VERSION, VERSION_WITHOUT_CHECKSUM, module_name, opcode, value_type,
};
use crate::load::LoadOptions;
use crate::source::Source;
use crate::types::{Outcome, read_value};
use crate::write::{Encoder, WriteOptions};
use mantissa_store::{Value, ValueRef};
use std::sync::atomic::{AtomicBool, Ordering};

const FOOTER_BYTES: usize = 10;

/// Why a payload was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreError {
    /// It is damaged or of a later version.
    VersionOrChecksum,
    /// Its value is broken.
    BadFormat,
    /// It holds something else than libraries of functions.
    NotFunctions,
    /// It holds functions as an unreleased version wrote them.
    OldFunctions,
    /// A library in it is broken.
    FunctionLoading,
}

impl RestoreError {
    /// The text that RESTORE replies, without the `ERR`.
    pub fn text(self) -> &'static str {
        match self {
            RestoreError::VersionOrChecksum => "DUMP payload version or checksum are wrong",
            RestoreError::BadFormat => "Bad data format",
            RestoreError::NotFunctions => "given type is not a function",
            RestoreError::OldFunctions => "Pre-GA function format not supported",
            RestoreError::FunctionLoading => "Failed loading library data",
        }
    }
}

/// The payload of a value.
pub fn dump_value(value: ValueRef<'_>, options: &WriteOptions) -> Vec<u8> {
    dump_named(b"", value, options)
}

/// The payload of the value of a key, which some types name.
pub fn dump_named(key: &[u8], value: ValueRef<'_>, options: &WriteOptions) -> Vec<u8> {
    let mut encoder = Encoder::new(options.clone(), None);
    encoder.set_key(key);
    encoder.payload(value)
}

/// The value of a payload. Bytes after the value are allowed, as Redis allows them.
pub fn restore_value(payload: &[u8], options: &LoadOptions) -> Result<Value, RestoreError> {
    let (body, dialect) = verified(payload).ok_or(RestoreError::VersionOrChecksum)?;
    let mut source = Source::from_bytes(body.to_vec());
    let form = source.byte().map(|number| dialect.form(number)).map_err(|_| RestoreError::BadFormat)?;
    if form == value_type::STRING {
        return source.string_owned().map(Value::String).map_err(|_| RestoreError::BadFormat);
    }
    match read_value(&mut source, form, &options.limits) {
        Ok(Outcome::Value(value)) => Ok(value),
        _ => Err(RestoreError::BadFormat),
    }
}

/// The name of a payload's type, if that is one of a module.
pub fn module_type_of(payload: &[u8]) -> Option<String> {
    let (&form, value) = payload.split_first()?;
    let identifier = || Source::from_bytes(value.iter().take(9).copied().collect()).length().ok();
    (form == value_type::MODULE_2).then(identifier).flatten().map(module_name)
}

/// The payload of libraries of functions: for each the mark of a library and its code, and the same footer.
pub fn dump_libraries<'c>(codes: impl Iterator<Item = &'c [u8]>, options: &WriteOptions) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut encoder = Encoder::new(options.clone(), None);
    for code in codes {
        payload.push(opcode::FUNCTION2);
        encoder.string(code, &mut payload);
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = Checksum::of(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// The codes of the libraries of a payload.
pub fn restore_libraries(payload: &[u8]) -> Result<Vec<Vec<u8>>, RestoreError> {
    let (body, _) = verified(payload).ok_or(RestoreError::VersionOrChecksum)?;
    let mut source = Source::from_bytes(body.to_vec());
    let mut codes = Vec::new();
    while (source.offset() as usize) < body.len() {
        match source.byte() {
            Ok(opcode::FUNCTION2) => {}
            Ok(opcode::FUNCTION_PRE_GA) => return Err(RestoreError::OldFunctions),
            _ => return Err(RestoreError::NotFunctions),
        }
        codes.push(source.string_owned().map_err(|_| RestoreError::FunctionLoading)?);
    }
    Ok(codes)
}

/// Whether checksums are left unchecked, for tests of what damage does.
static SKIPS_CHECKSUMS: AtomicBool = AtomicBool::new(false);

/// Has checksums of payloads be left unchecked, or not.
pub fn skip_checksums(on: bool) {
    SKIPS_CHECKSUMS.store(on, Ordering::Relaxed);
}

/// Whether checksums of payloads are checked.
pub fn verifies_checksums() -> bool {
    !SKIPS_CHECKSUMS.load(Ordering::Relaxed)
}

/// Whether a payload is of a version that Redis 8.2 does not read.
pub fn is_later(payload: &[u8]) -> bool {
    version(payload).is_some_and(|version| version > VERSION)
}

fn version(payload: &[u8]) -> Option<u16> {
    let footer = payload.last_chunk::<FOOTER_BYTES>()?;
    Some(u16::from_le_bytes([footer[0], footer[1]]))
}

/// The payload without its footer, if that is right, and whose numbers it has.
fn verified(payload: &[u8]) -> Option<(&[u8], Dialect)> {
    let body_length = payload.len().checked_sub(FOOTER_BYTES)?;
    let (checked, checksum) = payload.split_at(body_length + 2);
    let version = version(payload)?;
    let may_be_left_out = (VERSION_WITHOUT_CHECKSUM..=LATEST_VERSION).contains(&version);
    let is_left_out = may_be_left_out && checksum.iter().all(|&byte| byte == 0);
    let right = is_left_out || Checksum::of(checked).to_le_bytes() == checksum;
    let right = right || !verifies_checksums();
    let dialect = Dialect::of_version(version).filter(|_| right)?;
    Some((&payload[..body_length], dialect))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_modules_have_a_type() {
        let identifier = "ReJSON-RL".bytes().fold(0_u64, |sum, letter| {
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            sum << 6 | alphabet.iter().position(|other| *other == letter).unwrap_or(0) as u64
        });
        let mut payload = vec![value_type::MODULE_2, 0x81];
        payload.extend((identifier << 10 | 3).to_be_bytes());
        payload.extend([0; 100]);
        assert_eq!(module_type_of(&payload).as_deref(), Some("ReJSON-RL"));
        assert_eq!(module_type_of(&payload[..5]), None);
        assert_eq!(module_type_of(&dump_libraries(std::iter::empty(), &WriteOptions::default())), None);
        assert_eq!(module_type_of(b""), None);
    }
}
