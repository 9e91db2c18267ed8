//! Numbers for tests that look random and are the same every time: SplitMix64 (Steele, Lea, Flood: Fast
//! splittable pseudorandom number generators, 2014).

/// A generator. Generators of different seeds have nothing to do with each other.
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// The numbers of a seed, one with each call.
pub fn random_numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut random = Random::new(seed);
    move || random.next()
}
