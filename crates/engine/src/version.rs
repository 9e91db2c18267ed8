//! The version that clients are told.

/// The level of compatibility that clients look at.
pub const REDIS_VERSION: &str = "8.2.3";
