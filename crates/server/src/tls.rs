//! TLS as the configuration asks for it.

use std::time::Duration;

use mantissa_net::{Acceptor, ClientCertificates, Connector, TlsOptions};

use mantissa_engine::config::{Config, TlsAuthClients};

use crate::network::Network;

/// Directives that begin like those of [`configure`] and are none of its business.
const OTHERS: [&str; 3] = ["tls-port", "tls-replication", "tls-cluster"];

/// Whether a directive, set anew even to the same value, has TLS configured again: files may have changed.
pub fn concerns(directive: &[u8]) -> bool {
    let name = directive.to_ascii_lowercase();
    name.starts_with(b"tls-") && !OTHERS.iter().any(|other| other.as_bytes() == name)
}

/// Whether clients are to be offered TLS.
pub fn is_wanted(config: &Config) -> bool {
    config.tls_port != 0 || config.http_tls_port != 0
}

/// Has connections from now on use what the configuration and the files that it names say. The error tells
/// what is wrong with them; nothing has changed then.
pub fn configure(network: &Network, config: &Config) -> Result<(), String> {
    *network.acceptor.write() = Some(Acceptor::new(&options(config)?)?);
    Ok(())
}

/// What connections to other servers use: the server's own certificate, unless there is one for this.
pub fn connector(config: &Config) -> Result<Connector, String> {
    let mut options = options(config)?;
    if !config.tls_client_cert_file.is_empty() {
        options.certificate_file = config.tls_client_cert_file.clone().into();
        options.key_file = config.tls_client_key_file.clone().into();
        options.key_password.clone_from(&config.tls_client_key_file_pass);
    }
    Connector::new(&options)
}

fn options(config: &Config) -> Result<TlsOptions, String> {
    let missing = |name| Err(format!("No {name} configured!"));
    if config.tls_cert_file.is_empty() {
        return missing("tls-cert-file");
    }
    if config.tls_key_file.is_empty() {
        return missing("tls-key-file");
    }
    Ok(TlsOptions {
        certificate_file: config.tls_cert_file.clone().into(),
        key_file: config.tls_key_file.clone().into(),
        key_password: config.tls_key_file_pass.clone(),
        authority_file: config.tls_ca_cert_file.clone().into(),
        authority_folder: config.tls_ca_cert_dir.clone().into(),
        clients: match config.tls_auth_clients {
            TlsAuthClients::No => ClientCertificates::Unwanted,
            TlsAuthClients::Optional => ClientCertificates::Optional,
            TlsAuthClients::Yes => ClientCertificates::Required,
        },
        protocols: config.tls_protocols.clone(),
        ciphers: config.tls_ciphers.clone(),
        cipher_suites: config.tls_ciphersuites.clone(),
        prefers_own_order: config.tls_prefer_server_ciphers,
        session_count_max: if config.tls_session_caching {
            config.tls_session_cache_size as usize
        } else {
            0
        },
        session_lifetime: Duration::from_secs(config.tls_session_cache_timeout.into()),
    })
}
