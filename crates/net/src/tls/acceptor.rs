//! The TLS configuration of a server: certificates, protocols, cipher suites.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::key;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions, WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion, version};

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientCertificates {
    /// No certificate is requested.
    Unwanted,
    /// A certificate is optional, and must be valid if there is one.
    Optional,
    /// A valid certificate is required.
    Required,
}

/// The settings. Texts are empty where nothing is given.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The certificate of the server and those between it and a root, in PEM.
    pub certificate_file: PathBuf,
    /// Its private key, in PEM.
    pub key_file: PathBuf,
    /// The password of the key, if it is encrypted.
    pub key_password: Vec<u8>,
    /// Roots that certificates of clients go back to, in PEM.
    pub authority_file: PathBuf,
    /// A folder with more of them.
    pub authority_folder: PathBuf,
    /// Whether clients have to show a certificate.
    pub clients: ClientCertificates,
    /// `TLSv1.2` and `TLSv1.3`, separated by spaces; empty for both.
    pub protocols: String,
    /// Cipher suites of TLS 1.2 by OpenSSL's names, separated by colons; empty for all.
    pub ciphers: String,
    /// Cipher suites of TLS 1.3, separated by colons; empty for all.
    pub cipher_suites: String,
    /// Whether the order above matters more than the client's.
    pub prefers_own_order: bool,
    /// Maximum number of sessions that can be resumed; 0 for none.
    pub session_count_max: usize,
    /// How long a session can be resumed.
    pub session_lifetime: Duration,
}

/// A TLS configuration. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Acceptor(Arc<ServerConfig>);

impl Acceptor {
    /// Reads the files. An error says what is wrong with which.
    pub fn new(options: &TlsOptions) -> Result<Acceptor, String> {
        let provider = Arc::new(provider(options)?);
        let key = certified_key(options, &provider)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions(&options.protocols)?)
            .map_err(|error| format!("The TLS protocols and ciphers do not fit together: {error}"))?;
        let builder = match client_verifier(options, &provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.ignore_client_order = options.prefers_own_order;
        if options.session_count_max == 0 {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else {
            let sessions = ServerSessionMemoryCache::new(options.session_count_max);
            config.session_storage =
                Arc::new(MortalSessions { sessions, lifetime: options.session_lifetime });
        }
        Ok(Acceptor(Arc::new(config)))
    }

    pub(super) fn config(&self) -> &Arc<ServerConfig> {
        &self.0
    }
}

pub(super) fn versions(protocols: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions = Vec::new();
    for name in protocols.split_whitespace() {
        match &name.to_ascii_lowercase()[..] {
            "tlsv1.2" => versions.push(&version::TLS12),
            "tlsv1.3" => versions.push(&version::TLS13),
            _ => return Err(format!("{name} is not supported: the TLS protocols are TLSv1.2 and TLSv1.3")),
        }
    }
    if versions.is_empty() {
        versions = vec![&version::TLS13, &version::TLS12];
    }
    Ok(versions)
}

/// OpenSSL's names of the cipher suites of TLS 1.2.
const CIPHER_NAMES: [(&str, SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", ring::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

const CIPHER_SUITE_NAMES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", ring::cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", ring::cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
];

/// The cipher suites that are named, in their order, or all if none is.
fn suites(
    names: &str,
    all: &[(&'static str, SupportedCipherSuite)],
) -> Result<Vec<SupportedCipherSuite>, String> {
    if names.is_empty() {
        return Ok(all.iter().map(|(_, suite)| *suite).collect());
    }
    let find = |name: &str| {
        let found = all.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, suite)| *suite).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            format!("The TLS cipher {name} is not supported: there are {}", known.join(", "))
        })
    };
    names.split([':', ' ', ',']).filter(|name| !name.is_empty()).map(find).collect()
}

pub(super) fn provider(options: &TlsOptions) -> Result<CryptoProvider, String> {
    let mut provider = ring::default_provider();
    provider.cipher_suites = suites(&options.cipher_suites, &CIPHER_SUITE_NAMES)?;
    provider.cipher_suites.extend(suites(&options.ciphers, &CIPHER_NAMES)?);
    Ok(provider)
}

/// The certificates in a file, which has some.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unreadable = |error| format!("Failed to load certificate: {}: {error}", path.display());
    let all = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(unreadable)?;
    if all.is_empty() {
        return Err(format!("Failed to load certificate: {}: there is none", path.display()));
    }
    Ok(all)
}

pub(super) fn certified_key(options: &TlsOptions, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let chain = certificates(&options.certificate_file)?;
    let path = &options.key_file;
    let failed = |reason: String| format!("Failed to load private key: {}: {reason}", path.display());
    let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let key = key::load(&text, &options.key_password, &chain[0], provider).map_err(failed)?;
    let certified = CertifiedKey::new(chain, key);
    // What cannot be compared, such as a certificate of an old version, is taken as it is.
    match certified.keys_match() {
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            Err(failed("it is not that of the certificate".to_owned()))
        }
        _ => Ok(certified),
    }
}

fn client_verifier(
    options: &TlsOptions,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if options.clients == ClientCertificates::Unwanted {
        return Ok(None);
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots(options)?), Arc::clone(provider));
    let builder = match options.clients {
        ClientCertificates::Optional => builder.allow_unauthenticated(),
        _ => builder,
    };
    builder.build().map(Some).map_err(|error| format!("Failed to configure CA certificates: {error}"))
}

pub(super) fn roots(options: &TlsOptions) -> Result<RootCertStore, String> {
    let (file, folder) = (&options.authority_file, &options.authority_folder);
    let mut roots = RootCertStore::empty();
    if !file.as_os_str().is_empty() {
        let (added, _) = roots.add_parsable_certificates(certificates(file)?);
        if added == 0 {
            return Err(format!("Failed to load CA certificates: {}: none can be used", file.display()));
        }
    }
    if !folder.as_os_str().is_empty() {
        let unreadable = |error| format!("Failed to load CA certificates: {}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            // Files of other kinds may lie there as well.
            if let Ok(found) = certificates(&entry.map_err(unreadable)?.path()) {
                roots.add_parsable_certificates(found);
            }
        }
    }
    if roots.is_empty() {
        return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
                    tls-replication or tls-auth-clients are enabled!"
            .to_owned());
    }
    Ok(roots)
}

/// Sessions that can be resumed for some time.
#[derive(Debug)]
struct MortalSessions {
    sessions: Arc<ServerSessionMemoryCache>,
    lifetime: Duration,
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

impl MortalSessions {
    /// The stored session without the time in front, unless it is too old.
    fn fresh(&self, stored: Vec<u8>) -> Option<Vec<u8>> {
        let (time, session) = stored.split_first_chunk::<8>()?;
        let age_s = unix_seconds().saturating_sub(u64::from_be_bytes(*time));
        (age_s < self.lifetime.as_secs()).then(|| session.to_vec())
    }
}

impl StoresServerSessions for MortalSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions.put(key, [&unix_seconds().to_be_bytes()[..], &value].concat())
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.sessions.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.sessions.take(key)?)
    }

    fn can_cache(&self) -> bool {
        true
    }
}
