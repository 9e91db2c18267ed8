//! Sorting records by key in bounded memory: sorted runs in temporary files, merged in the end.
//!
//! A record is a head, by which it is sorted, and a body. Heads are a byte that tells what it is, the number
//! of the database (u32 BE), and the key.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes of records that are sorted in memory.
const RUN_BYTES: usize = 128 << 20;
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
    at: usize,
    head_bytes: usize,
    bytes: usize,
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
        self.places.push(Place { at: self.bytes.len(), head_bytes: head.len(), bytes });
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(body);
        if self.bytes.len() >= self.run_bytes { self.spill() } else { Ok(()) }
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let head = |place: &Place| &bytes[place.at..place.at + place.head_bytes];
        self.places.sort_by(|left, right| head(left).cmp(head(right)));
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
        let mut runs = Vec::new();
        for mut file in self.runs {
            io::Seek::rewind(&mut file)?;
            runs.push(BufReader::with_capacity(1 << 20, file));
        }
        let mut next = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            next.extend(read_record(run)?.map(|record| Reverse((record, number))));
        }
        while let Some(Reverse(((head, body), number))) = next.pop() {
            take(&head, &body)?;
            next.extend(read_record(&mut runs[number])?.map(|record| Reverse((record, number))));
        }
        Ok(())
    }
}

type Record = (Vec<u8>, Vec<u8>);

fn read_record(run: &mut BufReader<File>) -> io::Result<Option<Record>> {
    if io::BufRead::fill_buf(run)?.is_empty() {
        return Ok(None);
    }
    let mut sizes = [[0; 8]; 2];
    run.read_exact(&mut sizes[0])?;
    run.read_exact(&mut sizes[1])?;
    let mut parts = sizes.map(|size| vec![0; u64::from_le_bytes(size) as usize]);
    run.read_exact(&mut parts[0])?;
    run.read_exact(&mut parts[1])?;
    let [head, body] = parts;
    Ok(Some((head, body)))
}

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
