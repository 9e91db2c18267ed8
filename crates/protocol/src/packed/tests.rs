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
    let bytes = written("f64", |writer| {
        writer.set_named();
        writer.pairs(pairs.into_iter());
    });
    let bytes = bytes.expect("doubles");
    assert_eq!(bytes[..16], *b"MP\x01\x01\x04\0\0\x01\0\0\0\x02\0\0\0\x10");
    assert_eq!(bytes[16..24], 1.5f64.to_be_bytes());
    assert_eq!(bytes[24..32], (-0.0f64).to_be_bytes());
    assert_eq!(&bytes[32..], b"\0\0\0\x01\0\0\0\x02abc");
    let packed = Packed::read(&bytes).expect("it was just written");
    assert_eq!(packed.numbers, Numbers::Doubles(vec![1.5, -0.0]));
    assert_eq!(packed.names, Some(vec![&b"a"[..], b"bc"]));
    for short in [None, Some(&[1, 2][..])] {
        let run = written("f64", |writer| {
            writer.set_named();
            writer.run([1.5, -0.0].into_iter(), ([1, 2].into_iter(), short), b"abc");
        });
        assert_eq!(run, Ok(bytes.clone()));
    }
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
fn rows_have_columns() {
    let columns: [&[u8]; 2] = [b"price", b""];
    let bytes = written("varint", |writer| {
        writer.set_named();
        assert!(writer.name_columns(columns.into_iter()));
        (1..=4).for_each(|value| writer.integer(value));
        writer.name(b"1-1");
        writer.name(b"1-2");
    });
    let bytes = bytes.expect("integers");
    let packed = Packed::read(&bytes).expect("it was just written");
    assert_eq!((packed.columns, packed.first_null()), (2, None));
    assert_eq!(packed.names, Some(vec![&b"1-1"[..], b"1-2"]));
    assert_eq!(packed.column_names, Some(columns.to_vec()));
    let nulls = Packed::read(b"MP\x01\x03\x02\0\0\x01\0\0\0\x02\0\0\0\x02\0\0\x02");
    assert_eq!(nulls.expect("the second is missing").first_null(), Some(1));
}

#[test]
fn broken_bytes_are_refused() {
    let good = written("f64", |writer| {
        writer.set_named();
        writer.pairs([(&b"name"[..], 2.0)].into_iter());
    });
    let good = good.expect("a double");
    assert!(Packed::read(&good).is_ok());
    for len in 0..good.len() {
        assert_eq!(Packed::read(&good[..len]), Err(Malformed), "{len}");
    }
    assert_eq!(Packed::read(&[&good[..], b"x"].concat()), Err(Malformed));
    let bad = [(0, 0), (2, 2), (3, 0), (3, 5), (4, 20), (5, 1), (7, 0), (7, 2), (8, 255), (15, 7), (24, 255)];
    for (place, value) in bad {
        let mut bad = good.clone();
        bad[place] = value;
        assert_eq!(Packed::read(&bad), Err(Malformed), "byte {place} as {value}");
    }
    // The count says more than there is.
    let lying = b"MP\x01\x03\0\0\0\x01\xff\xff\xff\xff\0\0\0\x01\x01";
    assert_eq!(Packed::read(lying), Err(Malformed));
}
