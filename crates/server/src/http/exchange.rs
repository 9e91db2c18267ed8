//! The answer to a request, made of the replies to its commands as they come.

use mantissa_net::http::{Response, Status};
use mantissa_protocol::{Args, Decoder, Protocol, Value, json as text};

use super::json;
use super::plan::{Encoding, PACKED, Plan, RESP3, Shape};
use super::sync_token::SyncToken;

/// What is known of something, by names.
pub type Pairs = Vec<(&'static [u8], Vec<u8>)>;

/// What becomes of replies.
pub enum Outcome {
    /// More are to come.
    More,
    /// The answer is complete.
    Done(Response),
    /// The head of an answer without end, to be followed by `content`.
    Begin(Response),
    /// A further part of an answer without end.
    Part(Vec<u8>),
}

/// A request that runs.
pub struct Exchange {
    /// The request is not HEAD.
    pub with_content: bool,
    /// Another request may follow on the connection.
    pub keeps_alive: bool,
    /// The origin that the answer is to be shown to.
    pub origin: Option<String>,
    /// The client asks for a token of its writes; behind it the one that it has.
    pub sync: Option<Option<SyncToken>>,
    shape: Shape,
    encoding: Encoding,
    /// Replies that are still to come.
    missing: usize,
    /// What has come; decoded up to `at`.
    replies: Vec<u8>,
    at: usize,
    decoder: Decoder,
    content: Vec<u8>,
    /// An error that makes up the whole answer.
    failure: Option<Vec<u8>>,
    /// The answer has begun.
    is_open: bool,
}

impl Exchange {
    /// For a plan whose commands have this many replies.
    pub fn new(plan: &Plan, replies: usize) -> Self {
        let is_list = plan.shape == Shape::Many && matches!(plan.encoding, Encoding::Json { .. });
        let content = if is_list { b"[".to_vec() } else { Vec::new() };
        Exchange {
            with_content: true,
            keeps_alive: true,
            origin: None,
            sync: None,
            shape: plan.shape,
            encoding: plan.encoding,
            missing: replies,
            replies: Vec::new(),
            at: 0,
            decoder: Decoder::default(),
            content,
            failure: None,
            is_open: false,
        }
    }

    /// Its state, for another process.
    pub fn state(&self) -> Pairs {
        let shape = match self.shape {
            Shape::One => 0,
            Shape::Many => 1,
            Shape::Transaction => 2,
            Shape::Events => 3,
        };
        let encoding = match self.encoding {
            Encoding::Json { in_base64: false } => 0,
            Encoding::Json { in_base64: true } => 1,
            Encoding::Resp(Protocol::Resp2) => 2,
            Encoding::Resp(Protocol::Resp3) => 3,
            Encoding::Packed => 4,
        };
        let number = |number: usize| number.to_string().into_bytes();
        let mut pairs: Pairs = vec![
            (b"shape", number(shape)),
            (b"encoding", number(encoding)),
            (b"with-content", number(self.with_content.into())),
            (b"keeps-alive", number(self.keeps_alive.into())),
            (b"missing", number(self.missing)),
            (b"is-open", number(self.is_open.into())),
            (b"replies", self.replies[self.at..].to_vec()),
            (b"content", self.content.clone()),
        ];
        pairs.extend(self.origin.iter().map(|origin| (&b"origin"[..], origin.clone().into_bytes())));
        let sync = self.sync.iter().map(|sync| sync.as_ref().map_or_else(String::new, SyncToken::text));
        pairs.extend(sync.map(|text| (&b"sync-token"[..], text.into_bytes())));
        pairs.extend(self.failure.iter().map(|failure| (&b"failure"[..], failure.clone())));
        pairs
    }

    /// One in this state; none if it is no such state.
    pub fn with_state(state: Args<'_>) -> Option<Self> {
        let value = |name: &[u8]| (0..state.len()).step_by(2).find(|&at| state.at(at) == name);
        let value = |name: &[u8]| state.get(value(name)? + 1);
        let number = |name: &[u8]| std::str::from_utf8(value(name)?).ok()?.parse::<u64>().ok();
        let shape = match number(b"shape")? {
            0 => Shape::One,
            1 => Shape::Many,
            2 => Shape::Transaction,
            _ => Shape::Events,
        };
        let encoding = match number(b"encoding")? {
            0 => Encoding::Json { in_base64: false },
            1 => Encoding::Json { in_base64: true },
            2 => Encoding::Resp(Protocol::Resp2),
            3 => Encoding::Resp(Protocol::Resp3),
            _ => Encoding::Packed,
        };
        let origin = value(b"origin").map(|origin| String::from_utf8(origin.to_vec()));
        Some(Exchange {
            with_content: number(b"with-content")? != 0,
            keeps_alive: number(b"keeps-alive")? != 0,
            origin: origin.transpose().ok()?,
            sync: value(b"sync-token").map(SyncToken::parse),
            shape,
            encoding,
            missing: number(b"missing")? as usize,
            replies: value(b"replies")?.to_vec(),
            at: 0,
            decoder: Decoder::default(),
            content: value(b"content")?.to_vec(),
            failure: value(b"failure").map(<[u8]>::to_vec),
            is_open: number(b"is-open")? != 0,
        })
    }

    /// The answer never ends, and has begun.
    pub fn streams(&self) -> bool {
        self.is_open
    }

    /// Bytes that wait here.
    pub fn waiting_bytes(&self) -> usize {
        self.replies.len() + self.content.len()
    }

    /// Takes replies.
    pub fn take(&mut self, bytes: &[u8]) -> Outcome {
        self.replies.extend_from_slice(bytes);
        let mut part = Vec::new();
        let mut began = None;
        while self.missing > 0 || self.shape == Shape::Events {
            let (value, len) = match self.decoder.decode(&self.replies[self.at..]) {
                Ok(Some(decoded)) => decoded,
                Ok(None) => break,
                // A script's reply may be nested more deeply than is decoded.
                Err(error) => {
                    self.keeps_alive = false;
                    return Outcome::Done(json::error(Status::BadRequest, &format!("ERR {error}")));
                }
            };
            let start = self.at;
            self.at += len;
            self.missing = self.missing.saturating_sub(1);
            if self.shape == Shape::Events {
                match (&value, self.is_open) {
                    (Value::Error(text), false) => {
                        return Outcome::Done(json::error(Status::BadRequest, &lossy(text)));
                    }
                    (_, false) => began = Some(self.begin()),
                    _ => {}
                }
                self.is_open = true;
                write_event(&value, &mut part);
            } else {
                self.note(&value, start);
            }
            if !matches!(self.encoding, Encoding::Resp(_)) || self.shape == Shape::Events {
                self.drop_decoded();
            }
        }
        match began {
            Some(mut response) => {
                response.content = part;
                Outcome::Begin(response)
            }
            None if self.shape == Shape::Events && part.is_empty() => Outcome::More,
            None if self.shape == Shape::Events => Outcome::Part(part),
            None if self.missing > 0 => Outcome::More,
            None => Outcome::Done(self.finish()),
        }
    }

    /// Gives back the memory of what is decoded, now and then.
    fn drop_decoded(&mut self) {
        if self.at == self.replies.len() {
            self.replies.clear();
            self.at = 0;
        } else if self.at > self.replies.len() / 2 {
            self.replies.drain(..self.at);
            self.at = 0;
        }
    }

    fn begin(&self) -> Response {
        self.shown_to_origin(Response::new(Status::Ok, "text/event-stream", Vec::new()))
            .with("X-Accel-Buffering", "no")
    }

    /// Takes a reply that begins at `start`.
    fn note(&mut self, value: &Value, start: usize) {
        let is_last = self.missing == 0;
        if self.shape == Shape::Transaction && !is_last {
            if let (Value::Error(text), None) = (value, &self.failure) {
                let reason = lossy(text);
                let reason = reason.trim_start_matches("ERR ");
                self.failure =
                    Some(format!("EXECABORT Transaction discarded because of: {reason}").into_bytes());
            }
            return;
        }
        match self.encoding {
            Encoding::Json { in_base64 } => self.note_json(value, in_base64),
            Encoding::Resp(_) => self.content.extend_from_slice(&self.replies[start..self.at]),
            Encoding::Packed => match value {
                Value::Bulk(bytes) => self.content.extend_from_slice(bytes),
                Value::Error(text) => self.failure = Some(text.clone()),
                _ => self.failure = Some(b"ERR the reply is not packed".to_vec()),
            },
        }
    }

    fn note_json(&mut self, value: &Value, in_base64: bool) {
        match (self.shape, value) {
            (Shape::One | Shape::Events, Value::Error(text)) => self.failure = Some(text.clone()),
            (Shape::Transaction, Value::Error(text)) => {
                self.failure.get_or_insert_with(|| text.clone());
            }
            (Shape::Transaction, Value::Array(values)) => {
                self.content.push(b'[');
                values.iter().for_each(|value| write_entry(value, in_base64, &mut self.content));
            }
            _ => write_entry(value, in_base64, &mut self.content),
        }
    }

    fn finish(&mut self) -> Response {
        if let Some(text) = self.failure.take() {
            return self.shown_to_origin(json::error(Status::BadRequest, &lossy(&text)));
        }
        let mut content = std::mem::take(&mut self.content);
        let media_type = match self.encoding {
            Encoding::Json { .. } => {
                if self.shape == Shape::Many
                    || (self.shape == Shape::Transaction && content.starts_with(b"["))
                {
                    content.push(b']');
                }
                json::MEDIA_TYPE
            }
            Encoding::Resp(mantissa_protocol::Protocol::Resp3) => RESP3,
            Encoding::Resp(_) => "application/octet-stream",
            Encoding::Packed => PACKED,
        };
        self.shown_to_origin(Response::new(Status::Ok, media_type, content))
    }

    fn shown_to_origin(&self, response: Response) -> Response {
        show_to(self.origin.as_deref(), response)
    }
}

/// Has a browser show an answer to a page of another origin.
pub fn show_to(origin: Option<&str>, response: Response) -> Response {
    match origin {
        Some(origin) => response.with("Access-Control-Allow-Origin", origin).with("Vary", "Origin"),
        None => response,
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Writes `{"result":...}` or `{"error":...}` as an entry of a list, or by itself.
fn write_entry(value: &Value, in_base64: bool, out: &mut Vec<u8>) {
    if out.last() == Some(&b'}') {
        out.push(b',');
    }
    match value {
        Value::Error(value) | Value::BulkError(value) => {
            out.extend_from_slice(b"{\"error\":");
            text::write_string(value, out);
        }
        value => {
            out.extend_from_slice(b"{\"result\":");
            text::write_result(value, in_base64, out);
        }
    }
    out.push(b'}');
}

/// Writes an event: the elements of a message with commas between them, as Upstash does.
fn write_event(value: &Value, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    match value {
        Value::Push(elements) | Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_text(element, &mut text);
            }
        }
        value => write_text(value, &mut text),
    }
    let text = lossy(&text);
    for line in text.split('\n') {
        out.extend_from_slice(b"data: ");
        out.extend(line.bytes().filter(|&byte| byte != b'\r'));
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn write_text(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text) | Value::Bulk(text) | Value::Error(text) => out.extend_from_slice(text),
        Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        _ => {}
    }
}
