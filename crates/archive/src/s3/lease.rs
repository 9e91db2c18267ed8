//! The right to write: an object that its holder keeps young.
//!
//! Whoever makes the object has the right. The holder replaces it (`If-Match`) every quarter of a lease. One
//! that is older than a lease, by the clock of the service, belongs to a process that is gone: another one
//! replaces it, on the condition that it is still that one. A holder that could not replace it for three
//! quarters of a lease, or finds another's, has lost the right, and stores nothing more.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::client::{Client, Request};
use crate::keys::random;
use crate::wire::hex;

/// The right to write, until it is dropped.
pub(super) struct Lease {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    client: Arc<Client>,
    name: &'static str,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// That of the object as it was last written.
    etag: String,
    renewed: Instant,
    is_lost: bool,
    is_over: bool,
}

fn taken(lease_s: u64) -> io::Error {
    io::Error::other(format!(
        "another process is writing to the archive; try again when it is done (one that was killed keeps \
         others out for {lease_s} seconds)"
    ))
}

impl Lease {
    /// Takes the right, or says who has it.
    pub fn take(client: &Arc<Client>, name: &'static str) -> io::Result<Lease> {
        let lease_s = client.location.lease_s;
        let mut etag = put(client, name, ("if-none-match", "*"))?;
        if etag.is_none() {
            let found = client.send(&Request::head(name))?;
            let age = found.date_s.zip(found.modified_s).map(|(now, then)| now.saturating_sub(then));
            etag = match (found.status, age) {
                // Its holder has just ended.
                (404, _) => put(client, name, ("if-none-match", "*"))?,
                (200, Some(age)) if age > lease_s => put(client, name, ("if-match", &found.etag))?,
                (200, _) => None,
                _ => return Err(client.failure(name, &found)),
            };
        }
        let etag = etag.ok_or_else(|| taken(lease_s))?;
        let state = State { etag, renewed: Instant::now(), is_lost: false, is_over: false };
        let shared = Arc::new(Shared {
            client: Arc::clone(client),
            name,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let renewing = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("archive-lease".to_owned()).spawn(move || renewing.renew())?;
        Ok(Lease { shared, thread: Some(thread) })
    }

    /// An error if the right was lost.
    pub fn check(&self) -> io::Result<()> {
        let state = self.shared.state();
        if state.is_lost || state.renewed.elapsed() > self.shared.part(3) {
            return Err(io::Error::other(format!(
                "the right to write to the archive was lost: it could not be renewed for {} seconds",
                state.renewed.elapsed().as_secs()
            )));
        }
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many quarters of a lease.
    fn part(&self, quarters: u32) -> Duration {
        Duration::from_secs(self.client.location.lease_s) * quarters / 4
    }

    fn renew(&self) {
        let mut state = self.state();
        while !state.is_over && !state.is_lost {
            let waited = self.changed.wait_timeout(state, self.part(1));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.is_over {
                return;
            }
            let (etag, began) = (state.etag.clone(), Instant::now());
            drop(state);
            let renewed = put(&self.client, self.name, ("if-match", &etag));
            state = self.state();
            match renewed {
                Ok(Some(etag)) => (state.etag, state.renewed) = (etag, began),
                Ok(None) => state.is_lost = true,
                // Tried again; in the end `check` fails.
                Err(_) => {}
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            let _ = thread.join();
        }
        if self.check().is_ok() {
            // Where that fails the lease ends by itself.
            let _ = self.shared.client.send(&Request::delete(self.shared.name));
        }
    }
}

/// Writes the object on a condition. `None` if that is not given; else its ETag.
fn put(client: &Client, name: &str, condition: (&str, &str)) -> io::Result<Option<String>> {
    // Never twice the same, so that an ETag names one writer's object.
    let body = hex(&random()?);
    let headers = [condition];
    let answer = client.send(&Request { headers: &headers, body: body.as_bytes(), ..Request::put(name) })?;
    match answer.status {
        200 | 201 | 204 => Ok(Some(answer.etag)),
        404 | 412 if answer.attempts > 1 => {
            // The answer to an attempt before may have been lost.
            let found = client.send(&Request::get(name))?;
            Ok((found.status == 200 && found.body == body.as_bytes()).then_some(found.etag))
        }
        404 | 412 => Ok(None),
        _ => Err(client.failure(name, &answer)),
    }
}
