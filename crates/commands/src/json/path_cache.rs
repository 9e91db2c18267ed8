//! Paths that were parsed lately, for each thread: clients send the same few again and again.
//!
//! A table of fixed size in which a path takes the place that a hash of its text says. Paths with regular
//! expressions are left out, because these may be large.

use std::cell::RefCell;
use std::rc::Rc;

use super::path::Path;
use crate::error::Outcome;

/// The number of places. A power of two.
const PLACES: usize = 512;
/// Longer texts are not kept.
const TEXT_MAX: usize = 128;

thread_local! {
    static CACHE: RefCell<[Option<Rc<Path>>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// The place of a text: all of its bytes decide, wherever an index stands in it.
fn place(text: &[u8]) -> usize {
    let mut mixed = text.len() as u64;
    let mut mix = |word: u64| mixed = (mixed.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = text.as_chunks::<8>();
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    mix(rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    // Only the highest bits of a product depend on all of its factor's.
    (mixed >> (u64::BITS - PLACES.ilog2())) as usize
}

/// [`Path::parse`].
pub(super) fn parse(text: &[u8]) -> Outcome<Rc<Path>> {
    if text.len() > TEXT_MAX {
        return Path::parse(text).map(Rc::new);
    }
    CACHE.with_borrow_mut(|cache| {
        let kept = &mut cache[place(text)];
        if let Some(path) = kept.as_ref().filter(|path| path.original().as_bytes() == text) {
            return Ok(Rc::clone(path));
        }
        let path = Rc::new(Path::parse(text)?);
        if !path.has_expression {
            *kept = Some(Rc::clone(&path));
        }
        Ok(path)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn paths_that_differ_in_an_index_have_places_of_their_own() {
        let shapes = (0..8).flat_map(|before| (0..8).map(move |after| (before, after)));
        for (before, after) in shapes {
            let path = |index: usize| format!("$.{:a<before$}[{index}].{:b<after$}", "a", "b");
            for count in [10, 100, PLACES] {
                let places: HashSet<usize> = (0..count).map(|index| place(path(index).as_bytes())).collect();
                // Drawn by lot, as many paths as places would have 0.63 of them.
                assert!(places.len() > count * 2 / 5, "{} places for {count} of {}", places.len(), path(0));
            }
        }
    }

    #[test]
    fn a_path_is_parsed_once_and_the_last_one_of_a_place_stays() {
        let first = parse(b"$.a[0].b").expect("it is UTF-8");
        assert!(Rc::ptr_eq(&first, &parse(b"$.a[0].b").expect("it is UTF-8")));
        for number in 0..10 * PLACES {
            let text = format!("$.member{number}[?(@.x=~'a')]");
            let path = parse(text.as_bytes()).expect("it is UTF-8");
            assert_eq!(path.original(), text);
            assert!(path.has_expression);
            let text = format!("$.member{number}");
            let path = parse(text.as_bytes()).expect("it is UTF-8");
            assert_eq!(path.original(), text);
        }
        assert!(parse(&[0xff]).is_err());
    }
}
