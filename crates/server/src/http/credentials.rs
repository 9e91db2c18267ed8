//! Who asks: an ACL user and a password.

use mantissa_net::http::{Head, percent_decode};
use mantissa_protocol::base64;

/// The parameter of a query that holds a token, for clients that can set no fields.
pub const TOKEN_PARAMETER: &str = "_token";

/// What a client presents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credentials {
    /// Nothing.
    Missing,
    /// The name of a user, and a password.
    User(Vec<u8>, Vec<u8>),
    /// Something that nobody here understands.
    Invalid,
}

/// What a request presents: `Authorization: Bearer USER:PASSWORD`, `Bearer PASSWORD` for the default user,
/// `Basic`, or the token as the parameter `_token`.
pub fn credentials(head: &Head) -> Credentials {
    let mut fields = head.fields("authorization");
    let Some(field) = fields.next() else { return of_query(&head.query) };
    if fields.next().is_some() {
        return Credentials::Invalid;
    }
    let end = field.iter().position(|&byte| byte == b' ').unwrap_or(field.len());
    let (scheme, rest) = (&field[..end], field[end..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") && !rest.is_empty() {
        return of_token(rest);
    }
    let decoded = scheme.eq_ignore_ascii_case(b"basic").then(|| base64::decode(rest)).flatten();
    match decoded {
        Some(decoded) if decoded.contains(&b':') => of_token(&decoded),
        _ => Credentials::Invalid,
    }
}

/// A token without a colon is the default user's password. A user without a name is the default user.
fn of_token(token: &[u8]) -> Credentials {
    let (name, password) = match token.iter().position(|&byte| byte == b':') {
        Some(at) => (&token[..at], &token[at + 1..]),
        None => (&b""[..], token),
    };
    let name = if name.is_empty() { b"default" } else { name };
    Credentials::User(name.to_vec(), password.to_vec())
}

/// Whether a request presents them in a field of its head, which a page of another site cannot have a browser
/// send unasked. In a query it can.
pub fn are_in_field(head: &Head) -> bool {
    head.fields("authorization").next().is_some()
}

fn of_query(query: &str) -> Credentials {
    let mut parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
    match parameters.find(|(name, _)| *name == TOKEN_PARAMETER) {
        None => Credentials::Missing,
        Some((_, token)) => {
            percent_decode(token.as_bytes(), true).map_or(Credentials::Invalid, |token| of_token(&token))
        }
    }
}

#[cfg(test)]
mod tests {
    use mantissa_net::http::{ParsedHead, parse_head};

    use super::*;

    fn of(target: &str, field: &str) -> Credentials {
        let text = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{field}\r\n");
        match parse_head(text.as_bytes()) {
            ParsedHead::Complete(head, _) => credentials(&head),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn users_are_told_by_their_tokens() {
        let user = |name: &str, password: &str| Credentials::User(name.into(), password.into());
        for (target, field, found) in [
            ("/", "", Credentials::Missing),
            ("/", "Authorization: Bearer secret\r\n", user("default", "secret")),
            ("/", "authorization: bearer anna:se:cret\r\n", user("anna", "se:cret")),
            ("/", "Authorization: Bearer :se:cret\r\n", user("default", "se:cret")),
            ("/", "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n", user("anna", "secret")),
            ("/", "Authorization: Basic OnNlY3JldA==\r\n", user("default", "secret")),
            ("/?_token=a%3Ab&x", "", user("a", "b")),
            ("/?x=_token", "", Credentials::Missing),
            ("/?_token=%", "", Credentials::Invalid),
            ("/?_token=a", "Authorization: Bearer b\r\n", user("default", "b")),
            ("/", "Authorization: Bearer \r\n", Credentials::Invalid),
            ("/", "Authorization: secret\r\n", Credentials::Invalid),
            ("/", "Authorization: Basic c2VjcmV0\r\n", Credentials::Invalid),
            ("/", "Authorization: Basic !\r\n", Credentials::Invalid),
            ("/", "Authorization: Bearer a\r\nAuthorization: Bearer a\r\n", Credentials::Invalid),
        ] {
            assert_eq!(of(target, field), found, "{target} {field}");
        }
    }
}
