//! Commands from lines of text, and the commands of the program itself.

use std::io::{self, BufRead, IsTerminal};

use mantissa_protocol::split_quoted;

use crate::docs::Docs;
use crate::options::without_number;
use crate::output::{is_of_output, print};
use crate::session::Session;

/// What to do after a line.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Next {
    /// Go on with the next line.
    Continue,
    /// As above, but the command failed.
    Failed,
    /// As above, but a person did not wait for the command's end.
    Interrupted,
    /// Leave the program.
    Quit,
}

/// Runs commands, one a line, until the input ends. What fails does not end the program, nor does a lost
/// connection: the next line makes it anew.
pub(crate) fn run_all(session: &mut Session, mut input: impl BufRead) -> io::Result<()> {
    session.set_reads_lines();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        match run(session, &line, None) {
            Ok(Next::Quit) => break,
            Ok(_) => {}
            Err(error) if is_of_output(&error) => return Err(error),
            // Reported already.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => eprintln!("Error: {}", without_number(&error)),
        }
        line.clear();
    }
    Ok(())
}

/// Runs one line. A number before a command repeats it.
pub(crate) fn run(session: &mut Session, line: &[u8], docs: Option<&Docs>) -> io::Result<Next> {
    let Ok(words) = split_quoted(line) else {
        print(b"Invalid argument(s)\n")?;
        return Ok(Next::Failed);
    };
    let Some((first, rest)) = words.split_first() else { return Ok(Next::Continue) };
    match (&first.to_ascii_lowercase()[..], rest) {
        (b"quit" | b"exit", []) => return Ok(Next::Quit),
        (b"clear", []) => print(b"\x1b[H\x1b[2J")?,
        (b"help" | b"?", about) => {
            let fetched = if docs.is_none() && !about.is_empty() { fetch_docs(session)? } else { None };
            print(help(docs.or(fetched.as_ref()), about, session.has_colours()).as_bytes())?;
        }
        (b"connect", [host, port]) => return connect(session, host, port),
        _ => {
            let count = std::str::from_utf8(first).ok().and_then(|word| word.parse::<i64>().ok());
            let succeeded = match count {
                Some(count) if !rest.is_empty() => match u64::try_from(count) {
                    Ok(count) if count > 0 => session.run_times(rest, Some(count))?,
                    _ => {
                        print(b"A command can be repeated a positive number of times.\n")?;
                        false
                    }
                },
                _ => session.run_repeatedly(&words)?,
            };
            return Ok(if succeeded { Next::Continue } else { Next::Failed });
        }
    }
    Ok(Next::Continue)
}

/// What the server says about its commands, on a connection of its own: that of the session may be within a
/// transaction.
fn fetch_docs(session: &Session) -> io::Result<Option<Docs>> {
    let mut connection = session.shared_login().borrow().open()?;
    Ok(Some(Docs::new(&connection.ask(&["COMMAND", "DOCS"])?)))
}

fn connect(session: &mut Session, host: &[u8], port: &[u8]) -> io::Result<Next> {
    let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
    let (Ok(host), Some(port)) = (std::str::from_utf8(host), port) else {
        print(b"connect takes a host and a port.\n")?;
        return Ok(Next::Failed);
    };
    session.set_host(host.to_owned(), port);
    if let Err(error) = session.connect() {
        session.report_unreachable(&error);
        return Ok(Next::Failed);
    }
    Ok(Next::Continue)
}

const HELP: &str = "\
help COMMAND      what the server says about a command
help @GROUP       the same about all commands of a group, such as @zset
connect HOST PORT go to another server
:set              show preferences; :set timing turns one on, :set notiming off
:plot COMMAND     draw the numbers of a reply
clear             clear the screen
3 COMMAND         run a command three times
quit              leave
The tab key completes commands, their options, and names of keys. The arrow keys recall earlier lines, Ctrl-R
searches them. Ctrl-C gives up what is typed. Of several lines that are pasted each is a command; a quote that
is left open goes on in the next line.
";

/// Whether a command is one for help, which the program gives itself.
pub(crate) fn is_help(command: &[Vec<u8>]) -> bool {
    command.first().is_some_and(|name| name == b"?" || name.eq_ignore_ascii_case(b"help"))
}

/// Prints the help for the words after the first; whether it could be had.
pub(crate) fn help_once(session: &mut Session, command: &[Vec<u8>]) -> io::Result<bool> {
    let about = command.get(1..).unwrap_or_default();
    let mut docs = Docs::default();
    if !about.is_empty() {
        let asked = session.connection().and_then(|connection| connection.ask(&["COMMAND", "DOCS"]));
        match asked {
            Ok(reply) => docs = Docs::new(&reply),
            Err(error) => {
                session.report_unreachable(&error);
                return Ok(false);
            }
        }
    }
    let has_colours = io::stdout().is_terminal() && !crate::dashboard::is_plain();
    print(help(Some(&docs), about, has_colours).as_bytes())?;
    Ok(true)
}

fn help(docs: Option<&Docs>, about: &[Vec<u8>], has_colours: bool) -> String {
    if about.is_empty() {
        return HELP.to_owned();
    }
    let name = String::from_utf8_lossy(&about.join(&b' ')).into_owned();
    let found = docs.and_then(|docs| match name.strip_prefix('@') {
        Some(group) => docs.describe_group(group, has_colours),
        None => docs.describe(&name.to_ascii_uppercase(), has_colours),
    });
    found.unwrap_or_else(|| format!("The server says nothing about {name}.\n"))
}
