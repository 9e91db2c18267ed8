//! The thread that writes scrapes of metrics, so that no worker is kept from its clients meanwhile. It starts
//! with the first scrape.

use std::sync::{OnceLock, mpsc};

use mantissa_engine::Engine;
use mantissa_engine::metrics::{Format, Scraper};
use mantissa_sys::process::CpuTimes;

/// A scrape for which an HTTP client waits.
pub struct Job {
    /// The format that is wanted.
    pub format: Format,
    /// Processor time, with that of the worker.
    pub cpu: CpuTimes,
    /// Takes the text, on the thread that has written it.
    pub done: Box<dyn FnOnce(Vec<u8>) + Send>,
}

/// Passes jobs to the thread.
#[derive(Default)]
pub struct Scraping(OnceLock<mpsc::Sender<Job>>);

impl Scraping {
    /// Has a scrape be written; false if there is no thread for it.
    pub fn begin(&self, engine: &Engine, job: Job) -> bool {
        self.0.get_or_init(|| start(engine)).send(job).is_ok()
    }
}

/// Starts the thread. If that fails, nobody receives.
fn start(engine: &Engine) -> mpsc::Sender<Job> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let engine = engine.share();
    let body = move || {
        let mut scraper = Scraper::new(&engine);
        for job in jobs {
            (job.done)(scraper.scrape(&engine, job.cpu, job.format));
        }
    };
    let started = std::thread::Builder::new().name("metrics".to_owned()).spawn(body);
    if let Err(error) = started {
        mantissa_engine::warning!("Could not start a thread: {error}");
    }
    sender
}
