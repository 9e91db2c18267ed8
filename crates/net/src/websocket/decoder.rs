//! Frames of a client.

mod state;

use super::close::may_be_received;
use super::{CloseCode, Opcode, Utf8Checker, unmask};

/// The longest header: two bytes, eight of a length, four of a mask.
const HEADER_BYTES_MAX: usize = 14;
/// The most bytes of a control frame's payload (section 5.5).
const CONTROL_BYTES_MAX: usize = 125;
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Payload bytes of a frame.
    pub frame_bytes_max: u64,
    /// Payload bytes of a message, all of its frames together.
    pub message_bytes_max: u64,
}

/// What messages carried. The decoder appends; who uses it up empties it.
#[derive(Default, Debug)]
pub struct Incoming {
    /// Of text messages. Valid UTF-8 at the end of each of them.
    pub text: Vec<u8>,
    /// Of binary messages.
    pub binary: Vec<u8>,
}

/// What has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Some of a text message; `is_last` with its last byte.
    Text {
        /// The message ends here.
        is_last: bool,
    },
    /// Some of a binary message; `is_last` with its last byte.
    Binary {
        /// The message ends here.
        is_last: bool,
    },
    /// A ping, with [`Decoder::control`] as its payload.
    Ping,
    /// A pong, with [`Decoder::control`] as its payload.
    Pong,
    /// The last frame of the client. Whatever follows is ignored. [`Decoder::control`] is its payload, which
    /// is valid.
    Close,
}

#[derive(Clone, Copy)]
struct Frame {
    opcode: Opcode,
    is_final: bool,
    key: [u8; 4],
    /// Payload bytes that have come.
    received: u64,
    len: u64,
}

/// Takes the frames of one client apart.
pub struct Decoder {
    limits: Limits,
    /// A header that has come in part.
    head: [u8; HEADER_BYTES_MAX],
    head_len: u8,
    /// The frame whose payload is coming.
    frame: Option<Frame>,
    /// What the message is of which more frames are to come.
    message: Option<Opcode>,
    /// Payload bytes of that message, those of the current frame included.
    message_len: u64,
    utf8: Utf8Checker,
    control: [u8; CONTROL_BYTES_MAX],
    control_len: u8,
    is_closed: bool,
}

impl Decoder {
    /// A decoder at the beginning of a connection.
    pub fn new(limits: Limits) -> Decoder {
        Decoder {
            limits,
            head: [0; HEADER_BYTES_MAX],
            head_len: 0,
            frame: None,
            message: None,
            message_len: 0,
            utf8: Utf8Checker::default(),
            control: [0; CONTROL_BYTES_MAX],
            control_len: 0,
            is_closed: false,
        }
    }

    /// Changes the limits for frames that have not begun.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The payload of the control frame that was reported last.
    pub fn control(&self) -> &[u8] {
        &self.control[..usize::from(self.control_len)]
    }

    /// Whether the client's close frame has come.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether nothing of a frame or message is outstanding.
    pub fn is_between_messages(&self) -> bool {
        self.head_len == 0 && self.frame.is_none() && self.message.is_none()
    }

    /// Takes bytes from the front of `input` until something has come; none once the input is used up.
    ///
    /// # Errors
    ///
    /// The code to close the connection with. The decoder is of no use after that.
    pub fn next(&mut self, input: &mut &[u8], incoming: &mut Incoming) -> Result<Option<Event>, CloseCode> {
        if self.is_closed {
            *input = &[];
            return Ok(None);
        }
        let frame = match self.frame.take() {
            Some(frame) => frame,
            None => match self.read_header(input)? {
                Some(frame) => frame,
                None => return Ok(None),
            },
        };
        if input.is_empty() && frame.received < frame.len {
            self.frame = Some(frame);
            return Ok(None);
        }
        if frame.opcode.is_control() {
            return self.read_control(frame, input);
        }
        self.read_data(frame, input, incoming).map(Some)
    }

    /// Reads a header; none if there is only a part of it, which is kept.
    fn read_header(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, CloseCode> {
        if self.head_len == 0 {
            let Some((frame, len)) = self.parse_header(input)? else {
                self.head[..input.len()].copy_from_slice(input);
                self.head_len = input.len() as u8;
                *input = &[];
                return Ok(None);
            };
            *input = &input[len..];
            return Ok(Some(frame));
        }
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            self.head[usize::from(self.head_len)] = byte;
            self.head_len += 1;
            let head = self.head;
            if let Some((frame, _)) = self.parse_header(&head[..usize::from(self.head_len)])? {
                self.head_len = 0;
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// The frame that begins here, with the length of its header; none if that is not complete. What the
    /// first two bytes or the length break is refused as soon as they are there.
    fn parse_header(&mut self, bytes: &[u8]) -> Result<Option<(Frame, usize)>, CloseCode> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let opcode = self.check_first(first)?;
        let Some(&second) = bytes.get(1) else { return Ok(None) };
        if second & MASKED == 0 {
            return Err(CloseCode::ProtocolError);
        }
        let short = second & !MASKED;
        if opcode.is_control() && usize::from(short) > CONTROL_BYTES_MAX {
            return Err(CloseCode::ProtocolError);
        }
        let Some((len, at)) = parse_len(short, bytes)? else { return Ok(None) };
        self.check_len(opcode, len)?;
        let Some(key) = bytes.get(at..at + 4).and_then(|key| key.try_into().ok()) else { return Ok(None) };
        let frame = Frame { opcode, is_final: first & FIN != 0, key, received: 0, len };
        self.begin(&frame);
        Ok(Some((frame, at + 4)))
    }

    /// Sections 5.2 and 5.4: no reserved bits or opcodes, control frames in one piece, no message within
    /// another, no continuation of none.
    fn check_first(&self, first: u8) -> Result<Opcode, CloseCode> {
        let opcode = Opcode::from_bits(first & 0xf).ok_or(CloseCode::ProtocolError)?;
        let is_fragment = first & FIN == 0;
        let is_misplaced = match opcode {
            Opcode::Continuation => self.message.is_none(),
            Opcode::Text | Opcode::Binary => self.message.is_some(),
            _ => is_fragment,
        };
        if first & RESERVED != 0 || is_misplaced {
            return Err(CloseCode::ProtocolError);
        }
        Ok(opcode)
    }

    fn check_len(&self, opcode: Opcode, len: u64) -> Result<(), CloseCode> {
        if opcode.is_control() {
            return Ok(());
        }
        let before = if self.message.is_some() { self.message_len } else { 0 };
        let is_over = before.checked_add(len).is_none_or(|len| len > self.limits.message_bytes_max);
        if len > self.limits.frame_bytes_max || is_over { Err(CloseCode::TooBig) } else { Ok(()) }
    }

    fn begin(&mut self, frame: &Frame) {
        match frame.opcode {
            Opcode::Continuation => self.message_len += frame.len,
            Opcode::Text | Opcode::Binary => {
                self.message = Some(frame.opcode);
                self.message_len = frame.len;
            }
            _ => self.control_len = 0,
        }
    }

    fn read_data(
        &mut self,
        mut frame: Frame,
        input: &mut &[u8],
        incoming: &mut Incoming,
    ) -> Result<Event, CloseCode> {
        let piece = take(input, frame.len - frame.received);
        let is_text = self.message == Some(Opcode::Text);
        let out = if is_text { &mut incoming.text } else { &mut incoming.binary };
        let from = out.len();
        unmask(piece, frame.key, (frame.received % 4) as usize, out);
        if is_text && !self.utf8.feed(&out[from..]) {
            return Err(CloseCode::InvalidPayload);
        }
        frame.received += piece.len() as u64;
        let is_last = frame.received == frame.len && frame.is_final;
        if frame.received < frame.len {
            self.frame = Some(frame);
        }
        if is_last {
            self.message = None;
            if is_text && !std::mem::take(&mut self.utf8).is_complete() {
                return Err(CloseCode::InvalidPayload);
            }
        }
        Ok(if is_text { Event::Text { is_last } } else { Event::Binary { is_last } })
    }

    fn read_control(&mut self, mut frame: Frame, input: &mut &[u8]) -> Result<Option<Event>, CloseCode> {
        let piece = take(input, frame.len - frame.received);
        for &byte in piece {
            self.control[usize::from(self.control_len)] = byte ^ frame.key[usize::from(self.control_len) % 4];
            self.control_len += 1;
        }
        frame.received += piece.len() as u64;
        if frame.received < frame.len {
            self.frame = Some(frame);
            return Ok(None);
        }
        Ok(Some(match frame.opcode {
            Opcode::Ping => Event::Ping,
            Opcode::Pong => Event::Pong,
            _ => {
                check_close(self.control())?;
                self.is_closed = true;
                *input = &[];
                Event::Close
            }
        }))
    }
}

/// At most `len` bytes from the front.
fn take<'a>(input: &mut &'a [u8], len: u64) -> &'a [u8] {
    let len = usize::try_from(len).map_or(input.len(), |len| len.min(input.len()));
    let (piece, rest) = input.split_at(len);
    *input = rest;
    piece
}

/// The length of a payload, and where the header goes on after it. It is in as few bytes as possible
/// (section 5.2), and the first of its 64 bits is 0.
fn parse_len(short: u8, bytes: &[u8]) -> Result<Option<(u64, usize)>, CloseCode> {
    let (len, at, len_min) = match short {
        126 => {
            let Some(len) = bytes.get(2..4).and_then(|len| len.try_into().ok()) else { return Ok(None) };
            (u64::from(u16::from_be_bytes(len)), 4, 126)
        }
        127 => {
            let Some(len) = bytes.get(2..10).and_then(|len| len.try_into().ok()) else { return Ok(None) };
            (u64::from_be_bytes(len), 10, 1 << 16)
        }
        _ => (u64::from(short), 2, 0),
    };
    if len < len_min || len >> 63 != 0 {
        return Err(CloseCode::ProtocolError);
    }
    Ok(Some((len, at)))
}

/// Sections 5.5.1 and 7.4: nothing, or a code that may be sent and a reason in UTF-8.
fn check_close(payload: &[u8]) -> Result<(), CloseCode> {
    match payload {
        [] => Ok(()),
        [high, low, reason @ ..] if may_be_received(u16::from_be_bytes([*high, *low])) => {
            std::str::from_utf8(reason).map(drop).map_err(|_| CloseCode::InvalidPayload)
        }
        _ => Err(CloseCode::ProtocolError),
    }
}
