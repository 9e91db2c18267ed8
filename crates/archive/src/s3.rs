//! A store in a bucket of S3, or of a service that speaks its protocol.
//!
//! Objects are put with `If-None-Match: *`, so that a name is taken once, whatever retries and other writers
//! do. The right to write is an object, `lock`, that its holder replaces every quarter of a lease (`lease`).
//! Packs are small enough for one request each: there are no uploads in parts to clean up.
//!
//! Protocol: "Amazon S3 API Reference" and "Authenticating Requests: AWS Signature Version 4".

mod client;
mod lease;
mod listing;
mod location;
mod signing;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use self::client::{Answer, Client, Request};
use self::lease::Lease;
use self::location::{Credentials, Location};
use crate::store::Store;

/// The object whose holder may write.
const LOCK: &str = "lock";
/// The longest object that is read as a whole, in bytes.
const OBJECT_BYTES_MAX: u64 = 4 << 30;

/// A bucket, or what in it begins with a prefix.
pub struct Bucket {
    client: Arc<Client>,
    /// The right to write, as long as somebody here has it.
    lease: Mutex<Weak<Lease>>,
}

impl Bucket {
    /// The bucket that a URL names: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`. Keys and what the URL does
    /// not say come from the environment, as for Amazon's own programs.
    pub fn new(url: &str) -> io::Result<Bucket> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let location = Location::parse(url, &variable).map_err(io::Error::other)?;
        let credentials = Credentials::find(&variable).map_err(io::Error::other)?;
        let client = Arc::new(Client::new(location, credentials).map_err(io::Error::other)?);
        Ok(Bucket { client, lease: Mutex::default() })
    }

    /// An error if the right to write was taken away from whoever has it here.
    fn check_lease(&self) -> io::Result<()> {
        let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        lease.map_or(Ok(()), |lease| lease.check())
    }

    /// Whether an object has these bytes.
    fn has(&self, name: &str, bytes: &[u8]) -> bool {
        self.get(name).is_ok_and(|found| found == bytes)
    }
}

impl Store for Bucket {
    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.check_lease()?;
        let headers = [("if-none-match", "*")];
        let answer = self.client.send(&Request { headers: &headers, body: bytes, ..Request::put(name) })?;
        match answer.status {
            200 | 201 | 204 => Ok(()),
            // The answer to an attempt before may have been lost.
            412 if answer.attempts > 1 && self.has(name, bytes) => Ok(()),
            412 => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{}: it is there already", self.client.name_of(name)),
            )),
            _ => Err(self.client.failure(name, &answer)),
        }
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let answer = self.client.send(&Request { bytes_max: OBJECT_BYTES_MAX, ..Request::get(name) })?;
        match answer.status {
            200 => Ok(answer.body),
            _ => Err(self.client.failure(name, &answer)),
        }
    }

    fn get_range(&self, name: &str, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        let Some(last) = size.checked_sub(1).and_then(|size| offset.checked_add(size)) else {
            return Ok(Vec::new());
        };
        let range = format!("bytes={offset}-{last}");
        let headers = [("range", range.as_str())];
        let answer = self.client.send(&Request {
            headers: &headers,
            bytes_max: offset.saturating_add(size).min(OBJECT_BYTES_MAX),
            ..Request::get(name)
        })?;
        let Answer { status, mut body, .. } = answer;
        let part = match status {
            206 => Some(body),
            // Not every service knows parts.
            200 => usize::try_from(offset).ok().filter(|offset| *offset <= body.len()).map(|offset| {
                body.drain(..offset);
                body.truncate(usize::try_from(size).unwrap_or(usize::MAX));
                body
            }),
            416 => None,
            _ => return Err(self.client.failure(name, &Answer { status, body, ..answer })),
        };
        part.filter(|part| part.len() as u64 == size).ok_or_else(|| {
            let reason = format!("{}: it ends early", self.client.name_of(name));
            io::Error::new(io::ErrorKind::InvalidData, reason)
        })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        let prefix = self.client.key_of(&format!("{folder}/"));
        let (mut names, mut token) = (Vec::new(), None::<String>);
        loop {
            let mut query = vec![("delimiter", "/"), ("list-type", "2"), ("prefix", prefix.as_str())];
            query.extend(token.as_deref().map(|token| ("continuation-token", token)));
            let answer = self.client.send(&Request { query: &query, ..Request::of_bucket() })?;
            if answer.status != 200 {
                return Err(self.client.failure(folder, &answer));
            }
            let page = listing::parse(&answer.body).map_err(|reason| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{}: {reason}", self.client.name_of(folder)),
                )
            })?;
            let inside = page.objects.into_iter().filter_map(|(key, size)| {
                let name = key.strip_prefix(&prefix)?;
                (!name.is_empty() && !name.contains('/')).then(|| (name.to_owned(), size))
            });
            names.extend(inside);
            match page.next {
                Some(next) if token.as_ref() != Some(&next) => token = Some(next),
                _ => break,
            }
        }
        names.sort();
        Ok(names)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.check_lease()?;
        let answer = self.client.send(&Request::delete(name))?;
        match answer.status {
            200 | 204 | 404 => Ok(()),
            _ => Err(self.client.failure(name, &answer)),
        }
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        let lease = Arc::new(Lease::take(&self.client, LOCK)?);
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&lease);
        Ok(Box::new(lease))
    }

    fn remove_leftovers(&self) -> io::Result<usize> {
        Ok(0)
    }

    fn scratch(&self) -> io::Result<Option<PathBuf>> {
        Ok(None)
    }
}
