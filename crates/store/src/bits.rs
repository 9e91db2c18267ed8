//! Bits of byte strings, counted and found many at a time. The first bit of a byte is its highest.

use mantissa_number::vector::Kernels;

/// The number of bits that are set.
pub fn count_ones(bytes: &[u8]) -> u64 {
    Kernels::get().popcount(bytes)
}

/// The number of the first bit that is `wanted`, from bit `start` to bit `end`, both included.
pub fn first_bit(bytes: &[u8], wanted: bool, start: u64, end: u64) -> Option<u64> {
    // Where the wanted bits are set.
    let flip: u8 = if wanted { 0 } else { u8::MAX };
    let at = (start / 8) as usize;
    let first = (bytes.get(at)? ^ flip) & (u8::MAX >> (start % 8));
    let found = if first != 0 {
        at as u64 * 8 + u64::from(first.leading_zeros())
    } else {
        let rest = &bytes[at + 1..];
        let (words, tail) = rest.as_chunks::<8>();
        let flips = u64::from_ne_bytes([flip; 8]);
        let skipped = words.iter().position(|word| u64::from_ne_bytes(*word) != flips);
        let skipped = skipped.map_or(rest.len() - tail.len(), |count| count * 8);
        let more = rest[skipped..].iter().position(|&byte| byte != flip)?;
        let at = at + 1 + skipped + more;
        at as u64 * 8 + u64::from((bytes[at] ^ flip).leading_zeros())
    };
    (found <= end).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_finds_as_bit_by_bit() {
        let mut state = 5_u64;
        let mut random = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for round in 0..2_000 {
            let len = 1 + random(100);
            let fill = [0, 255, 3][random(3) as usize];
            let mut bytes = vec![fill; len as usize];
            for _ in 0..random(4) {
                bytes[random(len) as usize] = random(256) as u8;
            }
            let bit = |index: u64| bytes[(index / 8) as usize] >> (7 - index % 8) & 1 == 1;
            let ones = (0..len * 8).filter(|&index| bit(index)).count();
            assert_eq!(count_ones(&bytes), ones as u64, "round {round}");
            let (start, end) = (random(len * 8), random(len * 8));
            for wanted in [false, true] {
                let expected = (start..=end).find(|&index| bit(index) == wanted);
                assert_eq!(first_bit(&bytes, wanted, start, end), expected, "round {round}");
            }
        }
    }
}
