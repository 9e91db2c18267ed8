//! Hashes, whose fields can have expiries (unix time in milliseconds).

use super::reading::{TYPICAL_ELEMENTS, believable, damage, each_pair, refused, unpack};
use super::{Codec, hash_template};
use crate::aof::Rebuilder;
use crate::aof::rebuild::decimal;
use crate::digest::Mixer;
use crate::format::{put_length, value_type};
use crate::load::{Input, Stop, skip_each, skip_length, skip_string, skip_strings};
use crate::packed::{Damage, Packing, zipmap};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target, offer};
use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_store::listpack::Listpack;
use mantissa_store::{EncodingLimits, Field, Hash};
use std::io::{Read, Write};

/// The latest time that a field can expire at, as unix time in milliseconds.
const FIELD_EXPIRY_MS_MAX: i64 = 0xffff_ffff_fffe;

const DUPLICATE: Damage = Damage { at: 0, reason: "hash has a field twice" };
const BAD_FIELD_EXPIRY: Damage = Damage { at: 0, reason: "hash has a field with an impossible expiry" };

impl Codec for Hash {
    const FORMS: &'static [u8] = &[
        value_type::HASH,
        value_type::HASH_ZIPMAP,
        value_type::HASH_ZIPLIST,
        value_type::HASH_LISTPACK,
        value_type::HASH_METADATA_PRE_GA,
        value_type::HASH_LISTPACK_EX_PRE_GA,
        value_type::HASH_METADATA,
        value_type::HASH_LISTPACK_EX,
        value_type::VALKEY_HASH,
        value_type::HASH_TMPL_LP,
        value_type::HASH_TMPL_LP_REF,
        value_type::HASH_TMPL_ARRAY,
        value_type::HASH_TMPL_ARRAY_REF,
    ];
    const DIGEST_NUMBER: u32 = 4;
    const MAY_BE_EMPTY: bool = false;

    fn form(&self, target: Target) -> Option<u8> {
        let has_expiries = self.earliest_expiry().is_some();
        match (self.encoding(), target) {
            ("listpackex", Target::File) => Some(value_type::HASH_LISTPACK_EX),
            ("listpack" | "listpackex", _) if !has_expiries => Some(value_type::HASH_LISTPACK),
            (_, _) if !has_expiries => Some(value_type::HASH),
            (_, Target::ValkeyBefore9) => None,
            (_, Target::Valkey) => Some(value_type::VALKEY_HASH_2),
            ("listpackex", _) => Some(value_type::HASH_LISTPACK_EX),
            (_, _) => Some(value_type::HASH_METADATA),
        }
    }

    fn write(&self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        match form {
            value_type::HASH_LISTPACK => {
                let mut listpack = Listpack::new();
                listpack.extend(self.iter().flat_map(|(field, value, _)| [field, value]));
                encoder.string(listpack.as_bytes(), out);
            }
            value_type::HASH_LISTPACK_EX => write_listpack_with_expiry(self, encoder, out),
            _ => {
                let expiries = begin_counted(self, form, out);
                for (index, field) in self.iter().enumerate() {
                    write_field(field, expiries, encoder, out);
                    if !offer(index, out, spill) {
                        break;
                    }
                }
            }
        }
    }

    fn write_owned(self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        if matches!(form, value_type::HASH_LISTPACK | value_type::HASH_LISTPACK_EX) {
            return self.write(form, encoder, out, spill);
        }
        let mut index = 0;
        let expiries = begin_counted(&self, form, out);
        self.into_each(&mut |field| {
            write_field(field, expiries, encoder, out);
            offer(index, out, spill);
            index += 1;
        });
    }

    fn read<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<Self, LoadError> {
        // What is packed already stays so unless it has too many elements, however long they are.
        let packed = EncodingLimits { hash_value_bytes_max: usize::MAX, ..*limits };
        let limits = match form {
            value_type::HASH_ZIPLIST
            | value_type::HASH_LISTPACK
            | value_type::HASH_LISTPACK_EX_PRE_GA
            | value_type::HASH_LISTPACK_EX => &packed,
            _ => limits,
        };
        let mut hash = Hash::new();
        if form == value_type::HASH_LISTPACK {
            unpack(source, |bytes| {
                hash = Hash::from_listpack(bytes, limits).map_err(damage)?;
                Ok(())
            })?;
            return Ok(hash);
        }
        let mut put = |field: &[u8], value: &[u8], expiry| put_field(&mut hash, field, value, expiry, limits);
        let mut put_packed = |bytes: &[u8], packing| {
            let mut scratch = [0; INTEGER_TEXT_MAX];
            each_pair(bytes, packing, |field, value| put(field, value.text(&mut scratch), None))
        };
        match form {
            value_type::HASH_ZIPLIST => unpack(source, |bytes| put_packed(bytes, Packing::Ziplist))?,
            value_type::HASH_ZIPMAP => {
                unpack(source, |bytes| {
                    zipmap::pairs(bytes).try_for_each(|pair| put(pair?.0, pair?.1, None))
                })?;
            }
            value_type::HASH_LISTPACK_EX | value_type::HASH_LISTPACK_EX_PRE_GA => {
                if form == value_type::HASH_LISTPACK_EX {
                    source.milliseconds()?;
                }
                unpack(source, |bytes| {
                    hash = Hash::from_listpack_with_expiry(bytes, FIELD_EXPIRY_MS_MAX, limits)
                        .map_err(damage)?;
                    Ok(())
                })?;
            }
            form if hash_template::has(form) => return hash_template::read(source, form, limits),
            _ => return read_counted(source, form, limits),
        }
        Ok(hash)
    }

    fn skip(input: &mut impl Input, form: u8) -> Result<(), Stop> {
        match form {
            value_type::HASH => skip_each(input, |input| skip_strings(input, 2)),
            value_type::HASH_METADATA | value_type::HASH_METADATA_PRE_GA => {
                if form == value_type::HASH_METADATA {
                    input.skip(8)?;
                }
                skip_each(input, |input| {
                    skip_length(input)?;
                    skip_strings(input, 2)
                })
            }
            value_type::HASH_LISTPACK_EX => {
                input.skip(8)?;
                skip_string(input)
            }
            value_type::VALKEY_HASH => skip_each(input, |input| {
                skip_strings(input, 2)?;
                input.skip(8)
            }),
            form if hash_template::has(form) => hash_template::skip(input, form),
            _ => skip_string(input),
        }
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        let mut set = to.gather(&[b"HSET", key], 2);
        self.iter().try_for_each(|(field, value, _)| set.add([field.to_vec(), value.to_vec()]))?;
        set.end()?;
        for (field, _, expiry) in self.iter() {
            if let Some(expiry) = expiry {
                let (time, field) = (decimal(expiry), field.to_vec());
                to.command(&[b"HPEXPIREAT", key, &time, b"FIELDS", b"1", &field])?;
            }
        }
        Ok(())
    }

    fn digest(&self, digest: &mut Mixer) {
        for (field, value, expiry) in self.iter() {
            let mut own = Mixer::new();
            own.mix_element(field);
            own.mix_element(value);
            if expiry.is_some() {
                own.add(b"!!hexpire!!");
            }
            digest.add_digest(&own);
        }
    }
}

/// How a counted form has the expiries of its fields.
#[derive(Clone, Copy)]
enum Expiries {
    /// Not at all.
    None,
    /// Before the field, as a distance from this time plus one.
    From(i64),
    /// Behind the value, as a time.
    Times,
}

/// What comes before the fields of a counted form.
fn begin_counted(hash: &Hash, form: u8, out: &mut Vec<u8>) -> Expiries {
    let expiries = match form {
        value_type::HASH_METADATA => Expiries::From(hash.earliest_expiry().unwrap_or(0)),
        value_type::VALKEY_HASH_2 => Expiries::Times,
        _ => Expiries::None,
    };
    if let Expiries::From(base) = expiries {
        out.extend_from_slice(&base.to_le_bytes());
    }
    put_length(hash.len() as u64, out);
    expiries
}

/// A field of a counted form.
fn write_field(
    (field, value, expiry): Field<'_>,
    expiries: Expiries,
    encoder: &mut Encoder<'_>,
    out: &mut Vec<u8>,
) {
    if let Expiries::From(base) = expiries {
        put_length(expiry.map_or(0, |expiry| expiry.saturating_sub(base) as u64 + 1), out);
    }
    encoder.element(field, out);
    encoder.element(value, out);
    if let Expiries::Times = expiries {
        out.extend_from_slice(&expiry.unwrap_or(-1).to_le_bytes());
    }
}

/// A listpack of fields, values and expiries, by rising expiry and those without one (0) last.
fn write_listpack_with_expiry(hash: &Hash, encoder: &mut Encoder<'_>, out: &mut Vec<u8>) {
    let mut fields: Vec<_> = hash.iter().collect();
    fields.sort_by_key(|(_, _, expiry)| expiry.unwrap_or(i64::MAX));
    let mut listpack = Listpack::new();
    listpack.append_all(|out| {
        for (field, value, expiry) in fields {
            out.element(field);
            out.element(value);
            out.integer(expiry.unwrap_or(0));
        }
    });
    out.extend_from_slice(&hash.earliest_expiry().unwrap_or(0).to_le_bytes());
    encoder.string(listpack.as_bytes(), out);
}

fn check_expiry(expiry: Option<i64>) -> Result<(), Damage> {
    match expiry {
        Some(time) if !(0..=FIELD_EXPIRY_MS_MAX).contains(&time) => Err(BAD_FIELD_EXPIRY),
        _ => Ok(()),
    }
}

/// Adds a field, which must be new.
pub fn put_field(
    hash: &mut Hash,
    field: &[u8],
    value: &[u8],
    expiry: Option<i64>,
    limits: &EncodingLimits,
) -> Result<(), Damage> {
    check_expiry(expiry)?;
    if !hash.set(field, value, limits) {
        return Err(DUPLICATE);
    }
    if expiry.is_some() {
        hash.set_expiry(field, expiry);
    }
    Ok(())
}

/// Reads the name of a field into `field`, behind its expiry where expiries are distances from `base`. Its
/// value is the next string.
pub(crate) fn read_field<R: Read>(
    source: &mut Source<R>,
    base: Option<i64>,
    field: &mut Vec<u8>,
) -> Result<Option<i64>, LoadError> {
    let mut expiry = None;
    if let Some(base) = base {
        let distance = source.length()?;
        // What does not fit is past every limit, which [`put_field`] refuses.
        let time = i64::try_from(distance).ok().and_then(|distance| base.checked_add(distance - 1));
        expiry = (distance != 0).then_some(time.unwrap_or(i64::MAX));
    }
    field.clear();
    field.extend_from_slice(source.string()?);
    Ok(expiry)
}

/// A hash as a count and that many fields: plain, or with an expiry before each field, 0 for none. The
/// released form counts expiries from one that it states first, plus one.
fn read_counted<R: Read>(
    source: &mut Source<R>,
    form: u8,
    limits: &EncodingLimits,
) -> Result<Hash, LoadError> {
    let mut hash = Hash::new();
    let base = match form {
        value_type::HASH_METADATA => Some(source.milliseconds()?),
        value_type::HASH_METADATA_PRE_GA => Some(1),
        _ => None,
    };
    let (mut field, mut value) = (Vec::new(), Vec::new());
    let count = source.length()?;
    let start = source.offset();
    // What becomes a table need not be looked through for each field before.
    let as_table = EncodingLimits { hash_entries_max: 0, ..*limits };
    let limits = if count > limits.hash_entries_max as u64 { &as_table } else { limits };
    for index in 0..count {
        if index == TYPICAL_ELEMENTS {
            hash.prepare(believable(source, start, count));
        }
        let offset = source.offset();
        let expiry = read_field(source, base, &mut field)?;
        let outcome = if form == value_type::VALKEY_HASH {
            value.clear();
            value.extend_from_slice(source.string()?);
            let time = source.milliseconds()?;
            // Valkey has times that are later than the latest here.
            let expiry = (time != -1).then_some(time.clamp(0, FIELD_EXPIRY_MS_MAX));
            put_field(&mut hash, &field, &value, expiry, limits)
        } else {
            put_field(&mut hash, &field, source.string()?, expiry, limits)
        };
        refused(source, offset, outcome)?;
    }
    Ok(hash)
}

#[cfg(test)]
impl super::tests::Sample for Hash {
    fn with_elements(count: usize) -> Self {
        let mut value = Hash::new();
        (0..count).for_each(|number| {
            _ = value.set(&super::tests::element(number), b"value", &EncodingLimits::default())
        });
        value
    }

    fn disturb(&mut self) {
        self.remove(&super::tests::element(0));
    }
}
