//! Whether an arrival lowers another item's count.
//!
//! Draws come from a state of 64 bits (SplitMix64), and thresholds from multiplications alone: so the outcome
//! depends on nothing but the state, on every platform.

use std::sync::Arc;

/// Counts whose probabilities are computed ahead.
const TABLE: usize = 256;
/// Draws are below this.
const DRAWS: f64 = (1u64 << 53) as f64;

/// The source of chance of a sketch.
#[derive(Clone, Debug, Default)]
pub(super) struct Chance {
    state: u64,
    decay: f64,
    /// `decay^count`, once the first draw was needed.
    powers: Option<Arc<[f64; TABLE]>>,
}

impl Chance {
    pub fn new(decay: f64) -> Self {
        Chance { state: 0, decay, powers: None }
    }

    pub fn decay(&self) -> f64 {
        self.decay
    }

    pub fn state(&self) -> u64 {
        self.state
    }

    pub fn set_state(&mut self, state: u64) {
        self.state = state;
    }

    /// Arrivals meet a count that is another's: what is left of it, and of them once it is 0.
    pub fn contest(&mut self, mut count: u32, arrivals: u32) -> (u32, u32) {
        for left in (1..=arrivals).rev() {
            let probability = self.power(count);
            if probability * DRAWS < 1.0 {
                // No draw is below it.
                break;
            }
            if ((self.draw() >> 11) as f64) < probability * DRAWS {
                count -= 1;
                if count == 0 {
                    return (0, left);
                }
            }
        }
        (count, 0)
    }

    /// `decay^count`.
    fn power(&mut self, count: u32) -> f64 {
        let decay = self.decay;
        let powers = self.powers.get_or_insert_with(|| {
            let mut powers = [1.0; TABLE];
            (1..TABLE).for_each(|index| powers[index] = powers[index - 1] * decay);
            Arc::new(powers)
        });
        let (mut rest, mut product) = (count as usize / (TABLE - 1), powers[count as usize % (TABLE - 1)]);
        let mut square = powers[TABLE - 1];
        while rest > 0 {
            if rest % 2 == 1 {
                product *= square;
            }
            square *= square;
            rest /= 2;
        }
        product
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
