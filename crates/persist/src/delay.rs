//! Time that tests have each key take, so that they can look at a save or a load while it lasts.

use std::time::Duration;

/// As `key-load-delay` and `rdb-key-save-delay` give it: so many microseconds after each key; for a negative
/// number -n, one microsecond after every n-th key; nothing for 0.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct KeyDelay(pub i32);

impl KeyDelay {
    /// Waits after a key, of which there have been `count` so far.
    #[inline]
    pub fn wait(self, count: u64) {
        if self.0 != 0 {
            self.sleep(count);
        }
    }

    #[cold]
    fn sleep(self, count: u64) {
        let is_due = self.0 > 0 || count.is_multiple_of(u64::from(self.0.unsigned_abs()));
        if is_due {
            std::thread::sleep(Duration::from_micros(self.0.max(1) as u64));
        }
    }
}
