//! The order in which completions are reported.
//!
//! Short receives (up to `SHORT_BYTES`) are reported before all others, also before those left over from
//! the last iteration. Otherwise a client that sends one request at a time would wait for every long
//! pipeline that came before it. So are the ends of receives, for which a connection waits that is closed or
//! goes to another thread. The receives of one connection keep their order.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Purpose;
use super::ring::Completion;
use crate::link::Urgency;

/// The bytes of a request or two.
const SHORT_BYTES: i32 = 256;
/// Consecutive iterations that may report new short receives before left-over long ones.
const OVERTAKEN_MAX: u32 = 4;
/// How long [`Urgency::Lately`] lasts after short and long receives came together.
const LATELY: Duration = Duration::from_millis(100);

/// Puts completions in order.
#[derive(Default)]
pub(super) struct Order {
    // Scratch space of `put_short_first`.
    short: Vec<Completion>,
    rest: VecDeque<Completion>,
    /// One bit for each slot: `rest` has a receive of its connection.
    held: Vec<u64>,
    /// Consecutive iterations that reported short receives before left-over ones.
    overtaken: u32,
    /// This iteration reports everything, in order of arrival, so that no receive starves.
    is_whole: bool,
    /// When short and long receives last came together.
    mixed_at: Option<Instant>,
}

/// The short receives, and ends of receives, that were moved to the front.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Front {
    pub len: usize,
    /// How many of them were left over from the last iteration.
    pub left: usize,
}

fn is_receive(completion: &Completion) -> bool {
    Purpose::of(completion.data) == Some(Purpose::Receive)
}

fn is_short(completion: &Completion) -> bool {
    match Purpose::of(completion.data) {
        Some(Purpose::Receive) => completion.result <= SHORT_BYTES,
        purpose => purpose == Some(Purpose::Cancel),
    }
}

pub(super) fn is_long(completion: &Completion) -> bool {
    is_receive(completion) && completion.result > SHORT_BYTES
}

impl Order {
    /// Puts short receives before everything else, where there are long ones. The first `left` completions
    /// were left over when the last iteration ended. No slot is above `slots`.
    pub(super) fn put_short_first(
        &mut self,
        completions: &mut VecDeque<Completion>,
        left: usize,
        slots: usize,
    ) -> Front {
        self.is_whole = false;
        let first_long = completions.iter().position(is_long);
        let Some(first_long) = first_long.filter(|_| completions.iter().any(is_short)) else {
            self.overtaken = 0;
            return Front::default();
        };
        self.mixed_at = Some(Instant::now());
        if self.overtaken == OVERTAKEN_MAX {
            self.overtaken = 0;
            self.is_whole = true;
            return Front::default();
        }
        self.overtaken = if first_long < left { self.overtaken + 1 } else { 0 };
        self.held.clear();
        self.held.resize(slots / 64 + 1, 0);
        let mut front = Front::default();
        for (index, completion) in completions.drain(..).enumerate() {
            let slot = completion.data as u32 as usize;
            let (word, bit) = (slot / 64, 1 << (slot % 64));
            if is_short(&completion) && self.held[word] & bit == 0 {
                front.left += usize::from(index < left);
                self.short.push(completion);
                continue;
            }
            if is_receive(&completion) {
                self.held[word] |= bit;
            }
            self.rest.push_back(completion);
        }
        front.len = self.short.len();
        completions.extend(self.short.drain(..));
        completions.append(&mut self.rest);
        front
    }

    /// The urgency of an iteration that began at `began`, without [`Urgency::Now`].
    pub(super) fn urgency(&self, began: Instant) -> Urgency {
        let is_recent = |mixed_at| began.saturating_duration_since(mixed_at) < LATELY;
        if !self.is_whole && self.mixed_at.is_some_and(is_recent) { Urgency::Lately } else { Urgency::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(slot: u32, bytes: i32) -> Completion {
        Completion { data: Purpose::Receive.data(slot), result: bytes, flags: 0 }
    }

    fn slots(completions: &VecDeque<Completion>) -> Vec<(u32, i32)> {
        completions.iter().map(|completion| (completion.data as u32, completion.result)).collect()
    }

    #[test]
    fn short_ones_go_first_and_those_of_a_connection_stay_in_order() {
        let mut order = Order::default();
        let accepted = Completion { data: Purpose::Accept.data(7), result: 9, flags: 0 };
        let mut completions = VecDeque::from([
            received(100, 5000),
            received(1, 20),
            accepted,
            received(2, 4000),
            received(7, 30),
            received(2, 10),
            received(1, 6000),
            received(1, 25),
            received(3, 0),
            received(2, -125),
            received(4, -125),
            received(100, 40),
        ]);
        assert_eq!(order.put_short_first(&mut completions, 1, 100), Front { len: 4, left: 0 });
        let expected = [(1, 20), (7, 30), (3, 0), (4, -125), (100, 5000), (7, 9), (2, 4000), (2, 10)];
        assert_eq!(slots(&completions)[..8], expected);
        assert_eq!(slots(&completions)[8..], [(1, 6000), (1, 25), (2, -125), (100, 40)]);
    }

    #[test]
    fn nothing_is_overtaken_for_ever() {
        let mut order = Order::default();
        let mut completions = VecDeque::from([received(0, 5000)]);
        for overtaken in 0..OVERTAKEN_MAX {
            let left = completions.len();
            completions.push_back(received(1, 10));
            assert_eq!(order.put_short_first(&mut completions, left, 1), Front { len: 1, left: 0 });
            assert_eq!(order.urgency(Instant::now()), Urgency::Lately, "{overtaken}");
            completions.pop_front();
        }
        completions.push_back(received(1, 10));
        assert_eq!(order.put_short_first(&mut completions, 1, 1), Front::default());
        assert_eq!(slots(&completions), [(0, 5000), (1, 10)]);
        assert_eq!(order.urgency(Instant::now()), Urgency::None, "this iteration reports everything");
    }

    #[test]
    fn short_ones_that_were_left_over_are_not_overtaken_by_others() {
        let mut order = Order::default();
        let mut completions = VecDeque::from([received(1, 10), received(2, 5000), received(3, 10)]);
        assert_eq!(order.put_short_first(&mut completions, 2, 3), Front { len: 2, left: 1 });
        assert_eq!(slots(&completions), [(1, 10), (3, 10), (2, 5000)]);
    }

    #[test]
    fn what_is_alike_stays_as_it_is_and_is_not_urgent() {
        let mut order = Order::default();
        let mut short: VecDeque<Completion> = (0..5).map(|slot| received(slot, 10)).collect();
        assert_eq!(order.put_short_first(&mut short, 0, 5), Front::default());
        // Some of them were left over: these are not overtaken either.
        assert_eq!(order.put_short_first(&mut short, 2, 5), Front::default());
        assert_eq!(slots(&short), (0..5).map(|slot| (slot, 10)).collect::<Vec<_>>());
        let mut long: VecDeque<Completion> = (0..5).map(|slot| received(slot, 1000)).collect();
        assert_eq!(order.put_short_first(&mut long, 0, 5), Front::default());
        assert_eq!(slots(&long), (0..5).map(|slot| (slot, 1000)).collect::<Vec<_>>());
        assert_eq!(order.urgency(Instant::now()), Urgency::None);
        long.push_back(received(5, 10));
        assert_eq!(order.put_short_first(&mut long, 0, 5), Front { len: 1, left: 0 });
        let now = Instant::now();
        assert_eq!(order.urgency(now), Urgency::Lately);
        assert_eq!(order.urgency(now + LATELY), Urgency::None);
    }
}
