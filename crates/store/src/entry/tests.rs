//! Tests of entries.

use super::*;

#[test]
fn every_code_of_a_collection_costs_the_same() {
    for code in 1..COLD_CODE {
        let meta = meta_of(Shape::Collection, code);
        assert!(Shape::of(meta | CLOCK_MASK | EXPIRY_BIT) == Shape::Collection);
        assert_eq!((header_bytes(meta), header_bytes(meta | EXPIRY_BIT)), (16, 24));
    }
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::String) {
        assert_eq!(kind_of(kind as u32), kind);
    }
    const { assert!(Kind::ALL.len() + 10 <= 32, "the detail can name ten more types") };
}

#[test]
fn names_encodings_as_redis_does() {
    let name = |entry: &Entry| entry.string_encoding();
    let mut entry = Entry::string(b"key", b"12", None, 0);
    assert_eq!(name(&entry), Some("int"));
    entry.mark_as_text();
    assert_eq!(name(&entry), Some("embstr"));
    entry.set_integer(5);
    assert_eq!(name(&entry), Some("int"));
    entry.text_mut().expect("a string").append(b"0");
    for entry in [&entry, &entry.duplicate(b"copy", Some(1)), &entry.duplicate(b"copy", None).renamed(b"x")] {
        assert_eq!(name(entry), Some("raw"));
        assert_eq!(entry.as_string(), Some(StringRef::Bytes(b"50")));
    }
    entry.set_string(&[b'a'; 38]);
    assert_eq!(name(&entry), Some("embstr"));
    entry.set_expiry(Some(1));
    assert_eq!(name(&entry), Some("raw"));
}

#[test]
fn keeps_key_value_expiry_and_clock_through_every_change_of_form() {
    let long = vec![b'x'; 10_000];
    let mut entry = Entry::string(b"key", b"value", None, 77);
    for step in 0..200_u32 {
        let expiry = (step % 3 == 0).then_some(i64::from(step) * 1000);
        entry.set_expiry(expiry);
        let expected: Vec<u8> = match step % 7 {
            0 => b"12345".to_vec(),
            1 => long.clone(),
            2 => Vec::new(),
            3 => b"-9223372036854775808".to_vec(),
            4 => b"0123".to_vec(),
            5 => b"short".to_vec(),
            _ => {
                let text = entry.text_mut().expect("a string");
                text.append(b"++");
                text.to_vec()
            }
        };
        if step % 7 < 6 {
            entry.set_string(&expected);
        }
        assert_eq!(entry.as_string().map(StringRef::to_vec), Some(expected));
        assert_eq!((entry.key(), entry.clock(), entry.expiry()), (&b"key"[..], 77, expiry));
    }
    entry.set_value(Value::List(crate::List::default()));
    entry.set_expiry(Some(5));
    entry.set_expiry(None);
    assert_eq!((entry.kind(), entry.key()), (Kind::List, &b"key"[..]));
    let copy = entry.duplicate(b"copy", Some(9));
    assert_eq!((copy.kind(), copy.key(), copy.expiry()), (Kind::List, &b"copy"[..], Some(9)));
    let entry = entry.renamed(b"other key");
    assert_eq!((entry.kind(), entry.key(), entry.clock()), (Kind::List, &b"other key"[..], 77));
    assert!(matches!(entry.into_value(), Value::List(_)));
}

#[test]
fn holds_keys_and_integers_of_every_length() {
    for key_len in [0, 1, 2, 253, 254, 255, 256, 70_000] {
        let key = vec![b'k'; key_len];
        let mut entry = Entry::new(&key, Value::Integer(0), None, 5);
        for shift in 0..64 {
            for number in
                [1_i64 << shift, (1_i64 << shift).wrapping_sub(1), -1_i64 << shift, i64::MIN >> shift]
            {
                let expiry = (shift % 3 == 0).then_some(i64::MAX - shift);
                entry.set_integer(number);
                entry.set_expiry(expiry);
                assert_eq!(entry.as_string(), Some(StringRef::Integer(number)));
                assert_eq!((entry.key(), entry.expiry(), entry.clock()), (&key[..], expiry, 5));
                let fresh = Entry::new(&key, Value::Integer(number), expiry, 5);
                assert_eq!(fresh.as_string(), Some(StringRef::Integer(number)));
            }
        }
        for len in [0, 1, 100, 1_000, EMBEDDED_BYTES_MAX, EMBEDDED_BYTES_MAX + 1] {
            let text = vec![b'v'; len];
            entry.set_string(&text);
            assert_eq!(entry.as_string(), Some(StringRef::Bytes(&text)));
            assert_eq!(entry.key(), key);
            assert!(!entry.compact(0));
            assert_eq!(entry.as_string(), Some(StringRef::Bytes(&text)));
        }
    }
}
