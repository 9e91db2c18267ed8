//! A server that plays a part: it answers what the tests need, and remembers what it was asked.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use mantissa_protocol::{Args, OwnedArgs, Parsed, RequestLimits, RequestParser};

/// A server in the background; it stops with the tests.
pub struct Server {
    port: u16,
    commands: Arc<Mutex<Vec<String>>>,
    closed: Receiver<()>,
}

impl Server {
    /// Starts a server that answers `REPLY i` with `replies[i]`, as it is.
    pub fn start(replies: &[&[u8]]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound socket").port();
        let commands = Arc::new(Mutex::new(Vec::new()));
        let (closing, closed) = channel();
        let replies: Arc<[Vec<u8>]> = replies.iter().map(|reply| reply.to_vec()).collect();
        let remembered = Arc::clone(&commands);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let part = Part {
                    replies: Arc::clone(&replies),
                    commands: Arc::clone(&remembered),
                    closing: closing.clone(),
                };
                thread::spawn(move || part.play(stream));
            }
        });
        Server { port, commands, closed }
    }

    pub fn port(&self) -> String {
        self.port.to_string()
    }

    /// The commands since the last call.
    pub fn commands(&self) -> Vec<String> {
        std::mem::take(&mut self.commands.lock().expect("no thread panics here"))
    }

    /// Waits until the server has closed a connection by itself.
    pub fn wait_for_close(&self) {
        self.closed.recv().expect("the server runs");
    }
}

struct Part {
    replies: Arc<[Vec<u8>]>,
    commands: Arc<Mutex<Vec<String>>>,
    closing: Sender<()>,
}

impl Part {
    /// Serves a connection until either side closes it.
    fn play(self, mut stream: TcpStream) {
        let (mut parser, limits, mut input) =
            (RequestParser::default(), RequestLimits::default(), Vec::new());
        let mut piece = [0; 4096];
        while let Ok(size @ 1..) = stream.read(&mut piece) {
            input.extend_from_slice(&piece[..size]);
            loop {
                let mut slices = Vec::new();
                let (args, consumed) = match parser.parse(&input, &limits, &mut slices) {
                    Parsed::Request { consumed } => (Args::new(&input, &slices).to_owned(), consumed),
                    Parsed::Inline { consumed, arguments } => (arguments, consumed),
                    Parsed::Empty { consumed } => (OwnedArgs::default(), consumed),
                    Parsed::Incomplete { .. } => break,
                    Parsed::Error(error) => panic!("{error}"),
                };
                input.drain(..consumed);
                if !args.is_empty() && !self.answer(&args, &mut stream) {
                    return;
                }
            }
        }
    }

    /// Answers a command; whether the connection goes on.
    fn answer(&self, args: &OwnedArgs, stream: &mut TcpStream) -> bool {
        let words: Vec<String> =
            args.as_args().iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        self.commands.lock().expect("no thread panics here").push(words.join(" "));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let message = "3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n";
        let reply = match words[..] {
            ["REPLY", number] => {
                let number: usize = number.parse().expect("the number of a reply");
                return stream.write_all(&self.replies[number]).is_ok();
            }
            ["HELLO", ..] => "%0\r\n".to_owned(),
            ["ECHO", word] => format!("${}\r\n{word}\r\n", word.len()),
            ["AUTH", "wrong"] => "-ERR wrong\r\n".to_owned(),
            ["info"] | ["CLIENT", "list"] => "$10\r\na:1\nb:\"2\"\n\r\n".to_owned(),
            ["SCAN", "0", ..] => "*2\r\n$1\r\n7\r\n*2\r\n$2\r\nk1\r\n$3\r\nk\"2\r\n".to_owned(),
            ["SCAN", ..] => "*2\r\n$1\r\n0\r\n*1\r\n$2\r\nk3\r\n".to_owned(),
            ["SUBSCRIBE", _] => format!("*{message}*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"),
            ["subscribe", _] => format!(">{message}>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"),
            ["MONITOR"] => "+OK\r\n+1.5 [0 lua] \"GET\"\r\n".to_owned(),
            ["SILENCE"] => {
                // Until the other side gives up.
                let _ = stream.read_to_end(&mut Vec::new());
                return false;
            }
            ["CLOSE" | "SHUTDOWN"] => return false,
            _ => "+OK\r\n".to_owned(),
        };
        let goes_on =
            !matches!(words[..], ["SUBSCRIBE" | "subscribe", _] | ["MONITOR"] | ["CLOSE-AFTER-REPLY"]);
        let written = stream.write_all(reply.as_bytes()).is_ok();
        if !goes_on {
            // The other side may have closed already, and so may the test.
            let _ = stream.shutdown(std::net::Shutdown::Both);
            let _ = self.closing.send(());
        }
        written && goes_on
    }
}
