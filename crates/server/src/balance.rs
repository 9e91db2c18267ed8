//! Which workers serve: as few as the load needs, so that each event-loop iteration has much to do.
//!
//! A half-idle worker sleeps and wakes for nearly every request; the same requests on one busy worker share
//! these costs. So connections are packed on the first workers, and more take part when those are busy: twice
//! as many every 140 ms. Fifty times a second, and ten times while there is little to do, the processor time
//! of every worker is looked at ([`Balance::plan`]), and workers are told to hand connections over
//! ([`Handover`]). `worker-packing no` spreads connections over all workers.
//!
//! More workers stay only if more gets done. Where the clients are what limits the rate, as where they share
//! the processors with the server, two workers do what one did, at the price of smaller batches and more
//! switches between threads. So the number of commands is compared before and after workers have been added;
//! those that add nothing leave.
//!
//! A client whose requests take milliseconds is set aside meanwhile, on a worker that does not take part: the
//! others would wait for it ([`Network::aside`]).
//!
//! Where workers mostly wait for each other, because their clients use the same shards, fewer of them may get
//! as much done. Then some leave, and come back at once if it is less. Both are tried again after a while.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_sys::ThreadClock;

use mantissa_engine::Engine;

use crate::inbox::{Handover, Message};
use crate::network::Network;

/// How often the load is looked at.
const PERIOD: Duration = Duration::from_millis(20);
/// The same while one worker takes part and has little to do.
const IDLE_PERIOD: Duration = Duration::from_millis(100);
/// The load up to which it has.
const IDLE: f64 = 0.2;
/// Another worker takes part when those that do are busy for this part of their time on average.
const GROW_AT: f64 = 0.85;
/// As many workers stay as are needed to be busy for this part of their time.
const PACK_TO: f64 = 0.78;
/// Periods in a row with too little to do before workers leave.
const QUIET_PERIODS: u32 = 50;
/// Differences of load below this are left alone.
const UNEVEN: f64 = 0.25;
/// A worker with less load than this has no need to hand anything over.
const BUSY: f64 = 0.5;
/// Periods over which loads are compared before connections move between workers that stay. They are on their
/// way meanwhile.
const COMPARED_PERIODS: u32 = 5;
/// It is tried with fewer workers when those that take part wait for each other for this part of their time
/// on average.
const CONTENDED_AT: f64 = 0.2;
/// The part of a period in that average: one long transaction makes no contention.
const WAITS_WEIGHT: f64 = 0.2;
/// Fewer workers are enough if they get this part done of what there was before.
const LOSS_MAX: f64 = 0.95;
/// Periods in which connections move after the number of workers has changed: nothing is decided then.
const SETTLING_PERIODS: u32 = 2;
/// Periods over which commands are counted before and after workers are added.
const COUNTED_PERIODS: u32 = 5;
/// Workers that have been added stay if the number of commands grows by this factor. One core too many for
/// its clients gains 0 to 10 percent (redis-benchmark on two cores), one of its own 60 to 100.
const GAIN_MIN: f64 = 1.15;
/// For how many periods none may come back or, if fewer were not enough, leave: at first, and at most. The
/// load may change, and trying takes a seventieth of the latter.
const FENCED_PERIODS_MIN: u32 = 250;
const FENCED_PERIODS_MAX: u32 = 500;
/// Workers come back at once if the number of commands, or that of connections, has changed by such a factor
/// since some left: it is another load.
const CHANGED: f64 = 1.4;
/// In how many stretches in a row it must have.
const CHANGES_MIN: u32 = 2;
/// Connections that come and go without making another load.
const FEW: usize = 8;
/// The load from which on a worker that is not to take part hands its connections over.
const STRAY: f64 = 0.003;

/// How many workers take part, and for how long fewer would have done.
#[derive(Debug, Default)]
struct Balance {
    active: usize,
    /// The loads of all workers since connections were last told to move, added up, and for how many periods.
    loads: Vec<f64>,
    periods: u32,
    /// How much of their time workers have waited for each other, as a moving average.
    waits: f64,
    quiet_periods: u32,
    /// The most workers that were needed in one of the quiet periods.
    needed: usize,
    /// For how many periods no worker may come back yet, and for how many the next time.
    fenced_periods: u32,
    next_fenced_periods: u32,
    /// How many periods it has been since workers left because they waited for each other or gained nothing.
    since_fenced: u32,
    /// The load that was there when some had left, and in how many stretches since there was another one.
    fenced_load: Option<Load>,
    changes: u32,
    /// The periods in a row in which all were busy, and the sum of the rates of commands in them.
    busy_periods: u32,
    busy_rates: f64,
    /// Another number of workers that has to show what it gains or loses.
    trial: Option<Trial>,
    /// The periods in a row in which workers waited for each other that long, and the sum of their rates.
    contended: (u32, f64),
    /// The most commands that workers got done in [`COUNTED_PERIODS`] before some left, one after the other,
    /// because they waited for each other.
    contended_rates: f64,
    /// For how many periods they may wait for each other, since fewer get less done.
    tolerant_periods: u32,
}

/// What tells one load from another: commands a second, and open connections.
#[derive(Clone, Copy, Debug)]
struct Load {
    rate: f64,
    connections: usize,
}

impl Load {
    fn is_another(self, before: Load) -> bool {
        let differs = |one: f64, other: f64| one > other * CHANGED || other > one * CHANGED;
        // One or two more are no other load.
        let [now, then] = [self, before].map(|load| (FEW + load.connections) as f64);
        differs(self.rate, before.rate) || differs(now, then)
    }
}

/// What the workers did in a period.
#[derive(Clone, Copy, Debug)]
struct Sample<'a> {
    /// The part of its time that each was busy for.
    loads: &'a [f64],
    /// Which of them serve clients with long requests.
    aside: &'a [bool],
    load: Load,
    /// How much of their time they waited for each other: the sum of these parts.
    waits: f64,
    /// How many of [`PERIOD`] it took.
    periods: u32,
}

/// Another number of workers than before.
#[derive(Debug)]
struct Trial {
    /// How many there were, and the sum of the rates of commands in [`COUNTED_PERIODS`].
    active_before: usize,
    rates_before: f64,
    periods: u32,
    rates: f64,
}

impl Balance {
    fn new(active: usize) -> Self {
        Balance { active, since_fenced: u32::MAX, ..Balance::default() }
    }

    /// Decides from what the workers did in a period how many of them take part, and what they hand over.
    fn plan(&mut self, sample: Sample<'_>, packing: bool) -> Vec<Handover> {
        let active_before = self.active;
        let is_aside = |worker: usize, active| worker >= active && sample.aside[worker];
        let mut loads = sample.loads.to_vec();
        (0..loads.len())
            .filter(|&worker| is_aside(worker, active_before))
            .for_each(|worker| loads[worker] = 0.0);
        self.resize(Sample { loads: &loads, ..sample }, packing);
        self.loads.resize(loads.len(), 0.0);
        self.loads.iter_mut().zip(&loads).for_each(|(sum, load)| *sum += load);
        self.periods += 1;
        if self.active == active_before && self.periods < COMPARED_PERIODS {
            return Vec::new();
        }
        let periods = f64::from(std::mem::take(&mut self.periods));
        let mut loads: Vec<f64> = self.loads.drain(..).map(|sum| sum / periods).collect();
        let mut handovers = Vec::new();
        for from in self.active..loads.len() {
            if loads[from] >= STRAY || is_aside(from, self.active) {
                let to = least(&loads[..self.active]);
                loads[to] += loads[from];
                handovers.push(Handover { from, to, share: 1.0 });
            }
        }
        let mut order: Vec<usize> = (0..self.active).collect();
        order.sort_by(|&left, &right| loads[right].total_cmp(&loads[left]));
        for (&from, &to) in order.iter().zip(order.iter().rev()).take(self.active / 2) {
            let difference = loads[from] - loads[to];
            if loads[from] >= BUSY && difference >= UNEVEN {
                handovers.push(Handover { from, to, share: difference / 2.0 / loads[from] });
            }
        }
        handovers
    }

    fn resize(&mut self, sample: Sample<'_>, packing: bool) {
        let Sample { loads, load, waits, .. } = sample;
        if !packing {
            let (sums, periods) = (std::mem::take(&mut self.loads), self.periods);
            *self = Balance { loads: sums, periods, ..Balance::new(loads.len()) };
            return;
        }
        self.fenced_periods = self.fenced_periods.saturating_sub(sample.periods);
        self.since_fenced = self.since_fenced.saturating_add(sample.periods);
        self.tolerant_periods = self.tolerant_periods.saturating_sub(sample.periods);
        self.waits += (waits - self.waits) * WAITS_WEIGHT;
        if let Some(trial) = &mut self.trial {
            trial.periods += 1;
            if trial.periods > SETTLING_PERIODS {
                trial.rates += load.rate;
            }
            if trial.periods < SETTLING_PERIODS + COUNTED_PERIODS || !self.conclude(load) {
                return;
            }
        }
        let is_contended = self.active > 1 && self.waits >= CONTENDED_AT * self.active as f64;
        if is_contended && self.tolerant_periods == 0 {
            self.contended.0 += 1;
            self.contended.1 += load.rate;
            if self.contended.0 < COUNTED_PERIODS {
                return;
            }
            let (_, rates) = std::mem::take(&mut self.contended);
            self.contended_rates = self.contended_rates.max(rates);
            let (active_before, rates_before) = (self.active, self.contended_rates);
            self.leave(self.active - self.active.div_ceil(3));
            self.trial = Some(Trial { active_before, rates_before, periods: 0, rates: 0.0 });
            return;
        }
        (self.contended, self.contended_rates) = ((0, 0.0), 0.0);
        let total: f64 = loads.iter().sum();
        let needed = ((total / PACK_TO).ceil() as usize).max(1);
        if needed < self.active {
            self.quiet_periods += 1;
            self.needed = self.needed.max(needed);
            if self.quiet_periods >= QUIET_PERIODS {
                self.active = self.needed;
                (self.quiet_periods, self.needed) = (0, 0);
            }
            return;
        }
        (self.quiet_periods, self.needed) = (0, 0);
        self.grow_if_busy(loads, load);
    }

    /// Ends a trial. Whether its workers stay and had been added.
    fn conclude(&mut self, load: Load) -> bool {
        let Some(trial) = self.trial.take() else { return false };
        if self.active < trial.active_before {
            if trial.rates < trial.rates_before * LOSS_MAX {
                self.active = trial.active_before;
                (self.tolerant_periods, self.contended_rates) = (FENCED_PERIODS_MAX, 0.0);
            } else {
                self.shrink_to(self.active);
            }
            return false;
        }
        if trial.rates < trial.rates_before * GAIN_MIN {
            self.shrink_to(trial.active_before);
            let rate = trial.rates_before / f64::from(COUNTED_PERIODS);
            self.fenced_load = Some(Load { rate, ..load });
            return false;
        }
        // They are the ones that more workers would have to surpass.
        (self.busy_periods, self.busy_rates) = (COUNTED_PERIODS - 1, trial.rates - load.rate);
        true
    }

    fn grow_if_busy(&mut self, loads: &[f64], load: Load) {
        let busy = loads[..self.active].iter().sum::<f64>() / self.active as f64;
        // Connections are what is divided.
        let may_grow = self.active < loads.len().min(load.connections);
        if busy < GROW_AT || !may_grow {
            (self.busy_periods, self.busy_rates) = (0, 0.0);
            return;
        }
        self.busy_periods += 1;
        self.busy_rates += load.rate;
        if self.busy_periods < COUNTED_PERIODS {
            return;
        }
        let rates_before = self.busy_rates;
        (self.busy_periods, self.busy_rates) = (0, 0.0);
        if self.fenced_periods > 0 && self.since_fenced > SETTLING_PERIODS + COUNTED_PERIODS {
            let load = Load { rate: rates_before / f64::from(COUNTED_PERIODS), ..load };
            let is_another = load.is_another(*self.fenced_load.get_or_insert(load));
            self.changes = if is_another { self.changes + 1 } else { 0 };
            if self.changes >= CHANGES_MIN {
                self.fenced_periods = 0;
            }
        }
        if self.fenced_periods == 0 {
            let active_before = self.active;
            self.trial = Some(Trial { active_before, rates_before, periods: 0, rates: 0.0 });
            self.active = (2 * self.active).min(loads.len());
        }
    }

    fn leave(&mut self, active: usize) {
        self.active = active;
        (self.trial, self.waits) = (None, 0.0);
        (self.quiet_periods, self.needed) = (0, 0);
        (self.busy_periods, self.busy_rates) = (0, 0.0);
    }

    /// Has workers leave, and none come back for a while.
    fn shrink_to(&mut self, active: usize) {
        self.leave(active);
        (self.fenced_load, self.changes) = (None, 0);
        // Those that leave one after the other belong together: the fence grows only if some had come back.
        if self.fenced_periods == 0 {
            let is_again = self.since_fenced < 2 * self.next_fenced_periods;
            let before = if is_again { self.next_fenced_periods } else { 0 };
            self.fenced_periods = before.clamp(FENCED_PERIODS_MIN, FENCED_PERIODS_MAX);
            self.next_fenced_periods = 2 * self.fenced_periods;
        }
        self.since_fenced = 0;
    }
}

/// The worker with the least load.
fn least(loads: &[f64]) -> usize {
    (0..loads.len()).min_by(|&left, &right| loads[left].total_cmp(&loads[right])).unwrap_or(0)
}

/// Watches the load of the workers, and tells them what to hand over.
pub struct Balancer {
    balance: Balance,
    clocks: Vec<ThreadClock>,
    used: Vec<Duration>,
    wait_ns: u64,
    commands: u64,
    sampled: Instant,
}

impl Balancer {
    /// A balancer of workers with these clocks.
    pub fn new(clocks: Vec<ThreadClock>) -> Self {
        let used = clocks.iter().map(ThreadClock::used).collect();
        let (balance, sampled) = (Balance::new(1), Instant::now());
        Balancer { balance, clocks, used, wait_ns: 0, commands: 0, sampled }
    }

    /// Looks at the workers until the server stops.
    pub fn run(mut self, engine: &Engine, network: &Network) {
        let mut period = PERIOD;
        while self.clocks.len() > 1 && !engine.stopping.load(Ordering::Relaxed) {
            std::thread::sleep(period);
            // While the clients go over to another process they do not move here.
            if network.hands_over.load(Ordering::Acquire) || engine.pauses_cron.load(Ordering::Relaxed) {
                continue;
            }
            period = if self.look(engine, network) { PERIOD } else { IDLE_PERIOD };
        }
    }

    /// Looks at the workers once. Whether there is much to do.
    fn look(&mut self, engine: &Engine, network: &Network) -> bool {
        let elapsed = self.sampled.elapsed();
        self.sampled = Instant::now();
        let mut loads = Vec::with_capacity(self.clocks.len());
        for (clock, before) in self.clocks.iter().zip(&mut self.used) {
            let used = clock.used();
            loads.push((used.saturating_sub(*before).as_secs_f64() / elapsed.as_secs_f64()).min(1.0));
            *before = used;
        }
        let wait_ns = engine.stats.shard_wait_ns.load(Ordering::Relaxed);
        let waits = (wait_ns - self.wait_ns) as f64 / elapsed.as_nanos() as f64;
        self.wait_ns = wait_ns;
        let commands = engine.stats.totals().commands;
        // CONFIG RESETSTAT begins anew.
        let new_commands = commands.checked_sub(self.commands).unwrap_or(commands);
        self.commands = commands;
        let packing = engine.active_config().config.worker_packing;
        network.note_loads(&loads);
        let aside = network.aside_at(self.sampled);
        let connections = network.open_count.load(Ordering::Relaxed);
        let load = Load { rate: new_commands as f64 / elapsed.as_secs_f64(), connections };
        let periods = (elapsed.as_secs_f64() / PERIOD.as_secs_f64()).round() as u32;
        let sample = Sample { loads: &loads, aside: &aside, load, waits, periods };
        let handovers = self.balance.plan(sample, packing);
        network.active_workers.store(self.balance.active, Ordering::Relaxed);
        for handover in handovers {
            network.post(handover.from, Message::HandOver(handover));
        }
        (packing && self.balance.active > 1) || loads.iter().any(|&load| load > IDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [bool; 8] = [false; 8];
    const ONE_BUSY: [f64; 4] = [1.0, 0.0, 0.0, 0.0];

    fn sample(loads: &[f64], rate: u64, waits: f64) -> Sample<'_> {
        Sample { loads, aside: &NONE, load: Load { rate: rate as f64, connections: 100 }, waits, periods: 1 }
    }

    /// Runs periods with the same load of those that take part, and as many commands as `rate` says for so
    /// many workers.
    fn run(balance: &mut Balance, periods: u32, load: f64, rate: impl Fn(usize) -> u64) {
        for _ in 0..periods {
            let loads = [0, 1, 2, 3].map(|worker| if worker < balance.active { load } else { 0.0 });
            balance.plan(sample(&loads, rate(balance.active), 0.0), true);
        }
    }

    #[test]
    fn a_busy_worker_gets_help() {
        let mut one = Balance::new(1);
        for _ in 0..10 {
            assert_eq!(one.plan(sample(&[0.7, 0.0, 0.0, 0.0], 100, 0.0), true), []);
        }
        assert_eq!(one.active, 1);
        for _ in 1..COUNTED_PERIODS {
            assert_eq!(one.plan(sample(&ONE_BUSY, 100, 0.0), true), []);
        }
        let half = Handover { from: 0, to: 1, share: 0.5 };
        assert_eq!(one.plan(sample(&ONE_BUSY, 100, 0.0), true), [half]);
        assert_eq!(one.active, 2);
    }

    #[test]
    fn workers_that_help_stay_and_get_more_help_at_once() {
        let mut balance = Balance::new(1);
        run(&mut balance, COUNTED_PERIODS + SETTLING_PERIODS + COUNTED_PERIODS, 1.0, |active| {
            80 * active as u64
        });
        assert_eq!(balance.active, 4);
        run(&mut balance, 1000, 1.0, |active| 80 * active as u64);
        assert_eq!(balance.active, 4);
    }

    #[test]
    fn workers_that_add_nothing_leave_and_are_tried_again_later_each_time() {
        let mut balance = Balance::new(1);
        let mut periods_with_two = 0;
        let mut began = Vec::new();
        for period in 0..1000 {
            let before = balance.active;
            run(&mut balance, 1, 1.0, |active| 100 + 5 * active as u64);
            periods_with_two += u32::from(balance.active > 1);
            if balance.active > before {
                began.push(period);
            }
        }
        let pauses: Vec<_> = began.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.is_sorted() && pauses[0] >= 50 && pauses.len() < 12, "{pauses:?}");
        assert!(periods_with_two < 70, "{periods_with_two} of 1000 periods");
    }

    #[test]
    fn another_load_has_them_tried_at_once() {
        let mut balance = Balance::new(1);
        run(&mut balance, 60, 1.0, |_| 100);
        assert_eq!((balance.active, balance.fenced_periods > 0), (1, true), "{balance:?}");
        run(&mut balance, 3 * COUNTED_PERIODS, 1.0, |active| 30 * active as u64);
        assert_eq!(balance.active, 2, "{balance:?}");
    }

    #[test]
    fn one_connection_gets_no_help() {
        let mut one = Balance::new(1);
        for _ in 0..100 {
            let load = Load { rate: 100.0, connections: 1 };
            one.plan(Sample { load, ..sample(&ONE_BUSY, 100, 0.0) }, true);
            assert_eq!(one.active, 1);
        }
    }

    #[test]
    fn a_load_that_cannot_be_divided_gets_no_more_workers() {
        let mut two = Balance::new(2);
        for _ in 0..100 {
            two.plan(sample(&[1.0, 0.3, 0.0, 0.0], 100, 0.0), true);
        }
        assert_eq!(two.active, 2);
    }

    #[test]
    fn idle_workers_leave_after_a_while_and_hand_over_what_they_have() {
        let mut four = Balance::new(4);
        let loads = [0.2, 0.2, 0.2, 0.1];
        for _ in 1..QUIET_PERIODS {
            assert_eq!(four.plan(sample(&loads, 100, 0.0), true), []);
            assert_eq!(four.active, 4);
        }
        let handovers = four.plan(sample(&loads, 100, 0.0), true);
        assert_eq!(four.active, 1);
        let all = |from| Handover { from, to: 0, share: 1.0 };
        assert_eq!(handovers, [all(1), all(2), all(3)]);
    }

    #[test]
    fn a_moment_of_load_keeps_the_workers() {
        let mut four = Balance::new(4);
        for period in 0..50 {
            let load = if period % 5 == 0 { 0.8 } else { 0.1 };
            four.plan(sample(&[load; 4], 100, 0.0), true);
        }
        assert_eq!(four.active, 4);
    }

    #[test]
    fn workers_that_wait_for_each_other_leave_and_come_back_later_each_time() {
        let mut balance = Balance::new(1);
        let mut left_at = Vec::new();
        for period in 0..1_000 {
            let (load, waits) = if balance.active > 1 { (1.0, 0.9) } else { (1.0, 0.0) };
            let before = balance.active;
            balance.plan(sample(&[load, 0.0, 0.0, 0.0], 100, waits), true);
            if balance.active < before {
                left_at.push(period);
            }
        }
        let pauses: Vec<_> = left_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.is_sorted() && pauses[0] >= 50 && pauses.len() <= 5, "{pauses:?}");
        // A moment of it has many leave, and for no longer than it has one.
        let mut burst = Balance::new(8);
        for _ in 0..4 * (SETTLING_PERIODS + 2 * COUNTED_PERIODS + 3) {
            let waits = 0.9 * burst.active as f64;
            burst.plan(sample(&[0.9; 8], 100, waits), true);
        }
        assert_eq!(burst.active, 1);
        assert!(burst.fenced_periods <= FENCED_PERIODS_MIN, "{burst:?}");
        // Nor has one transaction that keeps all waiting.
        let mut stopped = Balance::new(8);
        for waits in [0.0, 7.0, 0.0, 0.0] {
            stopped.plan(sample(&[0.9; 8], 100, waits), true);
            assert_eq!(stopped.active, 8);
        }
        // One that waits a little costs less than it gives.
        let mut many = Balance::new(8);
        for _ in 0..100 {
            many.plan(sample(&[0.9; 8], 100, 1.0), true);
            assert_eq!(many.active, 8);
        }
    }

    #[test]
    fn workers_that_wait_for_each_other_stay_if_fewer_get_less_done() {
        let mut balance = Balance::new(8);
        let mut periods_with_all = 0;
        for _ in 0..2_000 {
            let waits = 0.5 * balance.active as f64;
            balance.plan(sample(&[0.9; 8], 100 * balance.active as u64, waits), true);
            periods_with_all += u32::from(balance.active == 8);
        }
        assert!(periods_with_all > 1_900, "{periods_with_all} of 2000 periods");
    }

    #[test]
    fn without_packing_all_take_part_and_share_evenly() {
        let mut one = Balance::new(1);
        let handovers = one.plan(sample(&[0.9, 0.8, 0.1, 0.0], 100, 0.0), false);
        assert_eq!(one.active, 4);
        let pairs: Vec<_> = handovers.iter().map(|handover| (handover.from, handover.to)).collect();
        assert_eq!(pairs, [(0, 3), (1, 2)]);
        assert!(handovers.iter().all(|handover| (0.4..=0.5).contains(&handover.share)));
    }
}
