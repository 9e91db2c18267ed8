//! Which keys a call may touch that it finds by itself, and not by its arguments.

use std::sync::Arc;

use super::selector::AclRequest;
use super::user::{Rights, User};

/// The keys that one call may touch, by the rights that its user had when it came.
pub struct KeyPermit {
    rights: Arc<Rights>,
    /// The selectors that allow the call, in the order of [`Rights::every_selector`].
    selectors: Vec<usize>,
    permission: u8,
    has_all: bool,
}

impl KeyPermit {
    /// What `user` may do in a call: `permission` on keys, all of its bits by one selector.
    pub fn new(user: &User, request: &AclRequest<'_>, permission: u8) -> KeyPermit {
        let rights = user.rights();
        let allowing = |(at, selector): (usize, &super::Selector)| {
            selector.check(request).is_ok().then_some((at, selector.permits_all_keys(permission)))
        };
        let allowing: Vec<_> = rights.every_selector().enumerate().filter_map(allowing).collect();
        let has_all = user.is_unrestricted() || allowing.iter().any(|&(_, all)| all);
        let selectors = allowing.into_iter().map(|(at, _)| at).collect();
        KeyPermit { rights, selectors, permission, has_all }
    }

    /// Whether the user still has the rights of then.
    pub fn is_current(&self, user: &User) -> bool {
        Arc::ptr_eq(&self.rights, &user.rights())
    }

    /// Whether this key may be touched.
    #[inline]
    pub fn has(&self, key: &[u8]) -> bool {
        self.has_all || self.finds(key)
    }

    fn finds(&self, key: &[u8]) -> bool {
        let mut selectors = self.rights.every_selector().enumerate();
        selectors
            .any(|(at, selector)| self.selectors.contains(&at) && selector.permits_key(self.permission, key))
    }
}
