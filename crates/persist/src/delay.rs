//! A delay for each key, with which tests can observe a save or a load while it runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// As `key-load-delay` and `rdb-key-save-delay` give it: microseconds after each key; for a negative number
/// -n, one microsecond after every n-th key; nothing for 0.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct KeyDelay(pub i32);

impl KeyDelay {
    /// Waits after a key.
    #[inline]
    pub fn wait(self) {
        if self.0 != 0 {
            self.sleep(|| false);
        }
    }

    /// Waits after a key, but ends soon after `ends` has become true.
    #[inline]
    pub fn wait_unless(self, ends: impl Fn() -> bool) {
        if self.0 != 0 {
            self.sleep(ends);
        }
    }

    #[cold]
    fn sleep(self, ends: impl Fn() -> bool) {
        static KEYS: AtomicU32 = AtomicU32::new(0);
        /// Sleep between two looks at `ends`.
        const SLICE: Duration = Duration::from_millis(2);
        let count = KEYS.fetch_add(1, Ordering::Relaxed);
        if self.0 < 0 && !count.is_multiple_of(self.0.unsigned_abs()) {
            return;
        }
        let (began, whole) = (Instant::now(), Duration::from_micros(self.0.max(1) as u64));
        while !ends() {
            let left = whole.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLICE));
        }
    }
}
