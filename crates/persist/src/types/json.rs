//! JSON documents: the text, as a string of RedisJSON's type.

use super::Codec;
use super::module::read_string;
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::value_type;
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target};
use mantissa_store::{EncodingLimits, Json};
use std::io::{Read, Write};

fn text(document: &Json) -> Vec<u8> {
    let mut text = Vec::new();
    document.root().write(&mut text);
    text
}

impl Codec for Json {
    const FORMS: &'static [u8] = &[value_type::JSON];
    // That of all modules' types.
    const DIGEST_NUMBER: u32 = 5;
    const MAY_BE_EMPTY: bool = true;

    fn form(&self, _target: Target) -> Option<u8> {
        Some(value_type::JSON)
    }

    fn write(&self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        encoder.module_text(&text(self), out, spill);
    }

    fn read<R: Read>(source: &mut Source<R>, _form: u8, _limits: &EncodingLimits) -> Result<Self, LoadError> {
        let offset = source.offset();
        let parsed = Json::parse(read_string(source)?);
        parsed.or_else(|error| source.error(offset, format!("a JSON document is damaged: {error}")))
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        to.command(&[b"JSON.SET", key, b"$", &text(self)])
    }

    fn digest(&self, _digest: &mut Mixer) {
        // The module mixes nothing in.
    }
}

#[cfg(test)]
impl super::tests::Sample for Json {
    fn with_elements(count: usize) -> Self {
        let elements: Vec<String> = (0..count)
            .map(|number| String::from_utf8_lossy(&super::tests::element(number)).into_owned())
            .collect();
        Json::parse(format!("{elements:?}")).expect("it is JSON")
    }

    fn disturb(&mut self) {
        self.remove(&[], 0, 1);
    }
}
