//! Users and what they may do.
//!
//! A client belongs to a [`User`], whose [`Rights`] change as a whole ([`user`]). Every call is checked when
//! it comes in, once more when EXEC runs it, when a script makes it, and when a client that was blocked is
//! served. What a user may do is a list of [`selector`]s, made by the [`rules`] of ACL SETUSER.
//!
//! A client of a user who may do everything pays one test of a flag for each call; nobody takes a lock but
//! those who are refused, who are noted in the [`log`].
//!
//! A change of rights is in force for every request that begins after it was replied to. Clients that it
//! leaves with a subscription that they may not have, and those of users that are deleted, are disconnected.
//! Who subscribes or logs in meanwhile looks again afterwards, so that none slips through: either the change
//! sees the client, or the client sees the change.

mod checks;
mod file;
pub mod log;
mod password;
mod rules;
mod selector;
mod user;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mantissa_commands::Error;
use parking_lot::{Mutex, RwLock};

use crate::engine::Engine;
use crate::pubsub::Scope;
use crate::registry::Registry;
use crate::session::SharedSession;
use log::AclLog;
use mantissa_config::{AclPubsubDefault, Config};
use password::Password;
use rules::{Vocabulary, has_spaces, join_selectors};
use selector::allows_channel;

pub use checks::{
    admit, admit_in_script, admit_queued, admit_waiting, check_options, note_failed_login, try_run,
};
pub use selector::Selector;
pub use user::{Rights, User};

/// The name of the user that clients have who have not logged in.
pub const DEFAULT_USER: &[u8] = b"default";

/// Clients that a change disconnects.
pub type Outcasts = Vec<Arc<SharedSession>>;

/// The users of a server.
pub struct Acl {
    users: RwLock<BTreeMap<Box<[u8]>, Arc<User>>>,
    default_user: Arc<User>,
    /// Clients must log in: the default user is off or has a password.
    needs_login: AtomicBool,
    /// Held while users change.
    change: Mutex<()>,
    /// Who was refused what.
    pub log: AclLog,
}

/// The rights of the default user where nothing is said about it: all, with the password of `requirepass`.
fn default_rights(vocabulary: &Vocabulary<'_>, requirepass: &[u8]) -> Rights {
    let mut rights = Rights::new(true);
    rights.enabled = true;
    rights.root.set_all_keys(true);
    rights.root.set_all_commands(vocabulary, true);
    set_requirepass(&mut rights, requirepass);
    rights
}

fn set_requirepass(rights: &mut Rights, requirepass: &[u8]) {
    rights.passwords.clear();
    rights.no_password = requirepass.is_empty();
    if !rights.no_password {
        rights.passwords.insert(Password::of(requirepass));
    }
}

fn vocabulary<'r>(registry: &'r Registry, config: &Config) -> Vocabulary<'r> {
    Vocabulary::new(registry, config.acl_pubsub_default == AclPubsubDefault::AllChannels)
}

fn file_path(config: &Config) -> Option<PathBuf> {
    (!config.aclfile.is_empty()).then(|| PathBuf::from(&config.aclfile))
}

impl Acl {
    /// The default user alone.
    pub fn new(registry: &Registry, config: &Config) -> Acl {
        let rights = default_rights(&vocabulary(registry, config), &config.requirepass);
        let needs_login = !rights.no_password;
        let default_user = Arc::new(User::new(DEFAULT_USER, rights));
        Acl {
            users: RwLock::new([(DEFAULT_USER.into(), Arc::clone(&default_user))].into()),
            default_user,
            needs_login: AtomicBool::new(needs_login),
            change: Mutex::default(),
            log: AclLog::default(),
        }
    }

    /// Makes the users that the configuration names, in a file or in lines of its own. Called at the start.
    pub fn load_at_start(&self, engine: &Engine) -> Result<(), String> {
        let live = engine.live();
        let config = &live.config;
        let vocabulary = vocabulary(engine.registry, config);
        let Some(path) = file_path(config) else {
            let mut users = file::from_config(config, &vocabulary)?;
            let default = self.default_user.rights();
            users.entry(DEFAULT_USER.into()).or_insert_with(|| Rights::clone(&default));
            self.replace(engine, users);
            return Ok(());
        };
        if !config.users.is_empty() {
            return Err("Configuring users in lines of the configuration file and in an ACL file (aclfile) \
                        at the same time is refused: it is likely to lead to errors and security holes. \
                        Please choose one of them."
                .to_owned());
        }
        self.load_file(engine, &path).map(drop).map_err(|error| {
            format!("Aborting the start because of ACL errors: {}", String::from_utf8_lossy(&error))
        })
    }

    fn load_file(&self, engine: &Engine, path: &std::path::Path) -> Result<Outcasts, Vec<u8>> {
        let live = engine.live();
        let vocabulary = vocabulary(engine.registry, &live.config);
        let mut users = file::read(path, &vocabulary)?;
        users.entry(DEFAULT_USER.into()).or_insert_with(|| default_rights(&vocabulary, b""));
        Ok(self.replace(engine, users))
    }

    /// Puts these users in the place of all that there are.
    fn replace(&self, engine: &Engine, users: file::Users) -> Outcasts {
        let _one_at_a_time = self.change.lock();
        let mut outcasts = Vec::new();
        for user in self.users() {
            if !users.contains_key(&user.name) {
                outcasts.extend(self.remove(engine, &user.name).unwrap_or_default());
            }
        }
        for (name, rights) in users {
            outcasts.extend(self.put(engine, &name, rights));
        }
        outcasts
    }

    /// Gives a user, which is made if there is none of the name, these rights. `change` is held.
    fn put(&self, engine: &Engine, name: &[u8], rights: Rights) -> Outcasts {
        if name == DEFAULT_USER {
            self.needs_login.store(!rights.no_password || !rights.enabled, Ordering::Release);
        }
        let Some(user) = self.user(name) else {
            self.users.write().insert(name.into(), Arc::new(User::new(name, rights)));
            return Vec::new();
        };
        let before = user.rights();
        user.set_rights(rights);
        lost_subscribers(engine, &user, &before)
    }

    /// Removes a user; none if there is none of the name. `change` is held.
    fn remove(&self, engine: &Engine, name: &[u8]) -> Option<Outcasts> {
        let user = self.users.write().remove(name)?;
        user.set_rights(Rights::new(false));
        let clients = engine.clients.read();
        Some(clients.values().filter(|session| session.belongs_to(&user)).cloned().collect())
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
    pub fn set_requirepass(&self, engine: &Engine, requirepass: &[u8]) {
        let _one_at_a_time = self.change.lock();
        let mut rights = Rights::clone(&self.default_user.rights());
        set_requirepass(&mut rights, requirepass);
        self.put(engine, DEFAULT_USER, rights);
    }

    /// ACL SETUSER: all of the modifiers or none.
    pub fn set_user(&self, engine: &Engine, name: &[u8], modifiers: &[&[u8]]) -> Result<Outcasts, Error> {
        if has_spaces(name) {
            return Err(Error::fixed("ERR Usernames can't contain spaces or null characters"));
        }
        let joined = join_selectors(modifiers.iter().copied()).map_err(|at| {
            Error::quoting("ERR Unmatched parenthesis in acl selector starting at '", modifiers[at], "'.")
        })?;
        let live = engine.live();
        let vocabulary = vocabulary(engine.registry, &live.config);
        let _one_at_a_time = self.change.lock();
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
        Ok(self.put(engine, name, rights))
    }

    /// ACL DELUSER: how many of the names were users, and their clients.
    pub fn delete_users<'n>(
        &self,
        engine: &Engine,
        names: impl Iterator<Item = &'n [u8]> + Clone,
    ) -> Result<(usize, Outcasts), Error> {
        if names.clone().any(|name| name == DEFAULT_USER) {
            return Err(Error::fixed("ERR The 'default' user cannot be removed"));
        }
        let _one_at_a_time = self.change.lock();
        let removed: Vec<Outcasts> = names.filter_map(|name| self.remove(engine, name)).collect();
        Ok((removed.len(), removed.concat()))
    }

    /// ACL LOAD.
    pub fn load(&self, engine: &Engine) -> Result<Outcasts, Error> {
        let path = file_path(&engine.live().config).ok_or(NO_FILE)?;
        self.load_file(engine, &path).map_err(|error| Error::from_bytes([b"ERR ", error.as_slice()].concat()))
    }

    /// ACL SAVE.
    pub fn save(&self, engine: &Engine) -> Result<(), Error> {
        let path = file_path(&engine.live().config).ok_or(NO_FILE)?;
        let mut content = self.lines().join(&b'\n');
        content.push(b'\n');
        mantissa_config::replace_file(&path, &content).map_err(|error| {
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
    pub fn for_config(&self, engine: &Engine) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
        let live = engine.live();
        if file_path(&live.config).is_some() {
            return Vec::new();
        }
        let plain = default_rights(&vocabulary(engine.registry, &live.config), &live.config.requirepass);
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

/// The clients of a user that are subscribed to what its present rights do not allow. Rights that allow all
/// that the former ones did leave everybody in peace.
fn lost_subscribers(engine: &Engine, user: &Arc<User>, before: &Rights) -> Outcasts {
    let rights = user.rights();
    if !engine.pubsub.has_subscribers() || rights.every_selector().any(|one| one.has_all_channels()) {
        return Vec::new();
    }
    let kept: indexmap::IndexSet<&Box<[u8]>> =
        rights.every_selector().flat_map(|selector| selector.channels()).collect();
    let is_kept = |selector: &selector::Selector| {
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
