//! Whether bytes are UTF-8, whole or in pieces.
//!
//! Whole blocks of 32 bytes are checked with AVX2 where the processor has it (J. Keiser and D. Lemire,
//! "Validating UTF-8 in less than one instruction per byte", 2021): three tables, looked up by halves of two
//! neighbouring bytes, name the errors that each pair may be part of. The standard library does the rest.

#[cfg(target_arch = "x86_64")]
mod avx2;

/// Checks a text as it comes. Cut anywhere, the verdict is the same, and a text that cannot become valid any
/// more fails with the first byte that makes it so.
#[derive(Clone, Copy, Default, Debug)]
pub struct Utf8Checker {
    /// The beginning of a character whose end has not come.
    begun: [u8; 4],
    begun_len: u8,
}

impl Utf8Checker {
    /// Takes the next bytes. Whether the text can still be valid.
    pub fn feed(&mut self, mut bytes: &[u8]) -> bool {
        while self.begun_len > 0 {
            let Some((&byte, rest)) = bytes.split_first() else { return true };
            bytes = rest;
            self.begun[usize::from(self.begun_len)] = byte;
            self.begun_len += 1;
            match std::str::from_utf8(&self.begun[..usize::from(self.begun_len)]) {
                Ok(_) => self.begun_len = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        let Some(checked) = check_blocks(bytes) else { return false };
        let bytes = &bytes[checked..];
        let Err(error) = std::str::from_utf8(bytes) else { return true };
        if error.error_len().is_some() {
            return false;
        }
        let begun = &bytes[error.valid_up_to()..];
        self.begun[..begun.len()].copy_from_slice(begun);
        self.begun_len = begun.len() as u8;
        true
    }

    /// The unfinished character.
    pub fn begun(&self) -> &[u8] {
        &self.begun[..usize::from(self.begun_len)]
    }

    /// A checker in the middle of a character; none if these bytes begin none.
    pub fn with_begun(bytes: &[u8]) -> Option<Utf8Checker> {
        let mut checker = Utf8Checker::default();
        (checker.feed(bytes) && checker.begun() == bytes).then_some(checker)
    }

    /// Whether no character is unfinished.
    pub fn is_complete(&self) -> bool {
        self.begun_len == 0
    }
}

/// Whether all of a text is UTF-8.
#[inline]
pub fn is_valid(text: &[u8]) -> bool {
    let mut checker = Utf8Checker::default();
    checker.feed(text) && checker.is_complete()
}

/// How many bytes from the front, up to the beginning of a character, are known to be valid; none if there
/// are invalid ones.
fn check_blocks(bytes: &[u8]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= avx2::BYTES_MIN && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        let checked = unsafe { avx2::check_blocks(bytes) }?;
        return Some(last_beginning(&bytes[..checked]));
    }
    let _ = bytes;
    Some(0)
}

/// Where the last character begins, which may be unfinished.
#[cfg(target_arch = "x86_64")]
fn last_beginning(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte & 0xc0 != 0x80).unwrap_or(0)
}
