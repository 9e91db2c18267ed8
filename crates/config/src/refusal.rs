//! Why a value or a file is refused.

use std::borrow::Cow;
use std::io;

/// Why a value was refused, in the words that clients see.
pub type Refusal = Cow<'static, str>;

/// The words of the operating system for an error, without Rust's number behind them.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}
