//! Which lines hold a password, and so belong in no file.

use mantissa_protocol::split_quoted;

/// Whether a line holds a password.
pub(crate) fn has_secret(line: &str) -> bool {
    let words = split_quoted(line.as_bytes()).unwrap_or_default();
    let words: Vec<String> =
        words.iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A number before a command repeats it; `:plot` takes a command.
    while words.first().is_some_and(|word| word.starts_with(':') || word.parse::<i64>().is_ok()) {
        words.remove(0);
    }
    match &words[..] {
        ["auth", ..] | ["acl", "setuser", ..] => true,
        ["hello" | "migrate", options @ ..] => {
            options.iter().any(|option| matches!(*option, "auth" | "auth2"))
        }
        ["config", "set", settings @ ..] => {
            settings.iter().any(|name| ["auth", "pass"].iter().any(|part| name.contains(part)))
        }
        ["sentinel", "set" | "config", ..] => words.iter().any(|word| word.contains("pass")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_do_not_get_into_the_history() {
        for line in [
            "AUTH x",
            "auth user pass",
            "3 auth pass",
            "ACL SETUSER a on >p",
            "HELLO 3 AUTH a b",
            "CONFIG SET requirepass x",
            "config set maxmemory 1 masterauth x",
            "MIGRATE h 1 k 0 1 AUTH2 u p",
            "SENTINEL SET m auth-pass x",
            ":plot auth x",
            "  :plot CONFIG SET requirepass x",
            ":polt 3 HELLO 3 AUTH a b",
        ] {
            assert!(has_secret(line), "{line}");
        }
        for line in
            ["GET auth", "HELLO 3", "CONFIG SET maxmemory 1", "ACL LIST", ":plot GET auth", ":set", "", "\""]
        {
            assert!(!has_secret(line), "{line}");
        }
    }
}
