//! Glob patterns as KEYS, PSUBSCRIBE and CONFIG GET take them: `*`, `?`, `[a-z]`, `[^a-z]`, `\` to quote.
//!
//! Runs in O(pattern * text) at worst: only the last `*` is ever retried.

/// Runs of `*` with something behind them in one pattern. A pattern with more matches nothing, as in Redis.
const STARS_MAX: usize = 1000;

/// Whether `text` matches `pattern` as a whole.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_with(pattern, text, false)
}

/// Whether `text` matches `pattern` as a whole, ASCII case aside if `ignore_case`. As in Redis, an empty text
/// matches no pattern but the empty one and `*`.
pub fn matches_with(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        return matches!(pattern, b"" | b"*");
    }
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    let (mut at, mut position) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    let mut stars = 0;
    loop {
        let step = match pattern.get(at) {
            Some(b'*') => {
                at += pattern[at..].iter().take_while(|&&byte| byte == b'*').count();
                stars += 1;
                match at == pattern.len() {
                    true => return true,
                    false if stars > STARS_MAX => return false,
                    false => retry = Some((at, position)),
                }
                continue;
            }
            None if position == text.len() => return true,
            None => None,
            Some(_) => text.get(position).and_then(|&byte| match_one(pattern, at, byte, &fold)),
        };
        match (step, &mut retry) {
            (Some(next), _) => (at, position) = (next, position + 1),
            (None, Some((after_star, from))) if *from < text.len() => {
                *from += 1;
                (at, position) = (*after_star, *from);
            }
            (None, _) => return false,
        }
    }
}

/// Matches one byte against the pattern element at `at`; the position after the element if it fits.
fn match_one(pattern: &[u8], at: usize, byte: u8, fold: &impl Fn(u8) -> u8) -> Option<usize> {
    match pattern[at] {
        b'?' => Some(at + 1),
        b'[' => match_class(pattern, at + 1, byte, fold),
        b'\\' if at + 1 < pattern.len() => (fold(pattern[at + 1]) == fold(byte)).then_some(at + 2),
        literal => (fold(literal) == fold(byte)).then_some(at + 1),
    }
}

/// Matches one byte against the class whose `[` lies before `at`. An unclosed class ends with the pattern.
fn match_class(pattern: &[u8], mut at: usize, byte: u8, fold: &impl Fn(u8) -> u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(at) {
            None => break,
            Some(b']') => {
                at += 1;
                break;
            }
            Some(b'\\') if at + 1 < pattern.len() => {
                found |= pattern[at + 1] == byte;
                at += 2;
            }
            Some(&low) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let (low, high) = (fold(low), fold(pattern[at + 2]));
                found |= (low.min(high)..=low.max(high)).contains(&fold(byte));
                at += 3;
            }
            Some(&literal) => {
                found |= fold(literal) == fold(byte);
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

/// The text before the first wildcard, if the pattern has none at all: then it matches just that text.
pub fn is_literal(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_redis_does() {
        let yes: &[(&str, &str)] = &[
            ("*", ""),
            ("a*c", "abbbc"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[c-a]x", "bx"),
            ("[^a]x", "bx"),
            ("\\*", "*"),
            ("a\\", "a\\"),
            ("*a*b*", "xxaxxbxx"),
            ("[abc", "a"),
            ("[\\]]", "]"),
            ("**x", "x"),
        ];
        let no: &[(&str, &str)] = &[
            ("", "a"),
            ("a", ""),
            ("a*c", "abbb"),
            ("[^a]x", "ax"),
            ("?", ""),
            ("**", ""),
            ("a?c", "ac"),
            ("A", "a"),
        ];
        assert!(yes.iter().all(|(p, t)| matches(p.as_bytes(), t.as_bytes())));
        assert!(!no.iter().any(|(p, t)| matches(p.as_bytes(), t.as_bytes())));
        assert!(matches_with(b"FO[n-p]", b"foO", true));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = b"a*".repeat(200);
        let text = vec![b'a'; 20_000];
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
    }

    #[test]
    fn a_pattern_with_more_stars_than_redis_follows_matches_nothing() {
        let text = vec![b'a'; 3 * STARS_MAX];
        let at_the_limit = b"*?".repeat(STARS_MAX);
        assert!(matches(&at_the_limit, &text));
        assert!(matches(&[&at_the_limit[..], b"**"].concat(), &text));
        assert!(!matches(&[&at_the_limit[..], b"*?"].concat(), &text));
    }
}
