//! Answers.

use std::fmt::Write;

use mantissa_sys::clock::unix_ms;

/// A status that is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// What was asked for.
    Ok,
    /// Done, and there is nothing to say.
    NoContent,
    /// What the client has is still right.
    NotModified,
    /// The request makes no sense.
    BadRequest,
    /// Who asks is not known.
    Unauthorized,
    /// Who asks may not.
    Forbidden,
    /// There is nothing at this path.
    NotFound,
    /// The path does not have this method.
    MethodNotAllowed,
    /// The request did not come in time.
    RequestTimeout,
    /// The content is too large.
    ContentTooLarge,
    /// The server does not go by this name.
    MisdirectedRequest,
    /// Another protocol is to be spoken here.
    UpgradeRequired,
    /// The head is too large.
    HeadTooLarge,
    /// The server has failed.
    InternalServerError,
    /// A transfer coding that is not known.
    NotImplemented,
    /// Not now.
    Unavailable,
}

impl Status {
    /// The code and its reason phrase.
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::NoContent => "204 No Content",
            Status::NotModified => "304 Not Modified",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::RequestTimeout => "408 Request Timeout",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::MisdirectedRequest => "421 Misdirected Request",
            Status::UpgradeRequired => "426 Upgrade Required",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::InternalServerError => "500 Internal Server Error",
            Status::NotImplemented => "501 Not Implemented",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// An answer to a request.
pub struct Response {
    /// The status.
    pub status: Status,
    /// The media type of the content.
    pub content_type: &'static str,
    /// Further fields. None of them may hold a line end.
    pub fields: Vec<(&'static str, String)>,
    /// The content.
    pub content: Vec<u8>,
}

impl Response {
    /// A line of text.
    pub fn text(status: Status, line: &str) -> Response {
        Response::new(status, "text/plain; charset=utf-8", format!("{line}\n").into_bytes())
    }

    /// A status that says all.
    pub fn of(status: Status) -> Response {
        Response::text(status, status.line())
    }

    /// Content of this media type.
    pub fn new(status: Status, content_type: &'static str, content: Vec<u8>) -> Response {
        Response { status, content_type, fields: Vec::new(), content }
    }

    /// The same with a further field.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.fields.push((name, value.into()));
        self
    }

    /// Writes the answer; `with_content` is false for HEAD. `keeps_alive` says whether the connection stays.
    pub fn write(&self, out: &mut Vec<u8>, with_content: bool, keeps_alive: bool) {
        let connection = if keeps_alive { "keep-alive" } else { "close" };
        if matches!(self.status, Status::NoContent | Status::NotModified) {
            return self.write_head(out, "", connection);
        }
        let length = format!("Content-Length: {}\r\n", self.content.len());
        self.write_head(out, &length, connection);
        if with_content {
            out.extend_from_slice(&self.content);
        }
    }

    /// Writes the head of an answer whose content ends with the connection.
    pub fn write_endless(&self, out: &mut Vec<u8>) {
        self.write_head(out, "", "close");
    }

    fn write_head(&self, out: &mut Vec<u8>, length: &str, connection: &str) {
        let mut head = String::with_capacity(256);
        let _to_memory = write!(
            head,
            "HTTP/1.1 {}\r\nDate: {}\r\nContent-Type: {}\r\n{length}X-Content-Type-Options: nosniff\r\n",
            self.status.line(),
            date(unix_ms() / 1000),
            self.content_type,
        );
        if !self.fields.iter().any(|(name, _)| *name == "Cache-Control") {
            head.push_str("Cache-Control: no-store\r\n");
        }
        for (name, value) in &self.fields {
            let _to_memory = write!(head, "{name}: {value}\r\n");
        }
        let _to_memory = write!(head, "Connection: {connection}\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
    }
}

/// A moment as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(unix_seconds: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (unix_seconds.div_euclid(86_400), unix_seconds.rem_euclid(86_400));
    // Years begin in March here, so that the leap day is the last one. From March 1 of year 0 to the epoch
    // there are 719,468 days.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[days.rem_euclid(7) as usize],
        MONTHS[month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_standard() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(951_782_399), "Mon, 28 Feb 2000 23:59:59 GMT");
        assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(date(1_798_761_599), "Thu, 31 Dec 2026 23:59:59 GMT");
    }

    #[test]
    fn an_answer_to_head_has_no_content() {
        let response = Response::text(Status::Unavailable, "loading");
        let (mut whole, mut head) = (Vec::new(), Vec::new());
        response.write(&mut whole, true, true);
        response.write(&mut head, false, true);
        assert_eq!(whole, [&head[..], b"loading\n"].concat());
        let text = String::from_utf8(head).expect("a head is text");
        assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\nDate: "), "{text}");
        assert!(text.contains("\r\nContent-Length: 8\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }
}
