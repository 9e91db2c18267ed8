//! The head of a request: its line and its fields.

use std::ops::Range;

use httparse::Header;

use super::Status;

/// The most bytes of a request line with its header fields.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
/// The most header fields.
const FIELDS_MAX: usize = 64;

/// A method, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD: GET without the content.
    Head,
    /// POST.
    Post,
    /// OPTIONS.
    Options,
    /// Another one.
    Other,
}

/// How the end of a request's content is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is no content.
    None,
    /// It has this many bytes.
    Length(u64),
    /// It comes in chunks.
    Chunked,
}

/// The head of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The path of the target, without the query. Not decoded; `*` for OPTIONS of the whole server.
    pub path: String,
    /// Whom the client believes to speak to: the authority of a target in absolute form, else the value of
    /// `Host`. Empty in HTTP/1.0 without it.
    pub host: String,
    /// The query of the target, without the question mark. Not decoded; empty if there is none.
    pub query: String,
    /// How the end of the content is told.
    pub framing: Framing,
    /// Another request may follow on the connection.
    pub keeps_alive: bool,
    bytes: Box<[u8]>,
    fields: Vec<(Range<u16>, Range<u16>)>,
}

impl Head {
    /// The values of all fields of this name, which is in lower case.
    pub fn fields<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
        let is_wanted = move |(found, _): &&(Range<u16>, Range<u16>)| {
            self.slice(found).eq_ignore_ascii_case(name.as_bytes())
        };
        self.fields.iter().filter(is_wanted).map(|(_, value)| self.slice(value))
    }

    /// The value of the only field of this name; nothing if there is none, or more than one.
    pub fn field<'h>(&'h self, name: &'h str) -> Option<&'h [u8]> {
        let mut values = self.fields(name);
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// Whether a field that is a list of words, such as `Connection`, has this one, in any case.
    pub fn has_option(&self, name: &str, option: &str) -> bool {
        self.fields(name).any(|value| has_word(value, option))
    }

    /// The values of all fields of this name, joined by commas.
    pub fn joined(&self, name: &str) -> String {
        let values: Vec<_> = self.fields(name).map(String::from_utf8_lossy).collect();
        values.join(",")
    }

    /// The client waits with the content until it is told to go on.
    pub fn expects_continue(&self) -> bool {
        self.field("expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"))
    }

    fn slice(&self, range: &Range<u16>) -> &[u8] {
        &self.bytes[usize::from(range.start)..usize::from(range.end)]
    }
}

/// What some bytes hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParsedHead {
    /// The beginning of a head, or nothing.
    Incomplete,
    /// A head, and its length.
    Complete(Box<Head>, usize),
    /// No request: the status to answer with. The connection is of no use then.
    Invalid(Status),
}

/// Parses the head at the beginning of the input. What follows it does not matter.
pub fn parse_head(input: &[u8]) -> ParsedHead {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    match head.parse(input) {
        Ok(httparse::Status::Partial) if input.len() >= HEAD_BYTES_MAX => {
            ParsedHead::Invalid(Status::HeadTooLarge)
        }
        Ok(httparse::Status::Partial) => ParsedHead::Incomplete,
        Ok(httparse::Status::Complete(len)) if len > HEAD_BYTES_MAX => {
            ParsedHead::Invalid(Status::HeadTooLarge)
        }
        Ok(httparse::Status::Complete(len)) => match interpret(&head, &input[..len]) {
            Ok(head) => ParsedHead::Complete(Box::new(head), len),
            Err(status) => ParsedHead::Invalid(status),
        },
        Err(httparse::Error::TooManyHeaders) => ParsedHead::Invalid(Status::HeadTooLarge),
        Err(_) => ParsedHead::Invalid(Status::BadRequest),
    }
}

/// What a head says; an error if it contradicts itself or the protocol.
fn interpret(head: &httparse::Request, bytes: &[u8]) -> Result<Head, Status> {
    let (Some(method), Some(target), Some(minor)) = (head.method, head.path, head.version) else {
        return Err(Status::BadRequest);
    };
    if has_bare_line_feed(bytes) {
        return Err(Status::BadRequest);
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "OPTIONS" => Method::Options,
        _ => Method::Other,
    };
    let fields: &[Header] = head.headers;
    let host = host(fields, minor)?;
    let (authority, path, query) = split_target(target, method)?;
    let host = match authority.map(str::as_bytes) {
        Some(authority) if is_authority(authority) => authority,
        Some(_) => return Err(Status::BadRequest),
        None => host,
    };
    let framing = framing(fields, minor)?;
    let has_option = |option| values(fields, "connection").any(|value| has_word(value, option));
    let keeps_alive = !has_option("close") && (minor == 1 || has_option("keep-alive"));
    let place = |part: &[u8]| {
        let start = (part.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
        // An empty value may lie anywhere.
        let start = if start <= bytes.len() - part.len() { start } else { 0 };
        start as u16..(start + part.len()) as u16
    };
    let fields = fields.iter().map(|field| (place(field.name.as_bytes()), place(field.value))).collect();
    Ok(Head {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        host: String::from_utf8_lossy(host).into_owned(),
        framing,
        keeps_alive,
        bytes: bytes.into(),
        fields,
    })
}

fn values<'h>(fields: &'h [Header<'h>], name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

fn has_word(value: &[u8], word: &str) -> bool {
    let mut words = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    words.any(|found| found.eq_ignore_ascii_case(word.as_bytes()))
}

fn has_bare_line_feed(bytes: &[u8]) -> bool {
    let mut before = 0;
    bytes.iter().any(|&byte| std::mem::replace(&mut before, byte) != b'\r' && byte == b'\n')
}

/// The only `Host`, which may be missing in HTTP/1.0 (RFC 9112, 3.2).
fn host<'h>(fields: &'h [Header<'h>], minor: u8) -> Result<&'h [u8], Status> {
    let mut hosts = values(fields, "host");
    let host = match (hosts.next(), hosts.next()) {
        (None, _) if minor == 0 => b"",
        (Some(host), None) => host,
        _ => return Err(Status::BadRequest),
    };
    if is_authority(host) { Ok(host) } else { Err(Status::BadRequest) }
}

/// A name or address and a port; user information has no place here.
fn is_authority(text: &[u8]) -> bool {
    text.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(&byte))
}

/// How the content's end is told: in one way only (RFC 9112, 6).
fn framing(fields: &[Header], minor: u8) -> Result<Framing, Status> {
    let mut codings = values(fields, "transfer-encoding");
    let mut lengths = values(fields, "content-length");
    let (coding, length) = (codings.next(), lengths.next());
    if codings.next().is_some() || lengths.next().is_some() {
        return Err(Status::BadRequest);
    }
    match (coding, length) {
        (None, None) => Ok(Framing::None),
        (Some(coding), None) if minor == 1 && coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        (Some(coding), None) if minor == 1 && !has_word(coding, "chunked") => Err(Status::NotImplemented),
        (None, Some(digits)) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            let parsed = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            parsed.map(Framing::Length).ok_or(Status::ContentTooLarge)
        }
        _ => Err(Status::BadRequest),
    }
}

/// The authority, if the target is in absolute form, the path and the query (RFC 9112, 3.2).
fn split_target(target: &str, method: Method) -> Result<(Option<&str>, &str, &str), Status> {
    let (authority, rest) = match target.split_once("://") {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
        {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        _ => (None, target),
    };
    if rest.contains('#') {
        return Err(Status::BadRequest);
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    match path {
        "" if authority.is_some() => Ok((authority, "/", query)),
        "*" if method == Method::Options && authority.is_none() => Ok((None, path, query)),
        _ if path.starts_with('/') => Ok((authority, path, query)),
        _ => Err(Status::BadRequest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        match parse_head(text.as_bytes()) {
            ParsedHead::Complete(head, len) => {
                assert_eq!(len, text.len());
                *head
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn heads_are_understood() {
        let text = "GET /metrics?a=b HTTP/1.1\r\nHost: x\r\naccept: a\r\nAccept:b;q=1\r\nEmpty:\r\n\r\n";
        let found = head(text);
        assert_eq!((found.method, &found.path[..], &found.query[..]), (Method::Get, "/metrics", "a=b"));
        assert_eq!(
            (found.joined("accept"), found.field("accept"), &found.host[..]),
            ("a,b;q=1".into(), None, "x")
        );
        assert_eq!((found.field("empty"), found.field("other")), (Some(&b""[..]), None));
        assert!(found.keeps_alive && found.framing == Framing::None && !found.expects_continue());
        let targets = [
            ("/", "/", ""),
            ("http://x/m?n", "/m", "n"),
            ("HTTPS://X", "/", ""),
            ("http://x?y", "/", "y"),
            ("/a://b?c?d", "/a://b", "c?d"),
        ];
        for (target, path, query) in targets {
            let found = head(&format!("HEAD {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
            assert_eq!((&found.path[..], &found.query[..]), (path, query));
        }
        assert_eq!(head("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").path, "*");
        for (version, connection, keeps_alive) in [
            ("1.1", "close", false),
            ("1.1", "a, Close", false),
            ("1.1", "keep-alive", true),
            ("1.0", "x", false),
            ("1.0", "Keep-Alive", true),
        ] {
            let text = format!("GET / HTTP/{version}\r\nHost: x\r\nConnection: {connection}\r\n\r\n");
            assert_eq!(head(&text).keeps_alive, keeps_alive, "{text}");
        }
        for (field, framing) in [
            ("Content-Length: 0", Framing::Length(0)),
            ("Content-Length: 07", Framing::Length(7)),
            ("Transfer-Encoding: Chunked", Framing::Chunked),
        ] {
            let found =
                head(&format!("POST / HTTP/1.1\r\nHost: x\r\n{field}\r\nExpect: 100-Continue\r\n\r\n"));
            assert_eq!((found.method, found.framing), (Method::Post, framing));
            assert!(found.expects_continue());
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let invalid = |text: &str, status| {
            assert_eq!(parse_head(text.as_bytes()), ParsedHead::Invalid(status), "{text}")
        };
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
            "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
            "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "*1\r\n$4\r\nPING\r\n",
            "\x16\x03\x01\x02",
        ] {
            invalid(text, Status::BadRequest);
        }
        for coding in ["gzip", "identity", "xchunked", "\"chunked\""] {
            let text = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}\r\n\r\n");
            invalid(&text, Status::NotImplemented);
        }
        let many_digits = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n";
        invalid(many_digits, Status::ContentTooLarge);
        let long = "x".repeat(HEAD_BYTES_MAX);
        invalid(&format!("GET /{long}"), Status::HeadTooLarge);
        invalid(&format!("GET / HTTP/1.1\r\nHost: {long}\r\n\r\n"), Status::HeadTooLarge);
        invalid(&format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65)), Status::HeadTooLarge);
        invalid(&"\r\n".repeat(HEAD_BYTES_MAX / 2), Status::HeadTooLarge);
    }

    #[test]
    fn every_part_of_a_head_is_incomplete() {
        let text = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
        for len in 0..text.len() {
            assert_eq!(parse_head(&text[..len]), ParsedHead::Incomplete, "{len}");
        }
    }

    #[test]
    fn any_change_of_a_head_is_answered_within_bounds() {
        let text = b"GET http://a:1/m?x HTTP/1.1\r\nHost: a:1\r\nAccept: b;q=1\r\nContent-Length: 0\r\n\r\n";
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        println!("seed {seed:#x}");
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let mut input = text.to_vec();
            for _ in 0..=random(4) {
                let at = random(input.len());
                match random(3) {
                    0 => input[at] = random(256) as u8,
                    1 => drop(input.remove(at)),
                    _ => input.insert(at, b"\r\n :;,\0/"[random(8)]),
                }
            }
            if let ParsedHead::Complete(head, len) = parse_head(&input) {
                assert!(len <= input.len() && head.path.starts_with('/') && !head.path.contains('?'));
                // What follows a head does not change how it is read.
                let followed = [&input[..len], b"GET / HTTP/1.1\r\n"].concat();
                assert_eq!(parse_head(&followed), ParsedHead::Complete(head, len));
            }
        }
    }
}
