//! Dump files: when they were written, and whether one is being written or read.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use crate::context::Context;
use crate::server::Server;

/// What is known of dump files.
#[derive(Default)]
pub struct Persistence {
    /// Changes since the last successful save.
    pub dirty: AtomicU64,
    /// When the last successful save ended, Unix time in s.
    pub last_save_s: AtomicI64,
    /// The last background save failed.
    pub last_save_failed: AtomicBool,
    /// A dump is being read; commands get an error meanwhile.
    pub loading: AtomicBool,
}

/// Reads the dump file, if there is one, before the server serves anybody.
pub fn load(_server: &'static Server) -> Result<(), String> {
    Ok(())
}

/// Saves if save points are configured. False if that failed and the server must not end.
pub fn save_before_exit(_server: &'static Server) -> bool {
    true
}

/// Starts a background save if one is due.
pub fn tick(_context: &mut Context) {}
