//! How filters are made by commands that do not say it.
//!
//! A log says how each filter was made, so that these do not count when it is replayed; logs of Redis do not.

/// How a Bloom filter is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BloomMaking {
    /// `bf-initial-size`: the items of the first part, above 0.
    pub capacity: i64,
    /// `bf-error-rate`: above 0 and below 1.
    pub error: f64,
    /// `bf-expansion-factor`. Only its low 32 bits count.
    pub expansion: i64,
    /// Whether it does not grow.
    pub is_fixed: bool,
}

impl BloomMaking {
    /// What holds where nothing is set.
    pub const DEFAULT: BloomMaking =
        BloomMaking { capacity: 100, error: 0.01, expansion: 2, is_fixed: false };
}

/// How a cuckoo filter is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooMaking {
    /// `cf-initial-size`: the items of the first part.
    pub capacity: i64,
    /// `cf-bucket-size`.
    pub bucket_size: i64,
    /// `cf-max-iterations`.
    pub steps: i64,
    /// `cf-expansion-factor`; 0 makes filters that do not grow.
    pub growth: i64,
}

impl CuckooMaking {
    /// What holds where nothing is set.
    pub const DEFAULT: CuckooMaking = CuckooMaking { capacity: 1024, bucket_size: 2, steps: 20, growth: 1 };
}

/// The settings of filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilterSettings {
    /// Of Bloom filters.
    pub bloom: BloomMaking,
    /// Of cuckoo filters.
    pub cuckoo: CuckooMaking,
    /// `cf-max-expansions`: with so many parts a cuckoo filter takes no further items.
    pub cuckoo_parts_max: usize,
}

impl Default for FilterSettings {
    fn default() -> Self {
        FilterSettings { bloom: BloomMaking::DEFAULT, cuckoo: CuckooMaking::DEFAULT, cuckoo_parts_max: 32 }
    }
}
