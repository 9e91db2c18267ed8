//! Packed replies for people: numbers with their names in the place of bytes.

use mantissa_number::{FloatText, SCORE_TEXT_MAX, format_f32, format_score};
use mantissa_protocol::Value;
use mantissa_protocol::packed::{Numbers, Packed};

/// The numbers that a reply of MANTISSA.PACKED holds; `None` for other replies.
pub(crate) fn readable(command: &[Vec<u8>], reply: &Value) -> Option<Value> {
    let (name, Value::Bulk(bytes)) = (command.first()?, reply) else { return None };
    if !name.eq_ignore_ascii_case(b"MANTISSA.PACKED") {
        return None;
    }
    let packed = Packed::read(bytes).ok()?;
    let mut numbers = values(&packed);
    if packed.is_scalar {
        return numbers.pop();
    }
    let mut rows = Vec::new();
    let mut numbers = numbers.into_iter();
    while numbers.len() > 0 {
        let row = numbers.by_ref().take(packed.columns);
        let row: Vec<Value> = match &packed.column_names {
            Some(names) => names.iter().zip(row).flat_map(|(name, number)| [bulk(name), number]).collect(),
            None => row.collect(),
        };
        let row = match <[Value; 1]>::try_from(row) {
            Ok([number]) => number,
            Err(numbers) => Value::Array(numbers),
        };
        let name = packed.names.as_ref().and_then(|names| names.get(rows.len()));
        rows.push(match name {
            Some(name) => Value::Array(vec![bulk(name), row]),
            None => row,
        });
    }
    Some(Value::Array(rows))
}

fn bulk(name: &[u8]) -> Value {
    Value::Bulk(name.to_vec())
}

fn values(packed: &Packed<'_>) -> Vec<Value> {
    let double = |value, text: &[u8]| Value::Double { value, text: text.to_vec() };
    let mut numbers: Vec<Value> = match &packed.numbers {
        Numbers::Integers(values) => values.iter().map(|&value| Value::Integer(value)).collect(),
        Numbers::Doubles(values) => {
            values.iter().map(|&value| double(value, format_score(&mut [0; SCORE_TEXT_MAX], value))).collect()
        }
        Numbers::Floats(values) => {
            let text = |&value| double(f64::from(value), format_f32(&mut FloatText::new(), value).as_bytes());
            values.iter().map(text).collect()
        }
    };
    for (index, number) in numbers.iter_mut().enumerate() {
        if packed.is_null(index) {
            *number = Value::Null;
        }
    }
    numbers
}
