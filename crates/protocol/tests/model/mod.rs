//! Simple models of the parser and the decoder, and the checks that hold them against the real ones: the
//! bodies of the fuzz targets `resp_request` and `resp_reply`, which the tests run too.
//!
//! A model sees the whole input, copies, and recurses: everything that the real code is made to avoid.

use mantissa_protocol::{Args, Decoder, NESTING_MAX, Parsed, RequestLimits, RequestParser, Value};
use mantissa_protocol::{parse_double, split_quoted};

/// What a connection makes of its input: requests, and the message of the error that ended it.
pub type Served = (Vec<Vec<Vec<u8>>>, Option<Vec<u8>>);

/// The limits of the checks, small so that random numbers are on both sides.
pub fn limits(authenticated: bool) -> RequestLimits {
    RequestLimits { bulk_len_max: 20_000, authenticated }
}

/// Holds the parser against its model on random bytes, whole and in pieces. The first two bytes choose how.
pub fn check_requests(data: &[u8]) {
    let [step, flags, input @ ..] = data else { return };
    let limits = limits(flags & 1 == 0);
    let expected = model_requests(input, &limits);
    assert_eq!(serve(&[input], &limits), expected);
    let pieces: Vec<&[u8]> = input.chunks(usize::from(*step) + 1).collect();
    assert_eq!(serve(&pieces, &limits), expected);
}

/// Holds the decoder against its model on random bytes, whole and in pieces. The first byte chooses how.
pub fn check_replies(data: &[u8]) {
    let [step, input @ ..] = data else { return };
    let mut position = 0;
    let expected = model_reply(input, &mut position, NESTING_MAX);
    let whole = Decoder::default().decode(input);
    match (&expected, &whole) {
        (Model::Value(value), Ok(Some((found, size)))) => {
            assert_eq!((format!("{found:?}"), *size), (format!("{value:?}"), position));
        }
        (Model::Incomplete, Ok(None)) | (Model::Invalid, Err(_)) => {}
        _ => panic!("{expected:?} but {whole:?} of {}", input.escape_ascii()),
    }
    let (mut decoder, mut end) = (Decoder::default(), 0);
    let pieces = loop {
        let found = decoder.decode(&input[..end]);
        if end == input.len() || !matches!(found, Ok(None)) {
            break found;
        }
        end = (end + usize::from(*step) + 1).min(input.len());
    };
    assert_eq!(format!("{pieces:?}"), format!("{whole:?}"), "{}", input.escape_ascii());
}

/// Serves a stream of pieces as a connection does, with the parser.
pub fn serve(pieces: &[&[u8]], limits: &RequestLimits) -> Served {
    let copy = |args: Args<'_>| args.iter().map(<[u8]>::to_vec).collect();
    let (mut parser, mut input, mut requests) = (RequestParser::default(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        let (mut slices, mut position) = (Vec::new(), 0);
        loop {
            let first = slices.len();
            match parser.parse_at(&input, position, limits, &mut slices) {
                Parsed::Request { consumed } => {
                    requests.push(copy(Args::new(&input, &slices[first..])));
                    position += consumed;
                }
                Parsed::Inline { consumed, arguments } => {
                    requests.push(copy(arguments.as_args()));
                    position += consumed;
                }
                Parsed::Empty { consumed } => position += consumed,
                Parsed::Incomplete { missing } => {
                    assert_eq!((slices.len(), parser.is_idle()), (first, position == input.len()));
                    assert!(missing as u64 <= limits.bulk_len_max + 2);
                    break;
                }
                Parsed::Error(error) => {
                    assert_eq!((slices.len(), parser.is_idle()), (first, true));
                    return (requests, Some(error.message()));
                }
            }
        }
        // As a connection does whose buffer moves.
        input.drain(..position);
    }
    (requests, None)
}

/// Serves a whole stream, by the model.
fn model_requests(input: &[u8], limits: &RequestLimits) -> Served {
    let (mut rest, mut requests) = (input, Vec::new());
    loop {
        match model_request(&mut rest, limits) {
            Ok(Some(request)) if request.is_empty() => {}
            Ok(Some(request)) => requests.push(request),
            Ok(None) => return (requests, None),
            Err(text) => return (requests, Some([b"ERR Protocol error: ", &text[..]].concat())),
        }
    }
}

/// Takes one request off the input; `None` if it is not all there.
fn model_request(rest: &mut &[u8], limits: &RequestLimits) -> Result<Option<Vec<Vec<u8>>>, Vec<u8>> {
    if rest.first() != Some(&b'*') {
        let Some(line) = model_line(rest, b'\n', 1, "too big inline request")? else { return Ok(None) };
        return split_quoted(line).map(Some).map_err(|_| b"unbalanced quotes in request".to_vec());
    }
    let Some(line) = model_line(rest, b'\r', 2, "too big mbulk count string")? else { return Ok(None) };
    let count = match model_number(&line[1..]) {
        Some(count) if count <= i128::from(i32::MAX) => count,
        _ => return Err(b"invalid multibulk length".to_vec()),
    };
    if count > 10 && !limits.authenticated {
        return Err(b"unauthenticated multibulk length".to_vec());
    }
    let mut request = Vec::new();
    for _ in 0..count {
        let Some(line) = model_line(rest, b'\r', 2, "too big bulk count string")? else { return Ok(None) };
        let len = match line.split_first() {
            Some((b'$', len)) => model_number(len),
            found => {
                let found = match found {
                    None | Some((b'\n', _)) => b' ',
                    Some((byte, _)) => *byte,
                };
                return Err([b"expected '$', got '", &[found][..], b"'"].concat());
            }
        };
        let len = match len {
            Some(len) if (0..=i128::from(limits.bulk_len_max)).contains(&len) => len as usize,
            _ => return Err(b"invalid bulk length".to_vec()),
        };
        if len > 16384 && !limits.authenticated {
            return Err(b"unauthenticated bulk length".to_vec());
        }
        let Some((argument, after)) = rest.split_at_checked(len + 2) else { return Ok(None) };
        request.push(argument[..len].to_vec());
        *rest = after;
    }
    Ok(Some(request))
}

/// Takes a line off the input, and `end_size` bytes of its end.
fn model_line<'a>(
    rest: &mut &'a [u8],
    end: u8,
    end_size: usize,
    too_big: &str,
) -> Result<Option<&'a [u8]>, Vec<u8>> {
    let len = rest.iter().position(|&byte| byte == end);
    if len.unwrap_or(rest.len()) > 65536 {
        return Err(too_big.as_bytes().to_vec());
    }
    let Some(len) = len else { return Ok(None) };
    let Some((line, after)) = rest.split_at_checked(len + end_size) else { return Ok(None) };
    *rest = after;
    Ok(Some(&line[..len]))
}

/// A number of 64 bits in its only form.
fn model_number(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    let value: i128 = text.parse().ok()?;
    (value.to_string() == text && i64::try_from(value).is_ok()).then_some(value)
}

/// What the model makes of a reply.
#[derive(Debug)]
enum Model {
    Value(Value),
    Incomplete,
    Invalid,
}

/// Unwraps a value, or returns what is in its place.
macro_rules! value {
    ($model:expr) => {
        match $model {
            Model::Value(value) => value,
            other => return other,
        }
    };
}

fn model_reply(input: &[u8], position: &mut usize, depth: usize) -> Model {
    let rest = &input[*position..];
    let Some(len) = rest.iter().position(|&byte| byte == b'\r') else { return Model::Incomplete };
    match rest.get(len + 1) {
        None => return Model::Incomplete,
        Some(b'\n') => *position += len + 2,
        Some(_) => return Model::Invalid,
    }
    let Some((&kind, text)) = rest[..len].split_first() else { return Model::Invalid };
    let count = model_number(text).and_then(|count| usize::try_from(count).ok());
    match kind {
        b'$' if text == b"-1" => Model::Value(Value::NullBulk),
        b'*' if text == b"-1" => Model::Value(Value::NullArray),
        b'$' if text == b"?" => model_parts(input, position, depth),
        b'$' | b'!' | b'=' => match count {
            Some(len) => model_string(input, position, kind, len),
            None => Model::Invalid,
        },
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            if depth == 0 || (count.is_none() && text != b"?") {
                return Model::Invalid;
            }
            model_aggregate(input, position, kind, count, depth)
        }
        _ => model_scalar(kind, text).map_or(Model::Invalid, Model::Value),
    }
}

fn model_scalar(kind: u8, text: &[u8]) -> Option<Value> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let positive = text.strip_prefix(b"+").filter(|rest| !rest.starts_with(b"-")).unwrap_or(text);
    Some(match (kind, text) {
        (b'+', _) => Value::Simple(text.to_vec()),
        (b'-', _) => Value::Error(text.to_vec()),
        (b':', _) => Value::Integer(model_number(positive)? as i64),
        (b',', _) => Value::Double { value: parse_double(text)?, text: text.to_vec() },
        (b'#', b"t") => Value::Boolean(true),
        (b'#', b"f") => Value::Boolean(false),
        (b'_', b"") => Value::Null,
        (b'(', _) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            Value::BigNumber(text.to_vec())
        }
        _ => return None,
    })
}

fn model_string(input: &[u8], position: &mut usize, kind: u8, len: usize) -> Model {
    let Some(data) = input[*position..].get(..len.saturating_add(2)) else { return Model::Incomplete };
    let Some(data) = data.strip_suffix(b"\r\n") else { return Model::Invalid };
    *position += len + 2;
    Model::Value(match (kind, data) {
        (b'!', _) => Value::BulkError(data.to_vec()),
        (b'=', [a, b, c, b':', text @ ..]) => Value::Verbatim { format: [*a, *b, *c], text: text.to_vec() },
        (b'=', _) => return Model::Invalid,
        _ => Value::Bulk(data.to_vec()),
    })
}

fn model_parts(input: &[u8], position: &mut usize, depth: usize) -> Model {
    if depth == 0 {
        return Model::Invalid;
    }
    let mut whole = Vec::new();
    loop {
        let rest = &input[*position..];
        let Some(len) = rest.iter().position(|&byte| byte == b'\r') else { return Model::Incomplete };
        match rest.get(len + 1) {
            None => return Model::Incomplete,
            Some(b'\n') => *position += len + 2,
            Some(_) => return Model::Invalid,
        }
        let Some(text) = rest[..len].strip_prefix(b";") else { return Model::Invalid };
        match model_number(text).and_then(|len| usize::try_from(len).ok()) {
            None => return Model::Invalid,
            Some(0) => return Model::Value(Value::Bulk(whole)),
            Some(len) => match value!(model_string(input, position, b'$', len)) {
                Value::Bulk(part) => whole.extend_from_slice(&part),
                _ => return Model::Invalid,
            },
        }
    }
}

fn model_aggregate(
    input: &[u8],
    position: &mut usize,
    kind: u8,
    count: Option<usize>,
    depth: usize,
) -> Model {
    let in_pairs = matches!(kind, b'%' | b'|');
    let count = count.map(|count| if in_pairs { count.saturating_mul(2) } else { count });
    let mut elements = Vec::new();
    while count.is_none_or(|count| elements.len() < count) {
        if count.is_none() && input[*position..].starts_with(b".\r\n") {
            *position += 3;
            break;
        }
        elements.push(value!(model_reply(input, position, depth - 1)));
    }
    if in_pairs && elements.len() % 2 != 0 {
        return Model::Invalid;
    }
    let pairs = || elements.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    Model::Value(match kind {
        b'%' => Value::Map(pairs()),
        b'|' => {
            let attributes = pairs();
            Value::Attribute { attributes, value: Box::new(value!(model_reply(input, position, depth - 1))) }
        }
        b'~' => Value::Set(elements),
        b'>' => Value::Push(elements),
        _ => Value::Array(elements),
    })
}
