//! Comparing two servers: every key of the source, by the payloads of DUMP where they are the same bytes, and
//! otherwise by digests of what the payloads hold, as servers may encode a value in different ways.

use std::io;

use mantissa_persist::digest::digest_value;
use mantissa_persist::load::{KeyUsage, LoadOptions, LoadedValue, Record};
use mantissa_persist::payload::{module_type_of, restore_value};
use mantissa_protocol::put_quoted;

use super::options::ImportOptions;
use super::source::{Dumped, Keys, dump, select};
use super::{now_ms, progress};
use crate::output::tell;
use crate::target::Target;

/// How far apart two expiries may be where one is computed from the time that is left.
const EXPIRY_TOLERANCE_MS: u64 = 1000;

/// What a comparison found.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Found {
    Same,
    Missing,
    OtherValue,
    OtherExpiry,
    /// One of the values is of a kind that cannot be read here.
    Unknown,
    /// It is of a module's type and was left out as asked for.
    LeftOut,
}

/// Compares all keys and says what differs; whether nothing does.
pub(crate) fn run(
    options: &ImportOptions,
    source: &Target,
    target: &Target,
    databases: &[(u32, u64)],
) -> io::Result<bool> {
    let bar = progress(databases.iter().map(|(_, keys)| keys).sum(), "keys compared");
    let mut keys = Keys::new(source, databases, None, options.pattern.as_deref(), options.batch)?;
    let (mut one, mut other) = (source.open()?, target.open()?);
    let (mut one_selected, mut other_selected) = (None, None);
    let mut counts = [0_u64; 6];
    let mut first_difference = None;
    while let Some(batch) = keys.next()? {
        select(&mut one, &mut one_selected, batch.database)?;
        select(&mut other, &mut other_selected, batch.database)?;
        let ours = dump(&mut one, &batch.keys)?;
        let theirs = dump(&mut other, &batch.keys)?;
        for ((key, ours), theirs) in batch.keys.iter().zip(&ours).zip(&theirs) {
            let mut found = compare(ours.as_ref(), theirs.as_ref());
            let is_module = || ours.as_ref().is_some_and(|ours| module_type_of(&ours.payload).is_some());
            if found == Found::Missing && options.skip_unknown_types && is_module() {
                found = Found::LeftOut;
            }
            counts[found as usize] += 1;
            if !matches!(found, Found::Same | Found::LeftOut) && first_difference.is_none() {
                first_difference = Some(key.clone());
            }
        }
        bar.inc(batch.keys.len() as u64);
    }
    bar.finish_and_clear();
    let [same, missing, other_value, other_expiry, unknown, left_out] = counts;
    let mut line = format!("verified: {same} keys are the same");
    for (count, what) in [
        (missing, "are missing"),
        (other_value, "have another value"),
        (other_expiry, "expire at another time"),
        (unknown, "could not be compared"),
        (left_out, "were left out"),
    ] {
        if count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    tell!("{line}")?;
    if let Some(key) = first_difference {
        let mut shown = Vec::new();
        put_quoted(&mut shown, &key);
        eprintln!("The first difference: {}", String::from_utf8_lossy(&shown));
    }
    Ok(same + left_out == counts.iter().sum::<u64>())
}

fn compare(ours: Option<&Dumped>, theirs: Option<&Dumped>) -> Found {
    let (ours, theirs) = match (ours, theirs) {
        (Some(ours), Some(theirs)) => (ours, theirs),
        // Gone on both: it has expired or been deleted.
        (None, None) => return Found::Same,
        _ => return Found::Missing,
    };
    let same_expiry = match (ours.expires_at_ms, theirs.expires_at_ms) {
        (Some(one), Some(other)) => {
            let is_exact = ours.has_exact_expiry && theirs.has_exact_expiry;
            one.abs_diff(other) <= if is_exact { 0 } else { EXPIRY_TOLERANCE_MS }
        }
        (None, None) => true,
        _ => false,
    };
    if ours.payload != theirs.payload {
        match (digest(&ours.payload), digest(&theirs.payload)) {
            (Some(ours), Some(theirs)) if ours == theirs => {}
            (Some(_), Some(_)) => return Found::OtherValue,
            _ => return Found::Unknown,
        }
    }
    if same_expiry { Found::Same } else { Found::OtherExpiry }
}

/// The digest of the value of a payload; `None` if it cannot be read.
fn digest(payload: &[u8]) -> Option<[u8; 20]> {
    let options = LoadOptions { now_ms: now_ms(), ..LoadOptions::default() };
    let value = restore_value(payload, &options).ok()?;
    let usage = KeyUsage::default();
    let value = LoadedValue::Value(value);
    let record = Record { offset: 0, database: 0, key: b"", value, expiry: None, usage };
    Some(digest_value(&record.into_entry(0)))
}
