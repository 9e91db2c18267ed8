//! What holds for any bytes that are read as packed numbers: the body of the fuzz target `packed`, which the
//! tests run too.

use mantissa_protocol::packed::{Form, Numbers, Packed, PackedWriter};
use mantissa_protocol::{Protocol, Reply};

/// Reads the bytes. If they are packed numbers, what is written of them reads back the same.
pub fn check(data: &[u8]) {
    let Ok(packed) = Packed::read(data) else { return };
    let count = packed.numbers.len();
    assert!(count <= data.len() && packed.columns > 0 && count.is_multiple_of(packed.columns));
    assert!(packed.names.as_ref().is_none_or(|names| names.len() == count / packed.columns));
    assert!(packed.column_names.as_ref().is_none_or(|names| names.len() == packed.columns));
    let form = match packed.numbers {
        Numbers::Doubles(_) => "F64",
        Numbers::Floats(_) => "F32",
        Numbers::Integers(_) => "VARINT",
    };
    let mut writer = PackedWriter::new(Form::parse(form.as_bytes()).expect("a form"));
    match &packed.numbers {
        Numbers::Doubles(values) => writer.numbers(values),
        Numbers::Floats(values) => values.iter().for_each(|&value| writer.number(f64::from(value))),
        Numbers::Integers(values) => values.iter().for_each(|&value| writer.integer(value)),
    }
    if let Some(names) = &packed.names {
        writer.set_named();
        writer.set_columns(packed.columns as u16);
        names.iter().for_each(|name| writer.name(name));
    }
    let mut reply = Reply::new(Protocol::Resp2);
    writer.finish(&mut reply).expect("every number can be written");
    let bytes = reply.as_bytes();
    let start = bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let again = Packed::read(&bytes[start..bytes.len() - 2]).expect("it was just written");
    assert_eq!(again.names, packed.names);
    let bits = |numbers: &Numbers| -> Vec<u64> {
        match numbers {
            Numbers::Doubles(values) => values.iter().map(|value| value.to_bits()).collect(),
            Numbers::Floats(values) => values.iter().map(|value| quiet(*value).into()).collect(),
            Numbers::Integers(values) => values.iter().map(|&value| value as u64).collect(),
        }
    };
    assert_eq!(bits(&again.numbers), bits(&packed.numbers));
}

/// The bits of a float; those of one NaN for every NaN, since conversions change them.
fn quiet(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
}
