//! Chunks as Redis's module keeps them in files, compressed as in "Gorilla" (Pelkonen et al., VLDB 2015).
//!
//! ```text
//! bits, from the lowest of each word on; a sample but the first:
//! time:   0                                the distance to the sample before is that of the one before it
//!         10 d5 | 110 d8 | 1110 d11 | 11110 d15 | 111110 d32 | 111111 d64      or differs by d, signed
//! value:  0                                the one before
//!         1 0 bits                         its exclusive or with that, less the zeros of the last window
//!         1 1 leading5 (size - 1)6 bits    the same with a window of its own
//! ```
//!
//! Prefixes are written with their lowest bit first. [`GorillaReader`] reads untrusted bytes: it checks all.

use super::Sample;

/// Widths of a difference, each with the number of ones before it and whether a zero follows those.
const WIDTHS: [(u32, u32); 5] = [(5, 2), (8, 3), (11, 4), (15, 5), (32, 6)];
const LEADING_BITS: u32 = 5;
const LEADING_MAX: u32 = 31;
const SIZE_BITS: u32 = 6;
/// What both sides of the window are before the first.
const WINDOW_NONE: u32 = 32;

/// Why bytes are no chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GorillaError;

/// A chunk that is being written.
#[derive(Clone, Debug, PartialEq)]
pub struct GorillaWriter {
    /// Bytes of its data.
    pub bytes: u64,
    /// The number of samples.
    pub count: u64,
    /// Bits that are used.
    pub bits: u64,
    /// The first sample.
    pub base: Sample,
    /// The last sample.
    pub last: Sample,
    /// The distance in time of the last two samples.
    pub distance: u64,
    /// Zeros above and below in the last window.
    pub window: (u32, u32),
    /// The data.
    pub words: Vec<u64>,
}

impl GorillaWriter {
    /// An empty chunk of so many bytes, which are a multiple of 8.
    pub fn new(bytes: u64) -> Self {
        let zero = Sample { time: 0, value: 0.0 };
        GorillaWriter {
            bytes,
            count: 0,
            bits: 0,
            base: zero,
            last: zero,
            distance: 0,
            window: (WINDOW_NONE, WINDOW_NONE),
            words: vec![0; (bytes / 8) as usize],
        }
    }

    /// Appends a sample that is later than all. False, and nothing has happened, if there is no room.
    pub fn append(&mut self, sample: Sample) -> bool {
        if self.count == 0 {
            (self.base, self.last, self.distance) = (sample, sample, 0);
            self.count = 1;
            return true;
        }
        let distance = sample.time.wrapping_sub(self.last.time);
        let difference = distance.wrapping_sub(self.distance).cast_signed();
        let (prefix, prefix_bits, width) = prefix_of(difference);
        let exclusive = sample.value.to_bits() ^ self.last.value.to_bits();
        let (value, value_bits, window) = self.value_code(exclusive);
        // One bit of the value is asked for with the time, and again with the rest of the value.
        let time_bits = u64::from(prefix_bits + width);
        let needed = time_bits + if exclusive == 0 { 1 } else { 1 + value_bits };
        if needed > 8 * self.bytes - self.bits {
            return false;
        }
        self.put(prefix, prefix_bits);
        self.put(difference.cast_unsigned() & low(width), width);
        value.into_iter().for_each(|(bits, count)| self.put(bits, count));
        (self.last, self.distance, self.window) = (sample, distance, window);
        self.count += 1;
        true
    }

    /// Pieces of the code of a value, their bits without the first, and the window after it.
    fn value_code(&self, exclusive: u64) -> ([(u64, u32); 4], u64, (u32, u32)) {
        let (above, below) = self.window;
        if exclusive == 0 {
            return ([(0, 1), (0, 0), (0, 0), (0, 0)], 0, self.window);
        }
        let leading = exclusive.leading_zeros().min(LEADING_MAX);
        let trailing = exclusive.trailing_zeros();
        let size = 64 - leading - trailing;
        let size_before = 64 - above - below;
        let is_same_window =
            leading >= above && trailing >= below && LEADING_BITS + SIZE_BITS + size > size_before;
        if is_same_window {
            let bits = u64::from(1 + size_before);
            return ([(0b01, 2), (exclusive >> below, size_before), (0, 0), (0, 0)], bits, self.window);
        }
        let bits = u64::from(1 + LEADING_BITS + SIZE_BITS + size);
        let head = (u64::from(leading), LEADING_BITS);
        let code = [(0b11, 2), head, (u64::from(size - 1), SIZE_BITS), (exclusive >> trailing, size)];
        (code, bits, (leading, trailing))
    }

    fn put(&mut self, bits: u64, count: u32) {
        if count == 0 {
            return;
        }
        let (word, shift) = ((self.bits / 64) as usize, (self.bits % 64) as u32);
        self.words[word] |= bits << shift;
        if shift + count > 64 {
            self.words[word + 1] |= bits >> (64 - shift);
        }
        self.bits += u64::from(count);
    }

    /// The data as bytes.
    pub fn data(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

fn low(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// The prefix of a difference, its bits, and the bits of the difference.
fn prefix_of(difference: i64) -> (u64, u32, u32) {
    if difference == 0 {
        return (0, 1, 0);
    }
    let fits = |width: u32| (-(1_i64 << (width - 1))..1 << (width - 1)).contains(&difference);
    match WIDTHS.iter().find(|(width, _)| fits(*width)) {
        Some(&(width, bits)) => (low(bits - 1), bits, width),
        None => (low(6), 6, 64),
    }
}

/// Reads the samples of a chunk.
pub struct GorillaReader<'a> {
    data: &'a [u8],
    bits: u64,
    count: u64,
    at: u64,
    is_first: bool,
    last: Sample,
    distance: u64,
    window: (u32, u32),
}

impl<'a> GorillaReader<'a> {
    /// Of `count` samples, the first of which is `base`, in this many bits of the data.
    ///
    /// # Errors
    ///
    /// If the data is shorter, or has fewer bits than that many samples take.
    pub fn new(base: Sample, count: u64, bits: u64, data: &'a [u8]) -> Result<Self, GorillaError> {
        if bits > 8 * data.len() as u64 || count.saturating_sub(1) > bits / 2 {
            return Err(GorillaError);
        }
        let window = (WINDOW_NONE, WINDOW_NONE);
        Ok(GorillaReader { data, bits, count, at: 0, is_first: true, last: base, distance: 0, window })
    }

    fn take(&mut self, count: u32) -> Result<u64, GorillaError> {
        if u64::from(count) > self.bits - self.at {
            return Err(GorillaError);
        }
        let mut window = [0; 16];
        let start = (self.at / 8) as usize;
        let available = &self.data[start..(start + 9).min(self.data.len())];
        window[..available.len()].copy_from_slice(available);
        let bits = (u128::from_le_bytes(window) >> (self.at % 8)) as u64;
        self.at += u64::from(count);
        Ok(if count == 0 { 0 } else { bits & low(count) })
    }

    fn read_difference(&mut self) -> Result<u64, GorillaError> {
        let mut ones = 0;
        while ones < 6 && self.take(1)? == 1 {
            ones += 1;
        }
        let width = match ones {
            0 => return Ok(0),
            6 => return self.take(64),
            _ => WIDTHS[ones - 1].0,
        };
        let bits = self.take(width)?;
        Ok(((bits << (64 - width)).cast_signed() >> (64 - width)).cast_unsigned())
    }

    fn read_sample(&mut self) -> Result<Sample, GorillaError> {
        self.distance = self.distance.wrapping_add(self.read_difference()?);
        let time = self.last.time.checked_add(self.distance).ok_or(GorillaError)?;
        let mut value = self.last.value;
        if self.take(1)? == 1 {
            if self.take(1)? == 1 {
                let leading = self.take(LEADING_BITS)? as u32;
                let size = self.take(SIZE_BITS)? as u32 + 1;
                self.window = (leading, 64_u32.checked_sub(leading + size).ok_or(GorillaError)?);
            }
            let (leading, trailing) = self.window;
            let exclusive = self.take(64 - leading - trailing)? << trailing;
            value = f64::from_bits(value.to_bits() ^ exclusive);
        }
        Ok(Sample { time, value })
    }
}

impl Iterator for GorillaReader<'_> {
    type Item = Result<Sample, GorillaError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        if !std::mem::take(&mut self.is_first) {
            match self.read_sample() {
                Ok(sample) if sample.time > self.last.time => self.last = sample,
                _ => {
                    self.count = 0;
                    return Some(Err(GorillaError));
                }
            }
        }
        Some(Ok(self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    #[test]
    fn samples_read_back() {
        let mut random = Random::new(5);
        for round in 0..200 {
            let mut writer = GorillaWriter::new(4096);
            let (mut samples, mut time) = (Vec::new(), random.next() >> 30);
            loop {
                time += 1 + (random.next() >> (random.below(30) + 30));
                let value = match round % 4 {
                    0 => f64::from_bits(random.next()),
                    1 => random.below(100) as f64 / 10.0,
                    2 => random.below(3) as f64,
                    _ => random.next() as f64,
                };
                let sample = Sample { time, value };
                if !writer.append(sample) {
                    break;
                }
                samples.push(sample);
            }
            let data = writer.data();
            let reader = GorillaReader::new(writer.base, writer.count, writer.bits, &data).expect("is whole");
            let read: Vec<Sample> = reader.map(|sample| sample.expect("is whole")).collect();
            assert!(read.iter().zip(&samples).all(|(read, sample)| {
                (read.time, read.value.to_bits()) == (sample.time, sample.value.to_bits())
            }));
            assert_eq!(read.len(), samples.len());
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_fault() {
        let mut random = Random::new(6);
        for _ in 0..2000 {
            let data: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
            let bits = random.below(8 * data.len() + 2) as u64;
            let base = Sample { time: random.next() >> random.below(64), value: 0.5 };
            if let Ok(reader) = GorillaReader::new(base, random.below(400) as u64, bits, &data) {
                assert!(reader.count() <= 400);
            }
        }
    }
}
