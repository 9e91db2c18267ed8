//! Commands that change numbers, strings and truth values.

use mantissa_protocol::{Args, Reply};
use mantissa_store::json::{Fragment, Number, Shape, View, write_number};

use super::change::Change;
use super::{Access, Error, Outcome, at_least, change_present, parse, parse_whole, path_at, wrong_path_type};

const NOT_A_NUMBER: Error = Error::fixed("ERR result is not a number");

/// Computes with integers where both numbers are, wrapping around as RedisJSON does; otherwise with doubles.
fn compute(
    left: Number,
    right: Number,
    integers: fn(i64, i64) -> i64,
    doubles: fn(f64, f64) -> f64,
) -> Outcome<Number> {
    if let (Number::Integer(left), Number::Integer(right)) = (left, right) {
        return Ok(Number::Integer(integers(left, right)));
    }
    let result = doubles(left.to_f64(), right.to_f64());
    if result.is_finite() { Ok(Number::Double(result)) } else { Err(NOT_A_NUMBER) }
}

fn change_number(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    event: &'static str,
    operation: &dyn Fn(Number, Number) -> Outcome<Number>,
) -> Outcome {
    at_least(4, args, event)?;
    let key = args.at(1);
    let path = path_at(args, 2)?;
    super::utf8(args.at(3))?;
    // An argument that is no number is an error only where there is a number to change.
    let operand = parse_whole(args.at(3))
        .and_then(|operand| operand.view().number().ok_or_else(|| Error::fixed("bad input number")));
    let change = Change {
        event,
        fits: &|value| value.number().is_some(),
        unfit: "does not contains a number",
        names_original: false,
        added_bytes: 0,
    };
    let results = change.run_on_values(access, key, &path, &mut |before| {
        let operand = operand.clone()?;
        let after = operation(before.number().unwrap_or(operand), operand)?;
        Ok((after, Fragment::number(after)))
    })?;
    if reply.is_resp3() {
        reply.array(results.len());
        for result in results {
            match result {
                Some(Number::Integer(value)) => reply.integer(value),
                Some(number) => reply.double(number.to_f64()),
                None => reply.null(),
            }
        }
        return Ok(());
    }
    let mut text = Vec::new();
    if path.is_legacy {
        match results.into_iter().flatten().next_back() {
            Some(number) => write_number(number, &mut text),
            None => return Err(change.nothing_fits(&path)),
        }
    } else {
        text.push(b'[');
        for (index, result) in results.iter().enumerate() {
            text.extend((index > 0).then_some(b','));
            match result {
                Some(number) => write_number(*number, &mut text),
                None => text.extend_from_slice(b"null"),
            }
        }
        text.push(b']');
    }
    reply.bulk(&text);
    Ok(())
}

pub(super) fn numincrby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    change_number(access, args, reply, "json.numincrby", &|left, right| {
        compute(left, right, i64::wrapping_add, |left, right| left + right)
    })
}

pub(super) fn nummultby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    change_number(access, args, reply, "json.nummultby", &|left, right| {
        compute(left, right, i64::wrapping_mul, |left, right| left * right)
    })
}

pub(super) fn numpowby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    change_number(access, args, reply, "json.numpowby", &|left, right| {
        // Of an exponent that is an integer RedisJSON takes the lowest 32 bits.
        compute(left, right, |left, right| left.wrapping_pow(right as u32), f64::powf)
    })
}

/// JSON.STRAPPEND key [path] value
pub(super) fn strappend(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(3, args, "json.strappend")?;
    let (path, value) = match args.get(3) {
        Some(value) => (path_at(args, 2)?, value),
        None => (super::path_cache::parse(b".")?, args.at(2)),
    };
    super::utf8(value)?;
    // An argument that is no string is an error only where there is a string to change.
    let suffix = parse_whole(value).and_then(|suffix| match suffix.view().string() {
        Some(text) => Ok(text.to_vec()),
        None => Err(wrong_path_type("string", &String::from_utf8_lossy(value).replace('\n', " "))),
    });
    let change = Change {
        event: "json.strappend",
        fits: &|value| value.string().is_some(),
        unfit: "not a string",
        names_original: false,
        added_bytes: 0,
    };
    change.run_on_values_and_reply(
        access,
        (args.at(1), &path),
        reply,
        &mut |before| {
            let before = before.string().unwrap_or_default();
            let joined = [before, &suffix.clone()?].concat();
            if joined.len() > STRING_BYTES_MAX {
                return Err(Error::STRING_TOO_LONG);
            }
            Ok((joined.len(), Fragment::string(&joined)))
        },
        &|reply, len| reply.integer(*len as i64),
    )
}

/// The longest string of a document.
const STRING_BYTES_MAX: usize = 512 << 20;

pub(super) fn toggle(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(3, args, "json.toggle")?;
    let path = path_at(args, 2)?;
    let change = Change {
        event: "json.toggle",
        fits: &|value| matches!(value.shape(), Shape::Boolean(_)),
        unfit: "not a bool",
        names_original: false,
        added_bytes: 0,
    };
    let is_legacy = path.is_legacy;
    change.run_on_values_and_reply(
        access,
        (args.at(1), &path),
        reply,
        &mut |before| {
            let after = !matches!(before.shape(), Shape::Boolean(true));
            Ok((after, Fragment::boolean(after)))
        },
        &|reply, after| match (is_legacy, after) {
            (true, true) => reply.bulk(b"true"),
            (true, false) => reply.bulk(b"false"),
            (false, after) => reply.integer(i64::from(*after)),
        },
    )
}

/// JSON.CLEAR key [path]: empties containers and sets numbers to 0.
pub(super) fn clear(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.clear")?;
    let key = args.at(1);
    let path = super::path_or_root(args, 2)?;
    let document = change_present(access, key)?;
    path.check()?;
    let mut places = Vec::new();
    path.visit(document.root(), |place, value| {
        let is_zero = value.number().is_some_and(|number| number.to_f64() == 0.0);
        if !value.is_empty() || value.number().is_some() && !is_zero {
            places.push(super::select::Place::from_slice(place));
        }
        std::ops::ControlFlow::Continue(())
    })?;
    super::set::keep_outermost(&mut places);
    let empty = |value: View<'_>| match value.shape() {
        Shape::Array => Fragment::empty_array(),
        Shape::Object => Fragment::empty_object(),
        _ => Fragment::number(Number::Integer(0)),
    };
    match places.as_slice() {
        [place] => {
            let empty = document.at(place).map(empty).unwrap_or(Fragment::empty_object());
            document.set(place, &empty)?;
        }
        places => {
            let places: Vec<&[usize]> = places.iter().map(|place| place.as_slice()).collect();
            document.change_all(&places, &mut |value| Some(empty(value)))?;
        }
    }
    if !places.is_empty() {
        super::changed(access, key, "json.clear");
    }
    reply.integer(places.len() as i64);
    Ok(())
}

/// The value of an argument, for commands that add it.
pub(super) fn values(args: Args<'_>) -> Outcome<Vec<Fragment>> {
    args.iter().map(parse).collect()
}
