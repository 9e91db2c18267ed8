//! Sums of doubles for each instruction set, to measure what it is worth.
//!
//! Not for data: the order of addition, and so the last bits of a sum, differ between them.

/// Independent sums: eight registers of 512 bits.
const LANES: usize = 64;

/// A function that adds doubles up.
#[derive(Clone, Copy, Debug)]
pub struct SumKernel {
    /// The instruction set.
    pub name: &'static str,
    /// The sum.
    pub sum: fn(&[f64]) -> f64,
}

/// All that this processor can run: one number after another first, then with more of them at a time.
pub fn sum_kernels() -> Vec<SumKernel> {
    let mut all = vec![SumKernel { name: "scalar", sum: sum_in_order }];
    #[cfg(target_arch = "x86_64")]
    {
        all.push(SumKernel { name: "sse2", sum: |values| sum_lanes(values) });
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has been found to have the instructions.
            all.push(SumKernel { name: "avx2", sum: |values| unsafe { sum_avx2(values) } });
        }
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has been found to have the instructions.
            all.push(SumKernel { name: "avx512", sum: |values| unsafe { sum_avx512(values) } });
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    all.push(SumKernel { name: "portable", sum: |values| sum_lanes(values) });
    all
}

fn sum_in_order(values: &[f64]) -> f64 {
    values.iter().sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(values: &[f64]) -> f64 {
    sum_lanes(values)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512(values: &[f64]) -> f64 {
    sum_lanes(values)
}

#[inline(always)]
fn sum_lanes(values: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        for (sum, value) in sums.iter_mut().zip(block) {
            *sum += value;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_come_to_the_sum() {
        for len in [0_u32, 1, 63, 64, 65, 1000] {
            let values: Vec<f64> = (0..len).map(f64::from).collect();
            let expected = f64::from(len) * (f64::from(len) - 1.0) / 2.0;
            for kernel in sum_kernels() {
                assert_eq!((kernel.sum)(&values), expected.max(0.0), "{} of {len}", kernel.name);
            }
        }
    }
}
