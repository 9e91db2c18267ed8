//! Users: a name, and rights that change as a whole.
//!
//! Clients keep a reference to their user. The rights behind it are never changed in place: a new state takes
//! the place of the old one, and the next request of every client of the user, on every worker, is checked
//! against the new one. Reading them takes no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use indexmap::IndexSet;

use super::password::Password;
use super::selector::{AclRequest, Denial, Selector, allows_channel};

/// What a user may do, and how it logs in.
#[derive(Clone, Debug, PartialEq)]
pub struct Rights {
    /// It may log in.
    pub enabled: bool,
    /// Any password is accepted (`nopass`).
    pub no_password: bool,
    /// Payloads of its RESTOREs are checked completely (`sanitize-payload`).
    pub sanitizes: bool,
    /// Its passwords.
    pub passwords: IndexSet<Password>,
    /// What it may do without further selectors.
    pub root: Selector,
    /// Further selectors: a call is allowed if any of them allows it.
    pub selectors: Vec<Selector>,
}

impl Rights {
    /// Those of a new user: none, and it cannot log in.
    pub fn new(all_channels: bool) -> Rights {
        Rights {
            enabled: false,
            no_password: false,
            sanitizes: true,
            passwords: IndexSet::new(),
            root: Selector::new(all_channels),
            selectors: Vec::new(),
        }
    }

    /// All selectors.
    pub fn every_selector(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Whether a call is allowed. If not, the reason is that of the selector that allowed most of it.
    pub fn check(&self, request: &AclRequest<'_>) -> Result<(), Denial> {
        let mut reason = Denial::Command;
        for selector in self.every_selector() {
            match selector.check(request) {
                Ok(()) => return Ok(()),
                Err(denial) => reason = reason.max(denial),
            }
        }
        Err(reason)
    }

    /// Whether a call is allowed by a selector that allows to read every key.
    pub fn check_reading_all_keys(&self, request: &AclRequest<'_>) -> bool {
        self.every_selector().any(|selector| selector.reads_all_keys() && selector.check(request).is_ok())
    }

    /// Whether a call is allowed by a selector that allows to read this key as well.
    pub fn check_reading(&self, request: &AclRequest<'_>, key: &[u8]) -> bool {
        self.every_selector().any(|selector| selector.reads_key(key) && selector.check(request).is_ok())
    }

    /// Whether this password lets the user log in.
    pub fn accept(&self, password: &[u8]) -> bool {
        if !self.enabled || self.no_password {
            return self.enabled;
        }
        let given = Password::of(password);
        self.passwords.iter().fold(false, |found, password| password.is(&given) | found)
    }

    /// The names of the flags, as ACL GETUSER shows them.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        if self.no_password {
            flags.push("nopass");
        }
        flags.push(if self.sanitizes { "sanitize-payload" } else { "skip-sanitize-payload" });
        flags
    }

    /// The rights as the modifiers that make them, separated by spaces.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = self.flags().join(" ").into_bytes();
        for password in &self.passwords {
            text.extend_from_slice(format!(" #{}", password.digest()).as_bytes());
        }
        text.push(b' ');
        text.extend_from_slice(&self.root.describe());
        for selector in &self.selectors {
            text.extend_from_slice(&[b" (", &selector.describe()[..], b")"].concat());
        }
        text
    }
}

/// A user, whose rights change as a whole.
pub struct User {
    /// The name.
    pub name: Box<[u8]>,
    rights: ArcSwap<Rights>,
    unrestricted: AtomicBool,
}

impl User {
    /// A user.
    pub fn new(name: &[u8], rights: Rights) -> User {
        let unrestricted = rights.every_selector().any(Selector::is_unrestricted);
        User {
            name: name.into(),
            rights: ArcSwap::from_pointee(rights),
            unrestricted: AtomicBool::new(unrestricted),
        }
    }

    /// Whether it may do everything, so that nothing need be checked.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.unrestricted.load(Ordering::Acquire)
    }

    /// Its rights.
    pub fn rights(&self) -> Arc<Rights> {
        self.rights.load_full()
    }

    /// Puts new rights in force. Clients that were checked against the old ones may still be running their
    /// command.
    pub fn set_rights(&self, rights: Rights) {
        let unrestricted = rights.every_selector().any(Selector::is_unrestricted);
        self.rights.store(Arc::new(rights));
        self.unrestricted.store(unrestricted, Ordering::Release);
    }

    /// Whether its selectors together allow these channels or patterns of channels.
    pub fn allows_channels<'n>(&self, mut names: impl Iterator<Item = &'n [u8]>, are_patterns: bool) -> bool {
        let rights = self.rights.load();
        rights.every_selector().any(Selector::has_all_channels)
            || names.all(|name| {
                rights.every_selector().any(|one| allows_channel(one.channels().iter(), name, are_patterns))
            })
    }

    /// Whether a call is allowed.
    pub fn check(&self, request: &AclRequest<'_>) -> Result<(), Denial> {
        self.rights.load().check(request)
    }
}
