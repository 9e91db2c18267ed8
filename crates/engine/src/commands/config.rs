//! CONFIG and its subcommands.

use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Flags, Group};
use mantissa_commands::{Error, Locks, Outcome};
use mantissa_protocol::{Args, Reply};

use crate::engine::Engine;
use crate::invocation::{EngineSpec, Invocation};
use crate::replication::primary;
use crate::{aof, notice, warning};
use mantissa_config::{Config, SENSITIVE, SetError, directive};
use mantissa_sys::clock::unix_ms;
use mantissa_sys::simulation;

fn get(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let patterns: Vec<&[u8]> = args.from(2).iter().collect();
    let engine = invocation.engine();
    let active = engine.active_config();
    let found = match is_in_force(engine, &active.config) {
        true => active.config.get(&patterns),
        false => in_force(engine).get(&patterns),
    };
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(&name);
        reply.bulk(&value);
    }
    Ok(())
}

/// Whether a configuration names the primary that is followed now.
fn is_in_force(engine: &Engine, config: &Config) -> bool {
    let primary = engine.replication.primary.lock();
    let followed = primary.as_ref().map(|primary| (&primary.host, primary.port));
    followed == config.replicaof.as_ref().map(|(host, port)| (host, *port))
}

/// The configuration, with the primary that is followed now.
fn in_force(engine: &Engine) -> Config {
    let primary = engine.replication.primary.lock().clone();
    let replicaof = primary.map(|primary| (primary.host, primary.port));
    Config { replicaof, ..engine.active_config().config.clone() }
}

fn set(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let given = args.from(2);
    if !given.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    let pairs: Vec<(&[u8], &[u8])> =
        (0..given.len() / 2).map(|n| (given.at(2 * n), given.at(2 * n + 1))).collect();
    let engine = invocation.engine();
    let mutex = &engine.config_change;
    let one_at_a_time = simulation::lock(|| mutex.try_lock(), || mutex.lock());
    let active = engine.active_config();
    let is_local = invocation.session.shared.peer.is_loopback();
    let refused = |error: SetError| Error::from_bytes(error.to_reply());
    let mut config = active.config.set(&pairs, is_local).map_err(refused)?;
    let is_on = !active.config.appendonly && config.appendonly;
    if is_on
        && !config.rdb_overwrite_after_skip
        && let Some(reason) = aof::rewrite::refusal(engine)
    {
        return Err(refused(SetError::failed("appendonly", reason)));
    }
    let names: Vec<&[u8]> = pairs.iter().map(|(name, _)| *name).collect();
    engine.host().configure(engine, &active.config, &mut config, &names).map_err(refused)?;
    let is_off = active.config.appendonly && !config.appendonly;
    let requirepass = (config.requirepass != active.config.requirepass).then(|| config.requirepass.clone());
    engine.aof.configure(&config);
    engine.set_config(config);
    primary::count_good(engine, &engine.active_config().config);
    if let Some(requirepass) = requirepass {
        engine.acl.set_requirepass(&requirepass);
    }
    // Who is waited for below may wait for this, with shards held: a transaction with CONFIG SET.
    drop(one_at_a_time);
    if is_off {
        aof::switch_off_for(invocation);
    } else if is_on {
        aof::switch_on(engine);
    }
    invocation.context.refresh();
    reply.ok();
    Ok(())
}

fn resetstat(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    let stats = &engine.stats;
    stats.reset();
    engine.pressure.reset();
    engine.expiry.reset();
    engine.scripting.cache.reset();
    engine.replication.serving.reset();
    engine.replication.link.read_bytes.store(0, Ordering::Relaxed);
    engine.persistence.save_count.store(0, Ordering::Relaxed);
    engine.aof.control.reset_slow_syncs();
    engine.aof.rewrite.count.store(0, Ordering::Relaxed);
    engine.lazyfreed.store(0, Ordering::Relaxed);
    stats.errors.lock().clear();
    stats.reset_ms.store(unix_ms(), Ordering::Relaxed);
    reply.ok();
    Ok(())
}

fn rewrite(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    rewrite_file(invocation)?;
    reply.ok();
    Ok(())
}

/// Brings the configuration file up to date.
pub(super) fn rewrite_file(invocation: &mut Invocation<'_, '_, '_>) -> Outcome {
    let engine = invocation.engine();
    let active = engine.active_config();
    let Some(path) = active.config.file() else {
        return Err(Error::fixed("ERR The server is running without a config file"));
    };
    let config = Config { users: engine.acl.for_config(engine.registry, &active.config), ..in_force(engine) };
    if let Err(error) = config.rewrite(path) {
        warning!("CONFIG REWRITE failed: {error}");
        return Err(Error::new(format!("ERR Rewriting config file: {error}")));
    }
    notice!("CONFIG REWRITE executed with success.");
    Ok(())
}

fn help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "CONFIG",
        &[
            ("GET <pattern> [<pattern> ...]", "The settings whose names match, with their values."),
            ("SET <directive> <value> [<directive> <value> ...]", "Changes settings: all of them or none."),
            ("RESETSTAT", "Sets the statistics of INFO back to zero."),
            ("REWRITE", "Brings the configuration file up to date with the settings in force."),
        ],
    );
    Ok(())
}

/// Whether an argument of CONFIG SET is the value of a setting that is a secret.
fn is_sensitive(args: Args<'_>, index: usize) -> bool {
    index >= 3
        && index % 2 == 1
        && directive(args.at(index - 1)).is_some_and(|directive| directive.has(SENSITIVE))
}

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE);
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const SUBCOMMANDS: &[EngineSpec] = &[
    EngineSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE)).locks(Locks::Nothing).docs(
        Group::Server,
        "5.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    EngineSpec::new("resetstat", 2, resetstat, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.0.0", "O(1)", "Sets the statistics back to zero.")
        .tips(ALL_NODES),
    EngineSpec::new("rewrite", 2, rewrite, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.8.0", "O(1)", "Writes the settings in force into the configuration file.")
        .tips(ALL_NODES),
    EngineSpec::new("get", -3, get, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.0.0", "O(N), N being the directives", "Shows settings.")
        .history(&[("7.0.0", "Several patterns may be given.")])
        .arguments("parameter:string*"),
    EngineSpec::new("set", -4, set, ADMIN)
        .secrets(is_sensitive)
        .locks(Locks::Nothing)
        .docs(
            Group::Server,
            "2.0.0",
            "O(N), N being the directives",
            "Changes settings while the server runs.",
        )
        .history(&[("7.0.0", "Several settings may be changed at once.")])
        .tips(ALL_NODES)
        .arguments("data:block(parameter:string value:string)*"),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::container("config", -2, Flags::NONE)
    .docs(Group::Server, "2.0.0", "Depends on the subcommand", "Shows and changes settings.")
    .subcommands(SUBCOMMANDS)];
