//! Tests of packed numbers.

use super::*;
use crate::Protocol;

/// What a writer replies, without the framing of the bulk string.
fn payload(writer: PackedWriter) -> Result<Vec<u8>, Failure> {
    let mut reply = Reply::new(Protocol::Resp2);
    writer.finish(&mut reply)?;
    let bytes = reply.into_bytes();
    let start = bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    Ok(bytes[start..bytes.len() - 2].to_vec())
}

fn writer(form: &str) -> PackedWriter {
    PackedWriter::new(Form::parse(form.as_bytes()).expect("a form"))
}

fn written(form: &str, write: impl FnOnce(&mut PackedWriter)) -> Result<Vec<u8>, Failure> {
    let mut writer = writer(form);
    write(&mut writer);
    payload(writer)
}

#[test]
fn doubles_and_names_lie_where_the_drawing_says() {
    let pairs: [(&[u8], f64); 2] = [(b"a", 1.5), (b"bc", -0.0)];
    let bytes = written("f64", |writer| writer.pairs(pairs.into_iter())).expect("doubles");
    assert_eq!(bytes[..8], [1, 1, 1, 0, 0, 0, 0, 2]);
    assert_eq!(bytes[8..16], 1.5f64.to_be_bytes());
    assert_eq!(bytes[16..24], (-0.0f64).to_be_bytes());
    assert_eq!(&bytes[24..], b"\x01a\x02bc");
    let packed = Packed::read(&bytes).expect("it was just written");
    assert_eq!(packed.numbers, Numbers::Doubles(vec![1.5, -0.0]));
    assert_eq!(packed.names, [&b"a"[..], b"bc"]);
}

#[test]
fn every_type_goes_round() {
    let integers = [i64::MIN, -1, 0, 1, 300, i64::MAX];
    for form in ["varint", "delta"] {
        let bytes = written(form, |writer| integers.iter().for_each(|&value| writer.integer(value)));
        let bytes = bytes.expect("they ascend");
        let packed = Packed::read(&bytes).expect("it was just written");
        assert_eq!(packed.numbers, Numbers::Integers(integers.to_vec()), "{form}");
    }
    let bytes = written("f32", |writer| writer.numbers(&[0.1, f64::INFINITY])).expect("floats");
    let packed = Packed::read(&bytes).expect("it was just written");
    assert_eq!(packed.numbers, Numbers::Floats(vec![0.1, f32::INFINITY]));
    let bytes = written("f64nan", |writer| {
        writer.text(b"12");
        writer.text(b"x");
        writer.missing();
        writer.integer(7);
    });
    let bytes = bytes.expect("NaN stands for what is no number");
    let Ok(Packed { numbers: Numbers::Doubles(values), .. }) = Packed::read(&bytes) else {
        panic!("it was just written")
    };
    assert!(values[0] == 12.0 && values[1].is_nan() && values[2].is_nan() && values[3] == 7.0);
}

#[test]
fn what_is_no_number_is_named() {
    let failure = |index, cause| Err(Failure { index, cause });
    let two = |form, first: &[u8], second: &[u8]| {
        written(form, |writer| {
            writer.text(first);
            writer.text(second);
            writer.missing();
        })
    };
    assert_eq!(two("f64", b"1", b"one"), failure(1, Cause::NotANumber));
    assert_eq!(two("f64", b"1", b"nan"), failure(1, Cause::NotANumber));
    assert_eq!(two("f64", b"1", b"2"), failure(2, Cause::Missing));
    assert_eq!(two("varint", b"1", b"1.5"), failure(1, Cause::NotAnInteger));
    assert_eq!(two("varint", b"9223372036854775808", b"1"), failure(0, Cause::NotAnInteger));
    assert_eq!(two("delta", b"2", b"1"), failure(1, Cause::Descends));
    assert_eq!(two("delta", b"-3", b"1e2"), failure(2, Cause::Missing));
}

#[test]
fn entries_share_names() {
    let bytes = written("varint", |writer| {
        writer.set_contents(Contents::Entries);
        (1..=4).for_each(|value| writer.integer(value));
        [5, 0, 2].into_iter().for_each(|number| writer.name_number(number));
        writer.name(b"p");
        writer.name(b"q");
        [5, 1, 0].into_iter().for_each(|number| writer.name_number(number));
    });
    let bytes = bytes.expect("integers");
    let packed = Packed::read(&bytes).expect("it was just written");
    assert_eq!(packed.names, [b"p", b"q", b"p", b"q"]);
    assert_eq!(packed.entries[1], Entry { ms: 5, sequence: 1, first: 2, count: 2 });
}

#[test]
fn broken_bytes_are_refused() {
    let good = written("f64", |writer| writer.pairs([(&b"name"[..], 2.0)].into_iter())).expect("a double");
    assert!(Packed::read(&good).is_ok());
    for len in 0..good.len() {
        assert_eq!(Packed::read(&good[..len]), Err(Malformed), "{len}");
    }
    assert_eq!(Packed::read(&[&good[..], b"x"].concat()), Err(Malformed));
    for (place, value) in [(0, 2), (1, 0), (1, 5), (2, 3), (3, 1), (4, 255), (7, 0), (16, 255)] {
        let mut bad = good.clone();
        bad[place] = value;
        assert_eq!(Packed::read(&bad), Err(Malformed), "byte {place} as {value}");
    }
    // The count says more than there is; a difference leaves the 64-bit integers.
    assert_eq!(Packed::read(&[1, 3, 0, 0, 255, 255, 255, 255, 1]), Err(Malformed));
    let largest = written("delta", |writer| writer.integer(i64::MAX)).expect("an integer");
    let beyond = [&[1, 4, 0, 0, 0, 0, 0, 2], &largest[8..], &[1]].concat();
    assert_eq!(Packed::read(&beyond), Err(Malformed));
    // An entry without names comes first.
    assert_eq!(Packed::read(&[1, 3, 2, 0, 0, 0, 0, 1, 2, 1, 1, 0]), Err(Malformed));
}
