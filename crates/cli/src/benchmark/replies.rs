//! Counting replies without keeping them. Replies of one line and strings, which are nearly all, are skipped
//! where they lie; others go through the decoder.

use mantissa_protocol::{Decoder, Value};

/// Counts the replies in what arrives.
#[derive(Default)]
pub(crate) struct Replies {
    arrived: Vec<u8>,
    start: usize,
    decoder: Decoder,
}

/// What was found.
#[derive(PartialEq, Debug)]
pub(crate) enum Found {
    /// A reply that is no error.
    Reply,
    /// An error.
    Error(String),
}

impl Replies {
    /// Where to read to: what is appended here is looked at next.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.arrived.drain(..self.start);
        self.start = 0;
        &mut self.arrived
    }

    /// The next whole reply; `None` until more has arrived. Messages are passed over.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, String> {
        loop {
            let input = self.arrived.get(self.start..).unwrap_or_default();
            if self.decoder.is_idle()
                && let Some((size, found)) = skip(input)
            {
                self.start += size;
                return Ok(Some(found));
            }
            match self.decoder.decode(input) {
                Ok(None) => return Ok(None),
                Ok(Some((value, size))) => {
                    self.start += size;
                    match value {
                        Value::Push(_) => {}
                        Value::Error(text) | Value::BulkError(text) => {
                            return Ok(Some(Found::Error(String::from_utf8_lossy(&text).into_owned())));
                        }
                        _ => return Ok(Some(Found::Reply)),
                    }
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

/// The size of a reply of one line, or of a string; `None` for others and those that are not whole.
fn skip(input: &[u8]) -> Option<(usize, Found)> {
    let line_end = || {
        let at = input.iter().position(|byte| *byte == b'\r')?;
        (input.get(at + 1) == Some(&b'\n')).then_some(at)
    };
    match input.first()? {
        b'+' | b':' | b',' | b'_' | b'#' => Some((line_end()? + 2, Found::Reply)),
        b'$' => {
            let end = line_end()?;
            let digits = input.get(1..end)?;
            if digits == b"-1" {
                return Some((end + 2, Found::Reply));
            }
            let length = usize::try_from(mantissa_number::parse_u64(digits)?).ok()?;
            let size = end.checked_add(4)?.checked_add(length)?;
            (input.len() >= size).then_some((size, Found::Reply))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let input = b"+OK\r\n$5\r\na\r\nbc\r\n$-1\r\n:12\r\n*2\r\n$1\r\na\r\n*1\r\n:1\r\n-ERR no\r\n\
            >1\r\n+x\r\n_\r\n,1\r\n";
        let expected: Vec<Found> =
            (0..8).map(|i| if i == 5 { Found::Error("ERR no".to_owned()) } else { Found::Reply }).collect();
        for size in 1..=input.len() {
            let (mut replies, mut found) = (Replies::default(), Vec::new());
            for piece in input.chunks(size) {
                replies.buffer().extend_from_slice(piece);
                while let Some(reply) = replies.next().expect("valid") {
                    found.push(reply);
                }
            }
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }
}
