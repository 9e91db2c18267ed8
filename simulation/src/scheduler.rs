//! A seeded scheduler: threads of the system of which one at a time runs, on a virtual clock.
//!
//! A thread goes on until a yield point or a wait, where the seed chooses who is next. Those who wait are
//! looked at again once others have made progress, now and then, and when nobody else can go on. When that
//! brings nothing, the clock jumps to the earliest deadline. A run that fails leaves its threads parked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use mantissa_sys::simulation::{self, Fault, Scheduler, Task};

/// More choices than any run needs: it hangs.
const STEPS_MAX: u64 = 3_000_000;
/// More jumps of the clock, one after the other, than any timeout needs: somebody waits for ever.
const JUMPS_MAX: u64 = 20_000;
/// The clock at the start, in microseconds since 1970.
const START_US: i64 = 1_800_000_000_000_000;

/// Random numbers: splitmix64.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Ready,
    /// Until when at most, and what the progress was when it began.
    Waiting(i64, u64),
    Ended,
}

struct State {
    random: Random,
    /// For names of histories and the like.
    names_random: Random,
    statuses: Vec<Status>,
    names: Vec<String>,
    threads: Vec<Option<Thread>>,
    clock_us: i64,
    progress: u64,
    steps: u64,
    jumps: u64,
    trace: u64,
    /// One in this number of yield points lets another go on.
    switch_one_in: u64,
    result: Option<Sender<Result<u64, String>>>,
}

struct Shared {
    state: Mutex<State>,
    current: AtomicUsize,
    fault: Option<Fault>,
}

struct Handle {
    shared: Arc<Shared>,
    id: usize,
}

/// Runs `task` and all that it starts under a seed. The hash of all choices, or what failed.
pub fn run(seed: u64, fault: Option<Fault>, task: impl FnOnce() + Send + 'static) -> Result<u64, String> {
    let (sender, result): (_, Receiver<Result<u64, String>>) = channel();
    let mut random = Random(seed);
    let switch_one_in = [1, 2, 4, 16][random.below(4) as usize];
    let state = State {
        random,
        names_random: Random(seed ^ 0x1D5),
        statuses: Vec::new(),
        names: Vec::new(),
        threads: Vec::new(),
        clock_us: START_US,
        progress: 1,
        steps: 0,
        jumps: 0,
        trace: seed,
        switch_one_in,
        result: Some(sender),
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), current: AtomicUsize::new(0), fault });
    start(&shared, "first", Box::new(task));
    result.recv().unwrap_or_else(|_| Err("the simulation was lost".to_owned()))
}

fn locked(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(shared: &Arc<Shared>, name: &str, task: Task) {
    let mut state = locked(shared);
    let id = state.statuses.len();
    state.statuses.push(Status::Ready);
    state.names.push(name.to_owned());
    let handle = Arc::new(Handle { shared: Arc::clone(shared), id });
    let thread = thread::spawn(move || {
        while handle.shared.current.load(Ordering::Acquire) != id {
            thread::park();
        }
        let entered = simulation::enter(Arc::clone(&handle) as Arc<dyn Scheduler>);
        let outcome = catch_unwind(AssertUnwindSafe(task));
        drop(entered);
        let mut state = locked(&handle.shared);
        if let Err(payload) = outcome {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            return state.end(Err(text.unwrap_or_default()));
        }
        state.statuses[id] = Status::Ended;
        state.progress += 1;
        if state.statuses.iter().all(|status| *status == Status::Ended) {
            let trace = state.trace;
            return state.end(Ok(trace));
        }
        if let Some(next) = state.choose() {
            handle.shared.pass_to(&mut state, next);
        }
    });
    state.threads.push(Some(thread.thread().clone()));
}

impl State {
    fn end(&mut self, result: Result<u64, String>) {
        if let Some(sender) = self.result.take() {
            let _nobody_listens = sender.send(result);
        }
    }

    /// Who goes on; nobody if the run has failed.
    fn choose(&mut self) -> Option<usize> {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.jumps > JUMPS_MAX {
            let names = self.names.iter().zip(&self.statuses);
            let names = names.filter(|(_, status)| **status != Status::Ended).map(|(name, _)| name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            self.end(Err(format!("somebody waits for ever: {names}")));
        }
        self.result.as_ref()?;
        let looks = self.random.below(8) == 0;
        let progress = self.progress;
        let ids = |wanted: &dyn Fn(Status) -> bool| -> Vec<usize> {
            (0..self.statuses.len()).filter(|&id| wanted(self.statuses[id])).collect()
        };
        let ready = ids(&|status| status == Status::Ready);
        let eligible = match ready.is_empty() || looks {
            true => ids(&|status| matches!(status, Status::Waiting(_, seen) if seen != progress)),
            false => Vec::new(),
        };
        let from = if eligible.is_empty() { ready } else { eligible };
        let next = if from.is_empty() {
            self.jumps += 1;
            let deadline = |id: usize| match self.statuses[id] {
                Status::Waiting(deadline, _) => deadline,
                _ => i64::MAX,
            };
            let next = (0..self.statuses.len()).min_by_key(|&id| deadline(id))?;
            self.clock_us = self.clock_us.max(deadline(next));
            next
        } else {
            from[self.random.below(from.len() as u64) as usize]
        };
        self.statuses[next] = Status::Ready;
        self.trace = (self.trace ^ next as u64 ^ self.clock_us as u64).wrapping_mul(0x0100_0000_01B3);
        Some(next)
    }
}

impl Shared {
    fn pass_to(&self, state: &mut State, next: usize) {
        self.current.store(next, Ordering::Release);
        if let Some(Some(thread)) = state.threads.get(next) {
            thread.unpark();
        }
    }
}

impl Handle {
    fn switch(&self, mut state: MutexGuard<'_, State>) {
        let next = state.choose();
        if next == Some(self.id) {
            return;
        }
        match next {
            Some(next) => self.shared.pass_to(&mut state, next),
            None => self.shared.current.store(usize::MAX, Ordering::Release),
        }
        drop(state);
        while self.shared.current.load(Ordering::Acquire) != self.id {
            thread::park();
        }
    }
}

impl Scheduler for Handle {
    fn yield_point(&self) {
        let mut state = locked(&self.shared);
        state.progress += 1;
        state.jumps = 0;
        state.clock_us += state.random.below(20) as i64;
        let one_in = state.switch_one_in;
        if state.random.below(one_in) == 0 {
            self.switch(state);
        }
    }

    fn wait(&self, time_max: Option<Duration>) {
        let mut state = locked(&self.shared);
        let time_us = time_max.map_or(i64::MAX / 4, |time| time.as_micros().max(1) as i64);
        state.statuses[self.id] = Status::Waiting(state.clock_us + time_us, state.progress);
        self.switch(state);
    }

    fn unix_us(&self) -> i64 {
        locked(&self.shared).clock_us
    }

    fn spawn(&self, name: &str, task: Task) {
        start(&self.shared, name, task);
    }

    fn draw(&self) -> Option<u64> {
        Some(locked(&self.shared).names_random.draw())
    }

    fn has_fault(&self, fault: Fault) -> bool {
        self.shared.fault == Some(fault)
    }
}
