//! CONFIG and its subcommands.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::spec::{Flags, Group};
use mantissa_commands::{Error, Locks, Outcome};
use mantissa_net::Listener;
use mantissa_protocol::{Args, Reply};
use mantissa_sys::process;

use crate::config::{Config, SENSITIVE, SetError, directive};
use crate::context::unix_ms;
use crate::inbox::Message;
use crate::registry::ServerSpec;
use crate::server::Server;
use crate::session::Session;
use crate::{aof, crash, log, notice, secure, start, warning};

fn get(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let patterns: Vec<&[u8]> = args.from(2).iter().collect();
    let found = session.server().live().config.get(&patterns);
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(&name);
        reply.bulk(&value);
    }
    Ok(())
}

fn set(session: &mut Session<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let given = args.from(2);
    if !given.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    let pairs: Vec<(&[u8], &[u8])> =
        (0..given.len() / 2).map(|n| (given.at(2 * n), given.at(2 * n + 1))).collect();
    let server = session.server();
    let _one_at_a_time = server.config_change.lock();
    let live = server.live();
    let is_local = session.client.shared.peer.is_loopback();
    let refused = |error: SetError| Error::from_bytes(error.to_reply());
    let mut config = live.config.set(&pairs, is_local).map_err(refused)?;
    if config.tls_port != 0
        && let Some((name, _)) = pairs.iter().find(|(name, _)| secure::concerns(name))
    {
        configure_tls(server, &config, &String::from_utf8_lossy(name).to_ascii_lowercase())
            .map_err(refused)?;
    }
    apply(server, &live.config, &mut config).map_err(refused)?;
    let is_off = live.config.appendonly && !config.appendonly;
    let is_on = !live.config.appendonly && config.appendonly;
    let requirepass = (config.requirepass != live.config.requirepass).then(|| config.requirepass.clone());
    server.aof.configure(&config);
    server.set_config(config);
    if let Some(requirepass) = requirepass {
        server.acl.set_requirepass(server, &requirepass);
    }
    if is_off {
        aof::switch_off_for(session);
    } else if is_on {
        aof::switch_on(server);
    }
    session.context.refresh();
    reply.ok();
    Ok(())
}

/// Puts into effect what is more than a value that is read from time to time.
fn apply(server: &'static Server, old: &Config, new: &mut Config) -> Result<(), SetError> {
    for directive in new.differences(old) {
        match directive.name {
            "port" => listen_anew(server, new, directive.name, false)?,
            "tls-port" => {
                if new.tls_port != 0 && server.acceptor.read().is_none() {
                    configure_tls(server, new, directive.name)?;
                }
                listen_anew(server, new, directive.name, true)?;
            }
            "bind" => {
                listen_anew(server, new, directive.name, false)?;
                listen_anew(server, new, directive.name, true)?;
            }
            "maxclients" => allow_clients(new)?,
            "dir" => std::env::set_current_dir(&new.dir)
                .map_err(|error| SetError::failed("dir", error.to_string()))?,
            "loglevel" => log::set_level(new.loglevel),
            "crash-log-enabled" | "watchdog-period" | "hz" => crash::configure(server, new),
            _ => {}
        }
    }
    Ok(())
}

fn configure_tls(server: &Server, config: &Config, name: &str) -> Result<(), SetError> {
    secure::configure(server, config).map_err(|reason| {
        warning!("{reason}");
        SetError::failed(name, "Unable to update TLS configuration. Check server logs.")
    })
}

fn listen_anew(
    server: &'static Server,
    config: &Config,
    name: &'static str,
    for_tls: bool,
) -> Result<(), SetError> {
    let (port, addresses) = match for_tls {
        true => (config.tls_port, &server.listening_for_tls),
        false => (config.port, &server.listening),
    };
    let mut listening = addresses.lock();
    let sockets = if port == 0 {
        Ok((Vec::new(), Vec::new()))
    } else {
        start::listen_tcp(config, port, &listening, Duration::ZERO)
    };
    let (kept, opened) = sockets.map_err(|reason| {
        warning!("{reason}");
        let text = match name {
            "port" | "tls-port" => "Unable to listen on this port. Check server logs.",
            _ => "Failed to bind to specified addresses.",
        };
        SetError::failed(name, text)
    })?;
    *listening = [kept.clone(), start::tcp_addresses(&opened)].concat();
    let opened = if for_tls {
        opened.into_iter().map(Listener::for_tls).collect()
    } else {
        server.port.store(usize::from(port), Ordering::Relaxed);
        opened
    };
    server.send(0, Message::Listen { for_tls, kept, opened });
    Ok(())
}

fn allow_clients(config: &Config) -> Result<(), SetError> {
    let wanted = u64::from(config.maxclients) + start::DESCRIPTORS_RESERVED;
    let granted = process::raise_nofile_limit(wanted).map_or(0, |(soft, _)| soft);
    if granted >= wanted {
        return Ok(());
    }
    Err(SetError::failed(
        "maxclients",
        "The operating system is not able to handle the specified number of clients, try with \
         "
        .to_owned()
            + &granted.saturating_sub(start::DESCRIPTORS_RESERVED).to_string(),
    ))
}

fn resetstat(session: &mut Session<'_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let server = session.server();
    let stats = &server.stats;
    stats.reset();
    server.pressure.reset();
    server.expiry.reset();
    server.lazyfreed.store(0, Ordering::Relaxed);
    stats.errors.lock().clear();
    stats.reset_ms.store(unix_ms(), Ordering::Relaxed);
    reply.ok();
    Ok(())
}

fn rewrite(session: &mut Session<'_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    rewrite_file(session)?;
    reply.ok();
    Ok(())
}

/// Brings the configuration file up to date.
pub(super) fn rewrite_file(session: &mut Session<'_, '_>) -> Outcome {
    let server = session.server();
    let live = server.live();
    let Some(path) = live.config.file() else {
        return Err(Error::fixed("ERR The server is running without a config file"));
    };
    let config = Config { users: server.acl.for_config(server), ..live.config.clone() };
    if let Err(error) = config.rewrite(path) {
        warning!("CONFIG REWRITE failed: {error}");
        return Err(Error::new(format!("ERR Rewriting config file: {error}")));
    }
    notice!("CONFIG REWRITE executed with success.");
    Ok(())
}

fn help(_session: &mut Session<'_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
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

const SUBCOMMANDS: &[ServerSpec] = &[
    ServerSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE)).locks(Locks::Nothing).docs(
        Group::Server,
        "5.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    ServerSpec::new("resetstat", 2, resetstat, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.0.0", "O(1)", "Sets the statistics back to zero.")
        .tips(ALL_NODES),
    ServerSpec::new("rewrite", 2, rewrite, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.8.0", "O(1)", "Writes the settings in force into the configuration file.")
        .tips(ALL_NODES),
    ServerSpec::new("get", -3, get, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.0.0", "O(N), N being the directives", "Shows settings.")
        .history(&[("7.0.0", "Several patterns may be given.")])
        .arguments("parameter:string*"),
    ServerSpec::new("set", -4, set, ADMIN)
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
pub(super) const COMMANDS: &[ServerSpec] = &[ServerSpec::container("config", -2, Flags::NONE)
    .docs(Group::Server, "2.0.0", "Depends on the subcommand", "Shows and changes settings.")
    .subcommands(SUBCOMMANDS)];
