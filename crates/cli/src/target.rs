//! A server as the tools for many connections see it: where it is, how to log in.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use mantissa_protocol::Value;

use crate::connection::{Address, Connection};
use crate::options::without_number;
use crate::tls::{TlsConfig, TlsOptions};
use crate::uri::Uri;

/// Where a server is and how to log in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Option<Vec<u8>>,
    pub(crate) database: u32,
    pub(crate) resp3: bool,
    /// How long to wait for the connection; as long as the system does if there is none.
    pub(crate) connect_timeout: Option<Duration>,
}

/// Where a server is, as a command line says.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TargetOptions {
    /// Host name or address of the server
    #[arg(short = 'h', long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Port of the server
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 6379)]
    pub(crate) port: u16,
    /// Unix socket of the server, in place of host and port
    #[arg(short = 's', long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Where and how to log in: redis://[[USER:]PASSWORD@]HOST[:PORT][/DATABASE]
    #[arg(short = 'u', long, value_name = "URI")]
    pub(crate) uri: Option<String>,
    /// Password; the variable REDISCLI_AUTH keeps it out of the list of processes
    #[arg(short = 'a', long = "pass", value_name = "PASSWORD")]
    pub(crate) password: Option<OsString>,
    /// Name to log in with
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    #[command(flatten)]
    tls: TlsOptions,
}

impl TargetOptions {
    /// The server that is meant.
    pub(crate) fn target(&self) -> Result<Target, String> {
        let uri = self.uri.as_deref().map(Uri::parse).transpose()?.unwrap_or_default();
        let environment = std::env::var_os("REDISCLI_AUTH").map(OsStringExt::into_vec);
        let address = match &self.socket {
            Some(path) => Address::Unix(path.clone()),
            None => Address::host(
                uri.host.unwrap_or_else(|| self.host.clone()),
                uri.port.unwrap_or(self.port),
                self.tls.config(uri.tls)?,
            ),
        };
        Ok(Target {
            address,
            user: uri.user.or_else(|| self.user.clone().map(String::into_bytes)),
            password: uri
                .password
                .or_else(|| self.password.clone().map(OsStringExt::into_vec))
                .or(environment),
            database: uri.database.unwrap_or(0),
            resp3: false,
            connect_timeout: None,
        })
    }
}

impl TargetOptions {
    /// How to speak TLS to a server that a URI beside these options names.
    pub(crate) fn tls_of(&self, uri: &str) -> Result<Option<TlsConfig>, String> {
        if uri.starts_with("rediss://") { self.tls.config(true) } else { Ok(None) }
    }
}

impl Target {
    /// The server at `HOST:PORT`, a URI, or the path of a socket, with the login of another one if it says
    /// none itself.
    pub(crate) fn parse(place: &str, like: Option<&Target>) -> Result<Target, String> {
        let mut target = like.cloned().unwrap_or(Target {
            address: Address::Tcp("127.0.0.1".to_owned(), 6379),
            user: None,
            password: std::env::var_os("REDISCLI_AUTH").map(OsStringExt::into_vec),
            database: 0,
            resp3: false,
            connect_timeout: None,
        });
        if place.contains("://") {
            let uri = Uri::parse(place)?;
            let tls = target.address.tls().filter(|_| uri.tls);
            if uri.tls && tls.is_none() {
                return Err(format!("{place}: --tls has to say how"));
            }
            let (host, port) = (uri.host.unwrap_or("127.0.0.1".to_owned()), uri.port.unwrap_or(6379));
            target.address = Address::host(host, port, tls);
            target.user = uri.user.or(target.user);
            target.password = uri.password.or(target.password);
            target.database = uri.database.unwrap_or(target.database);
        } else if place.contains('/') {
            target.address = Address::Unix(PathBuf::from(place));
        } else {
            let (host, port) = place.rsplit_once(':').unwrap_or((place, "6379"));
            let port = port.parse().map_err(|_| format!("{place}: the port is not a number"))?;
            let host = host.trim_matches(['[', ']']).to_owned();
            target.address = Address::host(host, port, target.address.tls());
        }
        Ok(target)
    }

    /// Connects and logs in.
    pub(crate) fn open(&self) -> io::Result<Connection> {
        let mut connection = Connection::open(&self.address, self.connect_timeout).map_err(|error| {
            let text =
                format!("Could not connect to Redis at {}: {}", self.address.plain(), without_number(&error));
            io::Error::new(error.kind(), text)
        })?;
        if let Some(password) = &self.password {
            match &self.user {
                Some(user) => ask(&mut connection, &[&b"AUTH"[..], user, password])?,
                None => ask(&mut connection, &[&b"AUTH"[..], password])?,
            };
        }
        if self.resp3 {
            ask(&mut connection, &["HELLO", "3"])?;
        }
        if self.database != 0 {
            ask(&mut connection, &["SELECT", &self.database.to_string()])?;
        }
        Ok(connection)
    }
}

/// The reply to a command; an error reply is an error.
pub(crate) fn ask(connection: &mut Connection, command: &[impl AsRef<[u8]>]) -> io::Result<Value> {
    let reply = connection.ask(command)?;
    match reply.as_error() {
        Some(error) => Err(io::Error::other(String::from_utf8_lossy(error).into_owned())),
        None => Ok(reply),
    }
}
