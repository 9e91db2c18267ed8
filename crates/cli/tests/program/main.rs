//! The program as a person or a script runs it, against a server that plays a part.
//!
//! This binary is its own subject: started with the variable below, it is `mantissa cli`. Where redis-cli is
//! installed, the two are compared.

mod server;

use std::io::Write;
use std::process::{Command, ExitCode, Output, Stdio};

use server::Server;

const IS_SUBJECT: &str = "MANTISSA_CLI_UNDER_TEST";

fn main() -> ExitCode {
    if std::env::var_os(IS_SUBJECT).is_some() {
        return mantissa_cli::run(std::env::args_os());
    }
    let tests: [(&str, fn()); 14] = [
        ("replies_are_shown_as_redis_cli_shows_them", replies_are_shown_as_redis_cli_shows_them),
        ("types_that_redis_cli_does_not_know", types_that_redis_cli_does_not_know),
        ("exit_codes", exit_codes),
        ("lines_of_standard_input", lines_of_standard_input),
        ("repetition", repetition),
        ("logging_in", logging_in),
        ("arguments_from_elsewhere", arguments_from_elsewhere),
        ("messages_until_the_end", messages_until_the_end),
        ("messages_between_replies", messages_between_replies),
        ("a_lost_connection_is_restored", a_lost_connection_is_restored),
        ("a_command_is_not_sent_twice", a_command_is_not_sent_twice),
        ("mass_insertion", mass_insertion),
        ("mass_insertion_into_silence", mass_insertion_into_silence),
        ("listing_keys", listing_keys),
    ];
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(&filter)) {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// The program under test with these arguments.
fn cli(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
    command.args(args).env(IS_SUBJECT, "1").env_remove("REDISCLI_AUTH");
    command
}

fn redis_cli(args: &[&str]) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(args).env_remove("REDISCLI_AUTH");
    command
}

fn has_redis_cli() -> bool {
    redis_cli(&["--version"]).output().is_ok_and(|output| output.status.success())
}

/// Runs a program with this input.
fn run(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The program may leave before it has read all.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("the program ends")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What one command prints.
fn shown(server: &Server, args: &[&str]) -> String {
    let output = run(cli(&[&["-p", &server.port()], args].concat()), "");
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

fn replies_are_shown_as_redis_cli_shows_them() {
    let replies: [&[u8]; 28] = [
        b"+OK\r\n",
        b"+a\"b\r\n",
        b"-ERR \"x\"\r\n",
        b":-5\r\n",
        b"$16\r\n\x01\xc3\xa9\xff\x7f\x1b\x00/<\n\r\t\x07\x08\\\"\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"_\r\n",
        b"#t\r\n",
        b"#f\r\n",
        b",1.50\r\n",
        b",inf\r\n",
        b"=8\r\ntxt:a\nbc\r\n",
        b"*0\r\n",
        b"%0\r\n",
        b"~0\r\n",
        b"*2\r\n$1\r\n\n\r\n$0\r\n\r\n",
        b"*1\r\n-E x\r\n",
        b"*3\r\n:1\r\n*10\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n*2\r\n+a\r\n:2\r\n*0\r\n",
        b"%2\r\n+a\r\n*2\r\n:1\r\n:2\r\n*1\r\n:5\r\n%2\r\n+x\r\n%1\r\n+y\r\n:1\r\n\
          +z\r\n~2\r\n:1\r\n*2\r\n:3\r\n:4\r\n",
        b"*2\r\n%2\r\n+a\r\n*2\r\n:1\r\n:2\r\n*2\r\n:5\r\n:6\r\n%1\r\n+x\r\n*0\r\n:1\r\n",
        b"~2\r\n~1\r\n:1\r\n*2\r\n%1\r\n:1\r\n:2\r\n:9\r\n",
        b"%1\r\n*2\r\n:1\r\n:2\r\n$2\r\na\n\r\n",
        b"%1\r\n+a\r\n*1\r\n=8\r\ntxt:x\nyz\r\n",
        b"%1\r\n+a\r\n%1\r\n*2\r\n:1\r\n:2\r\n:3\r\n",
        b"%4\r\n_\r\n:1\r\n#t\r\n:1\r\n%1\r\n+a\r\n:1\r\n:1\r\n$1\r\n\"\r\n:1\r\n",
        b"%1\r\n-E\r\n*1\r\n*1\r\n*2\r\n:2\r\n:3\r\n",
    ];
    if !has_redis_cli() {
        println!("redis-cli is not installed: nothing to compare with");
        return;
    }
    let server = Server::start(&replies);
    for (i, reply) in replies.iter().enumerate() {
        for format in ["--no-raw", "--raw", "--csv"] {
            let args = ["-3", "-p", &server.port(), format, "REPLY", &i.to_string()];
            let (ours, theirs) = (run(cli(&args), ""), run(redis_cli(&args), ""));
            assert_eq!(stdout(&ours), stdout(&theirs), "{} as {format}", reply.escape_ascii());
            assert_eq!(ours.status.code(), theirs.status.code());
        }
    }
    for args in [
        &["--no-raw", "info"][..],
        &["--csv", "CLIENT", "list"],
        &["--raw", "info"],
        &["-d", "|", "REPLY", "17"],
    ] {
        let port = server.port();
        let args = [&["-p", &port], args].concat();
        assert_eq!(stdout(&run(cli(&args), "")), stdout(&run(redis_cli(&args), "")), "{args:?}");
    }
}

fn types_that_redis_cli_does_not_know() {
    let server = Server::start(&[
        b"(12\r\n",
        b"!5\r\nE a\nb\r\n",
        b"|1\r\n+ttl\r\n:1\r\n+OK\r\n",
        b"$?\r\n;1\r\na\r\n;0\r\n",
    ]);
    for (i, expected) in ["(big number) 12\n", "(error) E a\nb\n", "OK\n", "\"a\"\n"].into_iter().enumerate()
    {
        assert_eq!(shown(&server, &["--no-raw", "REPLY", &i.to_string()]), expected);
    }
    assert_eq!(shown(&server, &["--json", "REPLY", "1"]), "{\"error\":\"E a\\nb\"}\n");
}

fn exit_codes() {
    let server = Server::start(&[b"-ERR no\r\n", b"?\r\n"]);
    let exit = |args: &[&str]| run(cli(&[&["-p", &server.port()], args].concat()), "");
    assert_eq!(exit(&["REPLY", "0"]).status.code(), Some(0));
    let failed = exit(&["-e", "REPLY", "0"]);
    assert_eq!(
        (failed.status.code(), stdout(&failed), stderr(&failed)),
        (Some(1), String::new(), "ERR no\n".to_owned())
    );
    let broken = exit(&["REPLY", "1"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(stderr(&broken).contains("no type of reply begins with '?'"));
    let closed = exit(&["CLOSE"]);
    assert_eq!(
        (closed.status.code(), stderr(&closed)),
        (Some(1), "Error: Server closed the connection\n".to_owned())
    );
    assert_eq!(exit(&["SHUTDOWN"]).status.code(), Some(0));
    assert_eq!(exit(&["--help"]).status.code(), Some(0));
    assert_eq!(exit(&["--none"]).status.code(), Some(1));
    // Nobody listens on the port of tcpmux.
    let unreachable = run(cli(&["-p", "1", "PING"]), "");
    assert_eq!(unreachable.status.code(), Some(1));
    assert_eq!(stderr(&unreachable), "Could not connect to Redis at 127.0.0.1:1: Connection refused\n");
}

fn lines_of_standard_input() {
    let server = Server::start(&[b"-ERR no\r\n"]);
    let input = "\nECHO 'x y'\nREPLY 0\nECHO \"a\nECHO \"\\x41\\n\"\nquit\nECHO never\n";
    let output = run(cli(&["-p", &server.port()]), input);
    assert_eq!(stdout(&output), "x y\nERR no\n\nInvalid argument(s)\nA\n\n");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&run(cli(&["-p", &server.port()]), "ECHO last")), "last\n");
    let output = run(cli(&["-e", "-p", &server.port()]), "REPLY 0\nPING\n");
    assert_eq!((stdout(&output), output.status.code()), ("ERR no\n\nOK\n".to_owned(), Some(0)));
    let input = format!("connect 127.0.0.1 {}\nECHO a\nselect 3\n", Server::start(&[]).port());
    assert_eq!(stdout(&run(cli(&["-p", &server.port()]), &input)), "a\nOK\n");
}

fn repetition() {
    let server = Server::start(&[]);
    assert_eq!(shown(&server, &["-r", "3", "-i", "0.001", "ECHO", "a"]), "a\na\na\n");
    assert_eq!(stdout(&run(cli(&["-p", &server.port()]), "2 ECHO b\n")), "b\nb\n");
}

fn logging_in() {
    let server = Server::start(&[]);
    let place = format!("127.0.0.1:{}", server.port());
    let uri = format!("redis://us%65r:pass@{place}/2");
    let output = run(cli(&["-u", &uri, "-3", "PING"]), "");
    assert_eq!(stdout(&output), "OK\n");
    assert!(stderr(&output).starts_with("Warning: "));
    assert_eq!(server.commands(), ["AUTH user pass", "HELLO 3", "SELECT 2", "PING"]);
    shown(&server, &["-a", "x", "--no-auth-warning", "-n", "1", "PING"]);
    assert_eq!(server.commands(), ["AUTH x", "SELECT 1", "PING"]);
    let mut command = cli(&["-p", &server.port(), "--user", "me", "PING"]);
    command.env("REDISCLI_AUTH", "secret");
    assert_eq!(stderr(&run(command, "")), "");
    assert_eq!(server.commands(), ["AUTH me secret", "PING"]);
    let output = run(cli(&["-p", &server.port(), "-a", "wrong", "--no-auth-warning", "PING"]), "");
    assert_eq!(
        (stdout(&output), stderr(&output)),
        ("OK\n".to_owned(), "AUTH failed: ERR wrong\n".to_owned())
    );
}

fn arguments_from_elsewhere() {
    let server = Server::start(&[]);
    assert_eq!(stdout(&run(cli(&["-p", &server.port(), "-x", "ECHO"]), "from a pipe")), "from a pipe\n");
    let script = std::env::temp_dir().join(format!("mantissa-cli-{}.lua", std::process::id()));
    std::fs::write(&script, "return 1").expect("a temporary file");
    server.commands();
    shown(&server, &["--eval", &script.display().to_string(), "a", "b", ",", "c"]);
    std::fs::remove_file(&script).expect("the file is there");
    assert_eq!(server.commands(), ["EVAL return 1 2 a b c"]);
}

fn messages_until_the_end() {
    let server = Server::start(&[b"-NOPERM\r\n"]);
    let output = run(cli(&["-p", &server.port(), "--no-raw", "SUBSCRIBE", "a"]), "");
    let expected = "Reading messages... (press Ctrl-C to quit)\n1) \"subscribe\"\n2) \"a\"\n3) (integer) 1\n\
                    1) \"message\"\n2) \"a\"\n3) \"hi\"\n";
    assert_eq!((stdout(&output), output.status.code()), (expected.to_owned(), Some(1)));
    let output = run(cli(&["-p", &server.port(), "-3", "subscribe", "a"]), "");
    assert_eq!(stdout(&output), "subscribe\na\n1\nmessage\na\nhi\n");
    let output = run(cli(&["-p", &server.port(), "MONITOR"]), "");
    assert_eq!(stdout(&output), "OK\n1.5 [0 lua] \"GET\"\n");
}

fn messages_between_replies() {
    let message = b">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n:1\r\n";
    let server = Server::start(&[message, b">1\r\n+x\r\n:2\r\n"]);
    assert_eq!(shown(&server, &["-3", "REPLY", "0"]), "1\n");
    let shown = |args: &[&str]| shown(&server, &[&["-3", "--show-pushes", "yes"], args].concat());
    assert_eq!(shown(&["--no-raw", "REPLY", "0"]), "-> invalidate: 'a', 'b'\n(integer) 1\n");
    assert_eq!(shown(&["--no-raw", "REPLY", "1"]), "1) x\n(integer) 2\n");
    assert_eq!(shown(&["--raw", "REPLY", "0"]), "invalidate\na\nb\n1\n");
}

fn a_lost_connection_is_restored() {
    let server = Server::start(&[]);
    let mut child = cli(&["-p", &server.port()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"SELECT 5\nCLOSE-AFTER-REPLY\n").expect("the program reads");
    server.wait_for_close();
    input.write_all(b"PING\n").expect("the program reads");
    drop(input);
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!((stdout(&output), output.status.code()), ("OK\nOK\nOK\n".to_owned(), Some(0)));
    assert_eq!(server.commands(), ["SELECT 5", "CLOSE-AFTER-REPLY", "SELECT 5", "PING"]);
}

fn a_command_is_not_sent_twice() {
    let server = Server::start(&[]);
    let output = run(cli(&["-p", &server.port()]), "CLOSE\nPING\n");
    assert_eq!((stdout(&output), output.status.code()), ("OK\n".to_owned(), Some(0)));
    assert_eq!(stderr(&output), "Error: Server closed the connection\n");
    assert_eq!(server.commands(), ["CLOSE", "PING"]);
}

const DONE: &str = "All data transferred. Waiting for the last reply...\nLast reply received from server.\n";

fn mass_insertion() {
    let server = Server::start(&[b"-ERR no\r\n"]);
    let pipe = |input: &str| run(cli(&["-p", &server.port(), "--pipe"]), input);
    let many = "*2\r\n$4\r\nECHO\r\n$1\r\na\r\nSET a b\r\n".repeat(5000);
    let output = pipe(&many);
    assert_eq!(
        (stdout(&output), output.status.code()),
        (format!("{DONE}errors: 0, replies: 10000\n"), Some(0))
    );
    let output = pipe("REPLY 0\nPING");
    assert_eq!((stdout(&output), output.status.code()), (format!("{DONE}errors: 1, replies: 2\n"), Some(1)));
    assert!(stderr(&output).contains("ERR no\n"));
    assert_eq!(stdout(&pipe("")), format!("{DONE}errors: 0, replies: 0\n"));
    let output = pipe("CLOSE\n");
    assert!(!stdout(&output).contains("errors: "));
    assert_eq!(output.status.code(), Some(1));
}

fn mass_insertion_into_silence() {
    let server = Server::start(&[]);
    let output = run(cli(&["-p", &server.port(), "--pipe", "--pipe-timeout", "1"]), "SILENCE\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no replies for 1 seconds"));
}

fn listing_keys() {
    let server = Server::start(&[]);
    assert_eq!(shown(&server, &["--scan", "--pattern", "k*", "--count", "2"]), "k1\nk\"2\nk3\n");
    assert_eq!(server.commands(), ["SCAN 0 MATCH k* COUNT 2", "SCAN 7 MATCH k* COUNT 2"]);
    assert_eq!(shown(&server, &["--scan", "--no-raw"]), "\"k1\"\n\"k\\\"2\"\n\"k3\"\n");
}
