//! Whether a page in a browser may be behind a request, and which: checks of `Host`, `Origin` and
//! `Sec-Fetch-Site`. They hold whether or not the request logs in, so that a page of another site can neither
//! use a server that needs no password nor guess one.

use std::net::IpAddr;

use mantissa_engine::config::Config;
use mantissa_net::http::{Head, Method, Response, Status};

use super::json_error;

/// How long a browser may remember that an origin is allowed, in seconds.
const PREFLIGHT_SECONDS: &str = "600";

/// Checks a request. Returns the origin that the answer is to be shown to, if it comes from another site that
/// is allowed; an error is the answer.
pub fn check(config: &Config, head: &Head) -> Result<Option<String>, Response> {
    let host = head.host.as_str();
    if !is_known_host(config, host) {
        return Err(json_error(
            Status::MisdirectedRequest,
            "ERR this server is not known by the name in Host; see http-allowed-hosts",
        ));
    }
    let refused =
        || json_error(Status::Forbidden, "ERR pages of this origin may not; see http-allowed-origins");
    if head.fields("origin").next().is_none() {
        // A browser leaves `Origin` out of some requests, such as those for images.
        let is_cross_site = head.field("sec-fetch-site").is_some_and(|site| {
            !site.eq_ignore_ascii_case(b"none") && !site.eq_ignore_ascii_case(b"same-origin")
        });
        let is_navigation = head.path == "/"
            && head.field("sec-fetch-mode").is_some_and(|mode| mode.eq_ignore_ascii_case(b"navigate"));
        return if is_cross_site && !is_navigation { Err(refused()) } else { Ok(None) };
    }
    let origin =
        head.field("origin").and_then(|origin| std::str::from_utf8(origin).ok()).ok_or_else(refused)?;
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    if authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
        return Ok(None);
    }
    let mut allowed = config.http_allowed_origins.split_ascii_whitespace();
    match allowed.any(|word| word == "*" || word.eq_ignore_ascii_case(origin)) {
        true => Ok(Some(origin.to_owned())),
        false => Err(refused()),
    }
}

/// An IP address can not be made to lead elsewhere, and `localhost` is this machine. Any other name could be
/// one that a page has made to lead here.
fn is_known_host(config: &Config, host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    let mut allowed = config.http_allowed_hosts.split_ascii_whitespace();
    name.is_empty()
        || name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || allowed.any(|word| word == "*" || word.eq_ignore_ascii_case(name))
}

/// The answer to OPTIONS, which is what a browser asks first.
pub fn preflight(head: &Head) -> Response {
    const METHODS: &str = "GET, HEAD, POST, OPTIONS";
    debug_assert_eq!(head.method, Method::Options);
    let response = Response::new(Status::NoContent, "text/plain", Vec::new()).with("Allow", METHODS);
    let wanted = head.field("access-control-request-headers").unwrap_or_default();
    let is_list = |&byte: &u8| byte.is_ascii_alphanumeric() || b"-_, ".contains(&byte);
    match std::str::from_utf8(wanted) {
        Ok(fields) if head.field("origin").is_some() && wanted.iter().all(is_list) => response
            .with("Access-Control-Allow-Methods", METHODS)
            .with("Access-Control-Allow-Headers", fields)
            .with("Access-Control-Max-Age", PREFLIGHT_SECONDS),
        _ => response,
    }
}

#[cfg(test)]
mod tests {
    use mantissa_net::http::{ParsedHead, parse_head};

    use super::*;

    fn checked(hosts: &str, origins: &str, fields: &str) -> Result<Option<String>, Status> {
        let text = format!("GET /get/a HTTP/1.1\r\n{fields}\r\n");
        let config = Config {
            http_allowed_hosts: hosts.to_owned(),
            http_allowed_origins: origins.to_owned(),
            ..Config::default()
        };
        match parse_head(text.as_bytes()) {
            ParsedHead::Complete(head, _) => check(&config, &head).map_err(|response| response.status),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn names_that_could_lead_here_are_refused() {
        for host in
            ["localhost", "LOCALHOST:80", "127.0.0.1:80", "10.0.0.1", "[::1]:80", "[::1]", "a.b:80", ""]
        {
            assert_eq!(checked("x a.b", "", &format!("Host: {host}\r\n")), Ok(None), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "a.b.c", "[z]", "1.2.3"]
        {
            assert_eq!(checked("x a.b", "", &format!("Host: {host}\r\n")), Err(Status::MisdirectedRequest));
            assert_eq!(checked("*", "", &format!("Host: {host}\r\n")), Ok(None));
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let with = |origins, fields: &str| checked("", origins, &format!("Host: localhost:80\r\n{fields}"));
        let refused = Err(Status::Forbidden);
        assert_eq!(with("", "Origin: http://localhost:80\r\n"), Ok(None));
        assert_eq!(with("", "Origin: http://localhost:81\r\n"), refused);
        assert_eq!(with("", "Origin: null\r\n"), refused);
        assert_eq!(with("https://a https://b", "Origin: https://b\r\n"), Ok(Some("https://b".into())));
        assert_eq!(with("https://a https://b", "Origin: https://b.c\r\n"), refused);
        assert_eq!(with("*", "Origin: null\r\n"), Ok(Some("null".into())));
        assert_eq!(with("*", "Origin: a\r\nOrigin: b\r\n"), refused);
        assert_eq!(with("", "Sec-Fetch-Site: cross-site\r\n"), refused);
        assert_eq!(with("", "Sec-Fetch-Site: same-site\r\n"), refused);
        assert_eq!(with("", "Sec-Fetch-Site: same-origin\r\n"), Ok(None));
        assert_eq!(with("", "Sec-Fetch-Site: none\r\n"), Ok(None));
    }
}
