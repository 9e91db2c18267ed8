//! Hashes of Redis 8.10 whose fields are apart from their values.
//!
//! ```text
//! HASH_TMPL_LP         fields, listpack of a number and the values
//! HASH_TMPL_ARRAY      fields, values (strings)
//! HASH_TMPL_LP_REF     listpack of the number of the fields and the values
//! HASH_TMPL_ARRAY_REF  number of the fields, values (strings)
//! fields               0, listpack of strings; or 1, count, strings
//! ```
//!
//! Payloads of DUMP have the first two, files the others. What the numbers name stands somewhere before.

use super::hash::put_field;
use super::reading::refused;
use crate::format::value_type;
use crate::load::{Input, Stop, skip_length, skip_string, skip_strings};
use crate::packed::{Damage, Packing, elements};
use crate::source::{LoadError, NO_TEMPLATE, Source};
use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_store::listpack::Element;
use mantissa_store::{EncodingLimits, Hash};
use std::io::Read;
use std::sync::Arc;

type Fields = Arc<[Box<[u8]>]>;

/// How fields are written in front of their values.
const AS_LISTPACK: u64 = 0;
const AS_STRINGS: u64 = 1;

const NO_FIELDS: Damage = Damage { at: 0, reason: NO_TEMPLATE };
const OTHER_COUNT: Damage = Damage { at: 0, reason: "hash has other values than fields" };

/// Whether a form is one of these.
pub fn has(form: u8) -> bool {
    (value_type::HASH_TMPL_LP..=value_type::HASH_TMPL_ARRAY_REF).contains(&form)
}

/// Reads a hash.
pub fn read<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<Hash, LoadError> {
    let is_reference = matches!(form, value_type::HASH_TMPL_LP_REF | value_type::HASH_TMPL_ARRAY_REF);
    let fields = if is_reference { None } else { Some(read_fields(source)?) };
    let offset = source.offset();
    if matches!(form, value_type::HASH_TMPL_LP | value_type::HASH_TMPL_LP_REF) {
        // Its number may name fields that the source keeps.
        let packed = source.string_owned()?;
        let find = |number| match fields {
            Some(fields) => Ok(fields),
            None => source.template(number, packed.len()),
        };
        let hash = of_listpack(&packed, find, limits);
        return hash.map_err(|damage| LoadError { offset, reason: damage.reason.to_owned() });
    }
    let fields = match fields {
        Some(fields) => fields,
        None => {
            let number = source.length()?;
            match source.template(number, 0) {
                Ok(fields) => fields,
                Err(reason) => return source.error(offset, reason),
            }
        }
    };
    let mut hash = Hash::new();
    for field in &*fields {
        let offset = source.offset();
        let outcome = put_field(&mut hash, field, source.string()?, None, limits);
        refused(source, offset, outcome)?;
    }
    Ok(hash)
}

/// The hash of a listpack of a number and the values of the fields that `find` has for it.
fn of_listpack(
    packed: &[u8],
    find: impl FnOnce(u64) -> Result<Fields, &'static str>,
    limits: &EncodingLimits,
) -> Result<Hash, Damage> {
    let mut values = elements(packed, Packing::Listpack)?;
    let Some(Element::Integer(number)) = values.next().transpose()? else { return Err(NO_FIELDS) };
    let fields = find(u64::try_from(number).map_err(|_| NO_FIELDS)?);
    let fields = fields.map_err(|reason| Damage { at: 0, reason })?;
    let (mut hash, mut scratch) = (Hash::new(), [0; INTEGER_TEXT_MAX]);
    for field in &*fields {
        let value = values.next().ok_or(OTHER_COUNT)??;
        put_field(&mut hash, field, value.text(&mut scratch), None, limits)?;
    }
    if values.next().is_some() { Err(OTHER_COUNT) } else { Ok(hash) }
}

/// Reads fields that stand in front of their values: one at least.
fn read_fields<R: Read>(source: &mut Source<R>) -> Result<Fields, LoadError> {
    let offset = source.offset();
    let mut fields: Vec<Box<[u8]>> = Vec::new();
    match source.length()? {
        AS_LISTPACK => {
            let mut scratch = [0; INTEGER_TEXT_MAX];
            let mut take = |bytes: &[u8]| {
                for field in elements(bytes, Packing::Listpack)? {
                    fields.push(field?.text(&mut scratch).into());
                }
                Ok(())
            };
            let outcome = take(source.string()?);
            refused(source, offset, outcome)?;
        }
        AS_STRINGS => {
            let count = source.length()?;
            for _ in 0..count {
                fields.push(source.string()?.into());
            }
        }
        _ => return source.error(offset, "hash has its fields in an unknown form"),
    }
    if fields.is_empty() {
        return source.error(offset, NO_TEMPLATE);
    }
    Ok(fields.into())
}

/// Steps over a hash. Values without fields cannot be: only these tell how many there are.
pub fn skip(input: &mut impl Input, form: u8) -> Result<(), Stop> {
    if form == value_type::HASH_TMPL_LP_REF {
        return skip_string(input);
    }
    if form == value_type::HASH_TMPL_ARRAY_REF {
        return Err(Stop::Unknown);
    }
    let count = match skip_length(input)? {
        AS_STRINGS => {
            let count = skip_length(input)?;
            skip_strings(input, count)?;
            Some(count)
        }
        AS_LISTPACK => {
            skip_string(input)?;
            None
        }
        _ => return Err(Stop::Unknown),
    };
    match (form, count) {
        (value_type::HASH_TMPL_LP, _) => skip_string(input),
        (_, Some(count)) => skip_strings(input, count),
        (_, None) => Err(Stop::Unknown),
    }
}
