//! Publish and subscribe: the subscriptions, and the delivery of messages.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mantissa_commands::glob;
use mantissa_protocol::{Protocol, Reply};
use parking_lot::RwLock;

use crate::client::{SharedSession, Target};

/// Subscribers of one channel or pattern, by client number, so that leaving a crowded channel is cheap.
type Subscribers = BTreeMap<u64, Arc<SharedSession>>;

/// What kind of name is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

#[derive(Default)]
struct Names(RwLock<HashMap<Vec<u8>, Subscribers>>);

impl Names {
    fn add(&self, name: &[u8], session: &Arc<SharedSession>) {
        let mut names = self.0.write();
        names.entry(name.to_vec()).or_default().insert(session.id, Arc::clone(session));
    }

    fn remove(&self, name: &[u8], session: u64) {
        let mut names = self.0.write();
        if let Some(subscribers) = names.get_mut(name) {
            subscribers.remove(&session);
            if subscribers.is_empty() {
                names.remove(name);
            }
        }
    }
}

/// All subscriptions.
#[derive(Default)]
pub struct PubSub {
    channels: Names,
    patterns: Names,
    shard_channels: Names,
    /// Subscriptions of any kind, so that an engine without any skips the rest.
    total: AtomicUsize,
}

impl PubSub {
    fn names(&self, scope: Scope) -> &Names {
        match scope {
            Scope::Channel => &self.channels,
            Scope::Pattern => &self.patterns,
            Scope::Shard => &self.shard_channels,
        }
    }

    /// Adds a subscription that the client does not have yet.
    pub fn subscribe(&self, scope: Scope, name: &[u8], session: &Arc<SharedSession>) {
        self.names(scope).add(name, session);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a subscription away that the client has.
    pub fn unsubscribe(&self, scope: Scope, name: &[u8], session: u64) {
        self.names(scope).remove(name, session);
        self.total.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there is any subscription.
    #[inline]
    pub fn has_subscribers(&self) -> bool {
        self.total.load(Ordering::Relaxed) > 0
    }

    /// The number of subscribers of a name.
    pub fn subscriber_count(&self, scope: Scope, name: &[u8]) -> usize {
        self.names(scope).0.read().get(name).map_or(0, BTreeMap::len)
    }

    /// The number of names that have subscribers.
    pub fn name_count(&self, scope: Scope) -> usize {
        self.names(scope).0.read().len()
    }

    /// The names that have subscribers and match the pattern.
    pub fn matching(&self, scope: Scope, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let names = self.names(scope).0.read();
        let wanted = |name: &&Vec<u8>| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        names.keys().filter(wanted).cloned().collect()
    }

    /// Visits the subscribers of the names that are wanted.
    pub fn for_each_subscriber(
        &self,
        scope: Scope,
        is_wanted: impl Fn(&[u8]) -> bool,
        mut visit: impl FnMut(&Arc<SharedSession>),
    ) {
        let names = self.names(scope).0.read();
        let wanted = names.iter().filter(|(name, _)| is_wanted(name));
        wanted.flat_map(|(_, subscribers)| subscribers.values()).for_each(&mut visit);
    }

    /// Sends a message to all subscribers of the channel, and returns how often it was sent.
    pub fn publish(
        &self,
        scope: Scope,
        channel: &[u8],
        message: &[u8],
        mut send: impl FnMut(Target, Arc<[u8]>),
    ) -> usize {
        if !self.has_subscribers() {
            return 0;
        }
        let kind: &[u8] = if scope == Scope::Shard { b"smessage" } else { b"message" };
        let mut receivers = 0;
        let mut encoded = Encoded::new(&[kind, channel, message]);
        if let Some(subscribers) = self.names(scope).0.read().get(channel) {
            for session in subscribers.values() {
                send(*session.target.lock(), encoded.bytes_for(session));
            }
            receivers += subscribers.len();
        }
        if scope == Scope::Shard {
            return receivers;
        }
        for (pattern, subscribers) in self.patterns.0.read().iter() {
            if glob::matches(pattern, channel) {
                let mut encoded = Encoded::new(&[b"pmessage", pattern, channel, message]);
                for session in subscribers.values() {
                    send(*session.target.lock(), encoded.bytes_for(session));
                }
                receivers += subscribers.len();
            }
        }
        receivers
    }
}

/// A push message, encoded at most once for each protocol.
struct Encoded<'a> {
    parts: Vec<&'a [u8]>,
    resp2: Option<Arc<[u8]>>,
    resp3: Option<Arc<[u8]>>,
}

impl<'a> Encoded<'a> {
    fn new(parts: &[&'a [u8]]) -> Self {
        Encoded { parts: parts.to_vec(), resp2: None, resp3: None }
    }

    fn bytes_for(&mut self, session: &SharedSession) -> Arc<[u8]> {
        let (protocol, slot) = match session.protocol.load(Ordering::Relaxed) {
            3 => (Protocol::Resp3, &mut self.resp3),
            _ => (Protocol::Resp2, &mut self.resp2),
        };
        let parts = &self.parts;
        let bytes = slot.get_or_insert_with(|| {
            let mut reply = Reply::new(protocol);
            reply.push(parts.len());
            parts.iter().for_each(|part| reply.bulk(part));
            reply.into_bytes().into()
        });
        Arc::clone(bytes)
    }
}
