//! Replication: two to four engines and a network between them.
//!
//! Sessions write on the primary, and on others. Replicas follow it, directly or in chains. The network
//! breaks, nodes are killed and start again from what their disks have, replicas are promoted, the former
//! primary follows, or goes on by itself for a while. These hold:
//!
//! - Two nodes that are at the same offset of the same history hold the same data, at any moment, and have
//!   got there by the same bytes ([`crate::streams`]).
//! - The offset of a node does not go back while its history stays, but with a start, or with all data of a
//!   primary that is itself behind.
//! - What was acknowledged under WAIT is there when a replica that has acknowledged it is promoted.
//! - When all is quiet and the network works, all nodes come to hold what the primary holds.
//! - What a node leaves on its disk in the end gives what it holds, at the same offset.
//!
//! The link of a replica is the engine's own, over a [`Stream`](mantissa_engine::host::Stream) of the
//! simulation. What a primary sends is decided by `mantissa_engine::replication::sending`, which the server's
//! workers call too; beside them stands the loop in [`crate::nodes`], since theirs is about sockets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mantissa_engine::embedded::LocalClient;
use mantissa_protocol::Value;
use mantissa_sys::{clock, simulation};

use crate::crash::{self, Policy};
use crate::disk::Disk;
use crate::network::Identity;
use crate::nodes::{Node, Nodes, PORT, locked};
use crate::scenario::start;
use crate::scheduler::Random;
use crate::writes;

const NODES_MAX: u64 = 4;
const WRITERS_MAX: u64 = 3;
const EVENTS_MAX: u64 = 12;
/// Between two events, in ms.
const PAUSE_MS_MAX: u64 = 700;
const PARTITION_MS_MAX: u64 = 5000;
const STALL_MS_MAX: u64 = 300;
/// Time in which all nodes come to hold the same when nothing happens any more, in ms.
const QUIET_MS_MAX: i64 = 120_000;
/// The list of what writers wait for.
const LIST: &str = "acknowledged";

/// A value that a replica has acknowledged.
struct Acknowledged {
    value: u64,
    /// The history and the offset of its unit's end.
    id: String,
    offset: u64,
    holders: Vec<Identity>,
}

struct Run {
    nodes: Arc<Nodes>,
    /// Who writers take for the primary.
    primary: AtomicUsize,
    next_value: AtomicU64,
    acknowledged: Mutex<Vec<Acknowledged>>,
    /// Writers that have not ended.
    writers: AtomicU64,
    /// Where each start of a node was last seen: history, offset, and the offset of its last full
    /// synchronisation.
    seen: Mutex<BTreeMap<Identity, (String, u64, u64)>>,
}

/// Runs one seed on a simulated thread. Panics if a check fails.
pub fn run(seed: u64) {
    mantissa_engine::log::set_level(mantissa_config::LogLevel::Nothing);
    let mut random = Random(seed ^ 0x4E91);
    let count = 2 + random.below(NODES_MAX - 1) as usize;
    let nodes = Nodes::new(count, &mut random);
    let run = Arc::new(Run {
        nodes,
        primary: AtomicUsize::new(0),
        next_value: AtomicU64::new(1),
        acknowledged: Mutex::default(),
        writers: AtomicU64::new(1 + random.below(WRITERS_MAX)),
        seen: Mutex::default(),
    });
    for number in 0..count {
        let policy = choose_policy(&mut random);
        run.nodes.open((number, 0), &Disk::default(), policy, None);
    }
    for number in 1..count {
        // Some follow a replica.
        let primary = if random.below(4) == 0 { number - 1 } else { 0 };
        follow(&run, number, primary);
    }
    for _ in 0..run.writers.load(Ordering::Relaxed) {
        let (seed, run) = (random.draw(), Arc::clone(&run));
        start("writer", move || {
            write(&run, &mut Random(seed));
            run.writers.fetch_sub(1, Ordering::Relaxed);
        });
    }
    let mut killed = BTreeMap::new();
    let mut starts = vec![0; count];
    for _ in 0..2 + random.below(EVENTS_MAX) {
        simulation::sleep(Duration::from_millis(random.below(PAUSE_MS_MAX)));
        happen(&run, &mut killed, &mut starts, &mut random);
        read(&run, random.below(count as u64) as usize);
        (0..count).for_each(|number| look(&run, number));
    }
    for (number, (disk, policy)) in killed {
        revive(&run, number, &disk, policy, &mut starts, &mut random);
    }
    settle(&run);
    check_disks(&run);
    run.nodes.is_over.store(true, Ordering::Relaxed);
    let streams = std::mem::take(&mut *locked(&run.nodes.streams));
    streams.check();
}

fn choose_policy(random: &mut Random) -> Policy {
    [Policy::Unlogged, Policy::EverySecond, Policy::Always][random.below(3) as usize]
}

/// Has a command run on a node, if that runs.
fn call(run: &Run, number: usize, words: &[&str]) -> Option<Value> {
    let node = run.nodes.get(number)?;
    let reply = node.store.client().ok()?.call(words);
    Some(reply)
}

fn follow(run: &Run, number: usize, primary: usize) {
    if number != primary {
        call(run, number, &["REPLICAOF", "node", &(PORT + primary as u16).to_string()]);
    }
}

/// Reads on a node what may have expired.
fn read(run: &Run, number: usize) {
    if let Some(node) = run.nodes.get(number)
        && let Ok(mut client) = node.store.client()
    {
        writes::read(&mut client);
    }
}

/// Looks at a node. Its offset does not go back while its history stays.
fn look(run: &Run, number: usize) {
    let Some(node) = run.nodes.get(number) else { return };
    let Some((id, offset)) = run.nodes.look(&node) else { return };
    let replication = &node.store.engine().replication;
    // Where the data ended that it took over last.
    let first = replication.kept.lock().as_ref().map_or(0, |kept| replication.offset_of(kept.first));
    let before = locked(&run.seen).insert(node.identity, (id.clone(), offset, first));
    if let Some((_, last, _)) = before.filter(|(former, _, begin)| (former, *begin) == (&id, first)) {
        assert!(offset >= last, "node {number} goes back from {last} to {offset} in history {id}");
    }
}

type Killed = BTreeMap<usize, (Disk, Policy)>;

/// Lets something happen.
fn happen(run: &Arc<Run>, killed: &mut Killed, starts: &mut [u64], random: &mut Random) {
    let count = run.nodes.count() as u64;
    let (one, other) = (random.below(count) as usize, random.below(count) as usize);
    match random.below(10) {
        0 => run.nodes.network.part(one, other, Duration::from_millis(random.below(PARTITION_MS_MAX))),
        1 => run.nodes.network.cut(one, other),
        2 => promote(run, one),
        3 => promote_best(run, random),
        // A circle would follow itself.
        4 if one > other && one != run.primary.load(Ordering::Relaxed) => follow(run, one, other),
        5 => (0..count as usize).for_each(|number| follow(run, number, run.primary.load(Ordering::Relaxed))),
        6 => {
            let command = ["SAVE", "BGSAVE", "BGREWRITEAOF"][random.below(3) as usize];
            call(run, one, &[command]);
        }
        7 | 8 => {
            let policy = run.nodes.get(one).map(|node| node.policy);
            if let (Some(policy), Some(disk)) = (policy, run.nodes.kill(one, random)) {
                killed.insert(one, (disk, policy));
            }
        }
        _ => {
            if let Some((number, (disk, policy))) = killed.pop_first() {
                revive(run, number, &disk, policy, starts, random);
            }
        }
    }
}

/// Starts a node that was killed: as a replica by its configuration, or as a primary.
fn revive(
    run: &Arc<Run>,
    number: usize,
    disk: &Disk,
    policy: Policy,
    starts: &mut [u64],
    random: &mut Random,
) {
    starts[number] += 1;
    let primary = run.primary.load(Ordering::Relaxed);
    let configured = (primary != number && random.below(2) == 0).then_some(primary);
    run.nodes.open((number, starts[number]), disk, policy, configured);
    if configured.is_none() && random.below(2) == 0 {
        follow(run, number, primary);
    }
}

/// Promotes the replica that is farthest in the history of the primary, and has the others follow it.
fn promote_best(run: &Run, random: &mut Random) {
    let primary = run.primary.load(Ordering::Relaxed);
    let places: Vec<_> = (0..run.nodes.count())
        .filter(|number| *number != primary)
        .filter_map(|number| {
            let node = run.nodes.get(number)?;
            let engine = node.store.engine();
            Some((engine.replication.offset_of(engine.log.end()), number))
        })
        .collect();
    let Some((_, best)) = places.into_iter().max() else { return };
    if random.below(2) == 0 {
        stall(run, best, random);
    }
    promote(run, best);
    for number in 0..run.nodes.count() {
        if random.below(4) > 0 {
            follow(run, number, best);
        }
    }
}

/// Has a node be busy for a while: nothing is applied meanwhile, but bytes come in.
fn stall(run: &Run, number: usize, random: &mut Random) {
    let Some(node) = run.nodes.get(number) else { return };
    let time = Duration::from_millis(random.below(STALL_MS_MAX));
    start("stall", move || {
        let keyspace = &node.store.engine().keyspace;
        let _locked = keyspace.lock(keyspace.all_shards());
        simulation::sleep(time);
    });
    simulation::sleep(time / 2);
}

/// Promotes a node, which has what it has acknowledged.
fn promote(run: &Run, number: usize) {
    let Some(node) = run.nodes.get(number) else { return };
    call(run, number, &["REPLICAOF", "NO", "ONE"]);
    run.primary.store(number, Ordering::Relaxed);
    if node.is_dead.load(Ordering::Relaxed) {
        return;
    }
    check_acknowledged(run, &node);
}

/// Whether a node that has been promoted has what it has acknowledged as a replica.
fn check_acknowledged(run: &Run, node: &Node) {
    let Ok(mut client) = node.store.client() else { return };
    let history = node.store.engine().replication.history();
    let Some((former, _)) = history.second else { return };
    let Value::Array(values) = client.call(&["LRANGE", LIST, "0", "-1"]) else { return };
    if node.store.engine().replication.history().id != history.id {
        return;
    }
    let values: Vec<u64> = values.iter().map(crate::scenario::number_of).collect();
    for acknowledged in locked(&run.acknowledged).iter() {
        let Acknowledged { value, id, offset, holders } = acknowledged;
        let has_it = values.contains(value) || *id != former || !holders.contains(&node.identity);
        assert!(
            has_it,
            "value {value} at byte {offset} was acknowledged by {:?}, and is lost",
            node.identity
        );
    }
}

/// The sessions of a writer.
fn write(run: &Run, random: &mut Random) {
    for _ in 0..2 + random.below(12) {
        let number = match random.below(4) {
            0 => random.below(run.nodes.count() as u64) as usize,
            _ => run.primary.load(Ordering::Relaxed),
        };
        if let Some(node) = run.nodes.get(number)
            && let Ok(mut client) = node.store.client()
        {
            for _ in 0..1 + random.below(6) {
                match random.below(4) {
                    0 => write_and_wait(run, &node, &mut client, random),
                    _ => writes::write(&mut client, random),
                }
            }
        }
        simulation::sleep(Duration::from_millis(random.below(500)));
    }
}

/// Appends a value, and waits until a replica has it.
fn write_and_wait(run: &Run, node: &Node, client: &mut LocalClient<'_>, random: &mut Random) {
    let value = run.next_value.fetch_add(1, Ordering::Relaxed);
    if !matches!(client.call(&["RPUSH", LIST, &value.to_string()]), Value::Integer(_)) {
        return;
    }
    let id = node.store.engine().replication.history().id;
    let timeout_ms = (1 + random.below(1500)).to_string();
    let confirmed = client.call(&["WAIT", "1", &timeout_ms]);
    let is_dead = node.is_dead.load(Ordering::Relaxed);
    let replication = &node.store.engine().replication;
    let is_same = !replication.is_replica() && replication.history().id == id;
    if is_dead || !is_same || !matches!(confirmed, Value::Integer(1..)) {
        return;
    }
    let offset = replication.offset_of(client.session().logged_lsn);
    let holders = run.nodes.holders(node, offset);
    locked(&run.acknowledged).push(Acknowledged { value, id, offset, holders });
}

/// Has all nodes follow the primary on a network that works, until they hold the same.
fn settle(run: &Run) {
    while run.writers.load(Ordering::Relaxed) > 0 {
        simulation::sleep(Duration::from_millis(100));
        (0..run.nodes.count()).for_each(|number| look(run, number));
    }
    run.nodes.network.heal();
    let primary = run.primary.load(Ordering::Relaxed);
    promote(run, primary);
    (0..run.nodes.count()).for_each(|number| follow(run, number, primary));
    let deadline_ms = clock::unix_ms() + QUIET_MS_MAX;
    while !is_level(run) {
        assert!(clock::unix_ms() < deadline_ms, "nodes do not come to hold the same: {}", describe(run));
        simulation::sleep(Duration::from_millis(50));
        (0..run.nodes.count()).for_each(|number| look(run, number));
    }
}

/// Whether all nodes are at the offset of the primary, in its history.
fn is_level(run: &Run) -> bool {
    let places =
        (0..run.nodes.count()).map(|number| run.nodes.get(number).and_then(|it| run.nodes.look(&it)));
    let places: Vec<_> = places.collect();
    places.iter().all(|place| place.is_some() && *place == places[0])
}

fn describe(run: &Run) -> String {
    let describe = |node: Arc<Node>| {
        let engine = node.store.engine();
        let (replication, end) = (&engine.replication, engine.log.end());
        let link = replication.link.state();
        format!(
            "{:?} {:?} at {} {:?}",
            node.identity,
            replication.history(),
            replication.offset_of(end),
            link
        )
    };
    let nodes = (0..run.nodes.count()).filter_map(|number| run.nodes.get(number).map(describe));
    nodes.collect::<Vec<_>>().join("; ")
}

/// What a node with a log leaves on its disk gives what it holds, at the same offset.
fn check_disks(run: &Run) {
    for number in 0..run.nodes.count() {
        let Some(node) = run.nodes.get(number) else { continue };
        let aof = &node.store.engine().aof;
        // A new base may be on its way after a full synchronisation.
        let replication = &node.store.engine().replication;
        let is_synchronised = !replication.is_replica() || replication.link.is_up();
        if !is_synchronised || !aof.is_listed.load(Ordering::Relaxed) || aof.rewrite.is_running() {
            continue;
        }
        let Some((id, offset)) = run.nodes.look(&node) else { continue };
        let digest = crash::look(node.store.engine()).1;
        while aof.control.written() < node.store.engine().log.end() {
            simulation::sleep(Duration::from_millis(10));
        }
        if run.nodes.look(&node) != Some((id.clone(), offset)) {
            continue;
        }
        let disk = Disk::with_files(node.copy_files());
        let store = crash::open(Arc::new(disk), node.policy, 1).unwrap_or_else(|error| panic!("{error}"));
        let engine = store.engine();
        assert_eq!(crash::look(engine).1, digest, "the log of node {number}, loaded");
        let second = engine.replication.history().second;
        let is_right = second.as_ref().is_some_and(|(former, end)| {
            locked(&run.nodes.streams).is_same(&(former.clone(), end - 1), &(id.clone(), offset))
        });
        assert!(is_right, "node {number} is at {offset} of {id}, and its log ends before {second:?}");
    }
}
