//! What must hold for any bytes given as a file of commands or as a manifest.

use mantissa_persist::aof::preallocation::START_LINE;
use mantissa_persist::aof::{AofError, Item, Manifest, Reader, put_timestamp};
use mantissa_protocol::encode_request;
use std::io::{self, Read};

/// An item that owns its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OwnedItem {
    /// A command.
    Command(Vec<Vec<u8>>),
    /// A timestamp.
    Timestamp(i64),
    /// Another line.
    Annotation(Vec<u8>),
}

impl From<Item<'_>> for OwnedItem {
    fn from(item: Item<'_>) -> Self {
        match item {
            Item::Command(args) => OwnedItem::Command(args.iter().map(<[u8]>::to_vec).collect()),
            Item::Timestamp(time_s) => OwnedItem::Timestamp(time_s),
            Item::Annotation(text) => OwnedItem::Annotation(text.to_vec()),
        }
    }
}

/// What a file gives.
#[derive(PartialEq, Eq, Debug)]
pub struct Contents {
    /// Its items.
    pub items: Vec<OwnedItem>,
    /// How the reading ended.
    pub failure: Option<AofError>,
    /// Where the last whole transaction or command ends.
    pub whole_end: u64,
    /// Items that end there or before.
    pub whole_items: usize,
}

/// Reads what `input` yields.
pub fn read_from(input: impl Read, total: u64) -> Contents {
    let mut reader = Reader::new(input, total);
    let mut contents = Contents { items: Vec::new(), failure: None, whole_end: 0, whole_items: 0 };
    loop {
        let item = reader.next_item().map(|item| item.map(OwnedItem::from));
        match item {
            Ok(Some(item)) => contents.items.push(item),
            Ok(None) => break,
            Err(failure) => {
                assert_eq!(reader.next_item(), Err(failure.clone()), "a failure stays");
                contents.failure = Some(failure);
                break;
            }
        }
        if !reader.in_transaction() {
            assert_eq!(reader.whole_end(), reader.offset());
            contents.whole_items = contents.items.len();
        }
    }
    contents.whole_end = reader.whole_end();
    contents
}

/// Reads a file in memory.
pub fn read(file: &[u8]) -> Contents {
    read_from(file, file.len() as u64)
}

/// Writes items.
pub fn write(items: &[OwnedItem]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        match item {
            OwnedItem::Command(words) => encode_request(&mut out, words),
            OwnedItem::Timestamp(time_s) => put_timestamp(*time_s, &mut out),
            OwnedItem::Annotation(text) => out.extend_from_slice(&[text, &b"\r\n"[..]].concat()),
        }
    }
    out
}

/// Yields a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 % 7 + 1;
        let count = self.1.min(buffer.len());
        self.0.read(&mut buffer[..count])
    }
}

/// Checks that a file reads the same however its bytes arrive, that its items read back as written, and that
/// its whole part is whole.
pub fn check_file(file: &[u8]) -> Contents {
    let contents = read(file);
    assert_eq!(read_from(Trickle(file, 0), file.len() as u64), contents);
    let whole_end = usize::try_from(contents.whole_end).expect("it is in memory");
    let (whole, rest) = file.split_at(whole_end);
    let whole = read(whole);
    let expected = &contents.items[..contents.whole_items];
    if may_be_preallocated(&contents.items) {
        // Behind preallocated bytes, a lone `#` is an annotation or filler: what follows tells.
        assert_eq!(commands(&whole.items), commands(expected));
        assert!(matches!(whole.failure, None | Some(AofError::Truncated { .. })));
    } else {
        assert_eq!((whole.failure, &whole.items[..]), (None, expected));
        assert_eq!(read(&write(&contents.items)).items, contents.items);
    }
    match &contents.failure {
        None => assert!(rest.is_empty() || (may_be_preallocated(expected) && !may_hold_command(rest))),
        Some(AofError::Truncated { whole, .. }) => assert_eq!(*whole, contents.whole_end),
        Some(AofError::Damaged { offset, .. }) => {
            assert!((contents.whole_end..=file.len() as u64).contains(offset));
        }
        Some(AofError::Unreadable(reason)) => panic!("nothing failed: {reason}"),
    }
    contents
}

/// Whether preallocated bytes may follow one of the items.
fn may_be_preallocated(items: &[OwnedItem]) -> bool {
    items.iter().any(|item| matches!(item, OwnedItem::Annotation(text) if text.starts_with(START_LINE)))
}

/// Whether `bytes` are more than filler, zeros and a part of the last line of preallocated bytes.
fn may_hold_command(bytes: &[u8]) -> bool {
    !bytes.iter().all(|byte| b"#\n\0END:0123456789abcdef".contains(byte))
}

fn commands(items: &[OwnedItem]) -> Vec<&OwnedItem> {
    items.iter().filter(|item| matches!(item, OwnedItem::Command(_))).collect()
}

/// Checks that a manifest is refused, or read and written without loss. True if it was read.
pub fn check_manifest(text: &[u8]) -> bool {
    let Ok(manifest) = Manifest::parse(text) else { return false };
    let written = manifest.to_text();
    let lines_are_short = written.split(|&byte| byte == b'\n').all(|line| line.len() < 1024);
    if !written.is_empty() && lines_are_short {
        assert_eq!(Manifest::parse(&written), Ok(manifest));
    }
    true
}
