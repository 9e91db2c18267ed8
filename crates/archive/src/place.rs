//! Where an archive is, as users name it.

use std::io;
use std::path::Path;

use crate::s3::Bucket;
use crate::store::{Folder, Store};

/// The store at a place: the path of a folder, a `file://` URL, or an `s3://` URL.
pub fn store_at(place: &Path) -> io::Result<Box<dyn Store>> {
    match place.to_str() {
        Some(url) if url.starts_with("s3://") => Ok(Box::new(Bucket::new(url)?)),
        Some(url) => Ok(Box::new(Folder::new(Path::new(url.strip_prefix("file://").unwrap_or(url))))),
        None => Ok(Box::new(Folder::new(place))),
    }
}
