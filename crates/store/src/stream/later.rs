//! What streams have had since the process began that Redis 8.2 does not know: it decides on the version of
//! the files that are written.

use std::sync::atomic::{AtomicU8, Ordering};

/// Of which version of Redis a stream is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StreamLevel {
    /// Redis 8.2, or one before.
    Usual,
    /// Redis 8.6: producers name what they send.
    Producers,
    /// Redis 8.8: entries were given back.
    GivenBack,
}

static HIGHEST: AtomicU8 = AtomicU8::new(StreamLevel::Usual as u8);

impl StreamLevel {
    /// Notes that there is a stream of this level.
    pub(super) fn note(self) {
        if HIGHEST.load(Ordering::Relaxed) < self as u8 {
            HIGHEST.fetch_max(self as u8, Ordering::Relaxed);
        }
    }

    /// The highest level of any stream that there has been.
    pub fn highest() -> StreamLevel {
        let highest = HIGHEST.load(Ordering::Relaxed);
        let levels = [StreamLevel::GivenBack, StreamLevel::Producers];
        levels.into_iter().find(|level| *level as u8 <= highest).unwrap_or(StreamLevel::Usual)
    }
}
