//! Values of many documents: the walk of MANTISSA.JSON.QUERY, a page a call.
//!
//! A document is shared while its shard is locked, which costs O(1), and searched afterwards: nobody waits
//! for a search. One that is on disk is read afterwards too, and not kept in memory. A page ends after a
//! number of keys, of bytes searched, or of bytes found.

use mantissa_protocol::{Args, Reply};
use mantissa_store::cold::Cold;
use mantissa_store::json::Layout;
use mantissa_store::{Json, Kind, Value, ValueRef};

use super::path::Path;
use super::{Access, Error, Outcome, path_cache};
use crate::parse;
use crate::scan::{Cursor, parse_cursor};

/// The keys of a page if the caller does not say how many.
const COUNT: u64 = 100;
/// Parts of tables that a page looks at most, for each of its keys.
const STEPS_PER_KEY: u64 = 10;
/// A page ends where its documents have as many bytes, or its values as many.
const SEARCHED_MAX: usize = 4 << 20;
const FOUND_MAX: usize = 1 << 20;

struct Options<'a> {
    prefix: &'a [u8],
    path: std::rc::Rc<Path>,
    count: u64,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Outcome<Options<'a>> {
        let (mut prefix, mut path, mut count): (&[u8], _, _) = (b"", None, COUNT);
        for at in (2..args.len()).step_by(2) {
            let (option, value) = (args.at(at), args.get(at + 1).ok_or(Error::SYNTAX)?);
            match () {
                () if parse::is(option, "PREFIX") => prefix = value,
                () if parse::is(option, "PATH") => path = Some(path_cache::parse(value)?),
                () if parse::is(option, "COUNT") => {
                    let wanted = parse::integer(value)?;
                    count = u64::try_from(wanted).ok().filter(|&count| count > 0).ok_or(Error::SYNTAX)?;
                }
                () => return Err(Error::SYNTAX),
            }
        }
        let path = path.ok_or(Error::SYNTAX)?;
        path.check()?;
        Ok(Options { prefix, path, count })
    }
}

/// What a page has reached.
struct Page {
    cursor: Cursor,
    visited: u64,
    steps_left: u64,
}

/// A document where it was found.
enum Found {
    InMemory(Json),
    OnDisk(Cold),
}

impl Found {
    /// The document; an error if it can not be read.
    fn document(self) -> Outcome<Json> {
        match self {
            Found::InMemory(document) => Ok(document),
            Found::OnDisk(cold) => match cold.read() {
                Ok(Value::Json(document)) => Ok(document),
                Ok(_) => Err(Error::WRONG_TYPE),
                Err(reason) => Err(Error::unreadable(reason)),
            },
        }
    }
}

/// Goes on until documents have been found or the page is at its end, with one shard locked at a time.
fn next_documents(
    access: &mut Access<'_>,
    page: &mut Page,
    options: &Options<'_>,
    may_read: &dyn Fn(&[u8]) -> bool,
) -> Vec<(Box<[u8]>, Found)> {
    let (number, now_ms) = (access.database(), access.now_ms());
    let mut documents = Vec::new();
    let Page { cursor, visited, steps_left } = page;
    access.visit_shard(cursor.shard, |shard| {
        let database = &shard.databases[number];
        loop {
            cursor.table = database.scan(cursor.table, |entry| {
                *visited += 1;
                let key = entry.key();
                let is_wanted = entry.kind() == Kind::Json && key.starts_with(options.prefix);
                if !is_wanted || entry.has_expired(now_ms) || !may_read(key) {
                    return;
                }
                let found = match entry.cold_only() {
                    Some(cold) => Found::OnDisk(cold),
                    None => match entry.value() {
                        ValueRef::Json(document) => Found::InMemory(document.clone()),
                        _ => return,
                    },
                };
                documents.push((key.into(), found));
            });
            *steps_left -= u64::from(!database.is_empty());
            let is_at_end = cursor.table == 0 || *visited >= options.count || *steps_left == 0;
            if is_at_end || !documents.is_empty() {
                break;
            }
        }
    });
    if cursor.table == 0 {
        cursor.shard += 1;
    }
    documents
}

/// Writes the matches of a document as JSON: an array of all for a JSONPath, the first one for a legacy path.
/// False if there are none.
fn write_found(path: &Path, document: &Json, bytes_max: usize, text: &mut Vec<u8>) -> Outcome<bool> {
    let root = document.root();
    if path.is_legacy {
        let first = path.first(root)?;
        first.inspect(|value| value.write(text));
        return Ok(first.is_some());
    }
    let count = super::get::write_matches(path, root, (&Layout::default(), 0), bytes_max, text)?;
    Ok(count > 0)
}

/// `MANTISSA.JSON.QUERY cursor PATH path [PREFIX prefix] [COUNT count]`, for a caller who may read the keys
/// that `may_read` tells.
pub fn query(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    may_read: &dyn Fn(&[u8]) -> bool,
) -> Outcome {
    let cursor = parse_cursor(args.at(1))?;
    let options = Options::parse(args)?;
    let shard_count = access.shard_count();
    let cursor = Cursor::unpack(cursor, shard_count);
    let steps_left = options.count.saturating_mul(STEPS_PER_KEY);
    let mut page = Page { cursor, visited: 0, steps_left };
    let (mut found, mut found_count, mut searched) = (reply.part(), 0, 0);
    let mut text = Vec::new();
    while page.cursor.shard < shard_count
        && page.visited < options.count
        && page.steps_left > 0
        && searched < SEARCHED_MAX
        && found.len() < FOUND_MAX
    {
        for (key, found_one) in next_documents(access, &mut page, &options, may_read) {
            let document = found_one.document()?;
            searched += document.root().memory_usage();
            text.clear();
            if write_found(&options.path, &document, reply.bytes_max(), &mut text)? {
                found.array(2);
                found.bulk(&key);
                found.bulk(&text);
                found_count += 1;
            }
        }
    }
    reply.array(2);
    reply.bulk(mantissa_number::format_u64(&mut [0; 20], page.cursor.pack(shard_count)));
    reply.array(found_count);
    reply.append(&found);
    Ok(())
}
