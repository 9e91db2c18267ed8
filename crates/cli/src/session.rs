//! A connection on which a person's commands run: logging in, printing replies and messages, reconnecting.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mantissa_protocol::Value;

use crate::connection::{self, Address, Connection};
use crate::format::{self, Format};
use crate::options::{Settings, without_number};
use crate::output::print;
use crate::target::Target;
use crate::{packed, pager};

/// How long a command may take before a person is told how long it took.
const SLOW: Duration = Duration::from_millis(500);

/// How often it is checked whether a person has pressed Ctrl-C.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// How often a command is sent elsewhere, at most.
const REDIRECTIONS_MAX: usize = 16;

/// Commands on a server, with what must be restored when the connection has to be made anew.
pub(crate) struct Session {
    settings: Settings,
    connection: Option<Connection>,
    database: u32,
    resp3: bool,
    in_transaction: bool,
    /// Whether a person sits at a prompt.
    interactive: bool,
    /// Whether commands come as lines, at a prompt or from a pipe.
    reads_lines: bool,
    has_colours: bool,
    has_pager: bool,
    /// Set when a person presses Ctrl-C, if a person sits at a prompt.
    interrupted: Arc<AtomicBool>,
    /// How long replies have been waited for since this was last taken.
    waited: Duration,
    /// The server and the login, for connections beside this one.
    login: Rc<RefCell<Target>>,
}

/// What a command makes the server do afterwards.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Afterwards {
    /// Reply once.
    Reply,
    /// Send messages of subscriptions until the end.
    Messages,
    /// Send a line for each command of others until the end.
    Monitor,
    /// Hang up.
    HangUp,
}

impl Session {
    /// A session that is not connected yet.
    pub(crate) fn new(settings: Settings) -> Self {
        let (database, resp3) = (settings.database, settings.resp3);
        let login = Target {
            address: settings.address.clone(),
            user: settings.user.clone(),
            password: settings.password.clone(),
            database,
            resp3: false,
            connect_timeout: settings.connect_timeout,
        };
        Session {
            settings,
            connection: None,
            database,
            resp3,
            in_transaction: false,
            interactive: false,
            reads_lines: false,
            has_colours: false,
            has_pager: false,
            interrupted: Arc::default(),
            waited: Duration::ZERO,
            login: Rc::new(RefCell::new(login)),
        }
    }

    /// The reply to a command that must not fail.
    pub(crate) fn expect(&mut self, command: &[impl AsRef<[u8]>]) -> io::Result<Value> {
        let reply = self.connection()?.ask(command)?;
        match reply.as_error() {
            Some(error) => Err(io::Error::other(String::from_utf8_lossy(error).into_owned())),
            None => Ok(reply),
        }
    }

    /// What the command line asked for.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Makes this a session with a person at a prompt, whose Ctrl-C ends waiting, not the program.
    pub(crate) fn set_interactive(&mut self) -> io::Result<()> {
        self.interactive = true;
        self.reads_lines = true;
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&self.interrupted))?;
        Ok(())
    }

    /// Adds to the time that replies have been waited for.
    pub(crate) fn add_waited(&mut self, waited: Duration) {
        self.waited += waited;
    }

    /// How long replies have been waited for since this was last asked; showing them does not count.
    pub(crate) fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// How replies look to a person at a prompt.
    pub(crate) fn set_look(&mut self, has_colours: bool, has_pager: bool) {
        (self.has_colours, self.has_pager) = (has_colours, has_pager);
    }

    /// Whether there are to be colours.
    pub(crate) fn has_colours(&self) -> bool {
        self.has_colours
    }

    /// Whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// The server, the login and the database, kept up to date.
    pub(crate) fn shared_login(&self) -> Rc<RefCell<Target>> {
        Rc::clone(&self.login)
    }

    fn share_login(&self) {
        *self.login.borrow_mut() = Target {
            address: self.settings.address.clone(),
            user: self.settings.user.clone(),
            password: self.settings.password.clone(),
            database: self.database,
            resp3: false,
            connect_timeout: self.settings.connect_timeout,
        };
    }

    /// Makes this a session whose commands come as lines.
    pub(crate) fn set_reads_lines(&mut self) {
        self.reads_lines = true;
    }

    /// Goes to another server, with the first commands; in TLS if it is spoken now.
    pub(crate) fn set_host(&mut self, host: String, port: u16) {
        self.settings.address = Address::host(host, port, self.settings.address.tls());
        self.connection = None;
    }

    /// Connects, and restores what a new connection lacks. What the server refuses is reported, and the
    /// session goes on without it.
    pub(crate) fn connect(&mut self) -> io::Result<()> {
        self.connection = None;
        self.in_transaction = false;
        let mut connection = Connection::open(&self.settings.address, self.settings.connect_timeout)?;
        let mut prepare = |command: &[&[u8]], name: &str| -> io::Result<bool> {
            let reply = connection.ask(command)?;
            let error = reply.as_error().map(String::from_utf8_lossy);
            if let Some(error) = &error {
                eprintln!("{name} failed: {error}");
            }
            Ok(error.is_none())
        };
        if let Some(password) = &self.settings.password {
            match &self.settings.user {
                Some(user) => prepare(&[b"AUTH", user, password], "AUTH")?,
                None => prepare(&[b"AUTH", password], "AUTH")?,
            };
        }
        if self.resp3 {
            prepare(&[b"HELLO", b"3"], "HELLO 3")?;
        }
        if self.database != 0 {
            let number = self.database.to_string();
            if !prepare(&[b"SELECT", number.as_bytes()], &format!("SELECT {number}"))? {
                self.database = 0;
            }
        }
        self.connection = Some(connection);
        self.share_login();
        Ok(())
    }

    /// Tells a person that there is no connection.
    pub(crate) fn report_unreachable(&self, error: &io::Error) {
        eprintln!(
            "Could not connect to Redis at {}: {}",
            self.settings.address.plain(),
            without_number(error)
        );
    }

    /// Fails if the connection was lost within a transaction: what was meant for that must not run alone.
    fn expect_transaction(&mut self) -> io::Result<()> {
        if self.in_transaction && self.connection.as_mut().is_none_or(Connection::is_closed) {
            self.lose();
            return Err(connection::closed());
        }
        Ok(())
    }

    /// Forgets a connection that has ended.
    fn lose(&mut self) {
        self.connection = None;
        self.in_transaction = false;
    }

    /// The connection, made anew if it was lost, but for one within a transaction: that is an error once.
    pub(crate) fn connection(&mut self) -> io::Result<&mut Connection> {
        self.expect_transaction()?;
        if self.connection.as_mut().is_none_or(Connection::is_closed) {
            self.connect()?;
        }
        self.connection.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }

    /// The connection as it is, to keep.
    pub(crate) fn into_connection(mut self) -> io::Result<Connection> {
        self.connection()?;
        self.connection.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }

    /// Where the server is.
    pub(crate) fn place(&self) -> String {
        self.settings.address.plain()
    }

    /// What stands before the cursor.
    pub(crate) fn prompt(&self) -> String {
        if self.connection.is_none() {
            return "not connected> ".to_owned();
        }
        let database = if self.database == 0 { String::new() } else { format!("[{}]", self.database) };
        let transaction = if self.in_transaction { "(TX)" } else { "" };
        format!("{}{database}{transaction}> ", self.settings.address)
    }

    /// Runs a command as often as the command line says; whether it succeeded every time.
    pub(crate) fn run_repeatedly(&mut self, command: &[Vec<u8>]) -> io::Result<bool> {
        let times = match self.settings.repeat {
            None => Some(1),
            Some(times) => u64::try_from(times).ok(),
        };
        self.run_times(command, times)
    }

    /// Runs a command `times`, forever if that is `None`; whether it succeeded every time.
    pub(crate) fn run_times(&mut self, command: &[Vec<u8>], times: Option<u64>) -> io::Result<bool> {
        let (mut succeeded, mut run) = (true, 0);
        while times.is_none_or(|times| run < times) {
            if run > 0 {
                std::thread::sleep(self.settings.interval.unwrap_or_default());
            }
            succeeded &= self.run(command)?;
            run += 1;
        }
        Ok(succeeded)
    }

    /// Runs a command and prints what comes back; whether that is no error.
    ///
    /// A connection that the server has closed is made anew first. One that it closes later is not: the
    /// command may have been executed.
    fn run(&mut self, command: &[Vec<u8>]) -> io::Result<bool> {
        for _ in 0..REDIRECTIONS_MAX {
            if let Some(succeeded) = self.run_once(command)? {
                return Ok(succeeded);
            }
        }
        Err(io::Error::other("too many redirections"))
    }

    /// As [`Session::run`], but `None` if the server says that another one is to be asked, which is then the
    /// one that this is connected to.
    fn run_once(&mut self, command: &[Vec<u8>]) -> io::Result<Option<bool>> {
        let start = Instant::now();
        self.expect_transaction()?;
        let connection = match self.connection() {
            Ok(connection) => connection,
            Err(error) => {
                self.report_unreachable(&error);
                return Err(io::Error::from(io::ErrorKind::NotConnected));
            }
        };
        let result = connection.send(command).and_then(|()| self.receive(command, start));
        if result.is_err() {
            self.lose();
        }
        match result {
            Err(error) if self.afterwards(command) == Afterwards::HangUp && is_end(&error) => Ok(Some(true)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                print(b"\n")?;
                // A person who goes on sees whether there is a connection.
                let _ = self.connect();
                Err(error)
            }
            result => result,
        }
    }

    /// Waits for the next reply or message; a person at a prompt can end the waiting.
    fn wait(&mut self) -> io::Result<Value> {
        let connection = self.connection.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        if !self.interactive {
            return connection.receive();
        }
        connection.set_read_timeout(Some(INTERRUPT_INTERVAL))?;
        loop {
            match connection.receive() {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if self.interrupted.swap(false, Ordering::Relaxed) {
                        return Err(io::Error::from(io::ErrorKind::Interrupted));
                    }
                }
                result => {
                    connection.set_read_timeout(None)?;
                    return result;
                }
            }
        }
    }

    /// Waits for the reply to a command, and for what comes after it.
    fn receive(&mut self, command: &[Vec<u8>], start: Instant) -> io::Result<Option<bool>> {
        let afterwards = self.afterwards(command);
        if afterwards == Afterwards::Messages && self.settings.format != Format::Raw {
            print(b"Reading messages... (press Ctrl-C to quit)\n")?;
        }
        loop {
            let value = self.wait()?;
            let is_error = value.as_error().is_some();
            if let Some(place) = value.as_error().and_then(Redirection::parse)
                && self.settings.redirections
            {
                self.follow(&place)?;
                return Ok(None);
            }
            match (&value, afterwards) {
                (Value::Push(message), Afterwards::Reply | Afterwards::HangUp | Afterwards::Monitor) => {
                    self.print_message(message, &value)?;
                }
                (_, Afterwards::Messages | Afterwards::Monitor) if !is_error => {
                    self.print_reply(&value, false)?
                }
                _ => {
                    let waited = start.elapsed();
                    self.waited += waited;
                    self.note(command, &value);
                    self.report(command, &value)?;
                    if self.interactive && self.settings.format == Format::Terminal && waited >= SLOW {
                        print(format!("({:.2}s)\n", waited.as_secs_f64()).as_bytes())?;
                    }
                    return Ok(Some(!is_error));
                }
            }
        }
    }

    /// Connects to the place where the server says that the keys are.
    fn follow(&mut self, place: &Redirection) -> io::Result<()> {
        if self.settings.format == Format::Terminal {
            let Redirection { slot, host, port, .. } = place;
            print(format!("-> Redirected to slot [{slot}] located at {host}:{port}\n").as_bytes())?;
        }
        let host = match (place.host.as_str(), &self.settings.address) {
            ("", Address::Tcp(host, _) | Address::Tls(host, ..)) => host.clone(),
            (host, _) => host.to_owned(),
        };
        self.set_host(host, place.port);
        self.connect()?;
        if place.asking
            && let Some(connection) = &mut self.connection
        {
            connection.ask(&["ASKING"])?;
        }
        Ok(())
    }

    /// What is to be expected after a command.
    fn afterwards(&self, command: &[Vec<u8>]) -> Afterwards {
        let name = command.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        match &name[..] {
            b"subscribe" | b"psubscribe" | b"ssubscribe" if !self.in_transaction => Afterwards::Messages,
            b"monitor" if !self.in_transaction => Afterwards::Monitor,
            b"shutdown" | b"quit" => Afterwards::HangUp,
            _ => Afterwards::Reply,
        }
    }

    /// Remembers what a command changed about the connection.
    fn note(&mut self, command: &[Vec<u8>], reply: &Value) {
        let name = command.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        let done = *reply == Value::Simple(b"OK".to_vec());
        match (&name[..], command.get(1..).unwrap_or_default()) {
            (b"select", [number]) if done => {
                self.database =
                    std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            (b"multi", _) if done => self.in_transaction = true,
            (b"exec" | b"discard", _) => self.in_transaction = false,
            (b"auth", [password]) if done => self.remember_login(None, password),
            (b"auth", [user, password]) if done => self.remember_login(Some(user), password),
            (b"hello", [version, ..]) if reply.as_error().is_none() => self.resp3 = version == b"3",
            (b"reset", _) if reply.as_error().is_none() => {
                (self.database, self.resp3, self.in_transaction) = (0, false, false);
            }
            _ => return,
        }
        self.share_login();
    }

    fn remember_login(&mut self, user: Option<&Vec<u8>>, password: &[u8]) {
        self.settings.user = user.cloned();
        self.settings.password = Some(password.to_vec());
    }

    /// Prints a reply, or an error that is to end the program where errors belong.
    fn report(&self, command: &[Vec<u8>], reply: &Value) -> io::Result<()> {
        match reply.as_error() {
            Some(error) if self.settings.error_code && !self.reads_lines => {
                io::stderr().write_all(&[error, b"\n"].concat())
            }
            _ if self.settings.format == Format::Raw => self.print_reply(reply, is_text(command)),
            _ => match packed::readable(command, reply) {
                Some(readable) => self.print_reply(&readable, false),
                None => self.print_reply(reply, is_text(command)),
            },
        }
    }

    /// Prints a value; as it is if it is text for people anyway.
    fn print_reply(&self, value: &Value, as_text: bool) -> io::Result<()> {
        let settings = &self.settings;
        let mut out = match settings.format {
            Format::Json => format::json(value),
            Format::QuotedJson => format::quoted_json(value),
            _ if as_text && self.has_pager => {
                return pager::show(&format::raw(value, &settings.element_delimiter));
            }
            _ if as_text => return print(&format::raw(value, &settings.element_delimiter)),
            Format::Terminal if self.has_pager => {
                return pager::show(&format::terminal(value, self.has_colours));
            }
            Format::Terminal => return print(&format::terminal(value, self.has_colours)),
            Format::Csv => format::csv(value),
            Format::Raw => {
                let mut out = format::raw(value, &settings.element_delimiter);
                out.extend_from_slice(&settings.reply_delimiter);
                return print(&out);
            }
        };
        out.push(b'\n');
        print(&out)
    }

    /// Prints a message that came before a reply.
    fn print_message(&self, message: &[Value], value: &Value) -> io::Result<()> {
        if !self.settings.show_pushes {
            return Ok(());
        }
        match format::invalidation(message) {
            Some(text) if self.settings.format == Format::Terminal => print(&text),
            _ => self.print_reply(value, false),
        }
    }
}

/// The error of a server in a cluster that does not have the keys.
struct Redirection {
    asking: bool,
    slot: String,
    host: String,
    port: u16,
}

impl Redirection {
    fn parse(error: &[u8]) -> Option<Redirection> {
        let mut words = std::str::from_utf8(error).ok()?.split(' ');
        let asking = match words.next()? {
            "ASK" => true,
            "MOVED" => false,
            _ => return None,
        };
        let slot = words.next()?.to_owned();
        let (host, port) = words.next()?.rsplit_once(':')?;
        Some(Redirection { asking, slot, host: host.to_owned(), port: port.parse().ok()? })
    }
}

/// Whether a command replies with text for people, which is shown as it is.
fn is_text(command: &[Vec<u8>]) -> bool {
    let words: Vec<Vec<u8>> = command.iter().take(2).map(|word| word.to_ascii_lowercase()).collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    matches!(
        &words[..],
        [b"info" | b"lolwut", ..]
            | [b"debug", b"htstats" | b"htstats-key" | b"client-eviction"]
            | [b"memory", b"malloc-stats" | b"doctor"]
            | [b"latency", b"graph" | b"doctor"]
            | [b"cluster", b"nodes" | b"info"]
            | [b"client", b"list" | b"info"]
    )
}

/// Whether the server has hung up.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}
