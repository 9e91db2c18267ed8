//! The certificates of authorities that the system trusts.

use std::env;
use std::path::{Path, PathBuf};

/// Where systems keep them.
const FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The file that `SSL_CERT_FILE` names, else the first that is there of those where systems have it: PEM.
pub fn file() -> Option<PathBuf> {
    let known = || FILES.iter().map(Path::new).find(|path| path.is_file()).map(Path::to_owned);
    env::var_os("SSL_CERT_FILE").map(PathBuf::from).or_else(known)
}
