//! JSON texts and paths: what is accepted prints and parses to the same, and changes keep a document whole.
#![no_main]

use mantissa_commands::json::path::Path;
use mantissa_store::Json;
use mantissa_store::json::{DEPTH_MAX, FloatType, Fragment, View};

fn printed(view: View<'_>) -> String {
    let mut text = Vec::new();
    view.write(&mut text);
    String::from_utf8(text).expect("documents are UTF-8")
}

/// The most matches that are looked at: a path with many `..` has more than there is time for.
const MATCHES_MAX: usize = 1000;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The first byte says where the path ends.
    let Some((&length, data)) = data.split_first() else { return };
    let (path, text) = data.split_at(usize::from(length).min(data.len()));
    let Ok(value) = Fragment::parse(text) else { return };
    std::str::from_utf8(text).expect("JSON is UTF-8");
    let shown = printed(value.view());
    let again = Fragment::parse(&shown).expect("what is printed is JSON");
    assert_eq!(again, value);
    for floats in [FloatType::Half, FloatType::BFloat, FloatType::Single, FloatType::Double] {
        let Ok(rounded) = Fragment::parse_as(text, DEPTH_MAX, Some(floats)) else { continue };
        let again = Fragment::parse_as(printed(rounded.view()), DEPTH_MAX, Some(floats));
        assert_eq!(again, Ok(rounded));
    }
    let mut document = Json::new(&value);
    let Ok(path) = Path::parse(path) else { return };
    let mut places = Vec::new();
    let _within_limits = path.visit(document.root(), |place, found| {
        let at = document.at(place).expect("a match is in the document");
        assert!(at.is_same(found));
        places.push(place.to_vec());
        if places.len() < MATCHES_MAX {
            std::ops::ControlFlow::Continue(())
        } else {
            std::ops::ControlFlow::Break(())
        }
    });
    for place in places.iter().rev().take(4) {
        document.set(place, &Fragment::string(&[b'x'; 300])).expect("it is small");
        Fragment::parse_as(printed(document.root()), DEPTH_MAX, None).expect("what is printed is JSON");
    }
    if let Some((&last, around)) = places.last().and_then(|place| place.split_last()) {
        document.remove(around, last, 1);
        Fragment::parse_as(printed(document.root()), DEPTH_MAX, None).expect("what is printed is JSON");
    }
});
