//! Sorting records by key in bounded memory: sorted runs in temporary files, merged in the end.
//!
//! A record is a head, by which it is sorted, and a body. Heads are a byte that tells what it is, the number
//! of the database (u32 BE), and the key.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes of records that are sorted in memory.
const RUN_BYTES: usize = 128 << 20;
/// Bytes of heads that are compared at once.
const WORD_BYTES: usize = 8;
/// Records that are sorted by whole heads.
const FEW_RECORDS: usize = 16;
/// The same for those that are equal up to here.
const WORDS_END: usize = 16 * WORD_BYTES;
/// Memory for a body that a run keeps for the next one.
const BODY_BYTES_KEPT: usize = 1 << 20;
/// What a head begins with.
pub(crate) const FUNCTION: u8 = 0;
pub(crate) const KEY: u8 = 1;

/// The head of a key's record.
pub(crate) fn key_head(database: u32, key: &[u8]) -> Vec<u8> {
    let mut head = vec![KEY];
    head.extend_from_slice(&database.to_be_bytes());
    head.extend_from_slice(key);
    head
}

/// Where a record lies in memory.
struct Place {
    /// A word of the head: that by which records are being sorted.
    word: u64,
    at: usize,
    head_bytes: usize,
    bytes: usize,
}

impl Place {
    fn head<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.at..self.at + self.head_bytes]
    }
}

/// Sorts records whose heads are equal before `from`: by their next words, then those with equal words by the
/// words behind these. Words lie beside each other in memory, heads do not.
fn sort_from(from: usize, places: &mut [Place], bytes: &[u8]) {
    if places.len() <= FEW_RECORDS || from >= WORDS_END {
        places.sort_by(|left, right| left.head(bytes).cmp(right.head(bytes)));
        return;
    }
    for place in &mut *places {
        let rest = &place.head(bytes)[from..];
        let mut word = [0; WORD_BYTES];
        let count = rest.len().min(WORD_BYTES);
        word[..count].copy_from_slice(&rest[..count]);
        place.word = u64::from_be_bytes(word);
    }
    // A head that ends comes before one that goes on with zeros.
    let key = |place: &Place| (place.word, (place.head_bytes - from).min(WORD_BYTES + 1));
    places.sort_by_key(key);
    for equal in places.chunk_by_mut(|left, right| key(left) == key(right)) {
        if key(&equal[0]).1 > WORD_BYTES {
            sort_from(from + WORD_BYTES, equal, bytes);
        }
    }
}

/// Collects records.
pub(crate) struct Sorter {
    folder: PathBuf,
    run_bytes: usize,
    bytes: Vec<u8>,
    places: Vec<Place>,
    runs: Vec<File>,
}

impl Sorter {
    /// A sorter that has its files in `folder`.
    pub fn new(folder: &Path) -> Self {
        let (bytes, places, runs) = (Vec::new(), Vec::new(), Vec::new());
        Sorter { folder: folder.to_owned(), run_bytes: RUN_BYTES, bytes, places, runs }
    }

    pub fn add(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let bytes = head.len() + body.len();
        self.places.push(Place { word: 0, at: self.bytes.len(), head_bytes: head.len(), bytes });
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(body);
        if self.bytes.len() >= self.run_bytes { self.spill() } else { Ok(()) }
    }

    fn sort(&mut self) {
        sort_from(0, &mut self.places, &self.bytes);
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut out = BufWriter::with_capacity(1 << 20, nameless_file(&self.folder)?);
        for place in self.places.drain(..) {
            out.write_all(&(place.head_bytes as u64).to_le_bytes())?;
            out.write_all(&((place.bytes - place.head_bytes) as u64).to_le_bytes())?;
            out.write_all(&self.bytes[place.at..place.at + place.bytes])?;
        }
        self.bytes.clear();
        self.runs.push(out.into_inner().map_err(|error| error.into_error())?);
        Ok(())
    }

    /// Calls `take` with the head and the body of each record in the order of heads.
    pub fn drain(mut self, mut take: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.runs.is_empty() {
            self.sort();
            for place in &self.places {
                let record = &self.bytes[place.at..place.at + place.bytes];
                take(&record[..place.head_bytes], &record[place.head_bytes..])?;
            }
            return Ok(());
        }
        self.spill()?;
        let mut runs = BinaryHeap::new();
        for file in self.runs {
            runs.extend(Run::open(file)?.map(|run| Reverse(Box::new(run))));
        }
        while let Some(mut first) = runs.peek_mut() {
            take(&first.0.head, &first.0.body)?;
            if !first.0.read()? {
                PeekMut::pop(first);
            }
        }
        Ok(())
    }
}

/// A sorted run that is read, at one of its records. Runs are in the order of these.
struct Run {
    head: Vec<u8>,
    body: Vec<u8>,
    file: BufReader<File>,
}

impl Run {
    /// A run at its first record, if it has one.
    fn open(mut file: File) -> io::Result<Option<Self>> {
        io::Seek::rewind(&mut file)?;
        let file = BufReader::with_capacity(1 << 20, file);
        let mut run = Run { head: Vec::new(), body: Vec::new(), file };
        Ok(run.read()?.then_some(run))
    }

    /// Goes to the next record. False if there is none.
    fn read(&mut self) -> io::Result<bool> {
        if io::BufRead::fill_buf(&mut self.file)?.is_empty() {
            return Ok(false);
        }
        if self.body.capacity() > BODY_BYTES_KEPT {
            self.body = Vec::new();
        }
        let mut sizes = [[0; 8]; 2];
        self.file.read_exact(sizes.as_flattened_mut())?;
        let [head_bytes, body_bytes] = sizes.map(|size| u64::from_le_bytes(size) as usize);
        self.head.resize(head_bytes, 0);
        self.file.read_exact(&mut self.head)?;
        self.body.resize(body_bytes, 0);
        self.file.read_exact(&mut self.body)?;
        Ok(true)
    }
}

impl Ord for Run {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.head, &self.body).cmp(&(&other.head, &other.body))
    }
}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Run {}

/// A file that is gone when it is closed, and that others cannot read.
pub(crate) fn nameless_file(folder: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let name = crate::wire::hex(&crate::keys::random()?[..16]);
    let path = folder.join(format!("mantissa-archive-{name}"));
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(&path);
    let file = file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn heads_with_equal_beginnings_are_sorted(
            heads in prop::collection::vec((0..40_usize, prop::collection::vec(0..2_u8, 0..12)), 0..300),
            shared in prop_oneof![Just(0), 0..200_usize],
        ) {
            let heads: Vec<_> = heads
                .into_iter()
                .map(|(zeros, end)| [vec![1; shared], vec![0; zeros], end].concat())
                .collect();
            let mut sorter = Sorter::new(&std::env::temp_dir());
            for (number, head) in heads.iter().enumerate() {
                sorter.add(head, &number.to_be_bytes()).expect("all fit in memory");
            }
            let mut found = Vec::new();
            let drained = sorter.drain(|head, body| {
                found.push((head.to_vec(), body.to_vec()));
                Ok(())
            });
            drained.expect("all are in memory");
            let numbered = heads.into_iter().zip(0_usize..);
            let mut sorted: Vec<_> =
                numbered.map(|(head, number)| (head, number.to_be_bytes().to_vec())).collect();
            sorted.sort();
            prop_assert_eq!(found, sorted);
        }

        #[test]
        fn records_come_in_order_from_any_number_of_runs(
            records in prop::collection::vec((prop::collection::vec(0..3_u8, 0..5), "[a-z]{0,9}"), 0..200),
            run_bytes in 1..2000_usize,
        ) {
            let mut sorter = Sorter { run_bytes, ..Sorter::new(&std::env::temp_dir()) };
            for (head, body) in &records {
                sorter.add(head, body.as_bytes()).expect("the temporary folder can be written");
            }
            let mut found = Vec::new();
            let drained = sorter.drain(|head, body| {
                found.push((head.to_vec(), String::from_utf8_lossy(body).into_owned()));
                Ok(())
            });
            drained.expect("the runs can be read");
            prop_assert!(found.is_sorted_by(|left, right| left.0 <= right.0));
            let mut sorted = records.clone();
            sorted.sort();
            found.sort();
            prop_assert_eq!(found, sorted);
        }
    }
}
