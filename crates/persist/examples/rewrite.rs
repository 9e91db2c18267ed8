//! Loads an RDB file, prints its digest and the CPU times, and writes it again: `rewrite FROM [TO]`.

use mantissa_persist::digest::digest_keyspace;
use mantissa_persist::load::{KeyspaceTarget, LoadOptions, Loader};
use mantissa_persist::storage::{FileSystem, Storage};
use mantissa_persist::write::{FileFacts, WriteOptions, Writer, save_file, write_keyspace};
use mantissa_store::Keyspace;
use std::path::Path;
use std::time::Duration;

/// CPU time that this thread has taken, from Linux's accounting; 0 elsewhere.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

#[global_allocator]
static ALLOCATOR: mantissa_store::allocator::CountingAllocator = mantissa_store::allocator::CountingAllocator;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let from = arguments.next().ok_or("usage: rewrite FROM [TO]")?;
    let keyspace = Keyspace::new(16, 64);
    let mut shards = keyspace.lock(keyspace.all_shards());
    let start = cpu_time();
    let file = FileSystem.open(Path::new(&from))?;
    let total = file.length()?;
    let mut target = KeyspaceTarget::new(&mut shards, &|_| 0, false);
    let summary = Loader::new(file, Some(total), LoadOptions::default()).load(&mut target)?;
    println!("loaded in {:?}: {summary:?}", cpu_time() - start);
    let functions = target.functions;
    let start = cpu_time();
    let digest: String = digest_keyspace(&mut shards).iter().map(|byte| format!("{byte:02x}")).collect();
    println!("digest {digest} in {:?}", cpu_time() - start);
    if let Some(to) = arguments.next() {
        let start = cpu_time();
        let length = save_file(&FileSystem, Path::new(&to), |file| {
            let mut writer = Writer::new(file, WriteOptions::default(), None);
            writer.begin(&FileFacts::default())?;
            functions.iter().try_for_each(|source| writer.function(source))?;
            write_keyspace(&mut writer, &mut shards)?;
            writer.finish().map(|(_, length)| length)
        })?;
        println!("wrote {length} bytes in {:?}", cpu_time() - start);
    }
    Ok(())
}
