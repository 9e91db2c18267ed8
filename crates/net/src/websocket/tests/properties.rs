//! What holds for any frames, cut anywhere.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Anything from valid text to bytes that are hardly text.
fn nearly_text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "\\PC{0,40}".prop_map(String::into_bytes),
        2 => "[ -~]{0,90}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..3),
        1 => vec(0x80_u8..=0xff, 0..4),
    ];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn index() -> impl Strategy<Value = prop::sample::Index> {
    any::<prop::sample::Index>()
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        8 => prop::sample::select(&[0x81_u8, 0x82, 0x01, 0x02, 0x80, 0x00, 0x89, 0x8a][..]),
        1 => Just(0x88),
        1 => any::<u8>(),
    ];
    (first, prop_oneof![nearly_text(), vec(any::<u8>(), 0..200)])
        .prop_map(|(first, payload)| masked(first, &payload))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_is_checked_as_the_standard_library_does(bytes in nearly_text(), cut in index()) {
        let is_valid = std::str::from_utf8(&bytes).is_ok();
        let mut whole = Utf8Checker::default();
        prop_assert_eq!(whole.feed(&bytes) && whole.is_complete(), is_valid);
        let (left, right) = bytes.split_at(cut.index(bytes.len() + 1));
        let mut parts = Utf8Checker::default();
        prop_assert_eq!(parts.feed(left) && parts.feed(right) && parts.is_complete(), is_valid);
    }

    #[test]
    fn one_bad_byte_in_a_long_text_is_found(text in "\\PC{60,200}", at in index(), byte: u8) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut checker = Utf8Checker::default();
        prop_assert_eq!(checker.feed(&bytes) && checker.is_complete(), std::str::from_utf8(&bytes).is_ok());
    }

    #[test]
    fn cuts_change_nothing(frames in vec(any_frame(), 0..6), cuts in vec(index(), 0..4)) {
        let bytes = frames.concat();
        let whole = decode_with(LIMITS, [&bytes[..]]);
        prop_assert_eq!(&decode_with(LIMITS, bytes.chunks(1)), &whole);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for cut in cuts {
            pieces.push(&bytes[from..cut]);
            from = cut;
        }
        pieces.push(&bytes[from..]);
        prop_assert_eq!(&decode_with(LIMITS, pieces), &whole);
    }
}

#[test]
fn a_session_is_the_same_cut_at_every_byte() {
    let frames = [
        masked(0x81, "κόσμε".as_bytes()),
        masked(0x02, &[1; 126]),
        masked(0x89, b"ping"),
        masked(0x00, &[2; 300]),
        masked(0x80, b""),
        masked(0x82, &[3; 70_000]),
        masked(0x8a, b""),
        masked(0x88, b"\x03\xe8bye"),
    ];
    let bytes = frames.concat();
    let whole = decode_with(LIMITS, [&bytes[..]]);
    assert_eq!(whole.len(), 6);
    for cut in (0..1000).chain(bytes.len() - 40..=bytes.len()) {
        assert_eq!(decode_with(LIMITS, [&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
    }
}

/// Every sequence of up to four bytes that begins with a byte that is not ASCII, of the bytes at the edges of
/// classes, in every place of a block.
#[test]
fn blocks_agree_with_the_standard_library() {
    let edges: [u8; 21] = [
        0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0,
        0xf1, 0xf4, 0xf5, 0xff,
    ];
    let mut bytes = vec![b'x'; 128];
    for number in 0..21_usize.pow(4) {
        let sequence: [u8; 4] = std::array::from_fn(|at| edges[number / 21_usize.pow(at as u32) % 21]);
        let at = 20 + number % 64;
        bytes[at..at + 4].copy_from_slice(&sequence);
        let mut checker = Utf8Checker::default();
        let verdict = checker.feed(&bytes) && checker.is_complete();
        assert_eq!(verdict, std::str::from_utf8(&bytes).is_ok(), "{sequence:x?} at {at}");
        bytes[at..at + 4].fill(b'x');
    }
}
