//! Private keys: in PEM as PKCS #1, PKCS #8 or SEC 1, and PKCS #8 encrypted with a password.
//!
//! Keys on elliptic curves need their public part, which RFC 5915 leaves optional and Java's tools leave out.
//! It is taken from the certificate then; the library checks that it fits.

use pkcs8::der::{Decode, Encode};
use pkcs8::spki::SubjectPublicKeyInfoRef;
use pkcs8::{EncryptedPrivateKeyInfo, PrivateKeyInfo, SecretDocument};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::SigningKey;
use sec1::EcPrivateKey;
use std::sync::Arc;

/// What a block with an encrypted key is called.
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";

/// The key in `text`, the one of `certificate`. The error says why there is none.
pub(super) fn load(
    text: &[u8],
    password: &[u8],
    certificate: &CertificateDer<'_>,
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, String> {
    let key = match block(text, ENCRYPTED) {
        Some(block) => decrypted(block, password)?,
        None if contains(text, b"Proc-Type: 4,ENCRYPTED") => {
            return Err("it is encrypted in an old form: convert it with `openssl pkcs8 -topk8`".to_owned());
        }
        None => PrivateKeyDer::from_pem_slice(text).map_err(|error| error.to_string())?,
    };
    let completed = with_public_key(&key, certificate).unwrap_or(key);
    provider.key_provider.load_private_key(completed).map_err(|error| error.to_string())
}

fn decrypted(block: &str, password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if password.is_empty() {
        return Err("it is encrypted, and there is no password for it".to_owned());
    }
    let unreadable = |error: pkcs8::Error| format!("it is encrypted and cannot be decrypted: {error}");
    let (_, document) = SecretDocument::from_pem(block).map_err(|error| unreadable(error.into()))?;
    let encrypted = EncryptedPrivateKeyInfo::try_from(document.as_bytes()).map_err(unreadable)?;
    let key = encrypted.decrypt(password).map_err(unreadable)?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// The same key with its public part, if it is one on an elliptic curve that lacks it.
fn with_public_key(
    key: &PrivateKeyDer<'_>,
    certificate: &CertificateDer<'_>,
) -> Option<PrivateKeyDer<'static>> {
    let inner = match key {
        PrivateKeyDer::Pkcs8(key) => PrivateKeyInfo::from_der(key.secret_pkcs8_der()).ok()?.private_key,
        PrivateKeyDer::Sec1(key) => key.secret_sec1_der(),
        _ => return None,
    };
    let mut elliptic = EcPrivateKey::from_der(inner).ok()?;
    if elliptic.public_key.is_some() {
        return None;
    }
    let certificate = ParsedCertificate::try_from(certificate).ok()?;
    let public = certificate.subject_public_key_info();
    let public = SubjectPublicKeyInfoRef::from_der(&public).ok()?;
    elliptic.public_key = Some(public.subject_public_key.as_bytes()?);
    let inner = elliptic.to_der().ok()?;
    let completed = PrivateKeyInfo::new(public.algorithm, &inner).to_der().ok()?;
    Some(PrivatePkcs8KeyDer::from(completed).into())
}

/// The block of a PEM file with this name, with its first and last line.
fn block<'t>(text: &'t [u8], name: &str) -> Option<&'t str> {
    let text = std::str::from_utf8(text).ok()?;
    let start = text.find(&format!("-----BEGIN {name}-----"))?;
    let last = format!("-----END {name}-----");
    let end = start + text[start..].find(&last)? + last.len();
    Some(&text[start..end])
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|other| other == part)
}
