//! Types that redis-server has from modules: how their values are framed in files.
//!
//! ```text
//! 7 (module 2)   in place of the form, before the key
//! identifier     nine characters of six bits, ten bits of version
//! { opcode value } ...   what the module's own code writes, see [`module_opcode`]
//! 0 (EOF)
//! ```
//!
//! The frame is written and checked here. A [`super::Codec`] of such a type reads and writes what is
//! between, and names in [`super::Codec::FORMS`] a number of [`value_type`] that no file has: one for each
//! version that it reads.

use crate::format::{module_identifier, module_name, module_opcode, put_length, value_type};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill};
use std::io::Read;

/// A version of a module's type: its name, the version, and the number that stands for it here.
struct ModuleType(&'static str, u64, u8);

/// All that have a form. The names and versions are those of Redis's modules.
const MODULE_TYPES: &[ModuleType] = &[
    ModuleType("ReJSON-RL", 3, value_type::JSON),
    ModuleType("MBbloom--", 4, value_type::BLOOM_FILTER),
    ModuleType("MBbloomCF", 4, value_type::CUCKOO_FILTER),
    ModuleType("CMSk-TYPE", 0, value_type::COUNT_MIN_SKETCH),
    ModuleType("TopK-TYPE", 0, value_type::TOP_K),
    ModuleType("TDIS-TYPE", 0, value_type::T_DIGEST),
    ModuleType("vectorset", 0, value_type::VECTOR_SET),
    ModuleType("TSDB-TYPE", 8, value_type::TIME_SERIES),
];

/// Bits of an identifier that are the version.
const VERSION_BITS: u32 = 10;

/// The form of the type with this identifier, if there is one.
pub(super) fn form_of_identifier(identifier: u64) -> Option<u8> {
    let (name, version) = (module_name(identifier), identifier & ((1 << VERSION_BITS) - 1));
    MODULE_TYPES.iter().find(|row| row.0 == name && row.1 == version).map(|row| row.2)
}

/// The identifier of a form, if it is one of a module's type.
pub(super) fn identifier_of_form(form: u8) -> Option<u64> {
    let row = MODULE_TYPES.iter().find(|row| row.2 == form)?;
    module_identifier(row.0).map(|name| name | row.1)
}

/// The byte that stands for a form in files.
pub(crate) fn byte_of_form(form: u8) -> u8 {
    if identifier_of_form(form).is_some() { value_type::MODULE_2 } else { form }
}

/// Reads the mark of the end.
pub(super) fn read_end<R: Read>(source: &mut Source<R>) -> Result<(), LoadError> {
    expect(source, module_opcode::EOF)
}

/// Reads an unsigned integer.
pub(crate) fn read_unsigned<R: Read>(source: &mut Source<R>) -> Result<u64, LoadError> {
    expect(source, module_opcode::UINT)?;
    source.length()
}

/// Reads a binary64.
pub(crate) fn read_double<R: Read>(source: &mut Source<R>) -> Result<f64, LoadError> {
    expect(source, module_opcode::DOUBLE)?;
    source.array().map(f64::from_le_bytes)
}

/// Reads a string.
pub(crate) fn read_string<'s, R: Read>(source: &'s mut Source<'_, R>) -> Result<&'s [u8], LoadError> {
    expect(source, module_opcode::STRING)?;
    source.string()
}

fn expect<R: Read>(source: &mut Source<R>, opcode: u64) -> Result<(), LoadError> {
    let offset = source.offset();
    match source.length()? {
        found if found == opcode => Ok(()),
        found => source.error(offset, format!("module data has an element {found} where {opcode} should be")),
    }
}

/// Appends an unsigned integer.
pub(crate) fn put_unsigned(value: u64, out: &mut Vec<u8>) {
    put_length(module_opcode::UINT, out);
    put_length(value, out);
}

/// Appends a binary64.
pub(crate) fn put_double(value: f64, out: &mut Vec<u8>) {
    put_length(module_opcode::DOUBLE, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Strings of more bytes are written as they are, in pieces, and not compressed.
const COMPRESSED_BYTES_MAX: usize = 16 << 20;
const PIECE_BYTES: usize = 1 << 20;

impl Encoder<'_> {
    /// Appends a string of `len` bytes, of which `append` appends a range. Of a long one a piece is in memory
    /// at a time.
    pub(super) fn module_pages(
        &mut self,
        len: usize,
        append: impl Fn(usize, usize, &mut Vec<u8>),
        out: &mut Vec<u8>,
        spill: Spill<'_>,
    ) {
        if len <= COMPRESSED_BYTES_MAX {
            let mut bytes = Vec::with_capacity(len);
            append(0, len, &mut bytes);
            return self.module_string(&bytes, out);
        }
        put_length(module_opcode::STRING, out);
        put_length(len as u64, out);
        for from in (0..len).step_by(PIECE_BYTES) {
            append(from, len.min(from + PIECE_BYTES), out);
            spill(out);
        }
    }

    /// Appends a string. Of a long one a piece is in `out` at a time.
    pub(super) fn module_text(&mut self, text: &[u8], out: &mut Vec<u8>, spill: Spill<'_>) {
        if text.len() <= COMPRESSED_BYTES_MAX {
            return self.module_string(text, out);
        }
        self.module_pages(text.len(), |from, to, out| out.extend_from_slice(&text[from..to]), out, spill);
    }

    /// Appends a string of a module's value.
    pub(crate) fn module_string(&mut self, text: &[u8], out: &mut Vec<u8>) {
        put_length(module_opcode::STRING, out);
        self.string(text, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_and_forms_lead_to_each_other() {
        for row in MODULE_TYPES {
            let identifier = identifier_of_form(row.2).expect("it has a row");
            assert_eq!((module_name(identifier).as_str(), identifier & 1023), (row.0, row.1));
            assert_eq!(form_of_identifier(identifier), Some(row.2));
            assert_eq!(form_of_identifier(identifier ^ 512), None);
            assert_eq!(byte_of_form(row.2), value_type::MODULE_2);
        }
        // The identifier of DUMP from redis-server 8.2.3 with RedisJSON.
        assert_eq!(identifier_of_form(value_type::JSON), Some(0x45e2_5238_df91_2c03));
        assert_eq!(byte_of_form(value_type::HASH), value_type::HASH);
    }

    #[test]
    fn elements_read_back_and_refuse_each_other() {
        let mut out = Vec::new();
        put_unsigned(u64::MAX, &mut out);
        put_double(-0.1, &mut out);
        Encoder::new(Default::default(), None).module_string(b"text", &mut out);
        out.push(module_opcode::EOF as u8);
        let mut source = Source::from_bytes(out.clone());
        assert_eq!(read_unsigned(&mut source), Ok(u64::MAX));
        assert_eq!(read_double(&mut source), Ok(-0.1));
        assert_eq!(read_string(&mut source), Ok(&b"text"[..]));
        assert_eq!(read_end(&mut source), Ok(()));
        assert!(read_double(&mut Source::from_bytes(out)).is_err());
    }
}
