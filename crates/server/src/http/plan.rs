//! Which commands a request asks for, and how their replies become its answer.

use mantissa_net::http::{Head, percent_decode};
use mantissa_protocol::json::{self, Commands};
use mantissa_protocol::packed::Form;
use mantissa_protocol::{Protocol, encode_request};

use super::credentials::TOKEN_PARAMETER;
use super::routes::Route;

/// The media type of replies in RESP3.
pub const RESP3: &str = "application/vnd.mantissa.resp3";
/// The media type of packed numbers. Its parameter `type` is the type of MANTISSA.PACKED.
pub const PACKED: &str = "application/vnd.mantissa.packed";
/// The type of packed numbers if none is named.
const PACKED_TYPE: &str = "F64";

/// Commands whose replies go on: they are answered as server-sent events.
const STREAMING: [&str; 4] = ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR"];
/// Commands that make no sense where a connection means nothing.
const REFUSED: [&str; 10] = [
    "HELLO",
    "RESET",
    "QUIT",
    "SYNC",
    "PSYNC",
    "REPLCONF",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "ASKING",
];
/// Subcommands of CLIENT of the same kind.
const REFUSED_OF_CLIENT: [&str; 3] = ["REPLY", "TRACKING", "CACHING"];
/// Commands that `/multi-exec` would be confused by.
const REFUSED_IN_TRANSACTION: [&str; 4] = ["MULTI", "EXEC", "DISCARD", "WATCH"];

/// How the replies become an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One reply.
    One,
    /// A list of replies.
    Many,
    /// The replies of MULTI, of the commands, and of EXEC.
    Transaction,
    /// Replies without end, each an event.
    Events,
}

/// The form of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// JSON; the strings in it may be base64.
    Json {
        /// Whether they are.
        in_base64: bool,
    },
    /// The replies as they are.
    Resp(Protocol),
    /// The string that MANTISSA.PACKED replies.
    Packed,
}

/// What a request comes to.
#[derive(Debug)]
pub struct Plan {
    /// How the replies become an answer.
    pub shape: Shape,
    /// The form of the answer.
    pub encoding: Encoding,
    /// The commands.
    pub commands: Commands,
    /// The type of packed numbers, if these are wanted.
    packed: Option<String>,
}

impl Plan {
    /// The requests in RESP, and how many replies they have.
    pub fn requests(&self) -> (Vec<u8>, usize) {
        let mut out = Vec::with_capacity(self.commands.encoded_bytes() + 64);
        if self.shape == Shape::Transaction {
            encode_request(&mut out, ["MULTI"]);
        }
        for command in self.commands.iter() {
            match &self.packed {
                Some(name) => {
                    let prefix = [&b"MANTISSA.PACKED"[..], name.as_bytes()];
                    encode_request(&mut out, [&prefix[..], &command].concat());
                }
                None => encode_request(&mut out, command),
            }
        }
        if self.shape == Shape::Transaction {
            encode_request(&mut out, ["EXEC"]);
            return (out, self.commands.len() + 2);
        }
        (out, self.commands.len())
    }

    /// The protocol that the session is to use.
    pub fn protocol(&self) -> Protocol {
        match self.encoding {
            _ if self.shape == Shape::Events => Protocol::Resp3,
            Encoding::Resp(protocol) => protocol,
            Encoding::Json { .. } | Encoding::Packed => Protocol::Resp2,
        }
    }
}

/// What a request for commands comes to. The error is a reply's.
pub fn plan(head: &Head, route: &Route, content: &[u8]) -> Result<Plan, String> {
    let (mut shape, commands) = match route {
        Route::Command => (Shape::One, json::parse_command(content)?),
        Route::Pipeline => (Shape::Many, json::parse_commands(content)?),
        Route::Transaction => (Shape::Transaction, json::parse_commands(content)?),
        _ => (Shape::One, of_path(head, content)?),
    };
    let is_single = shape == Shape::One;
    for command in commands.iter() {
        let is_one_of =
            |names: &[&str]| names.iter().any(|name| command[0].eq_ignore_ascii_case(name.as_bytes()));
        let subcommand = command.get(1).copied().unwrap_or_default();
        let is_of_client = command[0].eq_ignore_ascii_case(b"CLIENT")
            && REFUSED_OF_CLIENT.iter().any(|name| subcommand.eq_ignore_ascii_case(name.as_bytes()));
        let streams = is_one_of(&STREAMING);
        if streams && is_single {
            shape = Shape::Events;
        } else if streams
            || is_of_client
            || is_one_of(&REFUSED)
            || (shape == Shape::Transaction && is_one_of(&REFUSED_IN_TRANSACTION))
        {
            let name = String::from_utf8_lossy(command[0]).to_uppercase();
            return Err(format!("ERR {name} is not available in this kind of HTTP request"));
        }
    }
    let (encoding, packed) = encoding(head)?;
    if packed.is_some() && shape != Shape::One {
        return Err("ERR packed numbers are the answer to a single command".to_owned());
    }
    Ok(Plan { shape, encoding, commands, packed })
}

/// The command that a path is: its parts, then the parameters of the query, then the content. The content of
/// a request for events means nothing.
fn of_path(head: &Head, content: &[u8]) -> Result<Commands, String> {
    let invalid = || "ERR the path is not percent-encoded".to_owned();
    let mut commands = Commands::default();
    let mut has_room = true;
    for part in head.path[1..].split('/') {
        has_room &= commands.push(&percent_decode(part.as_bytes(), false).ok_or_else(invalid)?);
    }
    for parameter in head.query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) =
            parameter.split_once('=').map_or((parameter, None), |(name, value)| (name, Some(value)));
        if name == TOKEN_PARAMETER {
            continue;
        }
        for text in [Some(name), value].into_iter().flatten() {
            has_room &= commands.push(&percent_decode(text.as_bytes(), true).ok_or_else(invalid)?);
        }
    }
    let streams = STREAMING.iter().any(|name| commands.argument(0).eq_ignore_ascii_case(name.as_bytes()));
    if !content.is_empty() && !streams {
        has_room &= commands.push(content);
    }
    commands.end_command();
    if has_room { Ok(commands) } else { Err("ERR too many arguments".to_owned()) }
}

/// The form of the answer that a client wants, and the type of packed numbers.
fn encoding(head: &Head) -> Result<(Encoding, Option<String>), String> {
    for range in head.joined("accept").split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        if media_type.eq_ignore_ascii_case(RESP3) {
            return Ok((Encoding::Resp(Protocol::Resp3), None));
        }
        if media_type.eq_ignore_ascii_case(PACKED) {
            let mut parameters = parts.filter_map(|part| part.split_once('='));
            let name = parameters.find(|(name, _)| name.eq_ignore_ascii_case("type"));
            let name = name.map_or(PACKED_TYPE, |(_, value)| value.trim_matches('"'));
            if Form::parse(name.as_bytes()).is_none() {
                return Err("ERR unknown type of packed numbers in Accept".to_owned());
            }
            return Ok((Encoding::Packed, Some(name.to_owned())));
        }
    }
    if head.has_option("upstash-response-format", "resp2") {
        return Ok((Encoding::Resp(Protocol::Resp2), None));
    }
    Ok((Encoding::Json { in_base64: head.has_option("upstash-encoding", "base64") }, None))
}
