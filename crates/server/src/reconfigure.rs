//! What CONFIG SET changes beyond values that are read from time to time: sockets, TLS, the process.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_engine::config::{Config, SetError};
use mantissa_engine::{Engine, log, warning};
use mantissa_sys::process;

use crate::inbox::Message;
use crate::network::{self, Network};
use crate::service::Service;
use crate::{crash, start, title, tls};

/// Puts into effect what has changed between two configurations. `given` are the directives that were named:
/// TLS is configured anew even if they kept their values, since files may have changed.
pub fn configure(
    network: &Network,
    engine: &Engine,
    old: &Config,
    new: &mut Config,
    given: &[&[u8]],
) -> Result<(), SetError> {
    if tls::is_wanted(new)
        && let Some(name) = given.iter().find(|name| tls::concerns(name))
    {
        configure_tls(network, new, &String::from_utf8_lossy(name).to_ascii_lowercase())?;
    }
    apply(network, engine, old, new).inspect_err(|_| {
        // What was changed before the directive that failed.
        if let Err(error) = apply(network, engine, new, &mut old.clone()) {
            warning!(
                "The configuration could not be restored: {}",
                String::from_utf8_lossy(&error.to_reply())
            );
        }
    })
}

/// Puts into effect what is more than a value that is read from time to time.
fn apply(network: &Network, engine: &Engine, old: &Config, new: &mut Config) -> Result<(), SetError> {
    for directive in new.differences(old) {
        if title::DIRECTIVES.contains(&directive.name) {
            title::show(new);
        }
        match directive.name {
            "port" => listen_anew(network, new, directive.name, Service::Resp)?,
            name @ ("tls-port" | "http-tls-port") => {
                if tls::is_wanted(new) && network.acceptor.read().is_none() {
                    configure_tls(network, new, name)?;
                }
                let service = if name == "tls-port" { Service::Tls } else { Service::HttpTls };
                listen_anew(network, new, name, service)?;
            }
            "http-port" => listen_anew(network, new, directive.name, Service::Http)?,
            "http-bind" => {
                listen_anew(network, new, directive.name, Service::Http)?;
                listen_anew(network, new, directive.name, Service::HttpTls)?;
            }
            "bind" => {
                listen_anew(network, new, directive.name, Service::Resp)?;
                listen_anew(network, new, directive.name, Service::Tls)?;
            }
            "metrics-port" | "metrics-bind" => {
                listen_anew(network, new, directive.name, Service::Metrics)?;
            }
            "maxclients" => allow_clients(new)?,
            "dir" => std::env::set_current_dir(&new.dir)
                .map_err(|error| SetError::failed("dir", error.to_string()))?,
            name @ ("oom-score-adj" | "oom-score-adj-values") => {
                network.oom_score.configure(engine, new, name)?;
            }
            "loglevel" => log::set_level(new.loglevel),
            "crash-log-enabled" | "watchdog-period" | "hz" => crash::configure(engine, new),
            _ => {}
        }
    }
    Ok(())
}

fn configure_tls(network: &Network, config: &Config, name: &str) -> Result<(), SetError> {
    tls::configure(network, config).map_err(|reason| {
        warning!("{reason}");
        SetError::failed(name, "Unable to update TLS configuration. Check server logs.")
    })
}

fn listen_anew(
    network: &Network,
    config: &Config,
    name: &'static str,
    service: Service,
) -> Result<(), SetError> {
    let port = start::port(config, service);
    let mut listening = network.listening(service).lock();
    let sockets = if port == 0 {
        Ok((Vec::new(), Vec::new()))
    } else {
        start::listen_tcp(config, service, &listening, Duration::ZERO)
    };
    let (kept, opened) = sockets.map_err(|reason| {
        warning!("{reason}");
        let text = match name {
            _ if name.ends_with("port") => "Unable to listen on this port. Check server logs.",
            _ => "Failed to bind to specified addresses.",
        };
        SetError::failed(name, text)
    })?;
    listening.retain(|bound| kept.contains(&bound.address()));
    listening.extend(network::bound(&opened));
    if service == Service::Resp {
        network.port.store(usize::from(port), Ordering::Relaxed);
    }
    network.post(0, Message::Listen { service, kept, opened });
    Ok(())
}

fn allow_clients(config: &Config) -> Result<(), SetError> {
    let wanted = u64::from(config.maxclients) + start::descriptors_reserved(config);
    let granted = process::raise_nofile_limit(wanted).map_or(0, |(soft, _)| soft);
    if granted >= wanted {
        return Ok(());
    }
    Err(SetError::failed(
        "maxclients",
        "The operating system is not able to handle the specified number of clients, try with \
         "
        .to_owned()
            + &granted.saturating_sub(start::descriptors_reserved(config)).to_string(),
    ))
}
