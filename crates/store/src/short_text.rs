//! Texts of a few bytes.

/// Copies a text: most are short, and a call for a few bytes costs more than they do.
///
/// # Safety
///
/// The text's bytes can be written at `to`, which lies elsewhere.
#[inline(always)]
pub(crate) unsafe fn copy_short(text: &[u8], to: *mut u8) {
    let (from, len) = (text.as_ptr(), text.len());
    // SAFETY: what is read lies in the text, and what is written in as many bytes.
    unsafe {
        match len {
            17.. => to.copy_from_nonoverlapping(from, len),
            8..=16 => copy_halves::<8>(from, to, len),
            4..8 => copy_halves::<4>(from, to, len),
            1..4 => {
                let bytes = [from.read(), from.add(len / 2).read(), from.add(len - 1).read()];
                to.write(bytes[0]);
                to.add(len / 2).write(bytes[1]);
                to.add(len - 1).write(bytes[2]);
            }
            0 => {}
        }
    }
}

/// Copies the first `N` bytes and the last, which are all.
///
/// # Safety
///
/// `len` bytes, from `N` to twice as many, can be read and be written.
#[inline(always)]
unsafe fn copy_halves<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let first = from.cast::<[u8; N]>().read_unaligned();
        let last = from.add(len - N).cast::<[u8; N]>().read_unaligned();
        to.cast::<[u8; N]>().write_unaligned(first);
        to.add(len - N).cast::<[u8; N]>().write_unaligned(last);
    }
}

/// The integer of `width` bytes, 1 to 8, that begins here: two's complement, little-endian. `None` if there
/// are fewer.
#[inline(always)]
pub(crate) fn signed(bytes: &[u8], width: usize) -> Option<i64> {
    let word = match bytes.first_chunk::<8>() {
        Some(word) => *word,
        None => {
            let mut word = [0; 8];
            word[..width].copy_from_slice(bytes.get(..width)?);
            word
        }
    };
    let unused = 64 - 8 * width;
    Some((u64::from_le_bytes(word) << unused).cast_signed() >> unused)
}

/// A number that is the same for the same text, and for two different ones of up to 16 bytes seldom.
#[inline]
pub(crate) fn fingerprint(text: &[u8]) -> u32 {
    const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
    let (first, last) = match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
            }
            _ => (text.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
        },
    };
    let word = (first ^ text.len() as u64).wrapping_mul(FACTORS[0]) ^ last.wrapping_mul(FACTORS[1]);
    (word ^ word >> 29) as u32 ^ (word >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_copied_whole_and_nothing_else_changes() {
        let text: Vec<u8> = (1..=60).collect();
        for len in 0..=text.len() {
            let mut out = vec![0xff; len + 2];
            // SAFETY: the vector has as many bytes behind the first.
            unsafe { copy_short(&text[..len], out.as_mut_ptr().add(1)) }
            assert_eq!((out[0], &out[1..=len], out[len + 1]), (0xff, &text[..len], 0xff));
        }
    }

    #[test]
    fn integers_of_every_width_are_read_wherever_they_stand() {
        for width in 1..=8 {
            let shift = 64 - 8 * width;
            for value in [0, 1, -1, i64::MAX >> shift, i64::MIN >> shift] {
                let mut bytes = value.to_le_bytes()[..width].to_vec();
                assert_eq!(signed(&bytes[1..], width), None);
                assert_eq!(signed(&bytes, width), Some(value));
                bytes.extend_from_slice(&[0x5a; 8]);
                assert_eq!(signed(&bytes, width), Some(value));
            }
        }
    }

    #[test]
    fn fingerprints_tell_usual_names_apart() {
        let names =
            |format: fn(u32) -> String| (0..1000).map(move |number| fingerprint(format(number).as_bytes()));
        for format in [
            (|number| number.to_string()) as fn(u32) -> String,
            |number| format!("field:{number}"),
            |number| format!("f{number:04}"),
            |number| format!("member:{:09}", u64::from(number) * 7_654_321 % 1_000_000_000),
            |number| "x".repeat(number as usize),
        ] {
            let different: std::collections::HashSet<u32> = names(format).collect();
            assert!(different.len() > 997, "{} of {}", different.len(), format(7));
        }
    }
}
