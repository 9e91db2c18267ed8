//! Expiry times in arguments: `EX`, `PX`, `EXAT`, `PXAT` and their like.

use mantissa_protocol::Args;

use crate::error::{Error, Outcome};
use crate::parse;

/// How an argument states a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeForm {
    /// In seconds rather than milliseconds.
    pub seconds: bool,
    /// Since 1970 rather than from now.
    pub absolute: bool,
}

impl TimeForm {
    /// `EX`
    pub const SECONDS: TimeForm = TimeForm { seconds: true, absolute: false };
    /// `PX`
    pub const MILLISECONDS: TimeForm = TimeForm { seconds: false, absolute: false };
    /// `EXAT`
    pub const UNIX_SECONDS: TimeForm = TimeForm { seconds: true, absolute: true };
    /// `PXAT`
    pub const UNIX_MILLISECONDS: TimeForm = TimeForm { seconds: false, absolute: true };

    /// The Unix time in ms that a number means, for the command called `name`. It may lie in the past.
    pub fn unix_ms(self, number: i64, now_ms: i64, name: &str) -> Outcome<i64> {
        let invalid = || Error::invalid_expiry(name);
        let ms = if self.seconds { number.checked_mul(1000).ok_or_else(invalid)? } else { number };
        if self.absolute { Ok(ms) } else { ms.checked_add(now_ms).ok_or_else(invalid) }
    }

    /// The same for an argument that must be above zero.
    pub fn parse_positive(self, argument: &[u8], now_ms: i64, name: &str) -> Outcome<i64> {
        let number = parse::integer(argument)?;
        if number <= 0 {
            return Err(Error::invalid_expiry(name));
        }
        self.unix_ms(number, now_ms, name)
    }
}

/// What SET and GETEX do about the expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiration<'a> {
    /// Sets it to what the argument says.
    Set(TimeForm, &'a [u8]),
    /// `KEEPTTL`
    Keep,
    /// `PERSIST`
    Persist,
}

impl<'a> Expiration<'a> {
    /// Reads the option at `at`, if it is one about the expiry, and returns it with the position after it.
    pub fn parse(args: Args<'a>, at: usize) -> Option<(Expiration<'a>, usize)> {
        let option = args.at(at);
        if parse::is(option, "KEEPTTL") {
            return Some((Expiration::Keep, at + 1));
        }
        if parse::is(option, "PERSIST") {
            return Some((Expiration::Persist, at + 1));
        }
        let forms = [
            ("EX", TimeForm::SECONDS),
            ("PX", TimeForm::MILLISECONDS),
            ("EXAT", TimeForm::UNIX_SECONDS),
            ("PXAT", TimeForm::UNIX_MILLISECONDS),
        ];
        let (_, form) = forms.iter().find(|(name, _)| parse::is(option, name))?;
        Some((Expiration::Set(*form, args.get(at + 1)?), at + 2))
    }

    /// Whether the same option may follow: only a repetition of itself may.
    pub fn admits(self, next: Expiration<'_>) -> bool {
        match (self, next) {
            (Expiration::Set(form, _), Expiration::Set(other, _)) => form == other,
            _ => self == next,
        }
    }
}
