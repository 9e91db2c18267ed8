//! Requests to the service: signed, and tried again where that may help.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mantissa_sys::authorities;
use rustls::crypto::ring;
use ureq::http;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::listing;
use super::location::{Credentials, Location};
use super::signing::{Signable, authorization, encoded_query, sha256};
use crate::repository::{days, utc_digits};

/// How often a request is sent, at most, and what passes before the second time. It doubles each time.
const ATTEMPTS_MAX: u32 = 6;
const PAUSE: Duration = Duration::from_millis(200);
/// Limits of time: of a connection; of sending a body, of the first byte of the answer, of the answer's body.
const CONNECT: Duration = Duration::from_secs(10);
const SEND: Duration = Duration::from_secs(300);
const ANSWER: Duration = Duration::from_secs(60);
/// The longest answer that is no object, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// A request.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub method: &'static str,
    /// The name of the object, without the prefix; none for the bucket.
    pub name: Option<&'a str>,
    pub query: &'a [(&'a str, &'a str)],
    /// Beside those that every request has.
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
    /// The longest body of an answer.
    pub bytes_max: u64,
}

impl<'a> Request<'a> {
    fn new(method: &'static str, name: Option<&'a str>) -> Request<'a> {
        Request { method, name, query: &[], headers: &[], body: &[], bytes_max: ANSWER_BYTES_MAX }
    }

    pub fn get(name: &'a str) -> Request<'a> {
        Self::new("GET", Some(name))
    }

    pub fn put(name: &'a str) -> Request<'a> {
        Self::new("PUT", Some(name))
    }

    pub fn head(name: &'a str) -> Request<'a> {
        Self::new("HEAD", Some(name))
    }

    pub fn delete(name: &'a str) -> Request<'a> {
        Self::new("DELETE", Some(name))
    }

    /// Of the bucket, to list it.
    pub fn of_bucket() -> Request<'a> {
        Self::new("GET", None)
    }
}

/// The answer to a request.
pub(super) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// How often the request was sent.
    pub attempts: u32,
    pub etag: String,
    /// The clock of the service, and when the object was changed, in seconds since 1970.
    pub date_s: Option<u64>,
    pub modified_s: Option<u64>,
}

/// Sends requests.
pub(super) struct Client {
    agent: Agent,
    pub location: Location,
    credentials: Credentials,
}

impl Client {
    /// A client. The error is a sentence.
    pub fn new(location: Location, credentials: Credentials) -> Result<Client, String> {
        let provider = Arc::new(ring::default_provider());
        let roots = if location.endpoint.starts_with("https:") { roots()? } else { Vec::new() };
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent("mantissa")
            .timeout_connect(Some(CONNECT))
            .timeout_send_body(Some(SEND))
            .timeout_recv_response(Some(ANSWER))
            .timeout_recv_body(Some(SEND))
            .build();
        Ok(Client { agent: config.into(), location, credentials })
    }

    /// The key of an object.
    pub fn key_of(&self, name: &str) -> String {
        format!("{}{name}", self.location.prefix)
    }

    /// What errors call an object.
    pub fn name_of(&self, name: &str) -> String {
        format!("s3://{}/{}", self.location.bucket, self.key_of(name))
    }

    /// The error that an answer tells.
    pub fn failure(&self, name: &str, answer: &Answer) -> io::Error {
        let status = answer.status;
        let reason = listing::error(&answer.body).unwrap_or_default();
        let space = if reason.is_empty() { "" } else { " " };
        let kind = match status {
            403 => io::ErrorKind::PermissionDenied,
            404 => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        let text = format!("{}: {reason}{space}(the service answered {status})", self.name_of(name));
        io::Error::new(kind, text)
    }

    /// Sends a request until there is an answer that another attempt would not change.
    pub fn send(&self, request: &Request<'_>) -> io::Result<Answer> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let outcome = self.send_once(request, attempts);
            let is_worth_another = match &outcome {
                // 409: another request for the same object is under way.
                Ok(answer) => matches!(answer.status, 409 | 429 | 500 | 502 | 503 | 504),
                Err(error) => error.kind() != io::ErrorKind::InvalidInput,
            };
            if !is_worth_another || attempts == ATTEMPTS_MAX {
                return outcome.map_err(|error| {
                    let name = self.name_of(request.name.unwrap_or_default());
                    io::Error::new(error.kind(), format!("{name}: {error}"))
                });
            }
            thread::sleep(PAUSE * 2u32.pow(attempts - 1));
        }
    }

    fn send_once(&self, request: &Request<'_>, attempts: u32) -> io::Result<Answer> {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let time = format!("{}Z", &utc_digits(now_ms)[..15]);
        let path = self.location.path_of(&request.name.map_or(String::new(), |name| self.key_of(name)));
        let query = encoded_query(request.query);
        let body_hash = sha256(request.body);
        let mut headers = vec![
            ("host", self.location.host.as_str()),
            ("x-amz-content-sha256", body_hash.as_str()),
            ("x-amz-date", time.as_str()),
        ];
        headers.extend(
            self.credentials.session_token.iter().map(|token| ("x-amz-security-token", token.as_str())),
        );
        headers.extend(request.headers);
        headers.sort_unstable();
        let signable = Signable {
            method: request.method,
            path: &path,
            query: &query,
            headers: &headers,
            body_hash: &body_hash,
        };
        let authorization = authorization(&signable, &self.credentials, &self.location.region, &time);
        let mark = if query.is_empty() { "" } else { "?" };
        let mut built = http::Request::builder()
            .method(request.method)
            .uri(format!("{}{path}{mark}{query}", self.location.endpoint))
            .header("authorization", authorization);
        for (name, value) in headers.iter().filter(|(name, _)| *name != "host") {
            built = built.header(*name, *value);
        }
        let wrong = |error: http::Error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let answer = match request.method {
            "PUT" => self.agent.run(built.body(request.body).map_err(wrong)?),
            _ => self.agent.run(built.body(()).map_err(wrong)?),
        };
        read(answer.map_err(ureq::Error::into_io)?, request.bytes_max, attempts)
    }
}

/// Reads an answer to its end.
fn read(answer: http::Response<Body>, bytes_max: u64, attempts: u32) -> io::Result<Answer> {
    let text =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (etag, date_s) = (text("etag").to_owned(), http_date(text("date")));
    let modified_s = http_date(text("last-modified"));
    let status = answer.status().as_u16();
    let mut body = Vec::new();
    let mut reader = answer.into_body().into_reader().take(bytes_max.saturating_add(1));
    reader.read_to_end(&mut body)?;
    if body.len() as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the answer is too long"));
    }
    Ok(Answer { status, body, attempts, etag, date_s, modified_s })
}

/// The certificates of authorities to trust. The error is a sentence.
fn roots() -> Result<Vec<ureq::tls::Certificate<'static>>, String> {
    let named = std::env::var_os("AWS_CA_BUNDLE").map(PathBuf::from);
    let Some(path) = named.or_else(authorities::file) else {
        return Err(
            "there is no file with certificates of authorities; SSL_CERT_FILE may name one".to_owned()
        );
    };
    let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let found = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err(format!("{}: it holds no certificate", path.display())) } else { Ok(found) }
}

/// Seconds since 1970 of a date such as `Wed, 25 Nov 2026 07:00:00 GMT` (RFC 9110, 5.6.7).
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(", ")?.1.split(' ');
    let number = |words: &mut std::str::Split<'_, char>| words.next()?.parse::<u64>().ok();
    let day = number(&mut words)?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year = number(&mut words)?;
    let mut clock = words.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if !(1..=31).contains(&day) || !(1970..10_000).contains(&year) || hour > 23 || minute > 59 || second > 60
    {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::civil;

    #[test]
    fn dates_are_read() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        for days in (0..60_000).step_by(7) {
            let (year, month, day) = civil(days);
            let name = "JanFebMarAprMayJunJulAugSepOctNovDec".get(month as usize * 3 - 3..month as usize * 3);
            let text = format!("Day, {day:02} {} {year} 00:00:01 GMT", name.unwrap_or_default());
            assert_eq!(http_date(&text), Some(days as u64 * 86_400 + 1), "{text}");
        }
        for wrong in
            ["", "now", "Sun, 06 Nov 1994", "Sun, 06 Now 1994 08:49:37 GMT", "Sun, 6 Nov 1 1:1:1 GMT"]
        {
            assert_eq!(http_date(wrong), None, "{wrong}");
        }
    }
}
