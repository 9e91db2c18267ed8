//! Commands in JSON become requests in RESP; replies and pushes in RESP become JSON.
//!
//! A command is an array, or an object `{"id": ..., "command": [...]}`. Its words are strings, numbers, truth
//! values, or, for bytes that are no UTF-8, `{"base64": "..."}`. An answer is `{"id": ..., "reply": ...}` or
//! `{"id": ..., "error": "..."}`, without `id` if the command had none; a push is `{"push": [...]}`.
//!
//! Costs: one pass over the bytes of a reply, without a tree in between.

use mantissa_protocol::json::parse_message;
use mantissa_protocol::{DecodeError, NESTING_MAX, base64, encode_request};
use mantissa_store::json::write_string;

/// Bytes of an id, at most.
const ID_BYTES_MAX: usize = 1024;

/// Appends the request that a command in JSON stands for. Returns its id as JSON, empty if there is none.
///
/// # Errors
///
/// Why the text is no command.
pub fn request(text: &[u8], out: &mut Vec<u8>) -> Result<Vec<u8>, String> {
    let (id, commands) = parse_message(text)?;
    if id.len() > ID_BYTES_MAX {
        return Err(format!("ERR the id is longer than {ID_BYTES_MAX} bytes"));
    }
    for command in commands.iter() {
        encode_request(out, command);
    }
    Ok(id.to_vec())
}

/// The first words of pushes that answer a command.
const ANSWERS: [&[u8]; 6] =
    [b"subscribe", b"unsubscribe", b"psubscribe", b"punsubscribe", b"ssubscribe", b"sunsubscribe"];

/// Shows each message that the reply of a command becomes, with what came unasked beside it. `id` goes with
/// the reply and with pushes that answer the command. What follows the reply is a push, as are the lines of
/// MONITOR. `is_push` has all of them be pushes.
pub fn messages(resp: &[u8], id: &[u8], is_push: bool, mut show: impl FnMut(&[u8])) {
    let mut reader = Reader { bytes: resp };
    let mut message = Vec::with_capacity(resp.len() + 32);
    let mut is_answered = is_push;
    while let Some(&kind) = reader.bytes.first() {
        message.clear();
        message.push(b'{');
        let answers = if kind == b'>' { reader.is_answer() } else { !is_answered };
        is_answered |= answers;
        if !id.is_empty() && answers {
            message.extend_from_slice(b"\"id\":");
            message.extend_from_slice(id);
            message.push(b',');
        }
        let (begin, prefix) = (reader.bytes, message.len());
        let written = match kind {
            b'-' | b'!' if answers || is_push => reader.error(&mut message),
            _ => {
                let is_reply = answers && kind != b'>';
                message.extend_from_slice(if is_reply { b"\"reply\":" } else { b"\"push\":" });
                reader.value(&mut message, 0)
            }
        };
        if written.is_none() {
            reader.bytes = begin;
            if reader.skip().is_none() {
                return;
            }
            message.truncate(prefix);
            // It is whole, so it is nested too deeply: scripts can make such replies.
            message.extend_from_slice(b"\"error\":");
            write_string(format!("ERR {}", DecodeError::TooDeep).as_bytes(), &mut message);
        }
        message.push(b'}');
        show(&message);
    }
}

/// Reads RESP that the engine has written.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The rest of a line, without its end.
    fn line(&mut self) -> Option<&'a [u8]> {
        let end = self.bytes.iter().position(|&byte| byte == b'\r')?;
        let line = &self.bytes[..end];
        self.bytes = self.bytes.get(end + 2..)?;
        Some(line)
    }

    fn length(line: &[u8]) -> Option<usize> {
        std::str::from_utf8(line).ok()?.parse().ok()
    }

    /// The bytes of a string whose length the line tells.
    fn bulk(&mut self, line: &[u8]) -> Option<&'a [u8]> {
        let len = Self::length(line)?;
        let text = self.bytes.get(..len)?;
        self.bytes = self.bytes.get(len + 2..)?;
        Some(text)
    }

    /// Whether the push that comes next answers a command.
    fn is_answer(&self) -> bool {
        let mut ahead = Reader { bytes: self.bytes };
        let word = ahead.line().and_then(|_| ahead.line()).and_then(|line| match line.split_first()? {
            (b'$', len) => ahead.bulk(len),
            _ => None,
        });
        word.is_some_and(|word| ANSWERS.contains(&word))
    }

    /// Steps over a value. None if it is cut.
    fn skip(&mut self) -> Option<()> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            let (&kind, line) = self.line()?.split_first()?;
            match kind {
                b'$' | b'*' if line == b"-1" => {}
                b'$' | b'=' | b'!' => drop(self.bulk(line)?),
                b'*' | b'~' | b'>' => left += Self::length(line)?,
                b'%' => left += 2 * Self::length(line)?,
                b'|' => left += 2 * Self::length(line)? + 1,
                _ => {}
            }
        }
        Some(())
    }

    /// Appends the member for an error.
    fn error(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let kind = self.bytes[0];
        let line = self.line()?;
        let text = if kind == b'!' { self.bulk(&line[1..])? } else { &line[1..] };
        out.extend_from_slice(b"\"error\":");
        write_text(text, out);
        Some(())
    }

    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        let (&kind, line) = self.line()?.split_first()?;
        match kind {
            b'+' | b'(' => write_text(line, out),
            b'-' => Self::error_object(line, out),
            b'!' => Self::error_object(self.bulk(line)?, out),
            b':' => out.extend_from_slice(line),
            b'$' if line == b"-1" => out.extend_from_slice(b"null"),
            b'$' => write_text(self.bulk(line)?, out),
            // Three letters and a colon tell the format.
            b'=' => write_text(self.bulk(line)?.get(4..)?, out),
            b',' if line.iter().any(|byte| b"in".contains(byte)) => write_text(line, out),
            b',' => out.extend_from_slice(line),
            b'#' => out.extend_from_slice(if line == b"t" { b"true" } else { b"false" }),
            b'*' if line == b"-1" => out.extend_from_slice(b"null"),
            b'*' | b'~' | b'>' => self.elements(Self::length(line)?, out, depth)?,
            b'%' => self.members(Self::length(line)?, out, depth)?,
            b'|' => {
                for _ in 0..2 * Self::length(line)? {
                    self.value(&mut Vec::new(), depth)?;
                }
                self.value(out, depth)?;
            }
            _ => out.extend_from_slice(b"null"),
        }
        Some(())
    }

    fn error_object(text: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"error\":");
        write_text(text, out);
        out.push(b'}');
    }

    fn elements(&mut self, count: usize, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        if depth == NESTING_MAX {
            return None;
        }
        out.push(b'[');
        for index in 0..count {
            if index > 0 {
                out.push(b',');
            }
            self.value(out, depth + 1)?;
        }
        out.push(b']');
        Some(())
    }

    /// A map is an object. Keys that are no strings become their JSON text.
    fn members(&mut self, count: usize, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        if depth == NESTING_MAX {
            return None;
        }
        out.push(b'{');
        let mut key = Vec::new();
        for index in 0..count {
            if index > 0 {
                out.push(b',');
            }
            key.clear();
            self.value(&mut key, depth + 1)?;
            if key.starts_with(b"\"") {
                out.extend_from_slice(&key);
            } else {
                write_string(&key, out);
            }
            out.push(b':');
            self.value(out, depth + 1)?;
        }
        out.push(b'}');
        Some(())
    }
}

/// A string, or what stands for bytes that are none.
fn write_text(text: &[u8], out: &mut Vec<u8>) {
    if std::str::from_utf8(text).is_ok() {
        return write_string(text, out);
    }
    out.extend_from_slice(b"{\"base64\":\"");
    base64::encode(text, out);
    out.extend_from_slice(b"\"}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<(String, String), String> {
        let mut out = Vec::new();
        let id = request(text.as_bytes(), &mut out)?;
        Ok((String::from_utf8_lossy(&id).into_owned(), String::from_utf8_lossy(&out).into_owned()))
    }

    fn shown(resp: &[u8], id: &str) -> Vec<String> {
        let mut all = Vec::new();
        messages(resp, id.as_bytes(), false, |message| {
            all.push(String::from_utf8_lossy(message).into_owned())
        });
        all
    }

    #[test]
    fn commands() {
        let (id, resp) = asked(r#"["SET","k",1]"#).expect("a command");
        assert_eq!((id.as_str(), resp.as_str()), ("", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n"));
        let (id, resp) = asked(r#"{"id":"a\"b","command":["ECHO",{"base64":"Zm9v"}]}"#).expect("a command");
        assert_eq!((id.as_str(), resp.as_str()), (r#""a\"b""#, "*2\r\n$4\r\nECHO\r\n$3\r\nfoo\r\n"));
        let (id, resp) = asked(r#" { "command" : [1.50, true], "id" : 1e2 } "#).expect("a command");
        assert_eq!((id.as_str(), resp.as_str()), ("1e2", "*2\r\n$4\r\n1.50\r\n$4\r\ntrue\r\n"));
        for bad in [
            "",
            "1",
            "[]",
            "{}",
            "[[]]",
            "[null]",
            "[\"a\"] x",
            r#"{"id":[],"command":["PING"]}"#,
            r#"{"id":1}"#,
            r#"{"id":1,"id":2,"command":["PING"]}"#,
            r#"{"command":["PING"],"command":["PING"]}"#,
            r#"{"command":["PING"],}"#,
            r#"{"command":["PING"],"x":1}"#,
            r#"{"command":["PING"]"#,
            r#"[{"base64":"*"}]"#,
            r#"[{"base64":"Zm9v","x":1}]"#,
            r#"[{"base65":"Zm9v"}]"#,
        ] {
            assert!(asked(bad).is_err(), "{bad}");
        }
        for (len, is_good) in [(ID_BYTES_MAX - 2, true), (ID_BYTES_MAX - 1, false)] {
            let text = format!(r#"{{"id":"{}","command":["PING"]}}"#, "x".repeat(len));
            let mut out = Vec::new();
            assert_eq!(request(text.as_bytes(), &mut out).is_ok(), is_good, "{len}");
            assert_eq!(out.is_empty(), !is_good, "nothing is run");
        }
    }

    #[test]
    fn replies() {
        for (resp, wanted) in [
            (&b"+OK\r\n"[..], r#"{"id":7,"reply":"OK"}"#),
            (b"-ERR no\r\n", r#"{"id":7,"error":"ERR no"}"#),
            (b":-5\r\n", r#"{"id":7,"reply":-5}"#),
            (b"_\r\n", r#"{"id":7,"reply":null}"#),
            (b"$-1\r\n", r#"{"id":7,"reply":null}"#),
            (b"$3\r\na\"\n\r\n", r#"{"id":7,"reply":"a\"\n"}"#),
            (b"$2\r\n\xff\xfe\r\n", r#"{"id":7,"reply":{"base64":"//4="}}"#),
            (b",1.5\r\n", r#"{"id":7,"reply":1.5}"#),
            (b",-inf\r\n", r#"{"id":7,"reply":"-inf"}"#),
            (b"#t\r\n", r#"{"id":7,"reply":true}"#),
            (b"(123\r\n", r#"{"id":7,"reply":"123"}"#),
            (b"=5\r\ntxt:x\r\n", r#"{"id":7,"reply":"x"}"#),
            (b"*2\r\n:1\r\n-ERR x\r\n", r#"{"id":7,"reply":[1,{"error":"ERR x"}]}"#),
            (b"%2\r\n+a\r\n:1\r\n:2\r\n*0\r\n", r#"{"id":7,"reply":{"a":1,"2":[]}}"#),
            (b"~1\r\n_\r\n", r#"{"id":7,"reply":[null]}"#),
            (b">2\r\n+a\r\n+b\r\n", r#"{"push":["a","b"]}"#),
            (b">2\r\n$7\r\nmessage\r\n+b\r\n", r#"{"push":["message","b"]}"#),
            (b">2\r\n$9\r\nsubscribe\r\n+b\r\n", r#"{"id":7,"push":["subscribe","b"]}"#),
        ] {
            assert_eq!(shown(resp, "7"), [wanted]);
        }
        assert_eq!(shown(b"+a\r\n+b\r\n", ""), [r#"{"reply":"a"}"#, r#"{"push":"b"}"#]);
        // A command has one reply: a line of MONITOR comes behind it, or behind what SUBSCRIBE answers.
        let monitored = [r#"{"id":7,"error":"ERR"}"#, r#"{"push":"1.5 [0 x]"}"#];
        assert_eq!(shown(b"-ERR\r\n+1.5 [0 x]\r\n", "7"), monitored);
        let subscribed = shown(b">2\r\n$9\r\nsubscribe\r\n+b\r\n-ERR x\r\n", "7");
        assert_eq!(subscribed, [r#"{"id":7,"push":["subscribe","b"]}"#, r#"{"push":{"error":"ERR x"}}"#]);
        // Cut replies show nothing, and read nothing that is not there.
        let whole = b"%1\r\n$1\r\nk\r\n*2\r\n=5\r\ntxt:x\r\n!3\r\nERR\r\n";
        for len in 0..whole.len() {
            assert!(shown(&whole[..len], "").is_empty(), "{len}");
        }
        assert_eq!(shown(whole, ""), [r#"{"reply":{"k":["x",{"error":"ERR"}]}}"#]);
        // What is nested too deeply is an error, and what follows is shown.
        let deep =
            [&b"*1\r\n".repeat(600)[..], b"%1\r\n$1\r\nk\r\n|1\r\n+a\r\n+b\r\n_\r\n+next\r\n"].concat();
        let wanted = [r#"{"id":7,"error":"ERR the reply is nested too deeply"}"#, r#"{"push":"next"}"#];
        assert_eq!(shown(&deep, "7"), wanted);
    }
}
