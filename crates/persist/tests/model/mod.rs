//! What must hold for any bytes: they load or are refused, and what loaded is written and loaded again
//! without loss.

pub mod damaged;

use mantissa_persist::digest::{digest_keyspace, digest_value};
use mantissa_persist::format::{Checksum, VERSION};
use mantissa_persist::load::{
    KeyspaceTarget, LoadJob, LoadOptions, LoadSummary, LoadTarget, Loader, load_stream_in_parallel,
};
use mantissa_persist::payload::{dump_value, restore_value};
use mantissa_persist::source::LoadError;
use mantissa_persist::write::{FileFacts, WriteOptions, Writer, write_keyspace};
use mantissa_store::{Entry, Keyspace, ShardSet};

/// Databases of the keyspaces that files are loaded into.
pub const DATABASE_COUNT: usize = 16;

/// What a load gives: the keyspace, the libraries of functions, and the summary.
pub struct Loaded {
    /// The keys.
    pub keyspace: Keyspace,
    /// The sources.
    pub functions: Vec<Vec<u8>>,
    /// The numbers.
    pub summary: LoadSummary,
}

/// Loads a file from memory.
pub fn load(file: &[u8], options: &LoadOptions) -> Result<Loaded, LoadError> {
    let keyspace = Keyspace::new(DATABASE_COUNT, 2);
    let mut shards = keyspace.lock(keyspace.all_shards());
    let mut target = KeyspaceTarget::new(&mut shards, &|_| 0, false);
    let summary = Loader::new(file, Some(file.len() as u64), options.clone()).load(&mut target)?;
    let functions = target.functions;
    drop(shards);
    Ok(Loaded { keyspace, functions, summary })
}

/// Writes a file into memory.
pub fn save(keyspace: &Keyspace, functions: &[Vec<u8>], options: &WriteOptions) -> Vec<u8> {
    let mut shards = keyspace.lock(keyspace.all_shards());
    let mut writer = Writer::new(Vec::new(), options.clone(), None);
    let mut write = |writer: &mut Writer<'_, Vec<u8>>| {
        writer.begin(&FileFacts::default())?;
        functions.iter().try_for_each(|source| writer.function(source))?;
        write_keyspace(writer, &mut shards)
    };
    write(&mut writer).and_then(|()| writer.finish()).expect("a vector takes all that is written").0
}

/// The digest of a keyspace.
pub fn digest(keyspace: &Keyspace) -> [u8; 20] {
    digest_keyspace(&mut keyspace.lock(keyspace.all_shards()))
}

/// Checks a file whose checksum nobody compares. True if it loaded.
pub fn check_file(file: &[u8]) -> bool {
    let options = LoadOptions { verify_checksum: false, ..LoadOptions::default() };
    let loaded = match load(file, &options) {
        Ok(loaded) => loaded,
        Err(error) => {
            assert!(error.offset <= file.len() as u64, "{error}");
            return false;
        }
    };
    let write_options = WriteOptions { compress: file.len().is_multiple_of(2), ..WriteOptions::default() };
    let written = save(&loaded.keyspace, &loaded.functions, &write_options);
    let again = load(&written, &LoadOptions::default()).expect("what was written loads");
    assert_eq!(digest(&again.keyspace), digest(&loaded.keyspace));
    assert_eq!(again.functions, loaded.functions);
    assert_eq!(again.summary.keys_loaded, loaded.summary.keys_loaded);
    true
}

/// Checks that a stream whose checksum nobody compares comes to the same in several threads as in one.
pub fn check_stream(mut file: &[u8]) {
    let options = LoadOptions { verify_checksum: false, ..LoadOptions::default() };
    let (one, several) = (Keyspace::new(DATABASE_COUNT, 2), Keyspace::new(DATABASE_COUNT, 2));
    let mut shards = one.lock(one.all_shards());
    let mut target = KeyspaceTarget::new(&mut shards, &|_| 0, false);
    let expected = Loader::new(file, None, options.clone()).load(&mut target);
    drop(shards);
    let work = |run: &mut dyn FnMut(&mut dyn LoadTarget)| {
        let mut none_locked = several.lock(ShardSet::EMPTY);
        run(&mut KeyspaceTarget::new(&mut none_locked, &|_| 0, false));
    };
    let job = LoadJob { options, threads: 2, work: &work, reserve: &|_, _| {}, progress: &|_| {} };
    let found = load_stream_in_parallel(&mut file, &job);
    match (expected, found) {
        (Ok(expected), Ok((found, _))) => {
            assert_eq!(found, LoadSummary { replication: found.replication.clone(), ..expected });
            assert_eq!(digest(&several), digest(&one));
        }
        // One thread notices it after all other damage. Which of the two it names is a matter of chance.
        (Err(expected), Err(found)) if found.reason.starts_with("duplicated key") => {
            let is_the_same = expected.reason.starts_with("duplicated key");
            assert!(is_the_same || found.offset < expected.offset, "{found}, {expected}");
        }
        (expected, found) => assert_eq!(found.map(drop), expected.map(drop)),
    }
}

/// Checks the value of a payload, given without its footer. True if it was restored.
pub fn check_payload(body: &[u8]) -> bool {
    let mut payload = body.to_vec();
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = Checksum::of(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    let Ok(value) = restore_value(&payload, &LoadOptions::default()) else {
        return false;
    };
    let entry = Entry::new(b"key", value, None, 0);
    let dumped = dump_value(entry.value(), &WriteOptions::default());
    let again = restore_value(&dumped, &LoadOptions::default()).expect("what was dumped is restored");
    assert_eq!(digest_value(&Entry::new(b"key", again, None, 0)), digest_value(&entry));
    true
}
