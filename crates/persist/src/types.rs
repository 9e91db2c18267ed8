//! Values of every type as files, digests and commands have them: one file a type.
//!
//! [`Codec`] is what a type must be able to do here; [`mantissa_store::types`] has the table of types. The
//! functions of this module take a value of any type and pass it to its own.
//!
//! A value is written in the form that redis-server writes for its encoding, and read from every form that
//! any version has written. A form is named by a number, its *value type* in the words of RDB; those of a
//! type are [`Codec::FORMS`]. A form is either a count and that many strings, or one string that is a
//! packed encoding. Counts are not believed: every element read takes at least a byte of the file, so a
//! damaged count ends in an error soon.

mod array;
mod bloom_filter;
mod count_min_sketch;
mod cuckoo_filter;
pub(crate) mod hash;
mod hash_template;
mod json;
mod list;
pub(crate) mod module;
mod reading;
pub(crate) mod series;
mod set;
mod sorted_set;
mod stream;
mod string;
mod t_digest;
#[cfg(test)]
mod tests;
mod top_k;
mod vector_set;

pub(crate) use module::byte_of_form;

use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::{module_name, module_opcode, put_length, value_type};
use crate::load::{Input, Stop, skip_module_key};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target};
use mantissa_store::{
    Collection, EncodingLimits, Kind, Value, ValueRef, ValueType, value_types, with_kind, with_owned_value,
    with_value,
};
use std::io::{Read, Write};

/// What a type of collections must be able to do to be kept in files.
pub(crate) trait Codec: Collection {
    /// The numbers of the forms that files have of it.
    const FORMS: &'static [u8];
    /// Redis's number of the type, for digests.
    const DIGEST_NUMBER: u32;
    /// Whether a key can hold one without elements. One that a file has is otherwise left out.
    const MAY_BE_EMPTY: bool;

    /// The form in which it is written for `target`, of which all have one for [`Target::File`].
    fn form(&self, target: Target) -> Option<u8>;

    /// Appends it in a form that [`Codec::form`] has named. Calls `spill` now and then.
    fn write(&self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>);

    /// The same; of a large one what has been appended is given up.
    fn write_owned(self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        self.write(form, encoder, out, spill);
    }

    /// Reads one in a form of [`Codec::FORMS`].
    fn read<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<Self, LoadError>;

    /// Steps over one in a form of [`Codec::FORMS`]. Accepts whatever `read` does. Provided for types of
    /// modules, whose frame is stepped over without them.
    fn skip(_input: &mut impl Input, _form: u8) -> Result<(), Stop> {
        Err(Stop::Unknown)
    }

    /// Writes the commands that make it at `key`, where nothing is.
    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String>;

    /// Mixes its elements into a digest, as [`crate::digest`] says.
    fn digest(&self, digest: &mut Mixer);
}

/// What reading a value came to.
pub(crate) enum Outcome {
    /// A collection that a key can hold.
    Value(Value),
    /// A collection without elements, which no key can hold.
    Empty,
    /// A module's value, of which only the name of its type has been read.
    Module(String),
}

/// For each form its type.
static KIND_OF_FORM: [Option<Kind>; FORMS_MAX] = kinds_of_forms();
/// The number of forms that a table may have; above are the marks of what is no value.
const FORMS_MAX: usize = crate::format::opcode::SLOT_INFO as usize;
/// The highest number of a form that is known, whether or not values in it can be read.
pub(crate) const LAST_FORM: u8 = last_form();

macro_rules! declare_forms {
    ([] $($(#[$doc:meta])* $kind:ident = $code:literal $row:tt)*) => {
        const fn kinds_of_forms() -> [Option<Kind>; FORMS_MAX] {
            let mut kinds = [None; FORMS_MAX];
            kinds[value_type::STRING as usize] = Some(Kind::String);
            $(
                let forms = <mantissa_store::$kind as Codec>::FORMS;
                let mut index = 0;
                while index < forms.len() {
                    let form = forms[index] as usize;
                    assert!(kinds[form].is_none(), "a form belongs to one type");
                    kinds[form] = Some(Kind::$kind);
                    index += 1;
                }
            )*
            kinds
        }
    };
}

value_types! { [declare_forms] [] }

const fn last_form() -> u8 {
    let kinds = kinds_of_forms();
    let mut last = value_type::VALKEY_HASH as usize - 1;
    while kinds[last].is_none() {
        last -= 1;
    }
    last as u8
}

/// The type that a form is one of.
fn kind_of(form: u8) -> Option<Kind> {
    KIND_OF_FORM.get(usize::from(form)).copied().flatten()
}

/// The form in which a value is written for `target`, if that can read it at all.
pub(crate) fn form_of(value: ValueRef<'_>, target: Target) -> Option<u8> {
    with_value!(value, _ => Some(value_type::STRING), value => Codec::form(value, target))
}

impl Encoder<'_> {
    /// Appends a value in a form that [`form_of`] has named.
    pub(crate) fn value(&mut self, form: u8, value: ValueRef<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        let is_framed = begin_frame(form, out);
        with_value!(
            value,
            text => self.string_value(text, out),
            value => Codec::write(value, form, self, out, spill),
        );
        end_frame(is_framed, out);
    }

    /// The same; of a large one what has been appended is given up.
    pub(crate) fn owned_value(&mut self, form: u8, value: Value, out: &mut Vec<u8>, spill: Spill<'_>) {
        let is_framed = begin_frame(form, out);
        with_owned_value!(
            value,
            text => self.string(&text, out),
            integer => self.integer(integer, out),
            value => Codec::write_owned(value, form, self, out, spill),
        );
        end_frame(is_framed, out);
    }
}

/// Appends what comes before the value of a module's type. Whether the form is one.
fn begin_frame(form: u8, out: &mut Vec<u8>) -> bool {
    let identifier = module::identifier_of_form(form);
    if let Some(identifier) = identifier {
        put_length(identifier, out);
    }
    identifier.is_some()
}

/// Appends what comes after the value of a module's type.
fn end_frame(is_framed: bool, out: &mut Vec<u8>) {
    if is_framed {
        put_length(module_opcode::EOF, out);
    }
}

/// Reads a value in any form but that of strings.
pub(crate) fn read_value<R: Read>(
    source: &mut Source<R>,
    form: u8,
    limits: &EncodingLimits,
) -> Result<Outcome, LoadError> {
    let offset = source.offset();
    let Some(kind) = kind_of(form) else {
        return match form {
            value_type::MODULE_2 => read_module_value(source, limits),
            value_type::MODULE_PRE_GA => source.error(offset, "pre-release module format not supported"),
            _ => source.error(offset, format!("unknown RDB encoding type {form}")),
        };
    };
    with_kind!(
        kind,
        string: source.error(offset, "a string where none can be"),
        Type => {
            let value = Type::read(source, form, limits)?;
            let is_left_out = !Type::MAY_BE_EMPTY && value.element_count() == 0;
            Ok(if is_left_out { Outcome::Empty } else { Outcome::Value(value.into_value()) })
        },
    )
}

/// Reads the value of a type that Redis has from a module, its identifier first.
fn read_module_value<R: Read>(source: &mut Source<R>, limits: &EncodingLimits) -> Result<Outcome, LoadError> {
    let identifier = source.length()?;
    match module::form_of_identifier(identifier).filter(|&form| kind_of(form).is_some()) {
        Some(form) => {
            let outcome = read_value(source, form, limits)?;
            module::read_end(source)?;
            Ok(outcome)
        }
        None => Ok(Outcome::Module(module_name(identifier))),
    }
}

/// Steps over a value in any form.
pub(crate) fn skip_value(input: &mut impl Input, form: u8) -> Result<(), Stop> {
    if form == value_type::MODULE_2 {
        return skip_module_key(input);
    }
    let kind = kind_of(form).ok_or(Stop::Unknown)?;
    with_kind!(kind, string: string::skip(input), Type => Type::skip(input, form))
}

/// Writes the commands that make a value at `key`, where nothing is.
pub(crate) fn rebuild<W: Write>(value: &Value, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
    with_owned_value!(
        value,
        text => string::rebuild(text, key, to),
        integer => string::rebuild_integer(*integer, key, to),
        value => Codec::rebuild(value, key, to),
    )
}

/// Mixes a value into a digest, its type first.
pub(crate) fn digest(value: ValueRef<'_>, digest: &mut Mixer) {
    fn mix<T: Codec>(value: &T, digest: &mut Mixer) {
        digest.mix_type(T::DIGEST_NUMBER);
        value.digest(digest);
    }
    with_value!(value, text => string::digest(text, digest), value => mix(value, digest))
}
