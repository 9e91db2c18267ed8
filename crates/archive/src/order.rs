//! One order for what has none: the elements of sets and the fields of hashes.
//!
//! A server writes them as its table has them, which depends on how the table came about. Here they are
//! sorted, so that a value that has not changed is the same bytes in each snapshot, whoever wrote the dump.

use mantissa_persist::format::value_type;

/// An element: by what it is sorted, and all of it.
type Element<'b> = (&'b [u8], &'b [u8]);

/// The same value with its elements in order; `None` where they have an order, or `bytes` is no such value.
/// Strings in it are not compressed.
pub(crate) fn sorted(form: u8, bytes: &[u8]) -> Option<Vec<u8>> {
    // Bytes before the count, strings of an element.
    let (before, strings) = match form {
        value_type::SET => (0, 1),
        value_type::HASH => (0, 2),
        value_type::HASH_METADATA => (8, 2),
        _ => return None,
    };
    let (count, count_bytes) = length(bytes.get(before..)?)?;
    let (head, mut rest) = bytes.split_at_checked(before + count_bytes)?;
    let mut elements: Vec<Element<'_>> = Vec::new();
    for _ in 0..count {
        // Fields with expiries have these in front.
        let start = if before > 0 { length(rest)?.1 } else { 0 };
        let name_bytes = string_size(rest.get(start..)?)?;
        let mut end = start.checked_add(name_bytes)?;
        if strings == 2 {
            end = end.checked_add(string_size(rest.get(end..)?)?)?;
        }
        let (element, after) = rest.split_at_checked(end)?;
        elements.push((&element[start..start + name_bytes], element));
        rest = after;
    }
    if !rest.is_empty() {
        return None;
    }
    elements.sort_unstable();
    let mut out = head.to_vec();
    elements.iter().for_each(|(_, element)| out.extend_from_slice(element));
    Some(out)
}

/// A length of a dump, and how many bytes it takes.
fn length(bytes: &[u8]) -> Option<(u64, usize)> {
    Some(match *bytes.first()? {
        first @ ..0x40 => (u64::from(first), 1),
        first @ 0x40..0x80 => (u64::from(first & 0x3f) << 8 | u64::from(*bytes.get(1)?), 2),
        0x80 => (u64::from(u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?)), 5),
        0x81 => (u64::from_be_bytes(bytes.get(1..9)?.try_into().ok()?), 9),
        _ => return None,
    })
}

/// How many bytes a string of a dump takes that is not compressed.
pub(crate) fn string_size(bytes: &[u8]) -> Option<usize> {
    match *bytes.first()? {
        0xc0 => Some(2),
        0xc1 => Some(3),
        0xc2 => Some(5),
        _ => {
            let (size, before) = length(bytes)?;
            usize::try_from(size).ok()?.checked_add(before)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn elements_come_in_order_and_none_is_lost(
            elements in prop::collection::hash_map("[a-z]{0,70}", "[a-z]{0,70}", 0..80),
        ) {
            let put = |word: &String, out: &mut Vec<u8>| {
                mantissa_persist::format::put_length(word.len() as u64, out);
                out.extend_from_slice(word.as_bytes());
            };
            let written = |elements: &[(&String, &String)], form| {
                let mut out = if form == value_type::HASH_METADATA { vec![7; 8] } else { vec![] };
                mantissa_persist::format::put_length(elements.len() as u64, &mut out);
                for (name, value) in elements {
                    if form == value_type::HASH_METADATA {
                        mantissa_persist::format::put_length(value.len() as u64 * 999, &mut out);
                    }
                    put(name, &mut out);
                    if form != value_type::SET {
                        put(value, &mut out);
                    }
                }
                out
            };
            let any: Vec<_> = elements.iter().collect();
            let mut in_order = any.clone();
            in_order.sort_by_key(|(name, _)| (name.len(), *name));
            for form in [value_type::SET, value_type::HASH, value_type::HASH_METADATA] {
                prop_assert_eq!(sorted(form, &written(&any, form)), Some(written(&in_order, form)));
                let cut = written(&any, form);
                prop_assert_eq!(sorted(form, &cut[..cut.len() - 1]), None);
            }
            prop_assert_eq!(sorted(value_type::LIST, &[0]), None);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, form in 0..30_u8) {
            sorted(form, &bytes);
        }
    }
}
