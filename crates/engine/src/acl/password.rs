//! Passwords: kept as SHA-256 only, compared in constant time.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The SHA-256 of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Password([u8; 32]);

impl Password {
    /// The password of this text.
    pub fn of(text: &[u8]) -> Password {
        Password(Sha256::digest(text).into())
    }

    /// The password of this digest, 64 lower-case hexadecimal digits.
    pub fn from_digest(digits: &[u8]) -> Option<Password> {
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return None;
        }
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut digest = [0; 32];
        for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
            *byte = value(*high)? << 4 | value(*low)?;
        }
        Some(Password(digest))
    }

    /// The digest as 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        crate::scripting::source::hexadecimal(&self.0)
    }

    /// Whether it is the same, found out in a time that does not depend on where they differ.
    pub fn is(&self, other: &Password) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_sha256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Password::of(b"").digest(), empty);
        assert_eq!(Password::from_digest(empty.as_bytes()), Some(Password::of(b"")));
        assert!(Password::of(b"x").is(&Password::of(b"x")) && !Password::of(b"x").is(&Password::of(b"y")));
        for wrong in [&empty[1..], &empty.to_uppercase(), &format!("{empty}00"), ""] {
            assert_eq!(Password::from_digest(wrong.as_bytes()), None);
        }
    }
}
