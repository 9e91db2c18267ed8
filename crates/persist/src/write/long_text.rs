//! Long strings, of which a dump has one chunk in memory at a time, or what compression makes of them.

use super::{BUFFER_BYTES, Encoder, Spill, put_compressed_lengths};
use crate::format::put_length;
use mantissa_store::cold::{BLOCK_TEXT_BYTES, Cold, LONG_TEXT_BYTES};
use mantissa_store::{Entry, Kind, TextImage};
use std::ops::Range;

/// Bytes of a string on disk that are read at once.
const CHUNK_BYTES: usize = 64 * BLOCK_TEXT_BYTES;

const _: () = assert!(CHUNK_BYTES >= LONG_TEXT_BYTES, "a chunk of a shorter string is not one of blocks");

/// A string that is read once, from its beginning to its end. An error is a sentence.
pub(super) trait LongText {
    /// Its bytes, those included that have been read.
    fn byte_len(&self) -> usize;

    /// The number of chunks.
    fn chunk_count(&self) -> usize;

    /// Appends the first bytes, about `bytes_max` of them at most, of a chunk that has not been read.
    fn sample(&self, chunk: usize, bytes_max: usize, out: &mut Vec<u8>) -> Result<(), String>;

    /// Appends the next chunk. False, and nothing appended, at the end.
    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, String>;
}

impl LongText for TextImage {
    fn byte_len(&self) -> usize {
        TextImage::byte_len(self)
    }

    fn chunk_count(&self) -> usize {
        TextImage::chunk_count(self)
    }

    fn sample(&self, chunk: usize, bytes_max: usize, out: &mut Vec<u8>) -> Result<(), String> {
        TextImage::sample(self, chunk, bytes_max, out);
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        Ok(TextImage::read(self, out))
    }
}

/// The record of a string that [`Encoder::image`] reads from disk chunk by chunk. Others are to be in memory.
pub fn long_text_on_disk(entry: &Entry) -> Option<Cold> {
    entry.cold_only().filter(|cold| cold.place().kind() == Kind::String && cold.place().len() > CHUNK_BYTES)
}

/// A string on disk.
pub(super) struct TextOnDisk {
    cold: Cold,
    /// Bytes that have been read.
    taken: usize,
}

impl TextOnDisk {
    pub fn new(cold: Cold) -> TextOnDisk {
        TextOnDisk { cold, taken: 0 }
    }

    fn append(&self, range: Range<usize>, out: &mut Vec<u8>) -> Result<(), String> {
        let part = self.cold.read_part(range.clone())?;
        let bytes = part.bytes(range).ok_or("a part of a value was not read from disk")?;
        out.extend_from_slice(bytes);
        Ok(())
    }
}

impl LongText for TextOnDisk {
    fn byte_len(&self) -> usize {
        self.cold.place().len()
    }

    fn chunk_count(&self) -> usize {
        self.byte_len().div_ceil(CHUNK_BYTES)
    }

    fn sample(&self, chunk: usize, bytes_max: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let start = chunk * CHUNK_BYTES;
        let bytes = bytes_max.next_multiple_of(BLOCK_TEXT_BYTES).min(CHUNK_BYTES);
        self.append(start..self.byte_len().min(start + bytes), out)
    }

    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        let start = self.taken;
        self.taken = self.byte_len().min(start + CHUNK_BYTES);
        if start < self.taken {
            self.append(start..self.taken, out)?;
        }
        Ok(start < self.taken)
    }
}

impl Encoder<'_> {
    /// Appends a string. One that can not be read is a refusal.
    pub(super) fn long_text(&mut self, text: &mut impl LongText, out: &mut Vec<u8>, spill: Spill<'_>) {
        if let Err(reason) = self.try_long_text(text, out, spill) {
            self.refusal.get_or_insert(reason);
        }
    }

    fn try_long_text(
        &mut self,
        text: &mut impl LongText,
        out: &mut Vec<u8>,
        spill: Spill<'_>,
    ) -> Result<(), String> {
        if self.options.compress && self.is_compressible(text)? {
            let (mut chunk, mut packed) = (Vec::new(), Vec::new());
            while text.read(&mut chunk)? {
                self.compressor.compress_part(&chunk, &mut packed);
                chunk.clear();
            }
            put_compressed_lengths(packed.len(), text.byte_len(), out);
            for part in packed.chunks(BUFFER_BYTES) {
                out.extend_from_slice(part);
                if !spill(out) {
                    break;
                }
            }
            return Ok(());
        }
        put_length(text.byte_len() as u64, out);
        while text.read(out)? && spill(out) {}
        Ok(())
    }

    /// Whether some parts of a text compress.
    fn is_compressible(&mut self, text: &impl LongText) -> Result<bool, String> {
        const SAMPLES: usize = 16;
        const SAMPLE_BYTES: usize = 4096;
        let (mut sample, mut packed) = (Vec::new(), Vec::new());
        let (mut bytes, mut packed_bytes) = (0, 0);
        for index in 0..SAMPLES {
            sample.clear();
            text.sample(index * text.chunk_count() / SAMPLES, SAMPLE_BYTES, &mut sample)?;
            packed.clear();
            self.compressor.compress_part(&sample, &mut packed);
            bytes += sample.len();
            packed_bytes += packed.len();
        }
        Ok(packed_bytes + bytes / 16 < bytes)
    }
}
