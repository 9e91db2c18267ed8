//! Connections that send and wait for replies, a share of them on each thread.
//!
//! Without a rate, a connection sends its next requests as soon as it has all replies (a closed loop), and
//! latency counts from the sending. With a rate, requests are due at fixed times whether replies come or
//! not; latency counts from the time at which a request was due, so that a server that stalls is charged for
//! all that waited meanwhile.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::event::Source as _;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::options::Options;
use super::replies::{Found, Replies};
use super::workload::{KeyChoice, Sizes, Source, Test};
use crate::connection::Stream;
use crate::output::print;
use crate::target::{Target, ask};

/// What takes longer counts as this.
pub(crate) const LATENCY_MAX_US: u64 = 3_600_000_000;
/// Figures that are kept of each latency.
const LATENCY_DIGITS: u8 = 3;
/// The pause between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Waits shorter than this are spent looking again and again, as the kernel's clock for waiting is coarser.
const SPIN_MAX: Duration = Duration::from_millis(2);
/// How long a thread waits at most before it looks whether the time is over.
const WAIT_MAX: Duration = Duration::from_millis(100);
const READ_SIZE: usize = 64 * 1024;

/// What to run.
pub(crate) struct Plan<'a> {
    target: &'a Target,
    test: &'a Test,
    sizes: &'a Sizes,
    keyspace: Option<u64>,
    keys: KeyChoice,
    clients: usize,
    threads: usize,
    requests: u64,
    duration: Option<Duration>,
    pipeline: u64,
    rate: Option<f64>,
    reconnects: bool,
    tracking: bool,
    seed: u64,
}

impl<'a> Plan<'a> {
    /// The plan that the command line makes for a test.
    pub(crate) fn new(options: &'a Options, target: &'a Target, test: &'a Test) -> Plan<'a> {
        let duration = options.duration.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let rate = options.rate.filter(|rate| *rate > 0.0);
        // With a rate, what is due within the time counts, however late it can be sent.
        let due = duration.zip(rate).map(|(duration, rate)| (duration.as_secs_f64() * rate).ceil() as u64);
        let requests = due.or(duration.map(|_| u64::MAX)).unwrap_or(options.requests);
        Plan {
            target,
            test,
            sizes: &options.sizes,
            keyspace: options.keyspace,
            keys: options.keys,
            clients: options.clients,
            threads: options.threads.unwrap_or(1).min(options.clients),
            requests,
            duration: duration.filter(|_| due.is_none()),
            pipeline: options.pipeline,
            rate,
            reconnects: options.keep_alive == 0,
            tracking: options.enable_tracking,
            seed: options.seed,
        }
    }
}

/// What came of it.
pub(crate) struct Outcome {
    /// Latencies in microseconds.
    pub(crate) latency_us: Histogram<u64>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) taken: Duration,
}

impl Outcome {
    /// How many requests were answered.
    pub(crate) fn requests(&self) -> u64 {
        self.latency_us.len()
    }

    /// Requests a second.
    pub(crate) fn rate(&self) -> f64 {
        self.requests() as f64 / self.taken.as_secs_f64().max(1e-9)
    }
}

/// What the threads share.
struct Shared {
    /// Requests that no thread has taken on yet.
    left: AtomicU64,
    answered: AtomicU64,
    latency_sum_us: AtomicU64,
    over: AtomicBool,
    /// The next number of keys that come one after another.
    sequence: AtomicU64,
}

/// Runs a test.
pub(crate) fn run(plan: &Plan<'_>, shows_progress: bool) -> io::Result<Outcome> {
    let shared = Shared {
        left: AtomicU64::new(plan.requests),
        answered: AtomicU64::new(0),
        latency_sum_us: AtomicU64::new(0),
        over: AtomicBool::new(false),
        sequence: AtomicU64::new(0),
    };
    let mut workers =
        (0..plan.threads).map(|i| Worker::new(plan, &shared, i)).collect::<io::Result<Vec<_>>>()?;
    let start = Instant::now();
    let results = thread::scope(|scope| {
        let running: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(move || worker.run(start))).collect();
        watch(plan, &shared, start, shows_progress, || running.iter().all(|one| one.is_finished()))?;
        let joined = running.into_iter().map(|one| match one.join() {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("a thread failed")),
        });
        joined.collect::<io::Result<Vec<()>>>()
    });
    let taken = start.elapsed();
    results?;
    let mut latency_us = new_histogram()?;
    let (mut errors, mut first_error, mut ended) = (0, None, start);
    for worker in workers {
        latency_us.add(&worker.latency_us).map_err(io::Error::other)?;
        errors += worker.errors;
        first_error = first_error.or(worker.first_error);
        ended = ended.max(worker.ended);
    }
    let taken = if ended > start { ended - start } else { taken };
    Ok(Outcome { latency_us, errors, first_error, taken })
}

fn new_histogram() -> io::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, LATENCY_DIGITS).map_err(io::Error::other)
}

/// Ends the test when its time is over, and shows how it goes meanwhile.
fn watch(
    plan: &Plan<'_>,
    shared: &Shared,
    start: Instant,
    shows_progress: bool,
    is_done: impl Fn() -> bool,
) -> io::Result<()> {
    let mut reported = (start, 0, 0);
    let mut width = 0;
    while !is_done() {
        let pause = if start.elapsed() < PROGRESS_INTERVAL { 1 } else { 10 };
        thread::sleep(Duration::from_millis(pause));
        if plan.duration.is_some_and(|length| start.elapsed() >= length) {
            shared.over.store(true, Ordering::Relaxed);
        }
        if shows_progress && reported.0.elapsed() >= PROGRESS_INTERVAL {
            let now = Instant::now();
            let (answered, sum_us) =
                (shared.answered.load(Ordering::Relaxed), shared.latency_sum_us.load(Ordering::Relaxed));
            let rate = (answered - reported.1) as f64 / (now - reported.0).as_secs_f64();
            let average = |sum_us: u64, count: u64| sum_us as f64 / 1000.0 / count.max(1) as f64;
            let line = format!(
                "{}: rps={rate:.1} (overall: {:.1}) avg_msec={:.3} (overall: {:.3})",
                plan.test.title,
                answered as f64 / start.elapsed().as_secs_f64(),
                average(sum_us - reported.2, answered - reported.1),
                average(sum_us, answered)
            );
            width = width.max(line.len());
            print(format!("{line:<width$}\r").as_bytes())?;
            reported = (now, answered, sum_us);
        }
    }
    if width > 0 {
        print(format!("{:<width$}\r", "").as_bytes())?;
    }
    Ok(())
}

/// A connection.
struct Lane {
    stream: Stream,
    out: Vec<u8>,
    written: usize,
    replies: Replies,
    /// For how many replies it waits, and since when.
    waiting: u64,
    since: Instant,
}

/// A thread's share of the connections.
struct Worker<'a> {
    plan: &'a Plan<'a>,
    shared: &'a Shared,
    source: Source<'a>,
    poll: Poll,
    lanes: Vec<Lane>,
    /// Connections that wait for nothing.
    idle: VecDeque<usize>,
    /// Times between requests that are due, and when the next is.
    schedule: Option<(Duration, Instant)>,
    latency_us: Histogram<u64>,
    errors: u64,
    first_error: Option<String>,
    ended: Instant,
}

impl<'a> Worker<'a> {
    fn new(plan: &'a Plan<'a>, shared: &'a Shared, i: usize) -> io::Result<Worker<'a>> {
        let poll = Poll::new()?;
        let count = plan.clients / plan.threads + usize::from(i < plan.clients % plan.threads);
        let now = Instant::now();
        let mut lanes = (0..count).map(|_| Lane::open(plan)).collect::<io::Result<Vec<_>>>()?;
        for (token, lane) in lanes.iter_mut().enumerate() {
            lane.register(&poll, token)?;
        }
        let schedule = plan.rate.map(|rate| {
            let batches = rate / plan.pipeline as f64 / plan.threads as f64;
            (Duration::from_secs_f64((1.0 / batches).min(3600.0)), now)
        });
        Ok(Worker {
            plan,
            shared,
            source: Source::new(
                plan.test,
                plan.sizes,
                plan.keyspace,
                plan.keys,
                plan.seed,
                i,
                &shared.sequence,
            ),
            poll,
            idle: (0..count).collect(),
            lanes,
            schedule,
            latency_us: new_histogram()?,
            errors: 0,
            first_error: None,
            ended: now,
        })
    }

    fn run(&mut self, start: Instant) -> io::Result<()> {
        if let Some((interval, due)) = &mut self.schedule {
            // Threads are due one after another, not at once.
            *due = start + interval.mul_f64(0.5);
        }
        let mut events = Events::with_capacity(1024);
        let mut active = 0;
        loop {
            let over = !self.feed(&mut active)?;
            if over && active == 0 {
                return Ok(());
            }
            let wait = match &self.schedule {
                Some((_, due)) if !over && !self.idle.is_empty() => {
                    let left = due.saturating_duration_since(Instant::now());
                    if left < SPIN_MAX { Duration::ZERO } else { (left - SPIN_MAX).min(WAIT_MAX) }
                }
                _ => WAIT_MAX,
            };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                let token = event.token().0;
                if event.is_writable() {
                    self.lanes[token].flush()?;
                }
                if event.is_readable() && self.receive(token)? {
                    active -= 1;
                    self.idle.push_back(token);
                }
            }
        }
    }

    /// Sends what is due on connections that wait for nothing; whether there is more to do.
    fn feed(&mut self, active: &mut usize) -> io::Result<bool> {
        loop {
            if self.shared.over.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let Some(&token) = self.idle.front() else {
                return Ok(self.shared.left.load(Ordering::Relaxed) > 0);
            };
            let now = Instant::now();
            let since = match &mut self.schedule {
                None => now,
                Some((_, due)) if *due > now => return Ok(self.shared.left.load(Ordering::Relaxed) > 0),
                Some((interval, due)) => {
                    let since = *due;
                    *due += *interval;
                    since
                }
            };
            let count = self.take();
            if count == 0 {
                return Ok(false);
            }
            self.idle.pop_front();
            *active += 1;
            let lane = &mut self.lanes[token];
            if self.plan.reconnects {
                lane.reopen(self.plan, &self.poll, token)?;
            }
            lane.out.clear();
            lane.written = 0;
            (0..count).for_each(|_| self.source.write(&mut lane.out));
            lane.waiting = count;
            lane.since = since;
            if self.schedule.is_none() {
                lane.since = Instant::now();
            }
            lane.flush()?;
        }
    }

    /// Takes on as many requests as a pipeline holds, or what is left.
    fn take(&self) -> u64 {
        let mut left = self.shared.left.load(Ordering::Relaxed);
        loop {
            let count = left.min(self.plan.pipeline);
            match self.shared.left.compare_exchange_weak(
                left,
                left - count,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return count,
                Err(now) => left = now,
            }
        }
    }

    /// Reads what has arrived on a connection; whether its last reply has.
    fn receive(&mut self, token: usize) -> io::Result<bool> {
        let lane = &mut self.lanes[token];
        if !lane.read()? {
            return Ok(false);
        }
        let now = Instant::now();
        let taken_us = u64::try_from((now - lane.since).as_micros()).unwrap_or(u64::MAX).max(1);
        let mut answered = 0;
        while lane.waiting > 0
            && let Some(found) = lane.replies.next().map_err(io::Error::other)?
        {
            lane.waiting -= 1;
            answered += 1;
            if let Found::Error(text) = found {
                self.errors += 1;
                self.first_error.get_or_insert(text);
            }
        }
        if answered > 0 {
            self.latency_us.saturating_record_n(taken_us, answered);
            self.shared.answered.fetch_add(answered, Ordering::Relaxed);
            self.shared.latency_sum_us.fetch_add(taken_us.saturating_mul(answered), Ordering::Relaxed);
            self.ended = now;
        }
        Ok(answered > 0 && lane.waiting == 0)
    }
}

impl Lane {
    fn open(plan: &Plan<'_>) -> io::Result<Lane> {
        let mut connection = plan.target.open()?;
        if plan.tracking {
            ask(&mut connection, &["CLIENT", "TRACKING", "on"])?;
        }
        let mut stream = connection.into_stream();
        stream.set_nonblocking(true)?;
        Ok(Lane {
            stream,
            out: Vec::new(),
            written: 0,
            replies: Replies::default(),
            waiting: 0,
            since: Instant::now(),
        })
    }

    fn register(&mut self, poll: &Poll, token: usize) -> io::Result<()> {
        let descriptor = self.stream.descriptor();
        let interest = Interest::READABLE | Interest::WRITABLE;
        SourceFd(&descriptor).register(poll.registry(), Token(token), interest)
    }

    /// Replaces the connection by a new one.
    fn reopen(&mut self, plan: &Plan<'_>, poll: &Poll, token: usize) -> io::Result<()> {
        *self = Lane::open(plan)?;
        self.register(poll, token)
    }

    /// Sends as much as the kernel takes.
    fn flush(&mut self) -> io::Result<()> {
        while let Some(rest @ [_, ..]) = self.out.get(self.written..) {
            match self.stream.write(rest) {
                Ok(size) => self.written += size,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.stream.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads all that has arrived; whether there was anything.
    fn read(&mut self) -> io::Result<bool> {
        let buffer = self.replies.buffer();
        let start = buffer.len();
        loop {
            let end = buffer.len();
            buffer.resize(end + READ_SIZE, 0);
            let result = self.stream.read(&mut buffer[end..]);
            buffer.truncate(end + result.as_ref().map_or(0, |size| *size));
            match result {
                Ok(0) => {
                    let text = "Server closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                // Less than the buffer takes: that was all, and the kernel will tell when more comes.
                Ok(size) if size < READ_SIZE => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(buffer.len() > start),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
