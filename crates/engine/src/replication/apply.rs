//! STUB, not to be committed.
use crate::engine::Engine;
pub struct Applied { pub used: usize, pub ack: bool }
pub struct Applier;
impl Applier { pub fn new(_e: &Engine, _d: usize) -> Self { Applier } pub fn apply(&mut self, b: &[u8]) -> Result<Applied, String> { Ok(Applied{used:b.len(),ack:false}) } }
