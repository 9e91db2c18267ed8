//! AWS Signature Version 4 of requests whose body is signed too.

use ring::{digest, hmac};

use super::location::Credentials;
use crate::wire::hex;

/// What is signed of a request.
pub(super) struct Signable<'a> {
    pub method: &'a str,
    /// Encoded, as it is sent.
    pub path: &'a str,
    /// Encoded and sorted, as it is sent.
    pub query: &'a str,
    /// Names in lower case with their values, sorted.
    pub headers: &'a [(&'a str, &'a str)],
    pub body_hash: &'a str,
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// A text as paths (where slashes stay) and queries have it.
pub(super) fn encoded(text: &str, keeps_slashes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b'/' if keeps_slashes => out.push('/'),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// A query of pairs that are sorted by name.
pub(super) fn encoded_query(pairs: &[(&str, &str)]) -> String {
    let mut pairs: Vec<_> =
        pairs.iter().map(|(name, value)| (encoded(name, false), encoded(value, false))).collect();
    pairs.sort();
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// The header `authorization` of a request at a time such as `20261125T070000Z`.
pub(super) fn authorization(
    request: &Signable<'_>,
    credentials: &Credentials,
    region: &str,
    time: &str,
) -> String {
    let headers: String =
        request.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let names: Vec<_> = request.headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let Signable { method, path, query, body_hash, .. } = request;
    let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{body_hash}");
    let day = time.get(..8).unwrap_or(time);
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let first = format!("AWS4{}", credentials.secret_key).into_bytes();
    let parts = [day, region, "s3", "aws4_request", &text];
    let signature = parts.iter().fold(first, |key, part| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec()
    });
    let access_key = &credentials.access_key;
    let signature = hex(&signature);
    format!("AWS4-HMAC-SHA256 Credential={access_key}/{scope},SignedHeaders={names},Signature={signature}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the documentation, with its keys.
    #[test]
    fn signatures_are_those_of_the_documentation() {
        let credentials = Credentials {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        };
        let (time, host) = ("20130524T000000Z", ("host", "examplebucket.s3.amazonaws.com"));
        let empty = sha256(b"");
        let hash = ("x-amz-content-sha256", empty.as_str());
        let date = ("x-amz-date", time);
        let sign = |method, path, query: &str, headers: &[(&str, &str)], body_hash: &str| {
            let request = Signable { method, path, query, headers, body_hash };
            let text = authorization(&request, &credentials, "us-east-1", time);
            text.rsplit('=').next().map(str::to_owned)
        };
        let signature = |text: &str| Some(text.to_owned());
        assert_eq!(
            sign("GET", "/test.txt", "", &[host, ("range", "bytes=0-9"), hash, date], &empty),
            signature("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
        );
        assert_eq!(
            sign("GET", "/", "lifecycle=", &[host, hash, date], &empty),
            signature("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
        );
        let query = encoded_query(&[("prefix", "J"), ("max-keys", "2")]);
        assert_eq!(
            sign("GET", "/", &query, &[host, hash, date], &empty),
            signature("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
        );
        let body = sha256(b"Welcome to Amazon S3.");
        let headers = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            host,
            ("x-amz-content-sha256", body.as_str()),
            date,
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        assert_eq!(
            sign("PUT", &format!("/{}", encoded("test$file.text", true)), "", &headers, &body),
            signature("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")
        );
    }
}
