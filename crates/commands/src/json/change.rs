//! Changes at each match of a path, and the replies that tell of them.

use mantissa_protocol::Reply;
use mantissa_store::Json;
use mantissa_store::json::{DEPTH_MAX, Fragment, TEXT_DEPTH_MAX, View};

use super::path::Path;
use super::select::Place;
use super::{Access, Error, Outcome, change_present, changed, no_such};

/// A command that changes values of one type where they are.
pub(super) struct Change<'c> {
    /// The event.
    pub event: &'static str,
    /// Whether a value is what the command needs.
    pub fits: &'c dyn Fn(View<'_>) -> bool,
    /// What the error says that a value is not: `not a bool`.
    pub unfit: &'static str,
    /// Whether the error names the path as the client wrote it.
    pub names_original: bool,
    /// Bytes that it adds at each match, headers not counted. For [`Change::run`].
    pub added_bytes: usize,
}

/// Whether something may be added below a place: the limit on depth holds for whatever a client sends.
pub(super) fn check_depth(place: &[usize]) -> Outcome {
    if place.len() + TEXT_DEPTH_MAX > DEPTH_MAX {
        return Err(Error::fixed("ERR the document would be nested too deeply"));
    }
    Ok(())
}

impl Change<'_> {
    /// Has `apply` change each match that fits, and replies with what it returns, written by `write`. `None`
    /// is replied for the others.
    ///
    /// What is nested is changed before what is around it, so that all places stay what they were. Nothing is
    /// changed if the document has no room for all changes.
    pub fn run<T>(
        &self,
        access: &mut Access<'_>,
        key: &[u8],
        path: &Path,
        apply: &mut dyn FnMut(&mut Json, &Place) -> Outcome<T>,
    ) -> Outcome<Vec<Option<T>>> {
        let document = change_present(access, key)?;
        path.check()?;
        let mut matches = Vec::new();
        path.visit(document.root(), |place, value| {
            matches.push((Place::from_slice(place), (self.fits)(value)));
            std::ops::ControlFlow::Continue(())
        })?;
        // What each adds, and by how much the headers around it grow at most.
        let added = matches.iter().filter(|(_, fits)| *fits && self.added_bytes > 0);
        let added = added.map(|(place, _)| self.added_bytes.saturating_add(8 * (1 + place.len())));
        let has_room = document.has_room_for(added.fold(0, usize::saturating_add));
        let before = (!has_room).then(|| document.clone());
        let mut results: Vec<Option<T>> = Vec::new();
        let mut failure = None;
        for (place, fits) in matches.iter().rev() {
            let result = if *fits && failure.is_none() { Some(apply(document, place)) } else { None };
            match result.transpose() {
                Ok(result) => results.push(result),
                Err(error) => failure = Some(error),
            }
        }
        if let (Some(failure), Some(before)) = (&failure, before) {
            *document = before;
            return Err(failure.clone());
        }
        results.reverse();
        let is_changed = results.iter().any(Option::is_some);
        if is_changed {
            changed(access, key, self.event);
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(results),
        }
    }

    /// The same where what fits has nothing in it and is replaced: `apply` makes of a value the result and
    /// what takes its place. Costs O(size), whatever the number of matches, unless one comes twice.
    pub fn run_on_values<T>(
        &self,
        access: &mut Access<'_>,
        key: &[u8],
        path: &Path,
        apply: &mut dyn FnMut(View<'_>) -> Outcome<(T, Fragment)>,
    ) -> Outcome<Vec<Option<T>>> {
        let document = change_present(access, key)?;
        path.check()?;
        let mut count = 0;
        let mut fitting: Vec<(Place, usize)> = Vec::new();
        path.visit(document.root(), |place, value| {
            if (self.fits)(value) {
                fitting.push((Place::from_slice(place), count));
            }
            count += 1;
            std::ops::ControlFlow::Continue(())
        })?;
        let mut change_at = |document: &mut Json, place: &Place| {
            let (result, new) = apply(document.at(place).unwrap_or_else(|| document.root()))?;
            document.set(place, &new)?;
            Ok(result)
        };
        let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
        if let [] | [_] = fitting.as_slice() {
            for (place, index) in &fitting {
                results[*index] = Some(change_at(document, place)?);
            }
            if !fitting.is_empty() {
                changed(access, key, self.event);
            }
            return Ok(results);
        }
        fitting.sort_unstable();
        if fitting.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            // Nothing is changed where one of the results is an error.
            let mut copy = document.clone();
            fitting.iter().rev().try_for_each(|(place, _)| change_at(&mut copy, place).map(drop))?;
            return self.run(access, key, path, &mut change_at);
        }
        let places: Vec<&[usize]> = fitting.iter().map(|(place, _)| place.as_slice()).collect();
        let mut changed_document = document.clone();
        let (mut failure, mut next) = (None, fitting.iter());
        let outcome = changed_document.change_all(&places, &mut |value| {
            let index = next.next().map_or(0, |(_, index)| *index);
            match apply(value) {
                Ok((result, new)) => {
                    results[index] = Some(result);
                    Some(new)
                }
                Err(error) => {
                    failure = Some(error);
                    None
                }
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        outcome?;
        *document = changed_document;
        changed(access, key, self.event);
        Ok(results)
    }

    /// [`Change::run`], and replies.
    pub fn run_and_reply<T>(
        &self,
        access: &mut Access<'_>,
        (key, path): (&[u8], &Path),
        reply: &mut Reply,
        apply: &mut dyn FnMut(&mut Json, &Place) -> Outcome<T>,
        write: &dyn Fn(&mut Reply, &T),
    ) -> Outcome {
        let results = self.run(access, key, path, apply)?;
        self.reply(&results, path, reply, write)
    }

    /// [`Change::run_on_values`], and replies.
    pub fn run_on_values_and_reply<T>(
        &self,
        access: &mut Access<'_>,
        (key, path): (&[u8], &Path),
        reply: &mut Reply,
        apply: &mut dyn FnMut(View<'_>) -> Outcome<(T, Fragment)>,
        write: &dyn Fn(&mut Reply, &T),
    ) -> Outcome {
        let results = self.run_on_values(access, key, path, apply)?;
        self.reply(&results, path, reply, write)
    }

    /// Replies as the dialects have it: a JSONPath has an array of results, a legacy path the last one, or an
    /// error.
    fn reply<T>(
        &self,
        results: &[Option<T>],
        path: &Path,
        reply: &mut Reply,
        write: &dyn Fn(&mut Reply, &T),
    ) -> Outcome {
        if path.is_legacy {
            match results.iter().flatten().next_back() {
                Some(result) => write(reply, result),
                None => return Err(self.nothing_fits(path)),
            }
            return Ok(());
        }
        reply.array(results.len());
        for result in results {
            match result {
                Some(result) => write(reply, result),
                None => reply.null(),
            }
        }
        Ok(())
    }

    /// The error of a legacy path none of whose matches fits.
    pub fn nothing_fits(&self, path: &Path) -> Error {
        no_such(if self.names_original { path.original() } else { path.fixed() }, self.unfit)
    }
}
