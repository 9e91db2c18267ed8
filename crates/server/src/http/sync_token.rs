//! `Upstash-Sync-Token`: how far a client's own writes are in the stream of replication, so that a replica
//! which is asked next answers only once it has them.
//!
//! A token is `history:offset`: INFO's `master_replid`, and a byte in it. One of a history that this server
//! does not know asks for nothing: there is nothing that could be waited for.

use mantissa_engine::Engine;
use mantissa_engine::replication::primary;

/// The field of requests and answers.
pub const FIELD: &str = "upstash-sync-token";

/// A client's writes so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyncToken {
    history: String,
    offset: u64,
}

impl SyncToken {
    /// The token in a field; none if it is empty, or not one of ours.
    pub fn parse(field: &[u8]) -> Option<SyncToken> {
        let (history, offset) = std::str::from_utf8(field).ok()?.split_once(':')?;
        let is_name = history.len() == 40 && history.bytes().all(|byte| byte.is_ascii_hexdigit());
        let offset = offset.parse().ok().filter(|_| is_name)?;
        Some(SyncToken { history: history.to_owned(), offset })
    }

    /// Whether this server will have these writes, and does not have them yet.
    pub fn is_ahead(&self, engine: &Engine) -> bool {
        let replication = &engine.replication;
        replication.is_replica()
            && replication.history().id == self.history
            && primary::offset(engine) < self.offset
    }

    /// The token of a client after a request, whose last write ends at an LSN; 0 if it has written
    /// nothing. None if none is known.
    pub fn after(engine: &Engine, before: Option<&SyncToken>, logged_lsn: u64) -> Option<SyncToken> {
        let replication = &engine.replication;
        let own = (logged_lsn > 0 && !replication.is_replica()).then(|| SyncToken {
            history: replication.history().id,
            offset: replication.offset_of(logged_lsn),
        });
        match (own, before) {
            (Some(own), Some(before)) if before.history == own.history && before.offset > own.offset => {
                Some(before.clone())
            }
            (Some(own), _) => Some(own),
            (None, before) => before.cloned(),
        }
    }

    /// The token for a field.
    pub fn text(&self) -> String {
        format!("{}:{}", self.history, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read() {
        let history = "0123456789abcdef0123456789abcdef01234567";
        let token = SyncToken { history: history.to_owned(), offset: 12 };
        assert_eq!(SyncToken::parse(format!("{history}:12").as_bytes()), Some(token));
        for text in
            ["", "x", "x:1", &format!("{history}:"), &format!("{history}:-1"), &format!("{history}:1x")]
        {
            assert_eq!(SyncToken::parse(text.as_bytes()), None, "{text}");
        }
    }
}
