//! Documents behave as trees of values, whatever is done to them.

use mantissa_memory::small_or_large::Borrowed;
use mantissa_sys::utf8;

use super::packed::Header;
use super::*;
use crate::EncodingLimits;
use crate::test_random::Random;
use crate::types::Sample;

impl Sample for Json {
    fn add_sample(&mut self, text: &[u8], _: &EncodingLimits) {
        if !self.root().is_object() {
            *self = Json::new(&Fragment::empty_object());
        }
        let value = Fragment::string(text);
        match self.root().member(text) {
            Some((index, _)) => drop(self.set(&[index], &value)),
            None => drop(self.add_member(&[], text, &value)),
        }
    }

    fn remove_sample(&mut self, text: &[u8]) {
        if let Some((index, _)) = self.root().member(text) {
            self.remove_member(&[], index);
        }
    }
}

fn printed(text: &str) -> Result<String, String> {
    let value = Fragment::parse(text).map_err(|error| error.to_string())?;
    Ok(shown(value.view()))
}

fn shown(view: View<'_>) -> String {
    let mut out = Vec::new();
    view.write(&mut out);
    String::from_utf8(out).expect("the text is UTF-8")
}

#[test]
fn texts_come_back_as_they_are() {
    let long = format!("\"{}\"", "x".repeat(70_000));
    let many = format!("[{}1]", "-7,".repeat(40_000));
    for text in [
        "null",
        "true",
        "[]",
        "{}",
        "[[]]",
        "[1,-16,-17,79,80,127,128,-129,32768,2147483648,-2147483649]",
        "[9223372036854775807,-9223372036854775808,18446744073709551615]",
        "[0.1,-0.0,1.5,100.0,1e22,5e-324]",
        "[0.00001,0.000012,9e-6,0.00001234,0.12345678,1e-7,-0.00001,-24.028341,20.00000001]",
        "[1.7976931348623157e308,1e16,1.2e16,-1e16,1000000000000000.0,0.00001,1e-6,123456.789]",
        r#"{"a":1,"b":{"c":[1,2,3,{"d":"x"}]},"e":null}"#,
        r#""\u0000\u001f\b\f\n\r\t\"\\/é😀""#,
        &long,
        &many,
    ] {
        assert_eq!(printed(text).as_deref(), Ok(text));
    }
    assert_eq!(printed(r#" { "a" : 1 , "b":2,"a":3 } x"#).as_deref(), Ok(r#"{"a":3,"b":2}"#));
    assert_eq!(printed(r#""\ud83d\ude00\/""#).as_deref(), Ok("\"😀/\""));
    let keys: Vec<String> = (0..100).map(|number| format!("\"{}\":{number}", number % 40)).collect();
    let value = Fragment::parse(format!("{{{}}}", keys.join(","))).expect("it is JSON");
    assert_eq!((value.view().len(), value.view().member(b"3").map(|found| found.0)), (40, Some(3)));
    assert_eq!(shown(value.view().child(3).expect("a member")), "83");
}

#[test]
fn errors_are_those_of_redis() {
    for (text, error) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        ("[1,2", "EOF while parsing a list at line 1 column 4"),
        ("[1 2]", "expected `,` or `]` at line 1 column 4"),
        ("{\"a\" 1}", "expected `:` at line 1 column 6"),
        ("{a:1}", "key must be a string at line 1 column 2"),
        ("{\"a\":1,}", "trailing comma at line 1 column 8"),
        ("[1,]", "trailing comma at line 1 column 4"),
        ("\"abc", "EOF while parsing a string at line 1 column 4"),
        ("\"a\\x\"", "invalid escape at line 1 column 4"),
        ("\"\\u1]2\"", "invalid escape at line 1 column 5"),
        ("\"\\u12\"", "EOF while parsing a string at line 1 column 6"),
        ("\"\\ud800\"", "unexpected end of hex escape at line 1 column 8"),
        ("01", "invalid number at line 1 column 2"),
        ("-", "EOF while parsing a value at line 1 column 1"),
        ("1.", "EOF while parsing a value at line 1 column 2"),
        ("1e09223372036854775808", "number out of range at line 1 column 13"),
        ("[1e+99999999999]", "number out of range at line 1 column 14"),
        ("1e2147483647", "number out of range at line 1 column 12"),
        ("1e400", "number out of range at line 1 column 5"),
        ("foo", "expected ident at line 1 column 2"),
        ("[1,\n2,\n x]", "expected value at line 3 column 2"),
    ] {
        assert_eq!(printed(text), Err(error.to_owned()), "{text}");
    }
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(printed(&nested(127)).is_ok());
    assert_eq!(printed(&nested(128)), Err("recursion limit exceeded at line 1 column 128".to_owned()));
}

/// A value as a tree, to compare with.
#[derive(Clone, Debug, PartialEq)]
enum Model {
    Text(String),
    Array(Vec<Model>),
    Object(Vec<(String, Model)>),
}

impl Model {
    fn random(random: &mut Random, depth: usize) -> Model {
        let count = if random.below(10) == 0 { random.below(60) } else { random.below(4) };
        match random.below(if depth == 0 { 6 } else { 10 }) {
            0 => Model::Text("null".to_owned()),
            1 => Model::Text((random.below(1 << 20) as i64 - (1 << 19)).to_string()),
            2 => Model::Text(format!("{}.5", random.below(1000))),
            3..6 => Model::Text(format!("\"{}\"", "y".repeat(random.below(300)))),
            6..8 => Model::Array((0..count).map(|_| Model::random(random, depth - 1)).collect()),
            _ => Model::Object(
                (0..count).map(|number| (format!("k{number}"), Model::random(random, depth - 1))).collect(),
            ),
        }
    }

    fn text(&self) -> String {
        match self {
            Model::Text(text) => text.clone(),
            Model::Array(elements) => {
                format!("[{}]", elements.iter().map(Model::text).collect::<Vec<_>>().join(","))
            }
            Model::Object(members) => {
                let texts: Vec<String> =
                    members.iter().map(|(key, value)| format!("\"{key}\":{}", value.text())).collect();
                format!("{{{}}}", texts.join(","))
            }
        }
    }

    fn fragment(&self) -> Fragment {
        Fragment::parse(self.text()).expect("a model is JSON")
    }

    fn len(&self) -> usize {
        match self {
            Model::Text(_) => 0,
            Model::Array(elements) => elements.len(),
            Model::Object(members) => members.len(),
        }
    }

    fn child(&mut self, index: usize) -> &mut Model {
        match self {
            Model::Array(elements) => &mut elements[index],
            Model::Object(members) => &mut members[index].1,
            Model::Text(_) => unreachable!("a text has no children"),
        }
    }
}

fn change(document: &mut Json, model: &mut Model, random: &mut Random, serial: usize) {
    let mut place = Vec::new();
    let mut target = &mut *model;
    while target.len() > 0 && random.below(4) > 0 {
        let index = random.below(target.len());
        place.push(index);
        target = target.child(index);
    }
    let value = Model::random(random, 3);
    let choice = random.below(4);
    match target {
        Model::Array(elements) if choice == 1 => {
            let index = random.below(elements.len() + 1);
            elements.splice(index..index, [value.clone(), value.clone()]);
            assert_eq!(Ok(true), document.insert(&place, index, &[value.fragment(), value.fragment()]));
        }
        Model::Array(elements) if choice == 2 && !elements.is_empty() => {
            let from = random.below(elements.len());
            let count = 1 + random.below(elements.len() - from);
            elements.drain(from..from + count);
            document.remove(&place, from, count);
        }
        Model::Object(members) if choice == 1 => {
            let key = format!("new{serial}");
            assert_eq!(Ok(true), document.add_member(&place, key.as_bytes(), &value.fragment()));
            members.push((key, value));
        }
        Model::Object(members) if choice == 2 && !members.is_empty() => {
            let index = random.below(members.len());
            members.swap_remove(index);
            document.remove_member(&place, index);
        }
        _ => {
            assert_eq!(Ok(true), document.set(&place, &value.fragment()));
            *target = value;
        }
    }
}

#[test]
fn documents_change_as_trees_do() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut model = Model::random(&mut random, 4);
        let mut document = Json::new(&model.fragment());
        for serial in 0..60 {
            let (before, text) = (document.clone(), model.text());
            change(&mut document, &mut model, &mut random, serial);
            assert_eq!(shown(document.root()), model.text(), "seed {seed}");
            assert_eq!(shown(before.root()), text, "a clone stays what it was");
        }
    }
}

impl Model {
    /// One of this many children, of which some are large themselves.
    fn large(random: &mut Random, count: usize, depth: usize) -> Model {
        let child = |random: &mut Random| match random.below(20) {
            0 if depth > 0 => {
                let count = random.below(120);
                Model::large(random, count, depth - 1)
            }
            1 => Model::Text(format!("\"{}\"", "z".repeat(random.below(6000)))),
            _ => Model::random(random, 2),
        };
        match random.below(2) {
            0 => Model::Array((0..count).map(|_| child(random)).collect()),
            _ => Model::Object((0..count).map(|number| (format!("k{number}"), child(random))).collect()),
        }
    }
}

/// Whether everything that can be asked of a document is as of the model.
fn assert_same(document: &Json, model: &Model, random: &mut Random) {
    if let Borrowed::Large(tree) = document.body.get() {
        tree.check();
    }
    let root = document.root();
    assert_eq!(shown(root), model.text());
    assert_eq!(root.len(), model.len());
    let packed = Fragment::of(root);
    assert_eq!(packed, model.fragment());
    assert_eq!(packed.0.len(), root.memory_usage());
    assert!(root.is_same(packed.view()) && packed.view().is_same(root));
    let from = random.below(model.len() + 2);
    match model {
        Model::Array(elements) => {
            let texts: Vec<String> = elements.iter().skip(from).map(Model::text).collect();
            assert_eq!(root.elements_from(from).map(shown).collect::<Vec<_>>(), texts);
            assert_eq!(root.child(from).map(shown), texts.first().cloned());
        }
        Model::Object(members) => {
            let keys = root.members().map(|(key, _)| key.to_vec());
            assert!(keys.eq(members.iter().map(|(key, _)| key.as_bytes().to_vec())));
            if let Some((key, value)) = members.get(from) {
                let (index, found) = root.member(key.as_bytes()).expect("it is there");
                assert_eq!((index, shown(found)), (from, value.text()));
            }
            assert!(root.member(b"no key").is_none());
        }
        Model::Text(_) => assert!(root.child(from).is_none()),
    }
}

#[test]
fn large_documents_change_as_trees_do() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let count = 20 << random.below(4);
        let mut model = Model::large(&mut random, count, 2);
        let mut document = Json::new(&model.fragment());
        assert_same(&document, &model, &mut random);
        for serial in 0..40 {
            let (before, text) = (document.clone(), model.text());
            change(&mut document, &mut model, &mut random, serial);
            assert_same(&document, &model, &mut random);
            assert_eq!(shown(before.root()), text, "a clone stays what it was");
        }
        assert!(document.memory_usage() >= document.root().memory_usage());
        (0..20).for_each(|slice| _ = document.compact(slice));
        assert_same(&document, &model, &mut random);
    }
}

#[test]
fn members_are_found_while_an_object_grows_and_shrinks() {
    let mut document = Json::new(&Fragment::empty_object());
    let (mut members, mut clones) = (Vec::new(), Vec::new());
    let mut random = Random::new(5);
    for step in 0..12_000 {
        // It grows to some two thousand members and shrinks to none, twice.
        let grows = step / 3000 % 2 == 0;
        let value = match random.below(200) {
            0 => Model::Text(format!("[{}0]", "1234567,".repeat(random.below(2000)))),
            1..20 => Model::Text(format!("\"{}\"", "v".repeat(random.below(200)))),
            _ => Model::Text(step.to_string()),
        };
        let index = random.below(members.len().max(1));
        match random.below(8) {
            0 | 1 if !members.is_empty() => {
                assert_eq!(Ok(true), document.set(&[index], &value.fragment()));
                let (_, old): &mut (String, Model) = &mut members[index];
                *old = value;
            }
            2.. if !grows && !members.is_empty() => {
                members.swap_remove(index);
                document.remove_member(&[], index);
            }
            _ if grows => {
                let key = format!("member:{step}");
                assert_eq!(Ok(true), document.add_member(&[], key.as_bytes(), &value.fragment()));
                members.push((key, value));
            }
            _ => {}
        }
        if step % 1000 == 0 {
            assert_same(&document, &Model::Object(members.clone()), &mut random);
            clones.push((document.clone(), shown(document.root())));
            (0..8).for_each(|slice| _ = document.compact(slice));
        }
        if let Some((key, value)) = members.get(index) {
            let found = document.root().member(key.as_bytes()).map(|(at, found)| (at, shown(found)));
            assert_eq!(found, Some((index, value.text())));
        }
        assert!(document.root().member(b"member:none").is_none());
    }
    clones.iter().for_each(|(clone, text)| assert_eq!(&shown(clone.root()), text));
}

#[test]
fn a_document_grows_and_shrinks_one_by_one() {
    let mut document = Json::new(&Fragment::empty_array());
    let mut model = Vec::new();
    for number in 0..3000 {
        let place = [0, number, number / 2][number % 3];
        model.insert(place, Model::Text(number.to_string()));
        assert_eq!(
            Ok(true),
            document.insert(&[], place, &[Fragment::number(Number::Integer(number as i64))])
        );
    }
    let mut random = Random::new(1);
    while !model.is_empty() {
        if model.len() % 500 == 0 {
            assert_same(&document, &Model::Array(model.clone()), &mut random);
        }
        let place = random.below(model.len());
        model.remove(place);
        document.remove(&[], place, 1);
    }
    assert_eq!(shown(document.root()), "[]");
    // Blocks fill as elements come at the end.
    let text = Fragment::string(&[b'x'; 100]);
    for number in 0..2000 {
        assert_eq!(Ok(true), document.insert(&[], number, std::slice::from_ref(&text)));
    }
    let (held, needed) = (document.memory_usage(), document.root().memory_usage());
    assert!(held * 10 < needed * 12, "{held} bytes for {needed}");
}

#[test]
fn headers_take_as_few_bytes_as_they_can() {
    for (body, count, size) in [(0, 0, 1), (255, 255, 3), (256, 1, 5), (65_535, 2, 5), (65_536, 3, 9)] {
        let (header, bytes) = Header::new(packed::ARRAY, body, count);
        assert_eq!((header.size, Header::read(&bytes)), (size, header));
    }
}

#[test]
fn containers_of_any_size_follow_each_other() {
    let mut random = Random::new(0x512e);
    for _ in 0..200 {
        let bits: Vec<usize> = (0..8).map(|_| random.below(18)).collect();
        let sizes: Vec<usize> = bits.iter().map(|bits| random.below(1 << bits) / 2).collect();
        let texts: Vec<String> =
            sizes.iter().map(|&size| format!("[{}8]", "7,".repeat(size))).chain(["[]".to_owned()]).collect();
        let parsed = Fragment::parse(format!("[{}]", texts.join(","))).expect("it is JSON");
        let parts: Vec<Fragment> = texts
            .iter()
            .map(|text| {
                let numbers = text.bytes().filter(u8::is_ascii_digit).map(|digit| i64::from(digit - b'0'));
                let numbers: Vec<Fragment> =
                    numbers.map(|number| Fragment::number(Number::Integer(number))).collect();
                Fragment::array(numbers.iter().map(Fragment::view))
            })
            .collect();
        // Every header is the shortest, whatever was expected.
        assert!(parsed == Fragment::array(parts.iter().map(Fragment::view)), "{sizes:?}");
    }
}

#[test]
fn strings_of_every_length_come_back_wherever_they_end() {
    for len in (0..150).chain([255, 256, 300]) {
        let plain = "x".repeat(len);
        for at in (0..=len).step_by(1 + len / 40) {
            for escape in ["", "\\n", "\\\"", "\\\\", "\\u0001", "é"] {
                let (before, after) = plain.split_at(at);
                let text = format!("{{\"{before}{escape}{after}\":\"{after}{escape}{before}\"}}");
                assert_eq!(printed(&text).as_ref(), Ok(&text));
                let text = format!("[\"{before}\",7,\"{escape}{after}\"]");
                assert_eq!(printed(&text).as_ref(), Ok(&text));
            }
        }
    }
}

#[test]
fn many_changes_at_once_are_as_one_after_the_other() {
    let text = r#"{"b":1,"a":[1,2,{"x":[5]}],"d":{"p":1,"q":2,"r":3},"c":2,"e":3}"#;
    let places: [&[usize]; 6] = [&[0], &[1, 0], &[1, 2, 0], &[2, 0], &[2, 1], &[3]];
    let mut document = Json::parse(text).expect("it is JSON");
    assert_eq!(Ok(()), document.change_all(&places, &mut |_| Some(Fragment::string(&[b'y'; 300]))));
    let mut other = Json::parse(text).expect("it is JSON");
    for place in places {
        assert_eq!(Ok(true), other.set(place, &Fragment::string(&[b'y'; 300])));
    }
    assert_eq!(shown(document.root()), shown(other.root()));
    let mut document = Json::parse(text).expect("it is JSON");
    assert_eq!(Ok(()), document.change_all(&places, &mut |_| None));
    assert_eq!(shown(document.root()), r#"{"e":3,"a":[2,{}],"d":{"r":3}}"#);
}

#[test]
fn a_decimal_number_has_the_form_of_its_double() {
    let mut random = Random::new(0x5eed);
    for _ in 0..20_000 {
        let bits = random.below(40);
        let (whole, places) = (random.below(1 << bits), random.below(18));
        let sign = if random.below(2) == 0 { "-" } else { "" };
        let zeros = "0".repeat(random.below(4));
        let digits = format!("{:0places$}{zeros}", random.below(10_usize.pow(places as u32)));
        let text =
            if digits.is_empty() { format!("{sign}{whole}.0") } else { format!("{sign}{whole}.{digits}") };
        let value: f64 = text.parse().expect("it is a number");
        let parsed = Fragment::parse(&text).expect("it is JSON");
        assert_eq!(parsed, Fragment::number(Number::Double(value)), "{text}");
        let shown = shown(parsed.view());
        assert_eq!(shown.parse(), Ok(value), "{text}");
        let again = Fragment::parse(&shown).expect("it is JSON");
        assert_eq!(again, parsed, "{text}");
    }
}

#[test]
fn what_is_not_utf_8_is_refused_wherever_it_stands() {
    for text in
        [&b"\"\xff\""[..], b"[1]\xff", b"\xff", b"{\"a\":\"aaaaaaaaaaaaaaaaaaaaa\xc3\"}", b"[1,\xe2\x82]"]
    {
        assert_eq!(Fragment::parse(text), Err(ParseError::NotUtf8), "{text:?}");
    }
    assert_eq!(
        printed("[\"aaaaaaaaaaaaaaa\u{20ac}\",\"\\u20ac\"]"),
        Ok("[\"aaaaaaaaaaaaaaa\u{20ac}\",\"\u{20ac}\"]".to_owned())
    );
}

#[test]
fn many_changes_of_a_large_document_are_as_those_of_a_small_one() {
    let record =
        |number: usize| format!(r#"{{"id":{number},"name":"a name of some length","tags":[1,2,{number}]}}"#);
    let records: Vec<String> = (0..4000).map(record).collect();
    let text = format!(r#"{{"records":[{}],"end":1}}"#, records.join(","));
    let changed = |wanted: &[usize], make: &dyn Fn(View<'_>) -> Option<Fragment>| {
        let places: Vec<[usize; 3]> = wanted.iter().map(|&number| [0, number, 0]).collect();
        let places: Vec<&[usize]> = places.iter().map(|place| &place[..]).collect();
        let mut document = Json::parse(&text).expect("it is JSON");
        assert_eq!(Ok(()), document.change_all(&places, &mut |value| make(value)));
        shown(document.root())
    };
    for wanted in [vec![5, 17, 3999], (0..4000).collect()] {
        let more = |id: usize| Fragment::number(Number::Integer(id as i64 * 1_000_000));
        let set = changed(&wanted, &|value| Some(more(shown(value).parse().expect("a number"))));
        let removed = changed(&wanted, &|_| None);
        let mut expected = (records.clone(), records.clone());
        for &number in &wanted {
            let id = format!(r#""id":{number},"#);
            expected.0[number] = records[number].replace(&id, &format!(r#""id":{},"#, number * 1_000_000));
            expected.1[number] = format!(r#"{{"tags":[1,2,{number}],"name":"a name of some length"}}"#);
        }
        let whole = |records: &[String]| format!(r#"{{"records":[{}],"end":1}}"#, records.join(","));
        assert!(set == whole(&expected.0) && removed == whole(&expected.1));
    }
}

/// Sequences at the bounds of what is allowed, and beyond them.
const PIECES: [&[u8]; 24] = [
    b"a",
    b"abcdefghijklmnopqrstuvwxyzabcdefghijklmnop",
    b"\x7f",
    b"\xc2\x80",
    b"\xdf\xbf",
    b"\xe0\xa0\x80",
    b"\xed\x9f\xbf",
    b"\xee\x80\x80",
    b"\xef\xbf\xbf",
    b"\xf0\x90\x80\x80",
    b"\xf4\x8f\xbf\xbf",
    b"\xf1\x80\x80\x80",
    b"\x80",
    b"\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xe0\x9f\xbf",
    b"\xed\xa0\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xff",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
];
/// The first of these are UTF-8.
const VALID: usize = 12;

#[test]
fn it_says_what_the_standard_library_says() {
    let mut random = Random::new(8);
    for round in 0..30_000 {
        let mut text = Vec::new();
        for _ in 0..random.below(40) {
            text.extend_from_slice(PIECES[random.below(VALID)]);
        }
        if round % 2 == 1 {
            let piece = PIECES[random.below(PIECES.len())];
            let at = random.below(text.len() + 1);
            text.splice(at..at, piece.iter().copied());
        }
        if round % 4 == 3 && !text.is_empty() {
            let at = random.below(text.len());
            text[at] = random.next() as u8;
        }
        if round % 5 == 4 {
            text.truncate(random.below(text.len() + 1));
        }
        assert_eq!(utf8::is_valid(&text), std::str::from_utf8(&text).is_ok(), "{text:x?}");
    }
}

#[test]
fn every_two_bytes_at_a_bound_of_blocks_are_told_apart() {
    for at in [30, 31, 63, 94, 126] {
        for first in 0..=u8::MAX {
            for second in (0..=u8::MAX).step_by(if at == 31 { 1 } else { 15 }) {
                let mut text = [b'x'; 128];
                (text[at], text[at + 1]) = (first, second);
                assert_eq!(utf8::is_valid(&text), std::str::from_utf8(&text).is_ok(), "{first:x} {second:x}");
            }
        }
    }
}

/// Bytes of a document in this process's tests.
const LOWERED: usize = 4 << 20;

/// A document a little smaller than the limit.
fn nearly_full(left: usize) -> Json {
    lower_bytes_max(LOWERED);
    let block = "x".repeat(64 << 10);
    let text = format!(r#"{{"a":["{}"],"b":"y"}}"#, vec![block.as_str(); LOWERED >> 16].join(r#"",""#));
    let mut document = Json::parse(text.replacen(&block, "z", 1)).expect("it is JSON");
    let size = document.root().memory_usage();
    assert_eq!(document.set(&[1], &Fragment::string(&vec![b'y'; LOWERED - size - left])), Ok(true));
    assert!((left - 8..left).contains(&(LOWERED - document.root().memory_usage())));
    document
}

#[test]
fn what_takes_a_document_past_its_limit_is_refused() {
    let large = Fragment::string(&vec![b'w'; 20_000]);
    let mut document = nearly_full(10_000);
    let before = shown(document.root());
    assert_eq!(document.insert(&[0], 1, std::slice::from_ref(&large)), Err(TooLarge));
    assert_eq!(document.add_member(&[], b"key", &large), Err(TooLarge));
    assert_eq!(document.set(&[0, 0], &large), Err(TooLarge));
    assert_eq!(document.change_all(&[&[0, 0], &[0, 1]], &mut |_| Some(document_of(70_000))), Err(TooLarge));
    assert_eq!(document.change_all(&[&[0, 0], &[0, 1]], &mut |_| Some(document_of(3 << 20))), Err(TooLarge));
    assert!(shown(document.root()) == before);
    // What takes the place of a larger value is none too much, and what goes leaves room.
    assert_eq!(document.set(&[0, 1], &large), Ok(true));
    assert_eq!(document.insert(&[0], 1, std::slice::from_ref(&large)), Ok(true));
    assert_eq!(document.change_all(&[&[0, 0], &[0, 1]], &mut |_| Some(Fragment::boolean(true))), Ok(()));
    let packed = Fragment::of(document.root());
    assert_eq!(shown(packed.view()), shown(document.root()));
}

fn document_of(bytes: usize) -> Fragment {
    Fragment::string(&vec![b'v'; bytes])
}

#[test]
fn a_small_document_does_not_become_too_large_at_once() {
    lower_bytes_max(LOWERED);
    let mut document = Json::parse("[1,2,3]").expect("it is JSON");
    let mut made = 0;
    let mut change = |_: View<'_>| {
        made += 1;
        Some(document_of(LOWERED / 2 + 1))
    };
    assert_eq!(document.change_all(&[&[0], &[1], &[2]], &mut change), Err(TooLarge));
    assert_eq!((shown(document.root()).as_str(), made), ("[1,2,3]", 2));
    assert_eq!(document.set(&[], &document_of(LOWERED + 1)), Err(TooLarge));
    assert_eq!(document.set(&[0], &document_of(LOWERED + 1)), Err(TooLarge));
    assert_eq!(shown(document.root()), "[1,2,3]");
}

#[test]
fn a_text_of_too_large_a_document_is_refused() {
    lower_bytes_max(LOWERED);
    let text = format!("[\"{}\"]", "x".repeat(LOWERED));
    assert_eq!(Json::parse(&text).map(drop), Err(ParseError::TooLarge));
    assert_eq!(Fragment::parse(&text).map(drop), Err(ParseError::TooLarge));
    assert_eq!(Fragment::parse_whole(&text).map(drop), Err(ParseError::TooLarge));
    assert!(Json::parse(format!("[\"{}\"]", "x".repeat(LOWERED - 20))).is_ok());
}

#[test]
fn lengths_are_never_cut_off() {
    assert_eq!(super::packed::four_bytes(BYTES_MAX), u32::MAX);
    assert_eq!(super::packed::four_bytes(BYTES_MAX + 1), u32::MAX);
    let (header, bytes) = Header::new(super::packed::ARRAY, BYTES_MAX - 9, 3);
    assert_eq!(Header::read(&bytes), header);
}
