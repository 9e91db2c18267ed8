//! Users and what they may do.
//!
//! A client belongs to a [`User`], whose [`Rights`] change as a whole ([`user`]). Every call is checked when
//! it comes in, once more when EXEC runs it, when a script makes it, and when a client that was blocked is
//! served. What a user may do is a list of [`selector`]s, made by the [`rules`] of ACL SETUSER.
//!
//! For a client whose user may do everything, a check costs the test of one flag. Only a refusal takes a
//! lock: it is entered in the [`log`].
//!
//! A change of rights is in force for every request that begins after it was replied to. Clients that it
//! leaves with a subscription that they may not have, and those of users that are deleted, are disconnected.
//! A client that subscribes or logs in at the same time checks its rights again afterwards: either the change
//! finds the client, or the client finds the change.

mod file;
pub mod log;
mod password;
mod permit;
mod rules;
mod selector;
mod tickets;
mod user;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mantissa_commands::{Error, Registry};
use parking_lot::{Mutex, MutexGuard, RwLock};

use log::AclLog;
use mantissa_config::{AclPubsubDefault, Config};
use mantissa_persist::storage::Storage;
use password::Password;
use rules::{Vocabulary, has_spaces, join_selectors};
use tickets::Tickets;

pub use permit::KeyPermit;
pub use selector::{AclRequest, Denial, READ, Selector, WRITE, allows_channel};
pub use user::{Rights, User};

/// The name of the user that clients have who have not logged in.
pub const DEFAULT_USER: &[u8] = b"default";

/// A user whose rights have changed.
pub struct Changed {
    /// The user, with the new rights.
    pub user: Arc<User>,
    /// The rights before; none if the user was deleted.
    pub before: Option<Arc<Rights>>,
}

/// The users that have changed. No other change begins before it is dropped.
pub struct Changes<'a> {
    _one_at_a_time: MutexGuard<'a, ()>,
    /// The users. One that was made is not among them, since no client belongs to it.
    pub users: Vec<Changed>,
}

/// The users of an engine.
pub struct Acl {
    users: RwLock<BTreeMap<Box<[u8]>, Arc<User>>>,
    default_user: Arc<User>,
    /// Clients must log in: the default user is off or has a password.
    needs_login: AtomicBool,
    /// Held while users change.
    change: Mutex<()>,
    /// Refusals, for ACL LOG.
    pub log: AclLog,
    /// Logins of clients that can present no password.
    pub tickets: Tickets,
}

/// The rights of the default user where nothing is said about it: all, with the password of `requirepass`.
fn default_rights<H>(vocabulary: &Vocabulary<'_, H>, requirepass: &[u8]) -> Rights {
    let mut rights = Rights::new(true);
    rights.enabled = true;
    rights.root.set_all_keys(true);
    rights.root.set_all_commands(vocabulary, true);
    set_requirepass(&mut rights, requirepass);
    rights
}

/// A user of the server itself, who may do everything: the one behind a log and a primary's stream.
pub fn superuser<H>(registry: &Registry<H>, config: &Config) -> Arc<User> {
    const NAME: &[u8] = b"(superuser)";
    Arc::new(User::new(NAME, default_rights(&vocabulary(registry, config), b"")))
}

fn set_requirepass(rights: &mut Rights, requirepass: &[u8]) {
    rights.passwords.clear();
    rights.no_password = requirepass.is_empty();
    if !rights.no_password {
        rights.passwords.insert(Password::of(requirepass));
    }
}

fn vocabulary<'r, H>(registry: &'r Registry<H>, config: &Config) -> Vocabulary<'r, H> {
    Vocabulary::new(registry, config.acl_pubsub_default == AclPubsubDefault::AllChannels)
}

impl Acl {
    /// The default user alone.
    pub fn new<H>(registry: &Registry<H>, config: &Config) -> Acl {
        let rights = default_rights(&vocabulary(registry, config), &config.requirepass);
        let needs_login = !rights.no_password;
        let default_user = Arc::new(User::new(DEFAULT_USER, rights));
        Acl {
            users: RwLock::new([(DEFAULT_USER.into(), Arc::clone(&default_user))].into()),
            default_user,
            needs_login: AtomicBool::new(needs_login),
            change: Mutex::default(),
            log: AclLog::default(),
            tickets: Tickets::default(),
        }
    }

    /// Makes the users that the configuration names, in a file or in lines of its own. Called at the start.
    pub fn load_at_start<H>(
        &self,
        registry: &Registry<H>,
        config: &Config,
        storage: &dyn Storage,
    ) -> Result<(), String> {
        let vocabulary = vocabulary(registry, config);
        let Some(path) = file::path(config) else {
            let mut users = file::from_config(config, &vocabulary)?;
            let default = self.default_user.rights();
            users.entry(DEFAULT_USER.into()).or_insert_with(|| Rights::clone(&default));
            self.replace(users);
            return Ok(());
        };
        if !config.users.is_empty() {
            return Err("Configuring users in lines of the configuration file and in an ACL file (aclfile) \
                        at the same time is refused: it is likely to lead to errors and security holes. \
                        Please choose one of them."
                .to_owned());
        }
        self.load_file(storage, &path, config, &vocabulary).map(drop).map_err(|error| {
            format!("Aborting the start because of ACL errors: {}", String::from_utf8_lossy(&error))
        })
    }

    fn load_file<H>(
        &self,
        storage: &dyn Storage,
        path: &Path,
        config: &Config,
        vocabulary: &Vocabulary<'_, H>,
    ) -> Result<Changes<'_>, Vec<u8>> {
        let mut users = file::read(storage, path, config, vocabulary)?;
        users.entry(DEFAULT_USER.into()).or_insert_with(|| default_rights(vocabulary, b""));
        Ok(self.replace(users))
    }

    fn begin_change(&self) -> Changes<'_> {
        Changes { _one_at_a_time: self.change.lock(), users: Vec::new() }
    }

    /// Puts these users in the place of all that there are.
    fn replace(&self, users: file::Users) -> Changes<'_> {
        let mut changes = self.begin_change();
        for user in self.users() {
            if !users.contains_key(&user.name) {
                self.remove(&user.name, &mut changes);
            }
        }
        for (name, rights) in users {
            self.put(&name, rights, &mut changes);
        }
        changes
    }

    /// Gives a user, which is made if there is none of the name, these rights.
    fn put(&self, name: &[u8], rights: Rights, changes: &mut Changes<'_>) {
        if name == DEFAULT_USER {
            self.needs_login.store(!rights.no_password || !rights.enabled, Ordering::Release);
        }
        let Some(user) = self.user(name) else {
            self.users.write().insert(name.into(), Arc::new(User::new(name, rights)));
            return;
        };
        let before = user.rights();
        user.set_rights(rights);
        changes.users.push(Changed { user, before: Some(before) });
    }

    /// Removes a user, if there is one of the name.
    fn remove(&self, name: &[u8], changes: &mut Changes<'_>) {
        let removed = self.users.write().remove(name);
        if let Some(user) = removed {
            user.set_rights(Rights::new(false));
            changes.users.push(Changed { user, before: None });
        }
    }

    /// The user of this name.
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().get(name).cloned()
    }

    /// All users, by name.
    pub fn users(&self) -> Vec<Arc<User>> {
        self.users.read().values().cloned().collect()
    }

    /// The user of clients that have not logged in.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default_user
    }

    /// Whether clients have to log in before anything else.
    #[inline]
    pub fn needs_login(&self) -> bool {
        self.needs_login.load(Ordering::Acquire)
    }

    /// Whether a user has not been deleted.
    pub fn is_current(&self, user: &Arc<User>) -> bool {
        self.user(&user.name).is_some_and(|current| Arc::ptr_eq(&current, user))
    }

    /// CONFIG SET requirepass: the one password of the default user, or none.
    pub fn set_requirepass(&self, requirepass: &[u8]) {
        let mut changes = self.begin_change();
        let mut rights = Rights::clone(&self.default_user.rights());
        set_requirepass(&mut rights, requirepass);
        self.put(DEFAULT_USER, rights, &mut changes);
    }

    /// ACL SETUSER: all of the modifiers or none.
    pub fn set_user<H>(
        &self,
        registry: &Registry<H>,
        config: &Config,
        name: &[u8],
        modifiers: &[&[u8]],
    ) -> Result<Changes<'_>, Error> {
        if has_spaces(name) {
            return Err(Error::fixed("ERR Usernames can't contain spaces or null characters"));
        }
        let joined = join_selectors(modifiers.iter().copied()).map_err(|at| {
            Error::quoting("ERR Unmatched parenthesis in acl selector starting at '", modifiers[at], "'.")
        })?;
        let vocabulary = vocabulary(registry, config);
        let mut changes = self.begin_change();
        let mut rights = match self.user(name) {
            Some(user) => Rights::clone(&user.rights()),
            None => Rights::new(vocabulary.all_channels),
        };
        for modifier in &joined {
            rights.apply(&vocabulary, modifier).map_err(|error| {
                let after = format!("': {}", error.text());
                Error::quoting("ERR Error in ACL SETUSER modifier '", modifier, &after)
            })?;
        }
        self.put(name, rights, &mut changes);
        Ok(changes)
    }

    /// ACL DELUSER. One of the changes is for each name that was a user.
    pub fn delete_users<'n>(
        &self,
        names: impl Iterator<Item = &'n [u8]> + Clone,
    ) -> Result<Changes<'_>, Error> {
        if names.clone().any(|name| name == DEFAULT_USER) {
            return Err(Error::fixed("ERR The 'default' user cannot be removed"));
        }
        let mut changes = self.begin_change();
        names.for_each(|name| self.remove(name, &mut changes));
        Ok(changes)
    }

    /// ACL LOAD.
    pub fn load<H>(
        &self,
        registry: &Registry<H>,
        config: &Config,
        storage: &dyn Storage,
    ) -> Result<Changes<'_>, Error> {
        let path = file::path(config).ok_or(NO_FILE)?;
        self.load_file(storage, &path, config, &vocabulary(registry, config))
            .map_err(|error| Error::from_bytes([b"ERR ", error.as_slice()].concat()))
    }

    /// ACL SAVE.
    pub fn save(&self, config: &Config, storage: &dyn Storage) -> Result<(), Error> {
        let path = file::path(config).ok_or(NO_FILE)?;
        let mut content = self.lines().join(&b'\n');
        content.push(b'\n');
        storage.replace_file(&path, &content).map_err(|error| {
            crate::warning!("Saving the ACL file failed: {error}");
            Error::fixed(
                "ERR There was an error trying to save the ACLs. Please check the server logs for more \
                 information",
            )
        })
    }

    /// A line for each user.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        let line = |user: Arc<User>| [b"user ", &user.name[..], b" ", &user.rights().describe()].concat();
        self.users().into_iter().map(line).collect()
    }

    /// The users as the configuration file is to name them: none if they are in a file of their own, and the
    /// default user only if `requirepass` does not say all of it.
    pub fn for_config<H>(&self, registry: &Registry<H>, config: &Config) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
        if file::path(config).is_some() {
            return Vec::new();
        }
        let plain = default_rights(&vocabulary(registry, config), &config.requirepass);
        let is_said = |user: &Arc<User>| *user.name == *DEFAULT_USER && *user.rights() == plain;
        let words = |user: Arc<User>| {
            let rules = user.rights().describe();
            (user.name.to_vec(), rules.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect())
        };
        self.users().into_iter().filter(|user| !is_said(user)).map(words).collect()
    }
}

const NO_FILE: Error = Error::fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
     SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in \
     order to store users in the Redis configuration.",
);
