//! Snapshots: the whole keyspace as it is at one instant, written as an RDB file.
//!
//! All shard locks are taken for one instant and then let go one by one, each as soon as its shard is
//! encoded: a command waits at most until its shards have been encoded. Encoded shards go to a second
//! thread, which writes them.

use std::io;
use std::sync::mpsc;

use mantissa_persist::load::Access;
use mantissa_persist::storage::StorageFile;
use mantissa_persist::write::{Encoder, FileFacts, WriteOptions, Writer};
use mantissa_store::LockedShards;

use crate::context::unix_ms;
use crate::live::Live;
use crate::server::Server;

/// Encoded shards that may wait to be written.
const CHUNKS_WAITING_MAX: usize = 4;

/// What was when a snapshot was taken.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Cut {
    /// The changes that had not been saved; the snapshot includes them.
    pub dirty: u64,
}

/// What a file says about itself that is written now and belongs to no log and no replica.
pub fn facts() -> FileFacts {
    FileFacts {
        created_s: unix_ms() / 1000,
        used_memory_bytes: mantissa_store::allocator::allocated_bytes() as u64,
        ..FileFacts::default()
    }
}

/// Writes a snapshot into `file`, which is not made durable. `at_cut` runs at the instant whose state is
/// written, while all shards are locked, on this thread; it should be quick. No shard may be locked by this
/// thread, and no other snapshot be under way.
pub fn write(
    server: &'static Server,
    file: &mut dyn StorageFile,
    facts: &FileFacts,
    at_cut: impl FnOnce(&mut LockedShards<'_>),
) -> io::Result<Cut> {
    let live = server.live();
    let options = WriteOptions {
        compress: live.config.rdbcompression,
        checksum: live.config.rdbchecksum,
        limits: live.settings.limits.clone(),
    };
    let mut writer = Writer::new(file, options.clone(), None);
    writer.begin(facts)?;
    for library in server.scripting.libraries.snapshot().values() {
        writer.function(&library.code)?;
    }
    std::thread::scope(|scope| {
        let (sender, chunks) = mpsc::sync_channel::<Vec<u8>>(CHUNKS_WAITING_MAX);
        let written = scope.spawn(move || {
            chunks.iter().try_for_each(|chunk| writer.chunk(&chunk))?;
            writer.finish().map(drop)
        });
        let cut = encode_shards(server, &live, options, &sender, at_cut);
        drop(sender);
        written.join().map_err(|_| io::Error::other("writing failed"))?.map(|()| cut)
    })
}

/// Encodes all shards as they are at one instant.
fn encode_shards(
    server: &'static Server,
    live: &Live,
    options: WriteOptions,
    sender: &mpsc::SyncSender<Vec<u8>>,
    at_cut: impl FnOnce(&mut LockedShards<'_>),
) -> Cut {
    let now_ms = unix_ms();
    let access_of = |clock: u32| saved_access(live, clock, now_ms);
    let policy = live.config.maxmemory_policy.name();
    let tells_access = policy.ends_with("-lru") || policy.ends_with("-lfu");
    let mut encoder = Encoder::new(options, tells_access.then_some(&access_of));
    let keyspace = &server.keyspace;
    let mut locked = keyspace.lock(keyspace.all_shards());
    at_cut(&mut locked);
    let cut = Cut { dirty: server.persistence.dirty.get() };
    for index in 0..keyspace.shard_count() {
        let mut chunk = Vec::new();
        if let Some(shard) = locked.shard(index) {
            for (number, database) in
                shard.databases.iter().enumerate().filter(|(_, database)| !database.is_empty())
            {
                encoder.database(number, database.len() as u64, database.expiring_len() as u64, &mut chunk);
                database.iter().for_each(|entry| encoder.entry(entry, &mut chunk));
            }
        }
        locked.release(index);
        if !chunk.is_empty() && sender.send(chunk).is_err() {
            break;
        }
    }
    cut
}

/// What a dump says about the use of a key with this access clock, under policies that look at it.
fn saved_access(live: &Live, clock: u32, now_ms: i64) -> Access {
    match live.settings.access_clock {
        mantissa_commands::AccessClock::LeastFrequentlyUsed { .. } => {
            Access { idle_s: None, frequency: Some(clock as u8) }
        }
        mantissa_commands::AccessClock::LeastRecentlyUsed => Access {
            idle_s: Some(u64::from(mantissa_commands::idle_seconds(clock, now_ms))),
            frequency: None,
        },
    }
}
