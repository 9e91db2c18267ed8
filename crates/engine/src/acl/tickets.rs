//! Tickets: secrets that stand for a user once, and soon end. A page in a browser, whose WebSocket can send
//! no header, logs in by one.
//!
//! Costs: about 150 bytes each, at most [`COUNT_MAX`] of them.

use std::collections::HashMap;
use std::sync::Arc;

use mantissa_scripting::hexadecimal;
use parking_lot::Mutex;

use super::User;

/// The most tickets that are kept.
pub const COUNT_MAX: usize = 10_000;
const SECRET_BYTES: usize = 16;

struct Ticket {
    user: Arc<User>,
    expires_ms: i64,
}

/// The tickets that have been given out and not used.
#[derive(Default)]
pub struct Tickets {
    open: Mutex<HashMap<String, Ticket>>,
}

impl Tickets {
    /// A new ticket for a user, good for once and for `lifetime_ms`; none if there are too many, or the
    /// system has no random bytes.
    pub fn issue(&self, user: &Arc<User>, now_ms: i64, lifetime_ms: i64) -> Option<String> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).ok()?;
        let secret = hexadecimal(&bytes);
        let mut open = self.open.lock();
        if open.len() >= COUNT_MAX {
            open.retain(|_, ticket| ticket.expires_ms > now_ms);
        }
        if open.len() >= COUNT_MAX {
            return None;
        }
        let expires_ms = now_ms.saturating_add(lifetime_ms);
        open.insert(secret.clone(), Ticket { user: Arc::clone(user), expires_ms });
        Some(secret)
    }

    /// Whom a ticket stands for, if it is good. It is not any more.
    pub fn redeem(&self, secret: &str, now_ms: i64) -> Option<Arc<User>> {
        let ticket = self.open.lock().remove(secret)?;
        (ticket.expires_ms > now_ms).then_some(ticket.user)
    }
}
