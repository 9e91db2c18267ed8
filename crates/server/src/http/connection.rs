//! The part of a connection that is HTTP: what has come, and how far its requests are.

use std::time::{Duration, Instant};

use mantissa_net::http::{BodyReader, Head, Method, ParsedHead, Status, parse_head};
use mantissa_protocol::Args;

use super::exchange::{Exchange, Pairs};
use super::json::error as json_error;
use super::routes::Route;
use super::sync_token::SyncToken;

/// How long a head may take, from its first byte on.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long content may take beyond the time that its bytes take at [`BODY_BYTES_PER_SECOND_MIN`].
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// The slowest sender that is waited for.
const BODY_BYTES_PER_SECOND_MIN: u64 = 1 << 10;
/// How long a client that was told to close may go on sending. Closing before it has read the answer could
/// have the answer lost.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);
/// How often a comment is sent where events are rare, so that a client that is gone is found.
const HEARTBEAT: Duration = Duration::from_secs(15);
const NOTHING_RUN: &str = "ERR the server is being upgraded: nothing was run";
/// The most bytes that are kept while a request runs, and that are dropped after the last answer.
pub const SURPLUS_BYTES_MAX: usize = 256 << 10;

/// A request whose content is still to come.
pub struct Pending {
    /// Its head.
    pub head: Box<Head>,
    /// What it is for.
    pub route: Route,
    /// The origin that the answer is to be shown to.
    pub origin: Option<String>,
    /// It has presented credentials that a page of another site does not have.
    pub is_logged_in: bool,
    /// Reads its content.
    pub reader: BodyReader,
    /// The content so far.
    pub content: Vec<u8>,
}

/// A request that waits for the stream of replication.
pub struct Behind {
    /// The request.
    pub request: Box<Pending>,
    /// What it waits for.
    pub token: SyncToken,
    /// For how long, from now on.
    pub until: Instant,
}

/// What a connection does.
pub enum State {
    /// Waits for a request.
    Idle,
    /// A head has begun.
    Head,
    /// Content is to come.
    Body(Box<Pending>),
    /// A request is complete, and this replica has not the writes yet that its client knows of.
    Behind(Box<Behind>),
    /// The commands of a request run.
    Running(Box<Exchange>),
    /// The last answer has been given; what comes is dropped. So many bytes have come.
    Lingering(usize),
}

/// What is to be done next.
pub enum Step {
    /// Nothing, until more bytes come or the running request is answered.
    Wait,
    /// A head is complete.
    Head(Box<Head>),
    /// A request is complete.
    Request(Box<Pending>),
    /// What has come is no request.
    Refuse(Status),
}

/// What is to be done with a connection because of the time.
pub enum Overdue {
    /// Nothing.
    No,
    /// Tell it that it is too slow.
    Refuse,
    /// Close it.
    Close,
    /// Send it this, to see whether it is still there.
    Send(&'static [u8]),
}

/// The HTTP part of a connection.
pub struct HttpConnection {
    /// What has come, used up to `at`.
    input: Vec<u8>,
    at: usize,
    /// What it does.
    pub state: State,
    /// Since when.
    since: Instant,
    /// Reading is held, because too much has been sent ahead.
    pub is_held: bool,
    /// Requests are being taken from the input, further up the stack.
    pub is_advancing: bool,
}

impl Default for HttpConnection {
    fn default() -> Self {
        HttpConnection {
            input: Vec::new(),
            at: 0,
            state: State::Idle,
            since: Instant::now(),
            is_held: false,
            is_advancing: false,
        }
    }
}

impl HttpConnection {
    /// Takes bytes. False if they are more than a client may send ahead: reading is to be held then.
    pub fn receive(&mut self, bytes: &[u8]) -> bool {
        match &mut self.state {
            State::Lingering(surplus) => {
                *surplus += bytes.len();
                *surplus <= SURPLUS_BYTES_MAX
            }
            State::Running(exchange) if exchange.streams() => true,
            State::Running(_) | State::Behind(_) => {
                self.input.extend_from_slice(bytes);
                self.input.len() - self.at <= SURPLUS_BYTES_MAX
            }
            _ => {
                self.input.extend_from_slice(bytes);
                true
            }
        }
    }

    /// Enters a state, from now on.
    pub fn enter(&mut self, state: State) {
        (self.state, self.since) = (state, Instant::now());
    }

    /// Bytes that wait here.
    pub fn waiting_bytes(&self) -> usize {
        let further = match &self.state {
            State::Body(pending) => pending.content.len(),
            State::Running(exchange) => exchange.waiting_bytes(),
            State::Behind(behind) => behind.request.content.len(),
            _ => 0,
        };
        self.input.len() + further
    }

    /// Bytes of the answer that has begun.
    pub fn unsent_bytes(&self) -> usize {
        match &self.state {
            State::Running(exchange) => exchange.waiting_bytes(),
            _ => 0,
        }
    }

    /// What has come behind the request that is being answered, for a protocol that takes over.
    pub fn take_input(&mut self) -> Vec<u8> {
        self.input.drain(..std::mem::take(&mut self.at));
        std::mem::take(&mut self.input)
    }

    /// Whether it can go to another process: no content is to come, and the last answer has not been given.
    pub fn may_go(&self) -> bool {
        !matches!(self.state, State::Body(_) | State::Behind(_) | State::Lingering(_))
    }

    /// What a client is told whose request has begun, and will not be run to its end.
    pub fn answer_at_end(&self) -> Option<Vec<u8>> {
        let (with_content, text) = match &self.state {
            State::Body(request) => (request.head.method != Method::Head, NOTHING_RUN),
            State::Behind(behind) => (behind.request.head.method != Method::Head, NOTHING_RUN),
            State::Running(exchange) if !exchange.streams() => (
                exchange.with_content,
                "ERR the server is being upgraded: the request was not run to its end",
            ),
            _ => return None,
        };
        let mut bytes = Vec::new();
        json_error(Status::Unavailable, text).write(&mut bytes, with_content, false);
        Some(bytes)
    }

    /// Its state, for another process, if it can go there.
    pub fn state(&self) -> Option<Pairs> {
        let mut pairs: Pairs = vec![(b"input", self.input[self.at..].to_vec())];
        match &self.state {
            State::Idle | State::Head => {}
            State::Running(exchange) => pairs.extend(exchange.state()),
            State::Body(_) | State::Behind(_) | State::Lingering(_) => return None,
        }
        Some(pairs)
    }

    /// One in this state; none if it is no such state.
    pub fn with_state(state: Args<'_>) -> Option<Self> {
        let has = |name: &[u8]| (0..state.len()).step_by(2).find(|&at| state.at(at) == name);
        let mut http = HttpConnection { input: state.get(has(b"input")? + 1)?.to_vec(), ..Self::default() };
        if has(b"shape").is_some() {
            http.state = State::Running(Box::new(Exchange::with_state(state)?));
        }
        Some(http)
    }

    /// Whether content has come of the request whose head was the last step.
    pub fn has_input(&self) -> bool {
        self.at < self.input.len()
    }

    /// Finds what is to be done next.
    pub fn next(&mut self) -> Step {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => self.next_head(false),
            State::Head => self.next_head(true),
            State::Body(mut pending) => {
                match pending.reader.read(&self.input[self.at..], &mut pending.content) {
                    Err(status) => Step::Refuse(status),
                    Ok(progress) => {
                        self.consume(progress.consumed);
                        if progress.is_done {
                            return Step::Request(pending);
                        }
                        self.state = State::Body(pending);
                        Step::Wait
                    }
                }
            }
            state @ (State::Running(_) | State::Behind(_) | State::Lingering(_)) => {
                self.state = state;
                Step::Wait
            }
        }
    }

    fn next_head(&mut self, has_begun: bool) -> Step {
        match parse_head(&self.input[self.at..]) {
            ParsedHead::Incomplete if !self.has_input() => Step::Wait,
            ParsedHead::Incomplete => {
                if has_begun {
                    self.state = State::Head;
                } else {
                    self.enter(State::Head);
                }
                Step::Wait
            }
            ParsedHead::Invalid(status) => Step::Refuse(status),
            ParsedHead::Complete(head, len) => {
                self.consume(len);
                Step::Head(head)
            }
        }
    }

    /// Idle connections keep no memory.
    fn consume(&mut self, len: usize) {
        self.at += len;
        if self.at == self.input.len() {
            (self.input, self.at) = (Vec::new(), 0);
        } else if self.at > self.input.len() / 2 {
            self.input.drain(..std::mem::take(&mut self.at));
        }
    }

    /// What is to be done because of the time. An idle connection may stay for `idle_max`.
    pub fn overdue(&mut self, idle_max: Duration) -> Overdue {
        let elapsed = self.since.elapsed();
        match &self.state {
            State::Idle if elapsed > idle_max => Overdue::Close,
            State::Head if elapsed > HEAD_TIME_MAX => Overdue::Refuse,
            State::Body(pending) => {
                let at_least = pending.content.len() as u64 / BODY_BYTES_PER_SECOND_MIN;
                let allowed = BODY_TIME_MAX + Duration::from_secs(at_least);
                if elapsed > allowed { Overdue::Refuse } else { Overdue::No }
            }
            State::Lingering(_) if elapsed > LINGER_TIME_MAX => Overdue::Close,
            State::Running(exchange) if exchange.streams() && elapsed > HEARTBEAT => {
                self.since = Instant::now();
                Overdue::Send(b":\n\n")
            }
            _ => Overdue::No,
        }
    }
}
