//! Where replication stood, as a dump says it in three facts.

use std::io::Read;

use mantissa_number::parse_i64;

use super::parallel::Discard;
use super::{Loader, opcode};
use crate::source::LoadError;
use crate::write::ReplicationFacts;

/// What has been read of the three facts.
#[derive(Default)]
pub(super) struct Stated {
    id: Option<String>,
    offset: Option<i64>,
    database: Option<i64>,
}

impl Stated {
    /// Takes a fact of the file.
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"repl-id" => {
                let is_id = value.len() == 40 && value.iter().all(u8::is_ascii_hexdigit);
                self.id = is_id.then(|| String::from_utf8_lossy(value).into_owned());
            }
            b"repl-offset" => self.offset = parse_i64(value).filter(|&offset| offset >= 0),
            b"repl-stream-db" => self.database = parse_i64(value).filter(|&database| database >= 0),
            _ => {}
        }
    }

    /// All of it. A file may lack the database.
    pub(super) fn facts(&self) -> Option<ReplicationFacts> {
        let (id, offset) = (self.id.clone()?, self.offset?);
        Some(ReplicationFacts { database: self.database.unwrap_or(-1), id, offset })
    }
}

impl<R: Read> Loader<'_, R> {
    /// What the file says among its first facts, as far as these can be read.
    pub(super) fn replication(mut self) -> Option<ReplicationFacts> {
        let _damage_is_found_by_those_who_load = self.read_facts();
        self.stated.facts()
    }

    fn read_facts(&mut self) -> Result<(), LoadError> {
        self.header()?;
        loop {
            let offset = self.source.offset();
            match self.source.byte()? {
                mark @ (opcode::AUX | opcode::FUNCTION2) => self.other(offset, mark, &mut Discard)?,
                _ => return Ok(()),
            }
        }
    }
}
