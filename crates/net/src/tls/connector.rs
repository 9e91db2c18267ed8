//! TLS to other servers.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::acceptor::{self, TlsOptions};
use super::stream::TlsStream;

/// A TLS configuration for connections to other servers. They must show a certificate that goes back to the
/// known roots; its name does not matter, as for Redis: the roots sign for one's own servers only.
#[derive(Clone, Debug)]
pub struct Connector(Arc<ClientConfig>);

impl Connector {
    /// Reads the files. An error says what is wrong with which.
    pub fn new(options: &TlsOptions) -> Result<Connector, String> {
        let provider = Arc::new(acceptor::provider(options)?);
        let key = acceptor::certified_key(options, &provider)?;
        let roots = Arc::new(acceptor::roots(options)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let verifier = verifier.map_err(|error| format!("Failed to configure CA certificates: {error}"))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&acceptor::versions(&options.protocols)?)
            .map_err(|error| format!("The TLS protocols and ciphers do not fit together: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        Ok(Connector(Arc::new(config)))
    }

    /// Agrees with the server at the other end, which was reached as `host`.
    pub fn connect(&self, socket: TcpStream, host: &str, time_max: Duration) -> io::Result<TlsStream> {
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            // No certificate is compared with it.
            Err(_) => ServerName::IpAddress(socket.peer_addr()?.ip().into()),
        };
        TlsStream::connect(socket, &self.0, name, Some(time_max))
    }
}

/// Compares certificates with roots, but not their names.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, between, name, ocsp_response, now) {
            // The name is compared last, when everything else was right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
