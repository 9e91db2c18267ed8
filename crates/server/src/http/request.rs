//! The head of a request, as RFC 9112 has it.

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
    /// Another one.
    Other,
}

/// A request whose head is complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path of the target, without the query. Not decoded.
    pub path: String,
    /// The values of all fields `Accept`, joined by commas.
    pub accept: String,
    /// Another request may follow on the connection.
    pub keeps_alive: bool,
    /// Content follows, which nobody here reads.
    pub has_content: bool,
}

/// What some bytes hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// The beginning of a head, or nothing.
    Incomplete,
    /// A request, and the length of its head.
    Request(Request, usize),
    /// No request: the status to answer with. The connection is of no use then.
    Invalid(Status),
}

/// Parses the head at the beginning of the input.
pub fn parse(input: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    match head.parse(input) {
        Ok(httparse::Status::Partial) if input.len() >= HEAD_BYTES_MAX => {
            Parsed::Invalid(Status::HeadTooLarge)
        }
        Ok(httparse::Status::Partial) => Parsed::Incomplete,
        Ok(httparse::Status::Complete(len)) if len > HEAD_BYTES_MAX => Parsed::Invalid(Status::HeadTooLarge),
        Ok(httparse::Status::Complete(len)) => match interpret(&head) {
            Some(request) => Parsed::Request(request, len),
            None => Parsed::Invalid(Status::BadRequest),
        },
        Err(httparse::Error::TooManyHeaders) => Parsed::Invalid(Status::HeadTooLarge),
        Err(_) => Parsed::Invalid(Status::BadRequest),
    }
}

/// What a head says; nothing if it contradicts itself or the protocol.
fn interpret(head: &httparse::Request) -> Option<Request> {
    let (method, target, minor) = (head.method?, head.path?, head.version?);
    let hosts = values(head.headers, "host").count();
    if hosts > 1 || (minor == 1 && hosts == 0) {
        return None;
    }
    let has_content = has_content(head.headers)?;
    let has_option = |option: &str| {
        let options = values(head.headers, "connection").flat_map(|value| value.split(|&byte| byte == b','));
        options.map(<[u8]>::trim_ascii).any(|name| name.eq_ignore_ascii_case(option.as_bytes()))
    };
    let keeps_alive = !has_option("close") && (minor == 1 || has_option("keep-alive"));
    let accepted: Vec<_> = values(head.headers, "accept").map(String::from_utf8_lossy).collect();
    Some(Request {
        method: match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            _ => Method::Other,
        },
        path: path_of(target).to_owned(),
        accept: accepted.join(","),
        keeps_alive,
        has_content,
    })
}

fn values<'h>(fields: &'h [Header<'h>], name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

/// Whether content follows; nothing if its length can not be told.
fn has_content(fields: &[Header]) -> Option<bool> {
    if values(fields, "transfer-encoding").next().is_some() {
        return Some(true);
    }
    let mut length = None;
    for value in values(fields, "content-length") {
        let digits = value.trim_ascii();
        let is_number = !digits.is_empty() && digits.len() <= 19 && digits.iter().all(u8::is_ascii_digit);
        if !is_number || length.replace(digits).is_some_and(|other| other != digits) {
            return None;
        }
    }
    Some(length.is_some_and(|digits| digits.iter().any(|&digit| digit != b'0')))
}

/// The path of a target in origin form or absolute form.
fn path_of(target: &str) -> &str {
    let target = match target.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            rest.find(['/', '?']).map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    let path = target.split(['?', '#']).next().unwrap_or_default();
    if path.is_empty() { "/" } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Parsed::Request(request, len) => {
                assert_eq!(len, text.len());
                request
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_understood() {
        let found = request("GET /metrics?a=b HTTP/1.1\r\nHost: x\r\naccept: a\r\nAccept:b;q=1\r\n\r\n");
        assert_eq!(
            (found.method, found.path.as_str(), found.accept.as_str()),
            (Method::Get, "/metrics", "a,b;q=1")
        );
        assert!(found.keeps_alive && !found.has_content);
        let paths =
            [("/", "/"), ("http://x:1/m?n", "/m"), ("http://x", "/"), ("http://x?y", "/"), ("*", "*")];
        for (target, path) in paths {
            assert_eq!(request(&format!("HEAD {target} HTTP/1.1\r\nHost: x\r\n\r\n")).path, path);
        }
        for (version, connection, keeps_alive) in [
            ("1.1", "close", false),
            ("1.1", "a, Close", false),
            ("1.1", "keep-alive", true),
            ("1.0", "x", false),
            ("1.0", "Keep-Alive", true),
        ] {
            let text = format!("GET / HTTP/{version}\r\nHost: x\r\nConnection: {connection}\r\n\r\n");
            assert_eq!(request(&text).keeps_alive, keeps_alive, "{text}");
        }
        for (field, has_content) in
            [("Content-Length: 0", false), ("Content-Length: 07", true), ("Transfer-Encoding: chunked", true)]
        {
            let text = format!("POST / HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n");
            assert_eq!((request(&text).method, request(&text).has_content), (Method::Other, has_content));
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let invalid =
            |text: &str, status| assert_eq!(parse(text.as_bytes()), Parsed::Invalid(status), "{text}");
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            "*1\r\n$4\r\nPING\r\n",
            "\x16\x03\x01\x02",
        ] {
            invalid(text, Status::BadRequest);
        }
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
            assert_eq!(parse(&text[..len]), Parsed::Incomplete, "{len}");
        }
    }

    #[test]
    fn any_change_of_a_request_is_answered_within_bounds() {
        let text =
            b"GET http://a:1/metrics?x HTTP/1.1\r\nHost: a\r\nAccept: b;q=1\r\nContent-Length: 0\r\n\r\n";
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
            if let Parsed::Request(request, len) = parse(&input) {
                assert!(len <= input.len() && !request.path.is_empty() && !request.path.contains('?'));
                // What follows a head does not change how it is read.
                let followed = [&input[..len], b"GET / HTTP/1.1\r\n"].concat();
                assert_eq!(parse(&followed), Parsed::Request(request, len));
            }
        }
    }
}
