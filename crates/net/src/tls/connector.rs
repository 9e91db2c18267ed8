//! TLS to other servers: the configuration, and a blocking stream.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
};

use super::acceptor::{self, TlsOptions};

/// How many bytes wait to be encrypted and sent, at most.
const UNSENT_BYTES_MAX: usize = 256 << 10;
/// How long one step of a handshake waits.
const STEP: Duration = Duration::from_millis(100);

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
    pub fn connect(&self, mut socket: TcpStream, host: &str, timeout: Duration) -> io::Result<TlsStream> {
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            // No certificate is compared with it.
            Err(_) => ServerName::IpAddress(socket.peer_addr()?.ip().into()),
        };
        let mut tls = ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        tls.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        socket.set_read_timeout(Some(STEP))?;
        socket.set_write_timeout(Some(STEP))?;
        let deadline = Instant::now() + timeout;
        while tls.is_handshaking() {
            match tls.complete_io(&mut socket) {
                Err(error) if is_pause(&error) && Instant::now() < deadline => {}
                outcome => drop(outcome?),
            }
        }
        Ok(TlsStream { tls, socket })
    }
}

fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
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

/// A connected socket with TLS. Reads and writes wait as long as the socket's timeouts say.
pub struct TlsStream {
    tls: ClientConnection,
    socket: TcpStream,
}

impl TlsStream {
    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

impl AsRawFd for TlsStream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                // The server hung up without saying so; many do.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            self.tls.read_tls(&mut self.socket)?;
            self.tls.process_new_packets().map_err(io::Error::other)?;
            // An answer to what came, such as new keys, can wait.
            self.flush_as_possible()?;
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What was accepted before goes first, so that there is room.
        self.flush_as_possible()?;
        let count = self.tls.writer().write(bytes)?;
        if count == 0 && !bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        self.flush_as_possible()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl TlsStream {
    /// Sends what the kernel takes.
    fn flush_as_possible(&mut self) -> io::Result<()> {
        match self.flush() {
            Err(error) if is_pause(&error) => Ok(()),
            outcome => outcome,
        }
    }
}
