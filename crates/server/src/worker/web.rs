//! The connections of a worker that speak HTTP: what is done with their requests, and what bounds them.
//!
//! They are few ([`CONNECTIONS_MAX`]), all on the worker that accepts, and none of them is a client of the
//! engine. A request is answered before the next one of its connection is looked at.

use std::time::{Duration, Instant};

use mantissa_engine::metrics::{self, Format};
use mantissa_net::http::{Framing, Head, Method, ParsedHead, Response, Status, parse_head};
use mantissa_net::{Conn, Driver, Socket};
use mantissa_sys::process;

use super::Worker;
use crate::http::metrics_format;
use crate::inbox::Message;
use crate::scraping::Job;

/// The most connections; more are refused.
pub const CONNECTIONS_MAX: usize = 32;
/// How long the head of a request may take, from its first byte on.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// How long an answer may take until the client has taken it.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a client that was told to close may go on sending. Closing before it has read the answer could
/// have the answer lost.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);
/// The most bytes that it may send meanwhile, and that may come while an answer is made.
const SURPLUS_BYTES_MAX: usize = 256 << 10;
/// Unsent bytes with which no further request is answered.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// What a connection does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for a request.
    Idle,
    /// A head has begun.
    Head,
    /// An answer is being made.
    Waiting { with_content: bool, keeps_alive: bool },
    /// Much of an answer has not left yet.
    Sending,
    /// The last answer has been given; what comes is dropped. So many bytes have come.
    Lingering(usize),
    /// Ends once everything has left.
    Closing,
}

/// A connection.
struct Connection {
    conn: Conn,
    /// What has come and is no whole request yet, or has to wait.
    input: Vec<u8>,
    state: State,
    /// Since when.
    since: Instant,
}

/// The connections of a worker, by the driver's index.
#[derive(Default)]
pub(super) struct WebConnections {
    places: Vec<Option<Box<Connection>>>,
    count: usize,
}

impl WebConnections {
    fn get(&mut self, conn: Conn) -> Option<&mut Connection> {
        self.places.get_mut(conn.index())?.as_deref_mut().filter(|connection| connection.conn == conn)
    }

    fn place(&mut self, conn: Conn) {
        if self.places.len() <= conn.index() {
            self.places.resize_with(conn.index() + 1, || None);
        }
        let connection = Connection { conn, input: Vec::new(), state: State::Idle, since: Instant::now() };
        self.places[conn.index()] = Some(Box::new(connection));
        self.count += 1;
    }

    fn remove(&mut self, conn: Conn) {
        if self.get(conn).is_some() {
            self.places[conn.index()] = None;
            self.count -= 1;
        }
    }
}

impl Connection {
    fn enter(&mut self, state: State) {
        (self.state, self.since) = (state, Instant::now());
    }

    /// How long it may stay in its state.
    fn time_max(&self, idle_time_max: Duration) -> Duration {
        match self.state {
            State::Idle => idle_time_max,
            State::Head => HEAD_TIME_MAX.min(idle_time_max),
            State::Waiting { .. } | State::Sending | State::Closing => ANSWER_TIME_MAX,
            State::Lingering(_) => LINGER_TIME_MAX,
        }
    }
}

/// What comes of a request.
enum Answer {
    Now(Response),
    /// All metrics in this format, once they have been written.
    Scrape(Format),
}

impl Worker<'_> {
    /// Serves an accepted connection.
    pub(super) fn accept_web(&mut self, driver: &mut Driver, socket: Socket) {
        if self.web.count >= CONNECTIONS_MAX {
            let mut refusal = Vec::new();
            Response::text(Status::Unavailable, "too many connections").write(&mut refusal, true, false);
            return socket.write_best_effort(&refusal);
        }
        socket.set_nodelay(true);
        if let Ok(conn) = driver.adopt(socket) {
            self.web.place(conn);
        }
    }

    /// Takes bytes of a connection that is no client.
    pub(super) fn web_received(&mut self, driver: &mut Driver, conn: Conn, bytes: &[u8]) {
        let Some(connection) = self.web.get(conn) else { return };
        let surplus = match &mut connection.state {
            State::Closing => return,
            State::Lingering(surplus) => {
                *surplus += bytes.len();
                *surplus
            }
            _ => {
                connection.input.extend_from_slice(bytes);
                connection.input.len()
            }
        };
        if surplus > SURPLUS_BYTES_MAX {
            driver.close(conn);
            return self.web.remove(conn);
        }
        self.advance_web(driver, conn);
    }

    /// The driver has sent everything of a connection.
    pub(super) fn web_sent(&mut self, driver: &mut Driver, conn: Conn) {
        let Some(connection) = self.web.get(conn).filter(|it| it.state == State::Sending) else { return };
        connection.enter(State::Idle);
        driver.resume_reading(conn);
        self.advance_web(driver, conn);
    }

    /// A connection has ended.
    pub(super) fn web_closed(&mut self, conn: Conn) {
        self.web.remove(conn);
    }

    /// Answers the requests that have come, until one has to wait.
    fn advance_web(&mut self, driver: &mut Driver, conn: Conn) {
        while let Some(connection) = self.web.get(conn) {
            if !matches!(connection.state, State::Idle | State::Head) {
                return;
            }
            match parse_head(&connection.input) {
                ParsedHead::Incomplete => {
                    if connection.state == State::Idle && !connection.input.is_empty() {
                        connection.enter(State::Head);
                    }
                    return;
                }
                ParsedHead::Invalid(status) => return self.refuse(driver, conn, &Response::of(status), true),
                ParsedHead::Complete(request, len) => {
                    connection.input.drain(..len);
                    connection.enter(State::Idle);
                    self.answer(driver, conn, &request);
                }
            }
        }
    }

    fn answer(&mut self, driver: &mut Driver, conn: Conn, request: &Head) {
        let with_content = request.method != Method::Head;
        let answer = self.route(request);
        if !matches!(request.framing, Framing::None | Framing::Length(0)) {
            // What follows is content, which is not read.
            let response = match answer {
                Answer::Now(response) if response.status != Status::Ok => response,
                _ => Response::of(Status::BadRequest),
            };
            return self.refuse(driver, conn, &response, with_content);
        }
        let state = State::Waiting { with_content, keeps_alive: request.keeps_alive };
        if let Some(connection) = self.web.get(conn) {
            connection.enter(state);
        }
        match answer {
            Answer::Now(response) => self.respond(driver, conn, &response),
            Answer::Scrape(format) => {
                driver.hold_reading(conn);
                let (worker, network) = (self.context.worker, self.network.weak());
                let done = Box::new(move |content| {
                    if let Some(network) = network.upgrade() {
                        network.post(worker, Message::Scraped { conn, format, content });
                    }
                });
                let job = Job { format, cpu: process::cpu_times(), done };
                if !self.network.scraping.begin(self.context.engine, job) {
                    self.respond(driver, conn, &Response::of(Status::InternalServerError));
                }
            }
        }
    }

    fn route(&self, request: &Head) -> Answer {
        let is_known = matches!(request.path.as_str(), "/metrics" | "/healthz" | "/readyz");
        Answer::Now(match request.path.as_str() {
            _ if !is_known => Response::of(Status::NotFound),
            _ if !matches!(request.method, Method::Get | Method::Head) => {
                Response::of(Status::MethodNotAllowed).with("Allow", "GET, HEAD")
            }
            "/healthz" => Response::text(Status::Ok, "ok"),
            "/readyz" => match metrics::readiness(self.context.engine) {
                Ok(()) => Response::text(Status::Ok, "ok"),
                Err(error) => Response::text(Status::Unavailable, &error.text()),
            },
            _ => return Answer::Scrape(metrics_format(&request.joined("accept"))),
        })
    }

    /// A scrape that a connection waits for has been written.
    pub(super) fn scraped(&mut self, driver: &mut Driver, conn: Conn, format: Format, content: Vec<u8>) {
        let response = Response::new(Status::Ok, format.content_type(), content);
        self.respond(driver, conn, &response);
        self.advance_web(driver, conn);
    }

    /// Gives the answer that a connection waits for.
    fn respond(&mut self, driver: &mut Driver, conn: Conn, response: &Response) {
        let Some(connection) = self.web.get(conn) else { return };
        let State::Waiting { with_content, keeps_alive } = connection.state else { return };
        let mut bytes = driver.take_buffer();
        response.write(&mut bytes, with_content, keeps_alive);
        driver.send(conn, bytes);
        if !keeps_alive {
            connection.enter(State::Closing);
            driver.close_after_send(conn);
        } else if driver.unsent(conn) > UNSENT_BYTES_MAX {
            connection.enter(State::Sending);
            driver.hold_reading(conn);
            driver.notify_sent(conn);
        } else {
            connection.enter(State::Idle);
            driver.resume_reading(conn);
        }
    }

    /// Gives an answer after which the connection is of no use.
    fn refuse(&mut self, driver: &mut Driver, conn: Conn, response: &Response, with_content: bool) {
        let Some(connection) = self.web.get(conn) else { return };
        connection.input = Vec::new();
        connection.enter(State::Lingering(0));
        let mut bytes = driver.take_buffer();
        response.write(&mut bytes, with_content, false);
        driver.send(conn, bytes);
    }

    /// Ends all connections that speak HTTP.
    pub(super) fn close_web(&mut self, driver: &mut Driver) {
        for index in 0..self.web.places.len() {
            let Some(conn) = self.web.places[index].as_deref().map(|connection| connection.conn) else {
                continue;
            };
            driver.close_after_send(conn);
            self.web.remove(conn);
        }
    }

    /// Ends connections that have been doing the same for too long.
    pub(super) fn expire_web(&mut self, driver: &mut Driver) {
        if self.web.count == 0 {
            return;
        }
        let idle_time_max = Duration::from_secs(self.context.active.config.metrics_timeout_s.into());
        for index in 0..self.web.places.len() {
            let Some(connection) = self.web.places[index].as_deref() else { continue };
            if connection.since.elapsed() < connection.time_max(idle_time_max) {
                continue;
            }
            let conn = connection.conn;
            if connection.state == State::Head {
                self.refuse(driver, conn, &Response::of(Status::RequestTimeout), true);
            } else {
                driver.close(conn);
                self.web.remove(conn);
            }
        }
    }
}
