//! The clients that a change of users disconnects.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::acl::{Changes, Rights, Selector, User, allows_channel};
use crate::engine::Engine;
use crate::pubsub::Scope;
use crate::session::SharedSession;

/// The clients of deleted users, and those that are subscribed to what their user may no longer have.
pub fn to_disconnect(engine: &Engine, changes: &Changes<'_>) -> Vec<Arc<SharedSession>> {
    let mut disconnected = Vec::new();
    for changed in &changes.users {
        match &changed.before {
            Some(before) => disconnected.extend(lost_subscribers(engine, &changed.user, before)),
            None => {
                let clients = engine.clients.read();
                disconnected
                    .extend(clients.values().filter(|session| session.belongs_to(&changed.user)).cloned());
            }
        }
    }
    disconnected
}

/// The clients of a user that are subscribed to what its present rights do not allow. None if these allow all
/// channels that the former ones did.
fn lost_subscribers(engine: &Engine, user: &Arc<User>, before: &Rights) -> Vec<Arc<SharedSession>> {
    let rights = user.rights();
    if !engine.pubsub.has_subscribers() || rights.every_selector().any(|one| one.has_all_channels()) {
        return Vec::new();
    }
    let kept: indexmap::IndexSet<&Box<[u8]>> =
        rights.every_selector().flat_map(|selector| selector.channels()).collect();
    let is_kept = |selector: &Selector| {
        !selector.has_all_channels() && selector.channels().iter().all(|channel| kept.contains(channel))
    };
    if before.every_selector().all(is_kept) {
        return Vec::new();
    }
    let mut lost = BTreeMap::new();
    for scope in [Scope::Channel, Scope::Pattern, Scope::Shard] {
        let is_refused = |name: &[u8]| !allows_channel(kept.iter().copied(), name, scope == Scope::Pattern);
        engine.pubsub.for_each_subscriber(scope, is_refused, |session| {
            if session.belongs_to(user) {
                lost.insert(session.id, Arc::clone(session));
            }
        });
    }
    lost.into_values().collect()
}
