//! Where a server is and how to log in, as a URI says: `redis://[[USER:]PASSWORD@]HOST[:PORT][/DATABASE]`, or
//! with `rediss` for TLS.

/// What a URI says.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct Uri {
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Option<Vec<u8>>,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) database: Option<u32>,
    /// Whether to speak TLS.
    pub(crate) tls: bool,
}

impl Uri {
    pub(crate) fn parse(uri: &str) -> Result<Uri, String> {
        let wrong = |what: &str| format!("{uri}: {what}");
        let tls = uri.strip_prefix("rediss://");
        let rest = tls.or_else(|| uri.strip_prefix("redis://"));
        let rest = rest.ok_or_else(|| "Invalid URI scheme".to_owned())?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut parsed = Uri { tls: tls.is_some(), ..Uri::default() };
        let place = match authority.rsplit_once('@') {
            None => authority,
            Some((login, place)) => {
                let (user, password) = match login.split_once(':') {
                    Some((user, password)) => (user, password),
                    None => ("", login),
                };
                parsed.user = (!user.is_empty()).then(|| decode_percents(user));
                parsed.password = Some(decode_percents(password));
                place
            }
        };
        // An IPv6 address stands in brackets, as it has colons of its own.
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        parsed.host = (!host.is_empty()).then(|| host.to_owned());
        parsed.port = port.map(str::parse).transpose().map_err(|_| wrong("the port is not a number"))?;
        let database = (!path.is_empty()).then(|| path.parse()).transpose();
        parsed.database = database.map_err(|_| wrong("the database is not a number"))?;
        Ok(parsed)
    }
}

/// Resolves `%41` and the like; what is not of that form stays.
fn decode_percents(text: &str) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..2).filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                rest = &tail[2..];
            }
            None => {
                decoded.push(first);
                rest = tail;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris() {
        let parsed = Uri::parse("redis://user:p%40ss%zz@host:1234/5").expect("a valid URI");
        assert_eq!(parsed.user.as_deref(), Some(&b"user"[..]));
        assert_eq!(parsed.password.as_deref(), Some(&b"p@ss%zz"[..]));
        assert_eq!(
            (parsed.host.as_deref(), parsed.port, parsed.database),
            (Some("host"), Some(1234), Some(5))
        );
        let parsed = Uri::parse("redis://secret@[::1]").expect("a valid URI");
        assert_eq!((parsed.user, parsed.password.as_deref()), (None, Some(&b"secret"[..])));
        assert_eq!((parsed.host.as_deref(), parsed.port), (Some("::1"), None));
        assert_eq!(Uri::parse("redis://").expect("a valid URI"), Uri::default());
        assert!(Uri::parse("rediss://host").expect("a valid URI").tls && !parsed.tls);
        for wrong in ["host", "redis://host:port", "redis://host/zero", "http://host"] {
            assert!(Uri::parse(wrong).is_err(), "{wrong}");
        }
    }
}
