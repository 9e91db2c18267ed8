//! Bloom and Cuckoo filters from headers and pieces that may be anything, as BF.LOADCHUNK and CF.LOADCHUNK
//! take them, and commands on what they make.

use mantissa_store::{BloomAdded, BloomFilter, Collection, CuckooAdded, CuckooFilter, CuckooShape};

use super::Choices;

/// Filters of more bytes are left alone: a valid header asks for them, and they would take the time.
const BYTES_MAX: u64 = 1 << 17;

/// A header with up to three bytes changed.
fn disturbed(mut header: Vec<u8>, choices: &mut Choices<'_>) -> Option<Vec<u8>> {
    for _ in 0..choices.next()? % 4 {
        let (at, value) = (choices.number()?, choices.next()?);
        let len = header.len();
        header[at % len] = value;
    }
    match choices.next()? {
        0 => header.truncate(choices.number()? % (header.len() + 1)),
        1 => header.push(0),
        _ => {}
    }
    Some(header)
}

/// A place before which a piece may lie, mostly one that there is.
fn place(choices: &mut Choices<'_>, len: u64) -> Option<i64> {
    let number = choices.number()? as i64;
    Some(match choices.next()? {
        0 => i64::MIN + number,
        1 => i64::MAX - number,
        2 => -number,
        _ => number % (len as i64 + 40),
    })
}

/// Does to a Bloom filter what the bytes say.
pub fn bloom_operations(data: &[u8]) {
    let mut choices = Choices(data);
    while bloom_round(&mut choices).is_some() {}
}

fn bloom_round(choices: &mut Choices<'_>) -> Option<()> {
    let (entries, growth) = (choices.next()?, choices.next()?);
    let error = [0.5, 0.1, 0.01, 1e-300][usize::from(choices.next()? % 4)];
    let mut made = BloomFilter::new(u64::from(entries) + 1, error, growth.into(), entries % 7 == 0)?;
    (0..growth % 64).for_each(|number| _ = made.add(&[number]));
    let header = disturbed(made.dump_header(), choices)?;
    let Ok(mut filter) = BloomFilter::from_header(&header) else { return Some(()) };
    if filter.module_bytes() > BYTES_MAX {
        return Some(());
    }
    assert_eq!(filter.dump_header().len(), header.len());
    for _ in 0..40 {
        let (operation, text) = (choices.next()?, choices.text()?);
        match operation % 8 {
            0..3 if filter.module_bytes() < BYTES_MAX => {
                let is_in = !matches!(filter.add(&text), BloomAdded::Full | BloomAdded::TooLarge);
                assert_eq!(filter.contains(&text), is_in);
            }
            3 => _ = filter.load_piece(place(choices, filter.module_bytes())?, &text),
            4 => _ = filter.dump_piece(place(choices, filter.module_bytes())?),
            5 => {
                let kept = filter.clone();
                let before = kept.dump_piece(1);
                filter.add(&text);
                assert_eq!(kept.dump_piece(1), before);
            }
            _ => _ = filter.contains(&text),
        }
    }
    let mut copy = BloomFilter::from_header(&filter.dump_header()).expect("its own header is right");
    let mut at = 1;
    loop {
        let (next, piece) = filter.dump_piece(at);
        if next == 0 {
            break;
        }
        copy.load_piece(next, &piece).expect("its own piece fits");
        at = next;
    }
    assert!(copy.memory_usage() > 0 && copy.dump_piece(1) == filter.dump_piece(1));
    Some(())
}

/// Does to a Cuckoo filter what the bytes say.
pub fn cuckoo_operations(data: &[u8]) {
    let mut choices = Choices(data);
    while cuckoo_round(&mut choices).is_some() {}
}

fn cuckoo_round(choices: &mut Choices<'_>) -> Option<()> {
    let (capacity, bucket_size) = (choices.number()? as u64, u16::from(choices.next()?));
    let (steps, growth) = (u16::from(choices.next()?), u16::from(choices.next()? % 8));
    let Some(made) = CuckooShape::new(capacity, bucket_size, steps, growth).and_then(CuckooFilter::new)
    else {
        return Some(());
    };
    let header = disturbed(made.dump_header(), choices)?;
    let Some(mut filter) = CuckooFilter::from_header(&header).flatten() else { return Some(()) };
    if filter.module_bytes() > BYTES_MAX {
        return Some(());
    }
    for _ in 0..40 {
        let (operation, text) = (choices.next()?, choices.text()?);
        match operation % 8 {
            0..3 if filter.module_bytes() < BYTES_MAX => {
                let added = filter.add(&text, operation & 8 == 0);
                assert!(filter.contains(&text) || matches!(added, CuckooAdded::Full | CuckooAdded::TooLarge));
            }
            3 => _ = filter.load_piece(place(choices, filter.module_bytes())?, &text),
            4 => _ = filter.dump_piece(place(choices, filter.module_bytes())?),
            5 => {
                let (was_in, is_removed) = (filter.contains(&text), filter.remove(&text));
                assert_eq!(was_in, is_removed);
            }
            6 if operation & 8 == 0 => filter.pull_together(operation & 16 == 0),
            _ => assert_eq!(filter.count(&text) > 0, filter.contains(&text)),
        }
    }
    let mut copy = CuckooFilter::from_header(&filter.dump_header()).flatten()?;
    let mut at = 1;
    while let Some((next, piece)) = filter.dump_piece(at) {
        copy.load_piece(next, &piece).expect("its own piece fits");
        at = next;
    }
    assert!(copy.memory_usage() > 0 && copy.dump_piece(1) == filter.dump_piece(1));
    Some(())
}
