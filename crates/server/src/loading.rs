//! Loading the data at the start, in a thread of its own, while the main thread looks at signals.
//!
//! Clients of a server that loads a small file wait for their first reply until it is loaded, as redis-server
//! answers nobody before it has read `loading-process-events-interval-bytes`. While a larger one is loaded,
//! the workers serve and answer -LOADING.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use mantissa_engine::{Engine, aof, log, notice};
use mantissa_sys::signals::{Signal, Signals};

use crate::crash;
use crate::worker::STACK_BYTES;

/// The longest time for which clients wait for a small file: commands of an append-only file may be slow.
const SILENT_MAX: Duration = Duration::from_secs(2);
/// How often the main thread looks at signals.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How far loading is.
pub enum Progress {
    Loaded,
    /// It has not ended within the time.
    GoesOn,
    /// The server is to end before all is loaded, with this exit code. Nothing is to be saved then.
    Ends(u8),
}

/// The thread that loads.
pub struct Loader {
    outcome: Receiver<Result<(), String>>,
}

impl Loader {
    /// Starts loading what there is.
    pub fn start(engine: &Engine) -> Result<Loader, String> {
        let (sender, outcome) = mpsc::channel();
        let shared = engine.share();
        let body = move || {
            let _nobody_waits_where_the_server_ends = sender.send(aof::start(&shared));
        };
        let builder = std::thread::Builder::new().name("loader".to_owned()).stack_size(STACK_BYTES);
        drop(builder.spawn(body).map_err(|error| format!("Could not start a thread: {error}"))?);
        Ok(Loader { outcome })
    }

    /// Waits for a small file before the workers run. It does not wait where a delay is set, with which tests
    /// look at a server that is loading.
    pub fn begin(
        &self,
        engine: &Engine,
        signals: &mut Signals,
        stop: &Receiver<u8>,
    ) -> Result<Progress, String> {
        let config = &engine.active_config().config;
        let is_small =
            engine.persistence.load.total_bytes() <= u64::from(config.loading_process_events_interval_bytes);
        match is_small && config.key_load_delay == 0 {
            true => self.wait(engine, signals, stop, Some(Instant::now() + SILENT_MAX)),
            false => Ok(Progress::GoesOn),
        }
    }

    /// Waits until all is loaded.
    pub fn finish(
        &self,
        engine: &Engine,
        signals: &mut Signals,
        stop: &Receiver<u8>,
    ) -> Result<Progress, String> {
        self.wait(engine, signals, stop, None)
    }

    fn wait(
        &self,
        engine: &Engine,
        signals: &mut Signals,
        stop: &Receiver<u8>,
        until: Option<Instant>,
    ) -> Result<Progress, String> {
        loop {
            match self.outcome.recv_timeout(LOOK_EVERY) {
                Ok(outcome) => {
                    outcome?;
                    engine.persistence.loading.store(false, Ordering::Release);
                    return Ok(Progress::Loaded);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("Loading failed".to_owned()),
            }
            if let Ok(code) = stop.try_recv() {
                return Ok(Progress::Ends(code));
            }
            crash::look_for_alarm(engine);
            match signals.wait(Some(Duration::ZERO)) {
                Ok(Some(Signal::Hangup)) => log::set_file(&engine.active_config().config.logfile),
                Ok(Some(signal)) => {
                    notice!("Received {} while loading: exiting now", signal.name());
                    return Ok(Progress::Ends(0));
                }
                Ok(None) => {}
                Err(error) => return Err(format!("Waiting for signals failed: {error}")),
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Progress::GoesOn);
            }
        }
    }
}
