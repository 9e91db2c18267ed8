//! Slots of Redis Cluster: CRC-16/XMODEM of a key, or of its hash tag, modulo their number.

/// The number of slots.
pub const SLOT_COUNT: u16 = 16384;

/// CRC-16/XMODEM of each byte.
const TABLE: [u16; 256] = {
    const POLYNOMIAL: u16 = 0x1021;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 0x8000 != 0;
            remainder = (remainder << 1) ^ if carry { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, &byte| (sum << 8) ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)])
}

/// The part of a key that its slot depends on: between the first `{` and the next `}` if that is not empty,
/// else all of it.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(end) => &rest[..end],
    }
}

/// The slot of a key.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOT_COUNT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_checksum_is_that_of_its_catalogue() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn keys_with_one_tag_have_one_slot() {
        assert_eq!([slot_of(b"a{b}c"), slot_of(b"b"), slot_of(b"{b}{d}")], [3300; 3]);
        assert_eq!(slot_of(b"a{}b"), crc16(b"a{}b") % SLOT_COUNT);
        assert_eq!(slot_of(b"a{b"), crc16(b"a{b") % SLOT_COUNT);
        assert_eq!(slot_of(b"{{a}b"), crc16(b"{a") % SLOT_COUNT);
        assert_eq!(slot_of(b""), 0);
    }
}
