//! Connections that speak HTTP: requests of their sessions are made of HTTP requests, and answers of replies.
//!
//! A request is answered before the next one of its connection is looked at, so answers are in order. Each
//! request begins with a new session: no database, transaction or user is left over from the one before.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_commands::spec::Flags;
use mantissa_engine::session::flag;
use mantissa_engine::{Engine, Session, sessions};
use mantissa_net::http::{BodyReader, Framing, Head, Method, Response, Status};
use mantissa_net::{Conn, Driver, Socket};
use mantissa_protocol::OwnedArgs;

use super::Worker;
use super::input::Input;
use crate::connection::{Connection, Partial, Wire};
use crate::http::routes::{Route, route};
use crate::http::{self, Behind, Credentials, HttpConnection, Outcome, Overdue, Pending, Plan, Shape, State};
use crate::http::{Exchange, SYNC_TOKEN, Step, SyncToken, json_error, show_to};
use crate::service::Service;
use crate::websocket::{Upgrade, ticket};

/// Unsent bytes with which no further request is looked at.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// How long a replica may take to have the writes that a client knows of.
const BEHIND_TIME_MAX: Duration = Duration::from_secs(5);
/// Commands without the flag `readonly` that change nothing either.
const HARMLESS: &[&str] = &[
    "acl|cat",
    "acl|genpass",
    "acl|whoami",
    "client|getname",
    "client|getredir",
    "client|id",
    "client|info",
    "client|trackinginfo",
    "cluster|countkeysinslot",
    "cluster|getkeysinslot",
    "cluster|info",
    "cluster|keyslot",
    "cluster|links",
    "cluster|myid",
    "cluster|myshardid",
    "cluster|nodes",
    "cluster|shards",
    "cluster|slot-stats",
    "cluster|slots",
    "command",
    "command|count",
    "command|docs",
    "command|getkeys",
    "command|getkeysandflags",
    "command|info",
    "command|list",
    "echo",
    "function|dump",
    "function|list",
    "function|stats",
    "info",
    "mantissa.jobs|list",
    "memory|doctor",
    "memory|malloc-stats",
    "memory|stats",
    "ping",
    "pubsub|channels",
    "pubsub|numpat",
    "pubsub|numsub",
    "pubsub|shardchannels",
    "pubsub|shardnumsub",
    "role",
    "script|exists",
    "script|show",
    "time",
];
const LATE: &str = "ERR this replica has not received the writes that Upstash-Sync-Token tells of";

/// Answers a connection that is not to be served; within TLS there is nothing to answer with.
pub(super) fn refuse_connection(socket: &Socket, service: Service, refusal: &str) {
    if service.has_tls() {
        return;
    }
    let text = refusal.trim_start_matches('-').trim_end();
    let status = if text.starts_with("DENIED") { Status::Forbidden } else { Status::Unavailable };
    let mut bytes = Vec::new();
    json_error(status, text).write(&mut bytes, true, false);
    socket.write_best_effort(&bytes);
}

/// An answer with the token of its client's writes, if it asks for one.
fn with_token(engine: &Engine, session: &Session, exchange: &Exchange, response: Response) -> Response {
    let token = exchange.sync.as_ref().and_then(|before| {
        SyncToken::after(engine, before.as_ref(), session.logged_lsn).map(|token| token.text())
    });
    match token {
        Some(token) => response.with(SYNC_TOKEN, token),
        None => response,
    }
}

fn http_of(connection: &mut Connection) -> Option<&mut HttpConnection> {
    match &mut connection.wire {
        Wire::Http(http) => Some(http),
        Wire::Resp | Wire::WebSocket(_) => None,
    }
}

impl Worker<'_> {
    fn http_mut(&mut self, conn: Conn) -> Option<&mut HttpConnection> {
        self.connection_mut(conn).and_then(http_of)
    }

    /// Takes bytes of a connection that speaks HTTP.
    pub(super) fn http_received(&mut self, driver: &mut Driver, conn: Conn, bytes: &[u8]) {
        let Some(http) = self.http_mut(conn) else { return };
        let may_go_on = http.receive(bytes);
        match http.state {
            State::Lingering(_) if !may_go_on => return self.close(driver, conn, true),
            _ if !may_go_on => {
                http.is_held = true;
                driver.hold_reading(conn);
            }
            _ => {}
        }
        self.advance_http(driver, conn);
    }

    /// Answers the requests that have come, until one has to wait.
    pub(super) fn advance_http(&mut self, driver: &mut Driver, conn: Conn) {
        match self.http_mut(conn) {
            Some(http) if !http.is_advancing => http.is_advancing = true,
            _ => return,
        }
        let mut is_full = false;
        // What comes while this process hands over is kept as it is.
        let is_frozen = self.is_frozen();
        while let Some(http) = self.http_mut(conn).filter(|_| !is_frozen) {
            is_full = driver.unsent(conn) > UNSENT_BYTES_MAX;
            if is_full {
                break;
            }
            match http.next() {
                Step::Wait => break,
                Step::Refuse(status) => {
                    self.refuse_http(driver, conn, &json_error(status, refusal_of(status)), true);
                }
                Step::Head(head) => self.begin_request(driver, conn, head),
                Step::Request(pending) => self.begin_to_run(driver, conn, pending),
            }
        }
        if let Some(http) = self.http_mut(conn) {
            http.is_advancing = false;
            if is_full {
                http.is_held = true;
                driver.hold_reading(conn);
                driver.notify_sent(conn);
            } else if !matches!(http.state, State::Running(_) | State::Behind(_))
                && std::mem::take(&mut http.is_held)
            {
                driver.resume_reading(conn);
            }
        }
    }

    /// A head is complete: who asks, for what, and whether that may be is known before any content is read.
    fn begin_request(&mut self, driver: &mut Driver, conn: Conn, head: Box<Head>) {
        let with_content = head.method != Method::Head;
        let config = &self.context.active.config;
        let origin = match http::check(config, &head) {
            Ok(origin) => origin,
            Err(response) => return self.refuse_http(driver, conn, &response, with_content),
        };
        let (body_max, has_console) = (config.http_max_body, config.http_console);
        let answer = match (head.method, route(&head, has_console)) {
            (Method::Options, _) => Err(http::preflight(&head)),
            (_, Ok(Route::Console(file))) => Err(file.answer(&head, config)),
            (_, found) => found.and_then(|route| Ok((route, self.log_in(conn, &head, route)?))),
        };
        let (route, is_logged_in) = match answer {
            Ok(found) => found,
            Err(response) => {
                let response = show_to(origin.as_deref(), response);
                let is_whole = matches!(head.framing, Framing::None | Framing::Length(0));
                return self.answer_now(
                    driver,
                    conn,
                    &response,
                    (with_content, head.keeps_alive && is_whole),
                );
            }
        };
        if route == Route::WebSocket {
            return match Upgrade::of(&head) {
                Ok(upgrade) => self.upgrade(driver, conn, &upgrade),
                Err(response) => {
                    self.refuse_http(driver, conn, &show_to(origin.as_deref(), response), with_content);
                }
            };
        }
        let reader = match BodyReader::new(head.framing, body_max) {
            Ok(reader) => reader,
            Err(status) => {
                let response = show_to(origin.as_deref(), json_error(status, refusal_of(status)));
                return self.refuse_http(driver, conn, &response, with_content);
            }
        };
        let waits = head.expects_continue() && !reader.is_done();
        let pending = Box::new(Pending { head, route, origin, is_logged_in, reader, content: Vec::new() });
        let Some(http) = self.http_mut(conn) else { return };
        let has_input = http.has_input();
        http.enter(State::Body(pending));
        if waits && !has_input {
            driver.send(conn, b"HTTP/1.1 100 Continue\r\n\r\n".to_vec());
        }
    }

    /// Begins a new session for a request, as the user whose credentials it presents. Whether it presents
    /// any that a page of another site does not have: a token in the query is none where the user takes any
    /// password.
    fn log_in(&mut self, conn: Conn, head: &Head, route: Route) -> Result<bool, Response> {
        let Some(connection) = self.connections.get_mut(conn.index()).and_then(Option::as_deref_mut) else {
            return Ok(false);
        };
        let session = &mut connection.session;
        sessions::begin_anew(&self.context, session);
        if self.context.active.config.cluster_emulated {
            // It is no client of a cluster: a replica answers its reads.
            session.shared.mark(flag::READONLY, true);
        }
        let refused = |text: &str| {
            json_error(Status::Unauthorized, text).with("WWW-Authenticate", "Bearer realm=\"mantissa\"")
        };
        match http::credentials(head) {
            Credentials::Missing if route == Route::WebSocket => match ticket(head) {
                // It may log in by its first message.
                None => Ok(false),
                Some(ticket) if sessions::log_in_by_ticket(&self.context, session, ticket) => Ok(true),
                Some(_) => Err(refused("WRONGPASS the ticket is not good")),
            },
            Credentials::Missing if session.authenticated => Ok(false),
            Credentials::Missing => Err(refused("NOAUTH Authentication required.")),
            Credentials::Invalid => Err(refused("WRONGPASS the credentials can not be understood")),
            Credentials::User(name, password) => {
                let outcome = sessions::log_in(&mut self.context, session, &name, &password);
                let is_proof = http::are_in_field(head) || !session.user.rights().no_password;
                outcome.map(|()| is_proof).map_err(|error| refused(&error.text()))
            }
        }
    }

    /// Runs a complete request, at once or as soon as this replica has the writes that its client knows of.
    fn begin_to_run(&mut self, driver: &mut Driver, conn: Conn, request: Box<Pending>) {
        let token = request.head.field(SYNC_TOKEN).and_then(SyncToken::parse);
        match token.filter(|token| token.is_ahead(self.context.engine)) {
            None => self.run_request(driver, conn, &request),
            Some(token) => {
                let until = Instant::now() + BEHIND_TIME_MAX;
                if let Some(http) = self.http_mut(conn) {
                    http.enter(State::Behind(Box::new(Behind { request, token, until })));
                    self.behind.push(conn);
                }
            }
        }
    }

    /// Notes that a request over a connection from another worker waits for the stream of replication, if it
    /// does.
    pub(super) fn note_behind(&mut self, conn: Conn) {
        if self.http_mut(conn).is_some_and(|http| matches!(http.state, State::Behind(_))) {
            self.behind.push(conn);
        }
    }

    /// Goes on with requests that wait for the stream of replication. The others stay in the list.
    pub(super) fn look_behind(&mut self, driver: &mut Driver) {
        if self.behind.is_empty() || self.is_frozen() {
            return;
        }
        for conn in std::mem::take(&mut self.behind) {
            let engine = self.context.engine;
            let Some(http) = self.http_mut(conn) else { continue };
            if !matches!(http.state, State::Behind(_)) {
                continue;
            }
            let State::Behind(behind) = std::mem::replace(&mut http.state, State::Idle) else { continue };
            if !behind.token.is_ahead(engine) {
                self.run_request(driver, conn, &behind.request);
            } else if Instant::now() >= behind.until {
                let response =
                    show_to(behind.request.origin.as_deref(), json_error(Status::Unavailable, LATE));
                let head = &behind.request.head;
                let whole = (head.method != Method::Head, head.keeps_alive);
                self.answer_now(driver, conn, &response, whole);
            } else {
                http.state = State::Behind(behind);
                self.behind.push(conn);
                continue;
            }
            self.advance_http(driver, conn);
        }
    }

    /// Runs the commands of a complete request.
    fn run_request(&mut self, driver: &mut Driver, conn: Conn, request: &Pending) {
        let head = &request.head;
        let whole = (head.method != Method::Head, head.keeps_alive);
        let refused = |text: &str| show_to(request.origin.as_deref(), json_error(Status::BadRequest, text));
        let plan = match http::plan(head, &request.route, &request.content) {
            Ok(plan) => plan,
            Err(text) => return self.answer_now(driver, conn, &refused(&text), whole),
        };
        let is_plain_get =
            request.route == Route::Path && head.method != Method::Post && !request.is_logged_in;
        if is_plain_get && self.changes_data(&plan) {
            let text = "ERR GET without credentials runs commands that only read: use POST";
            return self.answer_now(driver, conn, &refused(text), whole);
        }
        let (requests, replies) = plan.requests();
        let mut exchange = Box::new(Exchange::new(&plan, replies));
        (exchange.with_content, exchange.keeps_alive) = whole;
        exchange.origin.clone_from(&request.origin);
        exchange.sync = head.field(SYNC_TOKEN).map(SyncToken::parse);
        if replies == 0 {
            let response = Response::new(Status::Ok, "application/json", b"[]".to_vec());
            return self.answer_now(driver, conn, &show_to(request.origin.as_deref(), response), whole);
        }
        let Some(connection) = self.connection_mut(conn) else { return };
        connection.session.set_protocol(plan.protocol());
        let Some(http) = http_of(connection) else { return };
        http.enter(State::Running(exchange));
        let partial = Box::new(Partial { buffer: requests, ..Partial::default() });
        self.serve(driver, conn, Input::Kept(partial));
    }

    /// Whether a request that a page can have a browser make, with an image for example, would change
    /// anything.
    fn changes_data(&mut self, plan: &Plan) -> bool {
        if plan.shape == Shape::Events {
            return false;
        }
        let Some(command) = plan.commands.iter().next() else { return false };
        let args = OwnedArgs::from_slices(&command);
        self.context.resolve(args.as_args()).is_ok_and(|command| {
            let name = command.registered_name();
            let is_harmless = HARMLESS.contains(&name) || name.ends_with("|help");
            !command.info.flags.has(Flags::READONLY) && !is_harmless
        })
    }

    /// Gives an answer that no command has made. `whole` says whether the request is not HEAD, and whether
    /// another one may follow.
    fn answer_now(&mut self, driver: &mut Driver, conn: Conn, response: &Response, whole: (bool, bool)) {
        let (with_content, keeps_alive) = whole;
        if !keeps_alive {
            return self.refuse_http(driver, conn, response, with_content);
        }
        let mut bytes = driver.take_buffer();
        response.write(&mut bytes, with_content, true);
        driver.send(conn, bytes);
        if let Some(http) = self.http_mut(conn) {
            http.enter(State::Idle);
        }
    }

    /// Gives an answer after which the connection is of no use.
    fn refuse_http(&mut self, driver: &mut Driver, conn: Conn, response: &Response, with_content: bool) {
        let Some(http) = self.http_mut(conn) else { return };
        drop(http.take_input());
        http.enter(State::Lingering(0));
        let mut bytes = driver.take_buffer();
        response.write(&mut bytes, with_content, false);
        driver.send(conn, bytes);
    }

    /// What is sent in the place of bytes of the session: these, where the connection speaks RESP. Nothing
    /// where they are a part of an answer that is not complete.
    pub(super) fn on_wire(
        &self,
        driver: &mut Driver,
        connection: &mut Connection,
        bytes: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let Wire::Http(http) = &mut connection.wire else { return Some(bytes) };
        let State::Running(exchange) = &mut http.state else {
            driver.return_buffer(bytes);
            return None;
        };
        let outcome = exchange.take(&bytes);
        driver.return_buffer(bytes);
        let mut out = driver.take_buffer();
        match outcome {
            Outcome::More => {
                driver.return_buffer(out);
                return None;
            }
            Outcome::Part(part) => out.extend_from_slice(&part),
            Outcome::Begin(response) => {
                let response = with_token(self.context.engine, &connection.session, exchange, response);
                response.write_endless(&mut out);
                if exchange.with_content {
                    out.extend_from_slice(&response.content);
                } else {
                    connection.session.closing = true;
                }
            }
            Outcome::Done(response) => {
                let response = with_token(self.context.engine, &connection.session, exchange, response);
                response.write(&mut out, exchange.with_content, exchange.keeps_alive);
                connection.session.closing |= !exchange.keeps_alive;
                http.enter(State::Idle);
            }
        }
        Some(out)
    }

    /// Looks at a connection about once a second.
    pub(super) fn inspect_http(&mut self, driver: &mut Driver, conn: Conn) {
        let idle_max = Duration::from_secs(self.context.active.config.http_timeout_s.into());
        let Some(http) = self.http_mut(conn) else { return };
        match http.overdue(idle_max) {
            Overdue::No => {}
            Overdue::Close => return self.close(driver, conn, true),
            Overdue::Refuse => {
                let status = Status::RequestTimeout;
                self.refuse_http(driver, conn, &json_error(status, refusal_of(status)), true);
            }
            Overdue::Send(bytes) => driver.send(conn, bytes.to_vec()),
        }
        if let Some(connection) = self.connections.get_mut(conn.index()).and_then(Option::as_deref_mut) {
            let waiting = connection.wire.waiting_bytes() as u64;
            connection.session.shared.query_bytes.store(waiting, Ordering::Relaxed);
            self.weights.note(&self.context, connection);
        }
    }
}

/// What is said of a request that can not be read.
fn refusal_of(status: Status) -> &'static str {
    match status {
        Status::HeadTooLarge => "ERR the head of the request is too large",
        Status::ContentTooLarge => "ERR the content is too large; see http-max-body",
        Status::RequestTimeout => "ERR the request did not come in time",
        Status::NotImplemented => "ERR the transfer coding is unknown",
        _ => "ERR the request is not well-formed HTTP/1.1",
    }
}
