//! The memory of the server: the section of INFO, and the figures that MEMORY STATS shares with it.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use mantissa_store::allocator;
use mantissa_store::heap::HeapFigures;
use mantissa_sys::process;

use super::{KeyspaceTotals, Lines, Source, human, ratio};
use crate::engine::Engine;
use crate::invocation::Invocation;
use crate::replication::primary;

/// What is known about memory, in bytes.
pub struct MemoryFigures {
    /// Handed out by the allocator.
    pub used: u64,
    /// The most that was ever handed out.
    pub peak: u64,
    /// Handed out when the server was ready to serve, without data.
    pub startup: u64,
    /// In memory, as the kernel counts.
    pub resident: u64,
    /// Where the allocator's pages are; without statistics of its own, as the kernel counts.
    pub heap: HeapFigures,
    /// Texts of scripts, with what is known of them.
    pub scripts: u64,
    /// Libraries of functions.
    pub functions: u64,
    /// What the machines of scripts use.
    pub machines: u64,
    /// Taken by clients.
    pub clients: u64,
    /// Keys, tables, per database.
    pub keyspace: KeyspaceTotals,
}

impl MemoryFigures {
    /// Collects the figures.
    pub fn collect(invocation: &mut Invocation<'_, '_, '_>) -> MemoryFigures {
        let keyspace = KeyspaceTotals::collect(invocation);
        MemoryFigures::of(invocation.engine(), keyspace, invocation.context.now_ms)
    }

    /// Asks everybody but the shards, whose sums are given.
    pub fn of(engine: &Engine, keyspace: KeyspaceTotals, now_ms: i64) -> MemoryFigures {
        let clients = engine.client_memory.total();
        let used = allocator::allocated_bytes() as u64;
        engine.stats.note_memory(used, now_ms);
        let Pages { resident, heap, .. } = Pages::of(now_ms);
        let as_resident = HeapFigures { active: used, resident, ..HeapFigures::default() };
        MemoryFigures {
            used,
            heap: heap.unwrap_or(as_resident),
            scripts: engine.scripting.cache.figures().1 as u64,
            functions: engine.scripting.libraries.figures().2 as u64,
            machines: engine.scripting.vm_bytes(),
            peak: engine.stats.peak_bytes.load(Ordering::Relaxed),
            startup: engine.startup_bytes.load(Ordering::Relaxed),
            resident,
            clients,
            keyspace,
        }
    }

    /// What the tables of all databases take.
    pub fn tables(&self) -> u64 {
        self.keyspace.databases.iter().map(|database| database.table_bytes as u64).sum()
    }

    /// The number of keys.
    pub fn keys(&self) -> u64 {
        self.keyspace.databases.iter().map(|database| database.keys as u64).sum()
    }

    /// What is no data.
    pub fn overhead(&self) -> u64 {
        self.startup + self.clients + self.scripts + self.functions + self.machines + self.tables()
    }

    /// The data.
    pub fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.overhead())
    }

    /// What has come since the start.
    pub fn since_startup(&self) -> u64 {
        self.used.saturating_sub(self.startup)
    }

    /// How much more is in memory than was handed out; negative if parts of it are not in memory.
    pub fn fragmentation_bytes(&self) -> i64 {
        self.resident as i64 - self.used as i64
    }
}

/// How long the kernel's and the allocator's figures are shown before they are asked for anew, as in Redis:
/// they take tens of microseconds.
const PAGES_SHOWN_MS: i64 = 100;

/// What the kernel and the allocator say of pages.
#[derive(Clone, Copy)]
struct Pages {
    /// When they were asked: Unix time in ms.
    asked_ms: i64,
    /// Bytes in memory.
    resident: u64,
    heap: Option<HeapFigures>,
}

impl Pages {
    fn of(now_ms: i64) -> Pages {
        static LAST: Mutex<Option<Pages>> = Mutex::new(None);
        let mut last = LAST.lock();
        let is_recent = |pages: &Pages| (0..PAGES_SHOWN_MS).contains(&(now_ms - pages.asked_ms));
        last.filter(is_recent).unwrap_or_else(|| {
            let (resident, heap) = (process::resident_bytes(), HeapFigures::collect());
            *last.insert(Pages { asked_ms: now_ms, resident, heap })
        })
    }
}

pub(super) fn section(lines: &mut Lines, source: &Source) {
    let engine = source.engine;
    let figures = MemoryFigures::of(engine, source.keyspace.clone(), source.now_ms);
    let config = &source.active.config;
    lines.size("used_memory", figures.used);
    lines.size("used_memory_rss", figures.resident);
    lines.size("used_memory_peak", figures.peak);
    lines.add("used_memory_peak_time", engine.stats.peak_ms.load(Ordering::Relaxed) / 1000);
    lines.add("used_memory_peak_perc", percent(figures.used, figures.peak));
    lines.add("used_memory_overhead", figures.overhead());
    lines.add("used_memory_startup", figures.startup);
    lines.add("used_memory_dataset", figures.dataset());
    lines.add("used_memory_dataset_perc", percent(figures.dataset(), figures.since_startup()));
    lines.add("allocator_allocated", figures.used);
    lines.add("allocator_active", figures.heap.active);
    lines.add("allocator_resident", figures.heap.resident);
    lines.add("allocator_muzzy", figures.heap.muzzy);
    lines.size("total_system_memory", process::machine_memory_bytes());
    let (scripts, script_bytes, _) = engine.scripting.cache.figures();
    let (libraries, functions, function_bytes) = engine.scripting.libraries.figures();
    let vm_bytes = engine.scripting.vm_bytes();
    lines.add("used_memory_lua", vm_bytes);
    lines.add("used_memory_vm_eval", vm_bytes);
    lines.add("used_memory_lua_human", human(vm_bytes));
    lines.add("used_memory_scripts_eval", script_bytes);
    lines.add("number_of_cached_scripts", scripts);
    lines.add("number_of_functions", functions);
    lines.add("number_of_libraries", libraries);
    // Scripts and functions share a machine.
    lines.add("used_memory_vm_functions", 0);
    lines.size("used_memory_vm_total", vm_bytes);
    lines.add("used_memory_functions", function_bytes);
    lines.size("used_memory_scripts", (script_bytes + function_bytes) as u64);
    lines.size("maxmemory", config.maxmemory);
    lines.add("maxmemory_policy", config.maxmemory_policy.name());
    let (active, resident) = (figures.heap.active, figures.heap.resident);
    let mut quotient = |name: &str, part: u64, whole: u64| {
        lines.add(&format!("{name}_ratio"), format!("{:.2}", ratio(part, whole)));
        lines.add(&format!("{name}_bytes"), part as i64 - whole as i64);
    };
    quotient("allocator_frag", active, figures.used);
    quotient("allocator_rss", resident, active);
    quotient("rss_overhead", figures.resident, resident);
    lines.add("mem_fragmentation_ratio", format!("{:.2}", ratio(figures.resident, figures.used)));
    lines.add("mem_fragmentation_bytes", figures.fragmentation_bytes());
    let buffers = primary::buffered(engine);
    lines.add("mem_not_counted_for_evict", engine.pressure.not_counted_bytes());
    lines.add("mem_replication_backlog", buffers.backlog);
    lines.add("mem_total_replication_buffers", buffers.log);
    let ahead_bytes = &engine.replication.link.ahead_bytes;
    lines.add("mem_replica_full_sync_buffer", ahead_bytes.load(Ordering::Relaxed));
    lines.add("mem_clients_slaves", buffers.replicas);
    lines.add("mem_clients_normal", figures.clients);
    lines.zeros(&["mem_cluster_links", "mem_aof_buffer"]);
    lines.add("mem_allocator", allocator::NAME);
    lines.add("mem_slabs", mantissa_store::slab::held_bytes());
    lines.zeros(&["mem_overhead_db_hashtable_rehashing"]);
    lines.add("active_defrag_running", u8::from(engine.compaction.is_running.load(Ordering::Relaxed)));
    lines.add("lazyfree_pending_objects", engine.lazyfree_pending.load(Ordering::Relaxed));
    lines.add("lazyfreed_objects", engine.lazyfreed.load(Ordering::Relaxed));
}

fn percent(part: u64, whole: u64) -> String {
    let mut text = Vec::new();
    mantissa_number::human::write_percent(&mut text, ratio(part, whole) * 100.0);
    String::from_utf8_lossy(&text).into_owned()
}
