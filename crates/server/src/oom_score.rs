//! How soon the kernel's out-of-memory killer chooses this process: `oom-score-adj`.

use std::io;

use mantissa_engine::config::{Config, OomScoreAdj, SetError};
use mantissa_engine::{Engine, warning};
use mantissa_sys::process;
use parking_lot::Mutex;

/// The smallest and the largest adjustment that the kernel takes.
const LIMITS: (i32, i32) = (-1000, 1000);

/// The adjustment of this process.
#[derive(Default)]
pub struct OomScore {
    /// What the process had before it was adjusted; none while it is not.
    found: Mutex<Option<i32>>,
}

impl OomScore {
    /// Adjusts the process to its role, as the configuration says.
    fn adjust(&self, config: &Config, is_replica: bool) -> io::Result<()> {
        let mut found = self.found.lock();
        let before = match *found {
            Some(before) => before,
            None if config.oom_score_adj == OomScoreAdj::No => return Ok(()),
            None => process::oom_score_adj()?,
        };
        let value = config.oom_score_adj_values[usize::from(is_replica)];
        let (value, kept) = match config.oom_score_adj {
            OomScoreAdj::No => (before, None),
            OomScoreAdj::Yes | OomScoreAdj::Relative => (before + value, Some(before)),
            OomScoreAdj::Absolute => (value, Some(before)),
        };
        process::set_oom_score_adj(value.clamp(LIMITS.0, LIMITS.1))?;
        *found = kept;
        Ok(())
    }

    /// Adjusts the process under a new configuration, in which directive `name` has changed.
    pub fn configure(&self, engine: &Engine, config: &Config, name: &str) -> Result<(), SetError> {
        self.adjust(config, engine.replication.is_replica()).map_err(|error| {
            warning!("Unable to write oom_score_adj: {error}");
            SetError::failed(name, "Failed to set current oom_score_adj. Check server logs.")
        })
    }

    /// Adjusts the process to its present role.
    pub fn follow_role(&self, engine: &Engine) {
        let adjusted = self.adjust(&engine.active_config().config, engine.replication.is_replica());
        if let Err(error) = adjusted {
            warning!("Unable to write oom_score_adj: {error}");
        }
    }

    /// Runs `start`, which starts a process that inherits the adjustment, with that which this one had first.
    pub fn without<T>(&self, engine: &Engine, start: impl FnOnce() -> T) -> T {
        let before = *self.found.lock();
        if let Some(before) = before
            && let Err(error) = process::set_oom_score_adj(before)
        {
            warning!("Unable to write oom_score_adj: {error}");
        }
        let started = start();
        if before.is_some() {
            self.follow_role(engine);
        }
        started
    }
}
