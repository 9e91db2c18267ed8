//! TLS to the server, through rustls: the options.
//!
//! Certificates are compared with the authorities that `--cacert` or `--cacertdir` name, or else with those
//! of the system. As in redis-cli, the name in the certificate does not matter where own authorities are
//! named: they sign for one's own servers only. It has to be right where `--sni` gives one, and where the
//! authorities are those of the system.

use std::fmt;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mantissa_net::TlsStream;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedCipherSuite,
};

/// How to speak TLS, as a command line says.
#[derive(clap::Args, Clone, Default, Debug)]
pub(crate) struct TlsOptions {
    /// Speak TLS; a URI that begins with rediss:// means it, too
    #[arg(long)]
    tls: bool,
    /// Name of the server, to tell it and to compare with its certificate
    #[arg(long, value_name = "HOST")]
    sni: Option<String>,
    /// File with the certificates of authorities to trust [default: those of the system]
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Folder with such files
    #[arg(long, value_name = "FOLDER")]
    cacertdir: Option<PathBuf>,
    /// Trust any certificate of the server
    #[arg(long)]
    insecure: bool,
    /// File with the certificate to show to the server
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// File with its private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Cipher suites of TLS 1.2 by OpenSSL's names, the most wanted first, separated by colons
    #[arg(long, value_name = "LIST")]
    tls_ciphers: Option<String>,
    /// Cipher suites of TLS 1.3, the most wanted first, separated by colons
    #[arg(long, value_name = "LIST")]
    tls_ciphersuites: Option<String>,
}

/// How to speak TLS. Cheap to copy.
#[derive(Clone)]
pub(crate) struct TlsConfig {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsConfig").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for TlsConfig {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.name == other.name
    }
}

impl Eq for TlsConfig {}

impl TlsConfig {
    /// Agrees with the server at the other end, which was reached as `host`.
    pub(crate) fn connect(&self, socket: TcpStream, host: &str) -> io::Result<TlsStream> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        TlsStream::connect(socket, &self.config, name, None)
    }
}

impl TlsOptions {
    /// How to speak TLS, if it is wanted, by these options or by the URI of a server.
    pub(crate) fn config(&self, uri_wants_it: bool) -> Result<Option<TlsConfig>, String> {
        if !self.tls && !uri_wants_it {
            return Ok(None);
        }
        let name = match &self.sni {
            None => None,
            Some(name) => {
                let parsed = ServerName::try_from(name.clone());
                Some(parsed.map_err(|_| format!("--sni: '{name}' is no name of a host"))?)
            }
        };
        let mut provider = ring::default_provider();
        choose(&mut provider, self.tls_ciphersuites.as_deref(), true)?;
        choose(&mut provider, self.tls_ciphers.as_deref(), false)?;
        let provider = Arc::new(provider);
        let verifier: Arc<dyn ServerCertVerifier> = if self.insecure {
            Arc::new(Verifier { provider: Arc::clone(&provider), inner: None, compares_names: false })
        } else {
            let roots = Arc::new(self.roots()?);
            let inner = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            let inner = Some(inner.map_err(|error| error.to_string())?);
            let compares_names = self.sni.is_some() || (self.cacert.is_none() && self.cacertdir.is_none());
            Arc::new(Verifier { provider: Arc::clone(&provider), inner, compares_names })
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, key)
                    .map_err(|error| failed(certificate, &error))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Some(TlsConfig { config: Arc::new(config), name }))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut files: Vec<PathBuf> = self.cacert.iter().cloned().collect();
        if let Some(folder) = &self.cacertdir {
            let entries = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
            files.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()));
        }
        let is_system = self.cacert.is_none() && self.cacertdir.is_none();
        if is_system {
            files.extend(mantissa_sys::authorities::file());
        }
        let mut roots = RootCertStore::empty();
        for file in &files {
            match certificates(file) {
                Ok(found) => drop(roots.add_parsable_certificates(found)),
                Err(error) if self.cacert.as_ref() == Some(file) => return Err(error),
                // A folder may hold other files, too.
                Err(_) => {}
            }
        }
        if roots.is_empty() {
            return Err("There is no certificate of an authority to trust; see --cacert".to_owned());
        }
        Ok(roots)
    }
}

fn failed(path: &Path, error: &dyn fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| failed(path, &error))?;
    let found: Result<Vec<_>, _> = found.collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(failed(path, &"it holds no certificate")),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Keeps of the suites of TLS 1.3, or of those of TLS 1.2, those that a list names, in its order.
fn choose(provider: &mut CryptoProvider, list: Option<&str>, is_13: bool) -> Result<(), String> {
    let Some(list) = list else { return Ok(()) };
    let (matching, mut chosen): (Vec<_>, Vec<_>) =
        provider.cipher_suites.drain(..).partition(|suite| suite.tls13().is_some() == is_13);
    for name in list.split(':') {
        let found = matching.iter().find(|suite| openssl_name(**suite).eq_ignore_ascii_case(name));
        chosen.push(*found.ok_or_else(|| {
            let known: Vec<_> = matching.iter().map(|suite| openssl_name(*suite)).collect();
            format!("'{name}' is no cipher suite that is supported; there are {}", known.join(", "))
        })?);
    }
    provider.cipher_suites = chosen;
    Ok(())
}

/// A suite's name as OpenSSL has it.
fn openssl_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name
            .trim_start_matches("TLS_")
            .replace("_WITH_AES_", "_AES")
            .replace("_WITH_", "_")
            .replace("POLY1305_SHA256", "POLY1305")
            .replace('_', "-"),
    }
}

/// Looks at certificates of servers.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Compares with authorities; without it anything goes.
    inner: Option<Arc<WebPkiServerVerifier>>,
    compares_names: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(certificate, between, name, ocsp_response, now) {
            // The name is compared last, when everything else was right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.compares_names => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
