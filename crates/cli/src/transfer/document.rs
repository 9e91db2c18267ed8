//! JSON as an import reads it.
//!
//! A value is the piece of the file that it stands in, which is looked into when it is asked for: numbers
//! keep their text, which a parser that makes numbers of them would change (`1.10`, `1e3`, beyond 64 bits).

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Up to which size every whole number is one as a float, too.
const EXACT_MAX: f64 = (1_u64 << 53) as f64;

/// The members of an object.
pub(super) type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The object that a text is; an error that says what is wrong with it otherwise.
pub(super) fn members(text: &str) -> Result<Members<'_>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// A member, unless it is missing or null.
pub(super) fn member<'a>(members: &Members<'a>, name: &str) -> Option<&'a RawValue> {
    members.get(name).copied().filter(|value| value.get() != "null")
}

/// The members of a value that is an object.
pub(super) fn object(value: &RawValue) -> Option<Members<'_>> {
    members(value.get()).ok()
}

/// The elements of a value that is an array.
pub(super) fn array(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

/// The text of a string.
pub(super) fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// The bytes that a string stands for, or an object with the member `hex`; numbers and booleans are as good
/// as their text.
pub(super) fn bytes(value: &RawValue) -> Option<Vec<u8>> {
    let text = value.get();
    match text.as_bytes().first()? {
        b'"' => string(value).map(String::into_bytes),
        b'{' => {
            let hex = string(member(&object(value)?, "hex")?)?;
            let bytes = hex.as_bytes().chunks(2).map(|digits| {
                let is_pair = digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
                let digits = std::str::from_utf8(digits).ok().filter(|_| is_pair)?;
                u8::from_str_radix(digits, 16).ok()
            });
            bytes.collect()
        }
        b'[' | b'n' => None,
        _ => Some(text.as_bytes().to_vec()),
    }
}

/// A whole number, which may be written as a float.
pub(super) fn integer(value: &RawValue) -> Option<i64> {
    let text = value.get();
    let float = || text.parse::<f64>().ok().filter(|float| float.fract() == 0.0 && float.abs() < EXACT_MAX);
    text.parse().ok().or_else(|| float().map(|float| float as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn numbers_keep_their_text() {
        for text in ["1.10", "1e3", "-0", "123456789012345678901", "1E+2", "true"] {
            assert_eq!(bytes(raw(text)).as_deref(), Some(text.as_bytes()));
        }
        for (text, wanted) in [
            ("4102444800123", Some(4_102_444_800_123)),
            (" 4102444800123.0 ", Some(4_102_444_800_123)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-1", Some(-1)),
            ("1.5", None),
            ("9223372036854775808", None),
            ("\"1\"", None),
            ("true", None),
            ("[1]", None),
        ] {
            assert_eq!(integer(raw(text)), wanted, "{text}");
        }
    }

    #[test]
    fn strings_and_bytes() {
        assert_eq!(bytes(raw(r#""a\u00e9""#)), Some("aé".as_bytes().to_vec()));
        assert_eq!(bytes(raw(r#"{"hex":"00fF"}"#)), Some(vec![0, 255]));
        for wrong in [r#"{"hex":"0"}"#, r#"{"hex":"+1"}"#, r#"{"hax":"00"}"#, r#""\ud800""#, "[]", "null"] {
            assert_eq!(bytes(raw(wrong)), None, "{wrong}");
        }
    }
}
