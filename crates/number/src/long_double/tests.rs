//! Answers of INCRBYFLOAT in Redis 8.2 on x86.

use super::LongDouble;

fn sum(first: &str, second: &str) -> String {
    let parse =
        |text: &str| LongDouble::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"));
    let mut out = Vec::new();
    (parse(first) + parse(second)).write(&mut out);
    String::from_utf8(out).expect("digits are UTF-8")
}

#[test]
fn adds_as_redis_does() {
    let expected = [
        ("0.1", "0.2", "0.3"),
        ("0", "123456789.123456789123", "123456789.12345678912242875"),
        ("5.0e3", "200", "5200"),
        ("0x10", "1", "17"),
        ("10", "-10", "0"),
        ("-0", "-0", "0"),
        ("0", "1e-17", "0.00000000000000001"),
        ("0", "4.9e-18", "0"),
        ("0", "-1e-30", "0"),
        ("1.5", "-0.5", "1"),
    ];
    for (first, second, result) in expected {
        assert_eq!(sum(first, second), result, "{first} + {second}");
    }
    assert!(sum("0", "1e4932").starts_with("100000000000000000000601894938"));
    assert!(sum("0", "1.18973149535723176502e4932").starts_with("118973149535723176502126385303"));
}

#[test]
fn refuses_what_redis_refuses() {
    let zeros = |count: usize| format!("1.{}", "0".repeat(count));
    assert!(LongDouble::parse(zeros(5117).as_bytes()).is_some());
    assert!(LongDouble::parse(zeros(5118).as_bytes()).is_none());
    for text in ["", " 1", "1 ", "nan", "1e4933", "1e-4951", "-1e5000", "abc", "1\0", "0x", "1e", "."] {
        assert!(LongDouble::parse(text.as_bytes()).is_none(), "{text:?}");
    }
    for text in ["1e-4950", "3e-4951", "inf", "-Infinity", ".5", "5."] {
        assert!(LongDouble::parse(text.as_bytes()).is_some(), "{text:?}");
    }
    let infinity = LongDouble::parse(b"inf").expect("an infinity");
    let minus = LongDouble::parse(b"-inf").expect("an infinity");
    assert!((infinity + minus).is_nan());
    let large = LongDouble::parse(b"1e4932").expect("finite");
    assert!((large + large).is_infinite());
}

#[test]
fn integers_and_doubles_are_exact() {
    for value in [0, 1, -1, i64::MAX, i64::MIN, 1 << 53] {
        let mut out = Vec::new();
        LongDouble::from_i64(value).write(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), value.to_string());
    }
    let mut out = Vec::new();
    LongDouble::from_f64(-0.75).write(&mut out);
    assert_eq!(out, b"-0.75");
}

#[test]
fn numbers_are_ordered_by_value() {
    let texts =
        ["-inf", "-1e4900", "-18446744073709551616", "-2", "-1.5", "-1e-4940", "0", "1e-4950", "1e-4940"];
    let more = ["0.1", "1", "1.00000000000000001", "9223372036854775807", "1e300", "1e4900", "inf"];
    let numbers: Vec<_> =
        texts.iter().chain(&more).map(|text| LongDouble::parse(text.as_bytes()).expect(text)).collect();
    for (one, first) in numbers.iter().enumerate() {
        for (other, second) in numbers.iter().enumerate() {
            assert_eq!(first.is_less_than(*second), one < other, "{one} {other}");
            assert_eq!((-*second).is_less_than(-*first), one < other, "{one} {other}");
        }
        assert_eq!(LongDouble::LEAST.is_less_than(*first), one > 0);
        assert_eq!(first.is_less_than(LongDouble::LARGEST), one + 1 < numbers.len());
    }
    let zero = LongDouble::ZERO;
    assert!(!zero.is_less_than(-zero) && !(-zero).is_less_than(zero));
    let none = LongDouble::parse(b"inf").expect("it is") + LongDouble::parse(b"-inf").expect("it is");
    assert!(none.is_nan() && !none.is_less_than(zero) && !zero.is_less_than(none));
    assert!((LongDouble::LARGEST + LongDouble::LARGEST).is_infinite());
}

#[test]
fn significant_digits_are_those_of_c() {
    // What `printf("%.17Lg")` of glibc prints of `strtold`'s result.
    for (text, printed) in [
        ("0", "0"),
        ("60", "60"),
        ("-2.5", "-2.5"),
        ("0.1", "0.1"),
        ("0.3", "0.3"),
        ("100000", "100000"),
        ("12345678901234567", "12345678901234567"),
        ("123456789012345678", "1.2345678901234568e+17"),
        ("12345678901234567890", "1.2345678901234568e+19"),
        ("99999999999999999.9", "1e+17"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("-1.5e-7", "-1.5e-07"),
        ("1e300", "1e+300"),
        ("1e-4900", "1e-4900"),
        ("1e-4940", "9.9999999999605325e-4941"),
        ("1e4900", "1e+4900"),
        ("inf", "inf"),
    ] {
        let mut out = Vec::new();
        LongDouble::parse(text.as_bytes()).expect(text).write_significant(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), printed, "{text}");
    }
}

#[test]
fn fractions_are_cut_off() {
    for (text, integer) in [
        ("0", Some(0)),
        ("7.9", Some(7)),
        ("-7.9", Some(-7)),
        ("0.5", Some(0)),
        ("1e-4940", Some(0)),
        ("1e18", Some(1_000_000_000_000_000_000)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("1e30", None),
        ("1e4000", None),
        ("-inf", None),
    ] {
        assert_eq!(LongDouble::parse(text.as_bytes()).expect(text).truncated(), integer, "{text}");
    }
}
