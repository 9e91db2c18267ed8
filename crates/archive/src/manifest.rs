//! Manifests: what a snapshot is, and which chunks it has in which order.
//!
//! Chunks are named by pack and number; neighbours in a pack are one run, so an unchanged snapshot is a few
//! runs. Where a thousandth of the chunks has changed, the list has some bytes for each of these only.

use std::io;

use crate::keys::NAME_BYTES;
use crate::pack::PackName;
use crate::wire::{Reader, put_bytes, put_number};

const MAGIC: &[u8; 8] = b"MANTSNP1";

/// What is said of a snapshot.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Facts {
    /// When it was made, as unix time in milliseconds.
    pub created_ms: u64,
    /// Where the data came from.
    pub source: String,
    /// What the user calls it; may be empty.
    pub tag: String,
    /// The number of keys.
    pub keys: u64,
    /// The number of libraries of functions.
    pub functions: u64,
    /// For each database its number, its keys, and those with an expiry.
    pub databases: Vec<(u32, u64, u64)>,
    /// Bytes before compression.
    pub bytes: u64,
    /// Bytes before compression of chunks that were new.
    pub new_bytes: u64,
    /// Bytes that were stored for it, without the manifest.
    pub stored_bytes: u64,
    /// The number of chunks.
    pub chunks: u64,
    /// What DEBUG DIGEST says of the data.
    pub digest: [u8; 20],
    /// Where it is in the log of its server, if that is known.
    pub position: Option<Position>,
}

/// A place in the log of a server: the stream of commands that its replicas get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    /// The name of the history that the offset is in.
    pub history: String,
    /// Bytes of that history.
    pub offset: u64,
    /// The database that is selected there; `None` if SELECT comes next.
    pub database: Option<u32>,
}

/// Neighbouring chunks of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub pack: u32,
    pub first: u64,
    pub count: u64,
}

/// A snapshot.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Manifest {
    pub facts: Facts,
    pub packs: Vec<PackName>,
    pub runs: Vec<Run>,
}

impl Manifest {
    /// Appends a chunk.
    pub fn push(&mut self, pack: u32, chunk: u64) {
        self.facts.chunks += 1;
        match self.runs.last_mut() {
            Some(run) if run.pack == pack && run.first + run.count == chunk => run.count += 1,
            _ => self.runs.push(Run { pack, first: chunk, count: 1 }),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let Facts { source, tag, digest, databases, .. } = &self.facts;
        let mut out = MAGIC.to_vec();
        let facts = &self.facts;
        let numbers = [facts.created_ms, facts.keys, facts.functions, facts.bytes, facts.new_bytes];
        for number in numbers.into_iter().chain([facts.stored_bytes, facts.chunks]) {
            put_number(number, &mut out);
        }
        put_bytes(source.as_bytes(), &mut out);
        put_bytes(tag.as_bytes(), &mut out);
        out.extend_from_slice(digest);
        put_number(databases.len() as u64, &mut out);
        for (database, keys, with_expiry) in databases {
            [u64::from(*database), *keys, *with_expiry]
                .iter()
                .for_each(|number| put_number(*number, &mut out));
        }
        put_number(self.packs.len() as u64, &mut out);
        self.packs.iter().for_each(|pack| out.extend_from_slice(pack));
        put_number(self.runs.len() as u64, &mut out);
        for run in &self.runs {
            [u64::from(run.pack), run.first, run.count]
                .iter()
                .for_each(|number| put_number(*number, &mut out));
        }
        if let Some(position) = &facts.position {
            put_bytes(position.history.as_bytes(), &mut out);
            put_number(position.offset, &mut out);
            put_number(position.database.map_or(0, |database| u64::from(database) + 1), &mut out);
        }
        out
    }

    pub fn parse(bytes: &[u8]) -> io::Result<Manifest> {
        let mut reader = Reader::new(bytes, "the manifest");
        if reader.array()? != *MAGIC {
            return Err(reader.error("it does not begin as one"));
        }
        let mut numbers = [0; 7];
        for number in &mut numbers {
            *number = reader.number()?;
        }
        let [created_ms, keys, functions, bytes, new_bytes, stored_bytes, chunks] = numbers;
        let mut text = || Ok::<_, io::Error>(String::from_utf8_lossy(reader.bytes()?).into_owned());
        let (source, tag) = (text()?, text()?);
        let digest = reader.array()?;
        let mut databases = Vec::new();
        for _ in 0..reader.count(3)? {
            databases.push((small(&mut reader)?, reader.number()?, reader.number()?));
        }
        let mut packs = Vec::new();
        for _ in 0..reader.count(NAME_BYTES)? {
            packs.push(reader.array()?);
        }
        let (mut runs, mut listed) = (Vec::new(), 0_u64);
        for _ in 0..reader.count(3)? {
            let run = Run { pack: small(&mut reader)?, first: reader.number()?, count: reader.number()? };
            let end = run.first.checked_add(run.count);
            let sum = listed.checked_add(run.count).filter(|_| end.is_some());
            if run.pack as usize >= packs.len() || run.count == 0 {
                return Err(reader.error("a run is of no pack"));
            }
            listed = sum.ok_or_else(|| reader.error("a number is too large"))?;
            runs.push(run);
        }
        if listed != chunks {
            return Err(reader.error("it has another number of chunks than it says"));
        }
        let mut position = None;
        if !reader.is_empty() {
            let history = String::from_utf8_lossy(reader.bytes()?).into_owned();
            let offset = reader.number()?;
            position = Some(Position { history, offset, database: small(&mut reader)?.checked_sub(1) });
        }
        reader.finish()?;
        let facts = Facts {
            created_ms,
            source,
            tag,
            keys,
            functions,
            databases,
            bytes,
            new_bytes,
            stored_bytes,
            chunks,
            digest,
            position,
        };
        Ok(Manifest { facts, packs, runs })
    }
}

fn small(reader: &mut Reader<'_>) -> io::Result<u32> {
    u32::try_from(reader.number()?).map_err(|_| reader.error("a number is too large"))
}
