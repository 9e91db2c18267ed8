//! Scripts as texts: their digests, what their first line declares, and the cache that all workers share.
//!
//! Each worker compiles a script for its own machine when it first runs it; the cache holds the text
//! and what has been learned of the script. Scripts that only EVAL brought are forgotten again when there are
//! many, the one that has not run for longest first, as redis-server does; SCRIPT LOAD keeps its scripts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use mantissa_commands::Error;
use mantissa_scripting::ScriptFlags;
pub use mantissa_scripting::hexadecimal;
use parking_lot::RwLock;
use sha1::{Digest as _, Sha1};

/// The SHA-1 of a script's text.
pub type Digest = [u8; 20];

/// Scripts brought by EVAL that are kept.
pub const EVAL_SCRIPTS_MAX: usize = 500;

/// What is known of the keys that a script touches.
#[derive(Debug, Default)]
pub struct KeyUsage(AtomicU8);

impl KeyUsage {
    const DECLARED: u8 = 1;
    const WIDE: u8 = 2;

    /// Whether it has run and never touched a key that it did not declare.
    pub fn has_only_declared(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::DECLARED
    }

    /// Notes a run.
    pub fn note(&self, touched_undeclared: bool) {
        if touched_undeclared {
            self.0.store(Self::WIDE, Ordering::Relaxed);
        } else if self.0.load(Ordering::Relaxed) == 0 {
            let _known = self.0.compare_exchange(0, Self::DECLARED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// A cached script.
#[derive(Debug)]
pub struct Script {
    /// The SHA-1 of the text.
    pub digest: Digest,
    /// The text.
    pub text: Box<[u8]>,
    /// How many bytes of the text are its declaration.
    pub declaration_bytes: usize,
    /// What it declares.
    pub flags: ScriptFlags,
    /// What is known of its keys.
    pub key_usage: KeyUsage,
    /// Whether SCRIPT LOAD brought it.
    loaded: AtomicBool,
    /// When it was last used, by the cache's clock.
    used: AtomicU64,
    /// The cache has evicted it.
    evicted: AtomicBool,
}

impl Script {
    /// A script from its text; the error for a bad declaration.
    pub fn new(digest: Digest, text: &[u8]) -> Result<Script, Error> {
        let (flags, declaration_bytes) = parse_declaration(text)?;
        Ok(Script {
            digest,
            text: text.into(),
            declaration_bytes,
            flags,
            key_usage: KeyUsage::default(),
            loaded: AtomicBool::new(false),
            used: AtomicU64::new(0),
            evicted: AtomicBool::new(false),
        })
    }

    /// Whether the cache has evicted it. It may hold another one with the same text since.
    pub fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The part that is compiled.
    pub fn body(&self) -> &[u8] {
        self.text.get(self.declaration_bytes..).unwrap_or_default()
    }

    /// Bytes of memory that it takes.
    pub fn memory_usage(&self) -> usize {
        size_of::<Script>() + self.text.len()
    }
}

/// The digest of a text.
pub fn digest_of(text: &[u8]) -> Digest {
    Sha1::digest(text).into()
}

/// The digest that 40 hexadecimal digits of either case name.
pub fn parse_digest(text: &[u8]) -> Option<Digest> {
    if text.len() != 40 {
        return None;
    }
    let mut digest = Digest::default();
    for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    Some(digest)
}

/// The words of a declaration line.
pub fn declaration_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    mantissa_protocol::split_quoted(line).ok()
}

/// What the first line of a script declares, if that can be understood.
pub fn declared_flags(text: &[u8]) -> Option<ScriptFlags> {
    parse_declaration(text).ok().map(|(flags, _)| flags)
}

/// What the first line of a script declares, and how long that line is.
fn parse_declaration(text: &[u8]) -> Result<(ScriptFlags, usize), Error> {
    let mut flags = ScriptFlags::default();
    if !text.starts_with(b"#!") {
        flags.undeclared = true;
        return Ok((flags, 0));
    }
    let Some(end) = text.iter().position(|&byte| byte == b'\n') else {
        return Err(Error::fixed("ERR Invalid script shebang"));
    };
    let words = declaration_words(&text[..end]).filter(|words| !words.is_empty());
    let Some(words) = words else { return Err(Error::fixed("ERR Invalid engine in script shebang")) };
    if words[0] != b"#!lua" {
        return Err(Error::quoting("ERR Unexpected engine in script shebang: ", &words[0], ""));
    }
    for word in &words[1..] {
        let Some(list) = word.strip_prefix(b"flags=") else {
            return Err(Error::quoting("ERR Unknown lua shebang option: ", word, ""));
        };
        if list.is_empty() {
            continue;
        }
        for name in list.split(|&byte| byte == b',') {
            if !flags.set(name) {
                return Err(Error::quoting("ERR Unexpected flag in script shebang: ", name, ""));
            }
        }
    }
    Ok((flags, end))
}

/// Scripts, and which of them may be evicted.
#[derive(Default)]
struct Cached {
    scripts: HashMap<Digest, Arc<Script>>,
    /// Those brought by EVAL, by the time of a use: the last one, or one before.
    passing: BTreeSet<(u64, Digest)>,
}

impl Cached {
    /// Forgets the scripts brought by EVAL that have not been used for longest, if they are too many. Tells
    /// how many it has forgotten.
    fn evict(&mut self) -> u64 {
        let mut evicted = 0;
        while self.passing.len() > EVAL_SCRIPTS_MAX
            && let Some((noted, digest)) = self.passing.pop_first()
        {
            let Some(script) = self.scripts.get(&digest) else { continue };
            let last_use = script.used.load(Ordering::Relaxed);
            if last_use > noted {
                self.passing.insert((last_use, digest));
            } else if !script.loaded.load(Ordering::Relaxed) {
                script.evicted.store(true, Ordering::Relaxed);
                self.scripts.remove(&digest);
                evicted += 1;
            }
        }
        evicted
    }
}

/// The scripts that all workers share.
#[derive(Default)]
pub struct ScriptCache {
    cached: RwLock<Cached>,
    /// It goes on when a script is added. A use writes nothing that other workers read unless one has been
    /// added since the use before: a script that all workers run would go from cache to cache.
    clock: AtomicU64,
    /// Grows when all scripts are forgotten: workers then forget what they have compiled.
    epoch: AtomicU64,
    evicted: AtomicU64,
}

impl ScriptCache {
    /// The script with this digest.
    pub fn get(&self, digest: &Digest) -> Option<Arc<Script>> {
        let script = self.cached.read().scripts.get(digest).map(Arc::clone)?;
        self.note_use(&script);
        Some(script)
    }

    /// Notes that a script is used.
    pub fn note_use(&self, script: &Script) {
        let now = self.clock.load(Ordering::Relaxed);
        if script.used.load(Ordering::Relaxed) != now {
            script.used.store(now, Ordering::Relaxed);
        }
    }

    /// Whether there is a script with this digest.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.cached.read().scripts.contains_key(digest)
    }

    /// The number of scripts.
    pub fn count(&self) -> usize {
        self.cached.read().scripts.len()
    }

    /// Adds a script, which has been found to compile. `keep` says that SCRIPT LOAD brought it.
    pub fn add(&self, script: Script, keep: bool) -> Arc<Script> {
        let mut cached = self.cached.write();
        let known = cached.scripts.get(&script.digest).map(Arc::clone);
        let is_new = known.is_none();
        let script = known.unwrap_or_else(|| Arc::new(script));
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        script.used.store(now, Ordering::Relaxed);
        if is_new {
            cached.scripts.insert(script.digest, Arc::clone(&script));
            if !keep {
                cached.passing.insert((now, script.digest));
                self.evicted.fetch_add(cached.evict(), Ordering::Relaxed);
            }
        }
        drop(cached);
        if keep {
            self.keep(&script);
        }
        script
    }

    /// Has `visit` called with the digest and the text of every script.
    pub fn for_each(&self, mut visit: impl FnMut(&str, &[u8])) {
        let scripts: Vec<Arc<Script>> = self.cached.read().scripts.values().map(Arc::clone).collect();
        scripts.iter().for_each(|script| visit(&hexadecimal(&script.digest), script.body()));
    }

    /// Marks a script as one to keep.
    pub fn keep(&self, script: &Arc<Script>) {
        if !script.loaded.swap(true, Ordering::Relaxed) {
            let mut cached = self.cached.write();
            cached.passing.retain(|(_, digest)| *digest != script.digest);
            let kept = cached.scripts.entry(script.digest).or_insert_with(|| Arc::clone(script));
            kept.loaded.store(true, Ordering::Relaxed);
            kept.evicted.store(false, Ordering::Relaxed);
        }
    }

    /// Forgets all scripts and returns them, to be freed by the caller.
    pub fn flush(&self) -> HashMap<Digest, Arc<Script>> {
        let mut cached = self.cached.write();
        // Whoever reads it from now on finds none of them.
        self.epoch.fetch_add(1, Ordering::Release);
        std::mem::take(&mut *cached).scripts
    }

    /// Grows when all scripts are forgotten.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Counts evicted scripts from now on.
    pub fn reset(&self) {
        self.evicted.store(0, Ordering::Relaxed);
    }

    /// The number of scripts, the bytes that they take, and how many have been evicted.
    pub fn figures(&self) -> (usize, usize, u64) {
        let cached = self.cached.read();
        let bytes = cached.scripts.values().map(|script| script.memory_usage()).sum();
        (cached.scripts.len(), bytes, self.evicted.load(Ordering::Relaxed))
    }
}
