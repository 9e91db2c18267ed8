//! Reading many series on all cores.
//!
//! Series that a filter has found are values of their own that nobody changes, so threads that read them lock
//! nothing. Few samples are read by the calling thread alone: a thread costs some 50 us to start.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

/// Samples that are worth a thread.
const SAMPLES_MIN: u64 = 200_000;
const THREADS_MAX: u64 = 64;

/// Items cut into runs of about the same number of samples, each worth a thread, about as many as cores.
pub(super) fn runs<T>(items: &[T], samples: impl Fn(&T) -> u64) -> Vec<&[T]> {
    let total = items.iter().map(&samples).fold(0, u64::saturating_add);
    let worth = (total / SAMPLES_MIN).min(THREADS_MAX);
    if worth <= 1 {
        return vec![items];
    }
    let cores = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    cut(items, samples, total.div_ceil(worth.min(cores)))
}

/// What `work` makes of runs, each on a thread of its own, in their order.
pub(super) fn of_each<T: Sync, R: Send>(runs: &[&[T]], work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let Some((&last, others)) = runs.split_last() else { return Vec::new() };
    let work = &work;
    thread::scope(|scope| {
        let mut started = Vec::with_capacity(others.len());
        for &run in others {
            let thread = thread::Builder::new().spawn_scoped(scope, move || work(run));
            started.push(thread.map_err(|_| run));
        }
        let of_last = work(last);
        let finish = |one: Result<_, &[T]>| match one {
            Ok(thread) => join(thread),
            Err(run) => work(run),
        };
        started.into_iter().map(finish).chain([of_last]).collect()
    })
}

fn join<R>(thread: thread::ScopedJoinHandle<'_, R>) -> R {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs that end once they have so many samples.
fn cut<T>(items: &[T], samples: impl Fn(&T) -> u64, enough: u64) -> Vec<&[T]> {
    let mut count = 0_u64;
    let runs = items.chunk_by(|item, _| {
        count = count.saturating_add(samples(item));
        let goes_on = count < enough;
        if !goes_on {
            count = 0;
        }
        goes_on
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_all_items_in_their_order() {
        for count in [0_u64, 1, 2, 7, 100, 1000] {
            for each in [0, 1, 5000, 1 << 20, u64::MAX] {
                let items: Vec<u64> = (0..count).collect();
                let samples = |item: &u64| if item.is_multiple_of(3) { each } else { 1 };
                let runs = runs(&items, samples);
                assert_eq!(of_each(&runs, |run| run.to_vec()).concat(), items);
                assert!(cut(&items, samples, 5000).len() as u64 <= count);
            }
        }
    }
}
