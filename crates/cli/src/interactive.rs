//! The prompt: line editing, history, completion, hints, preferences, a pager, charts.
//!
//! A line is a command, also where several are pasted at once. A quote that is left open goes on in the next
//! line, so that scripts can be written in several; the prompt then shows the quote. Ctrl-C gives up what is
//! typed, and leaves where nothing is. While the program waits for a reply or shows messages it ends the
//! waiting; the connection is then made anew.

mod keys;
mod paste;
mod plot;
mod preferences;
mod prompt;
mod secrets;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mantissa_protocol::split_quoted;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler,
    KeyEvent, RepeatCount,
};

pub(crate) use self::plot::{Curve, draw_curves};
use self::preferences::{Preferences, start_file};
use self::prompt::Prompt;
use self::secrets::has_secret;
use crate::docs::Docs;
use crate::lines::{self, Next};
use crate::output::print;
use crate::session::Session;

/// The most lines that the history keeps.
const HISTORY_LEN_MAX: usize = 5000;

/// What a person is told who has typed a byte that the editor cannot show.
const NOT_UTF_8: &str =
    "\nThe line is given up: it is not UTF-8. Any byte can be an escape in quotes, as in \"\\xff\".\n";

/// Reads and runs commands until the person leaves.
pub(crate) fn run(session: &mut Session) -> io::Result<()> {
    session.set_interactive()?;
    let mut docs = Rc::new(fetch_docs(session));
    let mut editor = open_editor(session, Rc::clone(&docs)).map_err(io::Error::other)?;
    let line_given_up = Arc::new(AtomicBool::new(false));
    let handler = NoteLine(Arc::clone(&line_given_up));
    editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(handler)));
    let history = history_path();
    if let Some(path) = &history {
        // There is none at first.
        let _ = editor.load_history(path);
    }
    let mut preferences = Preferences::new();
    run_start_file(session, &docs, &mut preferences)?;
    // A command whose quote is still open.
    let mut begun = String::new();
    loop {
        session.set_look(preferences.colours, preferences.pager);
        if let Some(helper) = editor.helper_mut() {
            helper.shows_hints = preferences.hints;
            helper.has_colours = preferences.colours;
        }
        let prompt = match paste::open_quote(&begun) {
            None => session.prompt(),
            Some(quote) => format!("  {quote}> "),
        };
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                let is_given_up = line_given_up.swap(false, Ordering::Relaxed) || !begun.is_empty();
                begun.clear();
                if is_given_up {
                    continue;
                }
                return Ok(());
            }
            Err(error) => match given_up(&error, !begun.is_empty()) {
                Some(told) => {
                    begun.clear();
                    print(told.as_bytes())?;
                    continue;
                }
                None => return leave(error),
            },
        };
        let text = if begun.is_empty() { line } else { format!("{begun}\n{line}") };
        let typed = paste::split(&text);
        begun = typed.rest;
        let is_several = typed.commands.len() > 1;
        for command in typed.commands {
            remember(&mut editor, history.as_deref(), &command)?;
            if is_several {
                print(format!("{}{command}\n", session.prompt()).as_bytes())?;
            }
            match run_line(session, &docs, &mut preferences, &command)? {
                Next::Quit => return Ok(()),
                Next::Interrupted => break,
                Next::Continue | Next::Failed => {}
            }
        }
        if docs.is_empty() && session.is_connected() {
            docs = Rc::new(fetch_docs(session));
            if let Some(helper) = editor.helper_mut() {
                helper.docs = Rc::clone(&docs);
            }
        }
    }
}

/// What a person is told whose line cannot be read, if the next one can.
fn given_up(error: &ReadlineError, is_begun: bool) -> Option<&'static str> {
    match error {
        ReadlineError::Eof if is_begun => Some("Invalid argument(s)\n"),
        ReadlineError::Io(error) if error.kind() == io::ErrorKind::InvalidData => Some(NOT_UTF_8),
        _ => None,
    }
}

/// How the prompt ends after this.
fn leave(error: ReadlineError) -> io::Result<()> {
    match error {
        ReadlineError::Eof => Ok(()),
        ReadlineError::Io(error) => Err(error),
        error => Err(io::Error::other(error)),
    }
}

/// Runs the lines of the file that is run at the start, if there is one.
fn run_start_file(session: &mut Session, docs: &Docs, preferences: &mut Preferences) -> io::Result<()> {
    let text = start_file().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        run_line(session, docs, preferences, line)?;
    }
    Ok(())
}

/// Notes when Ctrl-C gives up a line that is not empty; the editor does the rest.
struct NoteLine(Arc<AtomicBool>);

impl ConditionalEventHandler for NoteLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        self.0.store(!context.line().is_empty(), Ordering::Relaxed);
        None
    }
}

/// Adds a command to the history, unless it holds a password.
fn remember(
    editor: &mut Editor<Prompt, DefaultHistory>,
    history: Option<&Path>,
    command: &str,
) -> io::Result<()> {
    if has_secret(command) {
        return Ok(());
    }
    editor.add_history_entry(command).map_err(io::Error::other)?;
    if let Some(path) = history {
        // A history that cannot be kept is no reason to stop.
        let _ = editor.append_history(path);
    }
    Ok(())
}

/// Runs a line that was typed, or one of the file that is run at the start.
fn run_line(
    session: &mut Session,
    docs: &Docs,
    preferences: &mut Preferences,
    line: &str,
) -> io::Result<Next> {
    let (name, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let outcome = match name {
        ":set" => return set(preferences, rest),
        ":plot" => plot_reply(session, rest.trim(), preferences.colours),
        name if name.starts_with(':') => {
            print(format!("There is no '{name}'; there are :set and :plot.\n").as_bytes())?;
            return Ok(Next::Failed);
        }
        _ => lines::run(session, line.as_bytes(), Some(docs)),
    };
    let waited = session.take_waited();
    let next = match outcome {
        Ok(next) => next,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Next::Interrupted,
        // Reported already.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Next::Failed,
        Err(error) => {
            eprintln!("Error: {}", crate::options::without_number(&error));
            Next::Failed
        }
    };
    if preferences.timing && !waited.is_zero() {
        print(format!("({:.3} ms)\n", waited.as_secs_f64() * 1000.0).as_bytes())?;
    }
    Ok(next)
}

/// Shows the preferences, or sets those that are named.
fn set(preferences: &mut Preferences, words: &str) -> io::Result<Next> {
    let mut words = words.split_whitespace().peekable();
    if words.peek().is_none() {
        print(preferences.describe().as_bytes())?;
    }
    for word in words {
        if !preferences.set(word) {
            print(format!("There is no preference '{word}'; :set shows all.\n").as_bytes())?;
        }
    }
    Ok(Next::Continue)
}

/// Draws the numbers in the reply to a command.
fn plot_reply(session: &mut Session, command: &str, has_colours: bool) -> io::Result<Next> {
    let words = split_quoted(command.as_bytes()).unwrap_or_default();
    if words.is_empty() {
        print(b":plot takes a command whose reply has numbers, such as ZRANGE board 0 100 WITHSCORES.\n")?;
        return Ok(Next::Failed);
    }
    let start = Instant::now();
    let reply = session.connection()?.ask(&words)?;
    session.add_waited(start.elapsed());
    if let Some(error) = reply.as_error() {
        print(&[b"(error) ", error, b"\n"].concat())?;
        return Ok(Next::Failed);
    }
    match plot::points_of(reply) {
        Some(points) => print(plot::draw(command, &points, has_colours).as_bytes())?,
        None => {
            print(b"The reply has no numbers to draw.\n")?;
            return Ok(Next::Failed);
        }
    }
    Ok(Next::Continue)
}

fn open_editor(session: &Session, docs: Rc<Docs>) -> rustyline::Result<Editor<Prompt, DefaultHistory>> {
    let config = Config::builder()
        .max_history_size(HISTORY_LEN_MAX)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor = Editor::with_config(config)?;
    let keys = RefCell::new(keys::KeyNames::new(session.shared_login()));
    editor.set_helper(Some(Prompt { docs, keys, shows_hints: true, has_colours: true }));
    Ok(editor)
}

/// What the server says about its commands; nothing if it cannot be asked.
fn fetch_docs(session: &mut Session) -> Docs {
    let reply = session.connection().and_then(|connection| connection.ask(&["COMMAND", "DOCS"]));
    reply.map(|reply| Docs::new(&reply)).unwrap_or_default()
}

/// Where lines are kept between runs: the variable MANTISSA_HISTORY or redis-cli's, or a file in the home
/// folder.
fn history_path() -> Option<PathBuf> {
    match std::env::var_os("MANTISSA_HISTORY").or_else(|| std::env::var_os("REDISCLI_HISTFILE")) {
        Some(path) if path.is_empty() || path == "/dev/null" => None,
        Some(path) => Some(PathBuf::from(path)),
        None => std::env::home_dir().map(|home| home.join(".mantissa_history")),
    }
}
