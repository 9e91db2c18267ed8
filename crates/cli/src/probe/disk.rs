//! The disk: random and sequential reads, writes and syncs, past the page cache where the file system allows.
//!
//! The file has no name while it is used, so that nothing remains however the program ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use mantissa_sys::direct_io::{AlignedBuffer, BLOCK_BYTES, open_direct};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::findings::{Section, bytes};
use super::statistics::{Figure, Pace};

/// Bytes of a sequential read or write.
const CHUNK_BYTES: usize = 1 << 20;
/// Threads that read at once, for the rate of a queue.
const READERS: usize = 16;
const READS: usize = 64;

/// All measurements in a file of so many bytes in a folder.
pub(crate) fn measure(pace: &Pace, folder: &Path, file_bytes: u64) -> io::Result<Section> {
    let mut section = Section::new("disk", "Disk");
    let explain = |error: io::Error| {
        if error.kind() == io::ErrorKind::Interrupted {
            return error;
        }
        io::Error::new(
            error.kind(),
            format!("{}: {}", folder.display(), crate::options::without_number(&error)),
        )
    };
    let file = create(folder, &mut section).map_err(explain)?;
    let chunks = (file_bytes / CHUNK_BYTES as u64).max(1);
    let chunks = write(pace, &file, chunks, &mut section).map_err(explain)?;
    reads(pace, &file, chunks, &mut section).map_err(explain)?;
    syncs(pace, &file, chunks, &mut section).map_err(explain)?;
    let size = bytes((chunks * CHUNK_BYTES as u64) as f64);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    section.notes.push(format!("Measured with {size} in a file in {}.", folder.display()));
    Ok(section)
}

fn create(folder: &Path, section: &mut Section) -> io::Result<File> {
    let path = folder.join(format!(".mantissa-probe-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let created = options.clone().create_new(true).open(&path)?;
    let direct = open_direct(&mut options, &path);
    std::fs::remove_file(&path)?;
    Ok(direct.unwrap_or_else(|| {
        section
            .notes
            .push("The file system takes no direct I/O: figures are those of the page cache.".into());
        created
    }))
}

/// Fills the file once, as far as the time goes, with bytes that no disk can compress; returns how far.
fn write(pace: &Pace, file: &File, chunks: u64, section: &mut Section) -> io::Result<u64> {
    let until = Instant::now() + pace.part(0.15);
    let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
    rand::Rng::fill_bytes(&mut SmallRng::seed_from_u64(1), buffer.bytes_mut());
    let mut rates = Vec::new();
    for chunk in 0..chunks {
        pace.check()?;
        let began = Instant::now();
        file.write_all_at(buffer.bytes(), chunk * CHUNK_BYTES as u64)?;
        rates.push(CHUNK_BYTES as f64 / began.elapsed().as_secs_f64());
        if Instant::now() >= until {
            break;
        }
    }
    file.sync_data()?;
    if let Some(figure) = Figure::of(&rates) {
        section.add("write", "sequential writes of 1 MiB", "bytes/s", figure);
    }
    Ok(rates.len() as u64)
}

fn reads(pace: &Pace, file: &File, chunks: u64, section: &mut Section) -> io::Result<()> {
    let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
    let mut chunk = 0;
    let figure = pace.repeat(0.04, || {
        let began = Instant::now();
        file.read_exact_at(buffer.bytes_mut(), chunk * CHUNK_BYTES as u64)?;
        chunk = (chunk + 1) % chunks;
        Ok(CHUNK_BYTES as f64 / began.elapsed().as_secs_f64())
    })?;
    section.add("read", "sequential reads of 1 MiB", "bytes/s", figure);
    let blocks = chunks * (CHUNK_BYTES / BLOCK_BYTES) as u64;
    let random_reads = |seed: u64| -> io::Result<()> {
        let mut buffer = AlignedBuffer::new(BLOCK_BYTES);
        let mut random = SmallRng::seed_from_u64(seed);
        for _ in 0..READS {
            let place = random.random_range(0..blocks) * BLOCK_BYTES as u64;
            file.read_exact_at(buffer.bytes_mut(), place)?;
        }
        Ok(())
    };
    let mut seed = 0;
    let figure = pace.repeat(0.05, || {
        seed += 1;
        let began = Instant::now();
        random_reads(seed)?;
        Ok(READS as f64 / began.elapsed().as_secs_f64())
    })?;
    section.add("random_reads_1", "random reads of 4 KiB, one at a time", "1/s", figure);
    let figure = pace.repeat(0.05, || {
        seed += READERS as u64;
        let began = Instant::now();
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..READERS as u64).map(|i| scope.spawn(move || random_reads(seed + i))).collect();
            readers.into_iter().try_for_each(|reader| {
                reader.join().unwrap_or_else(|_| Err(io::Error::other("a reader has ended")))
            })
        })?;
        Ok((READERS * READS) as f64 / began.elapsed().as_secs_f64())
    })?;
    section.add("random_reads_16", "the same, 16 at a time", "1/s", figure);
    Ok(())
}

fn syncs(pace: &Pace, file: &File, chunks: u64, section: &mut Section) -> io::Result<()> {
    let blocks = chunks * (CHUNK_BYTES / BLOCK_BYTES) as u64;
    let buffer = AlignedBuffer::new(BLOCK_BYTES);
    let mut block = 0;
    let figure = pace.repeat(0.05, || {
        let began = Instant::now();
        file.write_all_at(buffer.bytes(), block * BLOCK_BYTES as u64)?;
        file.sync_data()?;
        block = (block + 1) % blocks;
        Ok(began.elapsed().as_secs_f64() * 1e9)
    })?;
    section.add("sync", "a write of 4 KiB and its sync", "ns", figure);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_file_is_measured_and_nothing_remains() {
        let folder = std::env::temp_dir().join(format!("mantissa-probe-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let pace = Pace::new(Duration::ZERO, Arc::default());
        let section = measure(&pace, &folder, 2 << 20).expect("the folder can be written to");
        assert!(section.median("random_reads_1").is_some() && section.median("sync").is_some());
        std::fs::remove_dir(&folder).expect("it is empty");
        assert!(measure(&pace, &folder, 2 << 20).is_err());
    }
}
