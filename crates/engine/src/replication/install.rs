//! STUB, not to be committed.
use crate::engine::Engine;
use std::io::Read;
pub struct Installed {
    pub database: usize,
}
pub fn install(
    _e: &Engine,
    _p: &mut dyn Read,
    _position: Option<(String, u64)>,
    _progress: &dyn Fn(u64),
    _cancelled: &dyn Fn() -> bool,
) -> Result<Installed, String> {
    Err("stub".to_owned())
}
