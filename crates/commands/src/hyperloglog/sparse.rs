//! The sparse form of a sketch: its registers as runs of equal ones.
//!
//! ```text
//! 00llllll             1 to 64 registers that are 0
//! 01llllll llllllll    1 to 16,384 registers that are 0
//! 1vvvvvll             1 to 4 registers of 1 to 32
//! ```
//!
//! All numbers are stored less one. Clients compare these bytes, so a change does what Redis does: it splits
//! the run around the register, then joins neighbours of equal value in the four runs around it.
//! Finding a register walks the runs: their bytes are bounded by `hll-sparse-max-bytes`.

use super::sketch::{Corrupt, HEADER_BYTES, REGISTERS};

/// The highest value that a run can have.
const VALUE_MAX: u8 = 32;
/// The longest run of zeros in one byte.
const SHORT_ZEROS_MAX: usize = 64;
/// The longest run of a value.
const VALUES_MAX: usize = 4;
/// Runs looked at to join neighbours after a change.
const JOINED_RUNS_MAX: usize = 5;

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    value: u8,
    len: usize,
    /// The bytes it takes.
    size: usize,
}

/// What came of [`raise`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Raised {
    /// The register has that value or a higher one.
    No,
    /// The register was changed.
    Yes,
    /// The register is to be changed, and this form cannot hold it.
    TooLarge,
}

/// The run at a place. The missing half of a long one reads as 0.
fn run_at(bytes: &[u8], at: usize) -> Option<Run> {
    let first = *bytes.get(at)?;
    Some(match first >> 6 {
        0 => Run { value: 0, len: usize::from(first) + 1, size: 1 },
        1 => {
            let low = bytes.get(at + 1).copied().unwrap_or(0);
            Run { value: 0, len: (usize::from(first & 0x3F) << 8 | usize::from(low)) + 1, size: 2 }
        }
        _ => Run { value: (first >> 2 & 0x1F) + 1, len: usize::from(first & 3) + 1, size: 1 },
    })
}

/// Appends a run of zeros, at least one and at most [`REGISTERS`].
pub(super) fn put_zeros(out: &mut Vec<u8>, len: usize) {
    let stored = len - 1;
    if len > SHORT_ZEROS_MAX {
        out.push(0x40 | (stored >> 8) as u8);
    }
    out.push(stored as u8);
}

fn value_run(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// Has `visit` called with the first register, the value and the length of each run, all inside the
/// registers.
pub(super) fn each_run(bytes: &[u8], mut visit: impl FnMut(usize, u8, usize)) -> Result<(), Corrupt> {
    let (mut at, mut first) = (HEADER_BYTES, 0);
    while let Some(run) = run_at(bytes, at) {
        if first + run.len > REGISTERS {
            return Err(Corrupt);
        }
        visit(first, run.value, run.len);
        first += run.len;
        at += run.size;
    }
    if first == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// Makes a register at least `value`, as far as this form can hold it within `bytes_max`.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    index: usize,
    value: u8,
    bytes_max: usize,
) -> Result<Raised, Corrupt> {
    if value > VALUE_MAX {
        return Ok(Raised::TooLarge);
    }
    let (mut at, mut first, mut before) = (HEADER_BYTES, 0, None);
    let run = loop {
        let run = run_at(bytes, at).ok_or(Corrupt)?;
        if index < first + run.len {
            break run;
        }
        before = Some(at);
        at += run.size;
        first += run.len;
    };
    if run.value >= value {
        return Ok(Raised::No);
    }
    let mut parts = Vec::with_capacity(5);
    let put_rest = |parts: &mut Vec<u8>, len: usize| match (len, run.value) {
        (0, _) => {}
        (_, 0) => put_zeros(parts, len),
        (_, value) => parts.push(value_run(value, len)),
    };
    put_rest(&mut parts, index - first);
    parts.push(value_run(value, 1));
    put_rest(&mut parts, first + run.len - 1 - index);
    if parts.len() > run.size && bytes.len() + parts.len() - run.size > bytes_max {
        return Ok(Raised::TooLarge);
    }
    if bytes.capacity() - bytes.len() < 3 {
        bytes.reserve_exact(3 + bytes.len().min(300));
    }
    let end = (at + run.size).min(bytes.len());
    bytes.splice(at..end, parts);
    join(bytes, before.unwrap_or(HEADER_BYTES));
    Ok(Raised::Yes)
}

/// Joins neighbours of equal value from a place on.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_RUNS_MAX {
        let Some(run) = run_at(bytes, at) else { return };
        let next = run_at(bytes, at + run.size).filter(|_| run.value > 0);
        match next.filter(|next| next.value == run.value && next.len + run.len <= VALUES_MAX) {
            Some(next) => {
                bytes[at] = value_run(run.value, run.len + next.len);
                bytes.remove(at + 1);
            }
            None => at += run.size,
        }
    }
}

/// The runs as text: `Z` and `z` are long and short runs of zeros, `v` are values.
pub(super) fn describe(bytes: &[u8]) -> String {
    let (mut at, mut words) = (HEADER_BYTES, Vec::new());
    while let Some(run) = run_at(bytes, at) {
        words.push(match (run.value, run.size) {
            (0, 1) => format!("z:{}", run.len),
            (0, _) => format!("Z:{}", run.len),
            (value, _) => format!("v:{value},{}", run.len),
        });
        at += run.size;
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::sketch;
    use super::*;

    #[test]
    fn runs_split_and_join() {
        let mut bytes = sketch::new();
        let mut raise = |index, value| raise(&mut bytes, index, value, 3000).map(|_| describe(&bytes));
        assert_eq!(raise(100, 3).as_deref(), Ok("Z:100 v:3,1 Z:16283"));
        assert_eq!(raise(101, 3).as_deref(), Ok("Z:100 v:3,2 Z:16282"));
        assert_eq!(raise(99, 3).as_deref(), Ok("Z:99 v:3,3 Z:16282"));
        assert_eq!(raise(100, 5).as_deref(), Ok("Z:99 v:3,1 v:5,1 v:3,1 Z:16282"));
        assert_eq!(raise(40, 1).as_deref(), Ok("z:40 v:1,1 z:58 v:3,1 v:5,1 v:3,1 Z:16282"));
        assert_eq!(
            raise(REGISTERS - 1, 32).as_deref(),
            Ok("z:40 v:1,1 z:58 v:3,1 v:5,1 v:3,1 Z:16281 v:32,1")
        );
        assert_eq!(raise(0, 1).as_deref(), Ok("v:1,1 z:39 v:1,1 z:58 v:3,1 v:5,1 v:3,1 Z:16281 v:32,1"));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let mut bytes = sketch::new();
        assert_eq!(raise(&mut bytes, 5, 33, 3000), Ok(Raised::TooLarge));
        assert_eq!(raise(&mut bytes, 5, 3, 18), Ok(Raised::TooLarge));
        assert_eq!(raise(&mut bytes, 5, 3, 20), Ok(Raised::Yes));
        assert_eq!(raise(&mut bytes, 5, 3, 0), Ok(Raised::No));
        assert_eq!(raise(&mut bytes, 5, 4, 0), Ok(Raised::Yes));
    }
}
