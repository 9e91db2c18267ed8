//! Matching names against patterns of `*`, `?`, `[a-z]` and `\`. Takes time in proportion to the product of
//! both lengths at worst, and no stack.

/// Whether the text is a pattern rather than a name.
pub fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Whether `name` matches `pattern`, whatever the case of either.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    matches_exactly(&pattern.to_ascii_lowercase(), &name.to_ascii_lowercase())
}

/// Whether `name` matches `pattern`.
pub fn matches_exactly(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at_pattern, mut at_name) = (0, 0);
    // Where to go on when a match fails: behind the last star, one more character of the name taken by it.
    let mut retry: Option<(usize, usize)> = None;
    while at_name < name.len() || at_pattern < pattern.len() {
        if pattern.get(at_pattern) == Some(&b'*') {
            at_pattern += 1;
            retry = Some((at_pattern, at_name));
            continue;
        }
        if let Some(&character) = name.get(at_name)
            && let Some(length) = match_one(&pattern[at_pattern..], character)
        {
            at_pattern += length;
            at_name += 1;
            continue;
        }
        match retry {
            Some((star, taken)) if taken < name.len() => {
                retry = Some((star, taken + 1));
                (at_pattern, at_name) = (star, taken + 1);
            }
            _ => return false,
        }
    }
    true
}

/// Whether the first element of a pattern matches a character: its length if so.
fn match_one(pattern: &[u8], character: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => match_class(pattern, character),
        [b'\\', literal, ..] => (literal == character).then_some(2),
        [literal, ..] => (literal == character).then_some(1),
    }
}

/// Matches `[...]` or `[^...]`; a class that is not closed reaches to the end of the pattern.
fn match_class(pattern: &[u8], character: u8) -> Option<usize> {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(at..).unwrap_or_default() {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= *literal == character;
                at += 2;
            }
            [first, b'-', last, ..] => {
                found |= (first.min(last)..=first.max(last)).contains(&&character);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == character;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        let yes: &[(&str, &str)] = &[
            ("*", ""),
            ("*", "port"),
            ("PO*t", "port"),
            ("p?rt", "port"),
            ("p[a-o]rt", "port"),
            ("p[^x]rt", "port"),
            ("p[o", "po"),
            ("\\*", "*"),
            ("*max*entries*", "hash-max-listpack-entries"),
            ("**", "x"),
        ];
        let no: &[(&str, &str)] = &[
            ("", "x"),
            ("p", "port"),
            ("port", "por"),
            ("p[^o]rt", "port"),
            ("?", ""),
            ("\\*", "x"),
            ("*a*b", "xax"),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in no {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        // Would take for ever if each star were tried at every place.
        let stars = format!("{}b", "*a".repeat(100));
        assert!(!matches(stars.as_bytes(), &[b'a'; 5000]));
    }
}
