//! The shared vectors of `number/vectors`, which the C tests and other languages' libraries run too.

use mantissa_number::{LongDouble, binary, *};

/// A case: the fields of one JSON object in the flat shape that `make_vectors.py` writes.
struct Case(Vec<(String, Option<String>)>);

impl Case {
    fn parse(line: &str) -> Case {
        let mut characters = line.trim_start_matches('{').chars().peekable();
        let mut fields = Vec::new();
        while characters.peek().is_some_and(|&c| c == '"') {
            let name = string(&mut characters);
            assert_eq!(characters.by_ref().take(2).collect::<String>(), ": ");
            let value = if characters.peek() == Some(&'"') {
                Some(string(&mut characters))
            } else {
                let bare: String =
                    std::iter::from_fn(|| characters.next_if(|&c| c != ',' && c != '}')).collect();
                (bare != "null").then_some(bare)
            };
            fields.push((name, value));
            let _separator = characters.next();
            let _space = characters.next_if_eq(&' ');
        }
        Case(fields)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field == name)?.1.as_deref()
    }

    fn text(&self) -> &str {
        self.get("text").expect("every case has a text")
    }

    fn bits(&self, name: &str) -> Option<u64> {
        self.get(name).map(|text| u64::from_str_radix(text, 16).expect("bits are hexadecimal"))
    }
}

fn string(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    assert_eq!(characters.next(), Some('"'));
    let mut out = String::new();
    loop {
        match characters.next().expect("the string ends on its line") {
            '"' => return out,
            '\\' => match characters.next().expect("an escape has a letter") {
                't' => out.push('\t'),
                'n' => out.push('\n'),
                'u' => {
                    let code: String = characters.by_ref().take(4).collect();
                    out.push(u8::from_str_radix(&code[2..], 16).expect("an ASCII escape") as char);
                }
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
}

fn cases(name: &str) -> Vec<Case> {
    let path = format!("{}/../../number/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let cases: Vec<Case> = text.lines().filter(|line| line.starts_with('{')).map(Case::parse).collect();
    assert!(cases.len() > 50, "{path} has too few cases");
    cases
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("numbers are ASCII")
}

#[test]
fn floats_are_read_as_the_c_library_reads_them() {
    for case in cases("reading.json") {
        let text = case.text();
        let whole = case.get("end") == Some(text.len().to_string().as_str()) && !text.is_empty();
        let (f64_value, f32_value) = (parse_f64(text.as_bytes()), parse_f32(text.as_bytes()));
        if !whole {
            assert_eq!((f64_value, f32_value), (None, None), "{text:?}");
        } else if case.get("status") == Some("nan") {
            assert!(f64_value.is_some_and(f64::is_nan) && f32_value.is_some_and(f32::is_nan), "{text:?}");
        } else {
            assert_eq!(f64_value.map(f64::to_bits), case.bits("f64"), "{text:?}");
            assert_eq!(f32_value.map(|value| u64::from(value.to_bits())), case.bits("f32"), "{text:?}");
        }
    }
}

#[test]
fn floats_are_printed_shortest() {
    for case in cases("printing_f64.json") {
        let value = f64::from_bits(case.bits("f64").expect("bits"));
        assert_eq!(written(|out| write_f64(out, value)), case.text());
    }
    for case in cases("printing_f32.json") {
        let value = f32::from_bits(case.bits("f32").expect("bits") as u32);
        assert_eq!(written(|out| write_f32(out, value)), case.text());
    }
}

#[test]
fn integers_go_both_ways() {
    for case in cases("integers.json") {
        let text = case.text();
        // The vectors have the header's grammar; ours takes only what printing gives back.
        let i64_expected = case.get("i64").filter(|canonical| *canonical == text);
        let u64_expected = case.get("u64").filter(|canonical| *canonical == text);
        let i64_text = parse_i64(text.as_bytes()).map(|value| written(|out| write_i64(out, value)));
        let u64_text = parse_u64(text.as_bytes()).map(|value| written(|out| write_u64(out, value)));
        assert_eq!(i64_text.as_deref(), i64_expected, "{text:?}");
        assert_eq!(u64_text.as_deref(), u64_expected, "{text:?}");
    }
}

#[test]
fn bytes_go_both_ways() {
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for case in cases("bytes.json") {
        let value: u64 = case.get("u64").and_then(|text| text.parse().ok()).expect("an integer");
        let mut out = Vec::new();
        binary::write_varint(&mut out, value);
        assert_eq!(Some(hexadecimal(&out).as_str()), case.get("varint"));
        assert_eq!(binary::read_varint(&out), Some((value, out.len())));
        assert_eq!(Some(binary::zigzag(value as i64).to_string().as_str()), case.get("zigzag"));
        let mut out = Vec::new();
        binary::encode_f64_be(&mut out, &[f64::from_bits(value)]);
        assert_eq!(Some(hexadecimal(&out).as_str()), case.get("f64_be"));
        let mut back = Vec::new();
        binary::decode_f64_be(&mut back, &out);
        assert_eq!(back[0].to_bits(), value);
        out.clear();
        binary::encode_f64_le(&mut out, &[f64::from_bits(value)]);
        assert_eq!(Some(hexadecimal(&out).as_str()), case.get("f64_le"));
    }
}

#[test]
fn scores_are_those_of_redis() {
    for case in cases("scores.json") {
        let value = f64::from_bits(case.bits("f64").expect("bits"));
        assert_eq!(written(|out| write_score(out, value)), case.text());
    }
    for case in cases("score_texts.json") {
        let text = case.text();
        let score = parse_score(text.as_bytes()).map(|value| written(|out| write_score(out, value)));
        assert_eq!(score.as_deref(), case.get("score"), "{text:?}");
        assert_eq!(
            parse_score_bound(text.as_bytes()).is_some(),
            case.get("bound") == Some("true"),
            "{text:?}"
        );
    }
}

#[test]
fn sums_are_those_of_redis() {
    for case in cases("sums.json") {
        let parse = |name| LongDouble::parse(case.get(name).expect("two numbers").as_bytes());
        let sum = parse("first").zip(parse("second")).map(|(first, second)| first + second);
        let text =
            sum.filter(|sum| !sum.is_nan() && !sum.is_infinite()).map(|sum| written(|out| sum.write(out)));
        assert_eq!(text.as_deref(), case.get("sum"), "{:?} + {:?}", case.get("first"), case.get("second"));
    }
}
