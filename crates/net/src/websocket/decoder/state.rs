//! A decoder's state as bytes, for another process to go on with.
//!
//! ```text
//! flags                      1 byte: HAS_FRAME, IS_FINAL (of that frame), HAS_MESSAGE
//! opcodes                    2 bytes: the frame's, the message's
//! key                        4 bytes
//! received, len, message_len 8 bytes each, little-endian
//! head, begun, control       each a byte with the length, then the bytes
//! ```

use super::{Decoder, Frame, Limits};
use crate::websocket::{Opcode, Utf8Checker};

const HAS_FRAME: u8 = 1;
const IS_FINAL: u8 = 2;
const HAS_MESSAGE: u8 = 4;

impl Decoder {
    /// The state. Limits are no part of it.
    pub fn state(&self) -> Vec<u8> {
        let frame = self.frame.unwrap_or(Frame {
            opcode: Opcode::Continuation,
            is_final: false,
            key: [0; 4],
            received: 0,
            len: 0,
        });
        let message = self.message.unwrap_or(Opcode::Continuation);
        let mut flags = if self.frame.is_some() { HAS_FRAME } else { 0 };
        flags |= if frame.is_final { IS_FINAL } else { 0 };
        flags |= if self.message.is_some() { HAS_MESSAGE } else { 0 };
        let mut out = vec![flags, frame.opcode.bits(), message.bits()];
        out.extend_from_slice(&frame.key);
        for number in [frame.received, frame.len, self.message_len] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for part in [&self.head[..usize::from(self.head_len)], self.utf8.begun(), self.control()] {
            out.push(part.len() as u8);
            out.extend_from_slice(part);
        }
        out
    }

    /// A decoder in this state; none if it is no such state.
    pub fn with_state(limits: Limits, mut state: &[u8]) -> Option<Decoder> {
        let mut decoder = Decoder::new(limits);
        let [flags, opcode, message] = *take(&mut state)?;
        let key = *take(&mut state)?;
        let mut number = || take(&mut state).map(|bytes: &[u8; 8]| u64::from_le_bytes(*bytes));
        let (received, len, message_len) = (number()?, number()?, number()?);
        decoder.message_len = message_len;
        if flags & HAS_MESSAGE != 0 {
            let message = Opcode::from_bits(message).filter(|it| matches!(it, Opcode::Text | Opcode::Binary));
            decoder.message = Some(message?);
        }
        let head = take_part(&mut state, decoder.head.len() - 1)?;
        decoder.head[..head.len()].copy_from_slice(head);
        decoder.head_len = head.len() as u8;
        decoder.utf8 = Utf8Checker::with_begun(take_part(&mut state, 3)?)?;
        let control = take_part(&mut state, decoder.control.len())?;
        decoder.control[..control.len()].copy_from_slice(control);
        decoder.control_len = control.len() as u8;
        if flags & HAS_FRAME != 0 {
            let opcode = Opcode::from_bits(opcode)?;
            let is_sound = match opcode.is_control() {
                true => received == control.len() as u64 && len <= decoder.control.len() as u64,
                false => decoder.message.is_some(),
            };
            if !is_sound || received >= len {
                return None;
            }
            decoder.frame = Some(Frame { opcode, is_final: flags & IS_FINAL != 0, key, received, len });
        }
        state.is_empty().then_some(decoder)
    }
}

fn take<'a, const N: usize>(state: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (part, rest) = state.split_first_chunk()?;
    *state = rest;
    Some(part)
}

fn take_part<'a>(state: &mut &'a [u8], len_max: usize) -> Option<&'a [u8]> {
    let [len] = *take(state)?;
    let len = usize::from(len);
    if len > len_max || len > state.len() {
        return None;
    }
    let (part, rest) = state.split_at(len);
    *state = rest;
    Some(part)
}
