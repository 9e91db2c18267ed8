//! What surrounds the engine in the server's process: the workers' inboxes, the listening sockets, TLS.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use mantissa_net::{Acceptor, Bound, Listener};
use parking_lot::{Mutex, RwLock};

use crate::inbox::{Inbox, Message};
use crate::oom_score::OomScore;
use crate::scraping::Scraping;
use crate::service::Service;

/// For how long a client counts as one with long requests, and a worker as one that serves such, in ms.
pub const ASIDE_MS: u64 = 1000;
/// A time before all that are noted of workers.
const NEVER_MS: u64 = 10 * ASIDE_MS;

/// What is known of a worker. It has a cache line for itself.
#[derive(Default)]
#[repr(align(64))]
struct Place {
    quick_at_ms: AtomicU64,
    long_at_ms: AtomicU64,
    /// Thousandths of its time.
    load: AtomicU32,
}

/// The workers' inboxes and the sockets that listen. It is the engine's host: see `engine_host`.
pub struct Network {
    itself: Weak<Network>,
    /// The number of workers.
    pub worker_count: usize,
    inboxes: OnceLock<Vec<Inbox>>,
    /// The workers that take part, from the first on; at least one.
    pub active_workers: AtomicUsize,
    started: Instant,
    /// What is known of each worker.
    places: Vec<Place>,
    /// Connections so far, from which the worker of the next one is chosen.
    connection_count: AtomicU64,
    /// Connections that are open.
    pub open_count: AtomicUsize,
    /// The TCP sockets that listen, for each service in the order of [`Service::ALL`].
    listening: [Mutex<Vec<Bound>>; Service::ALL.len()],
    /// Writes scrapes.
    pub scraping: Scraping,
    /// How soon the kernel chooses this process when memory runs out.
    pub oom_score: OomScore,
    /// What TLS offers to clients, once it is configured.
    pub acceptor: RwLock<Option<Acceptor>>,
    /// The TCP port that is listened on; differs from the configured one if that is 0 or was changed.
    pub port: AtomicUsize,
    /// How the kernel is asked about sockets; known once the workers run.
    pub driver_name: OnceLock<&'static str>,
    /// Told when the server is to end: the process's exit code.
    pub shutdown: Box<dyn Fn(u8) + Send + Sync>,
    /// An upgrade is under way.
    pub hands_over: AtomicBool,
    /// The number of the process that serves in the place of this one: the files of sockets and the like are
    /// its own. 0 if there is none.
    pub successor: AtomicU32,
    /// In a process that takes over: the connection to the one that it replaces, until it is used.
    pub predecessor: Mutex<Option<UnixStream>>,
}

impl Network {
    /// For this many workers, before any of them runs. `packing` says whether connections are packed on few
    /// workers. `shutdown` is told the exit code when the server is to end.
    pub fn new(
        worker_count: usize,
        packing: bool,
        shutdown: impl Fn(u8) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new_cyclic(|itself| Network {
            itself: Weak::clone(itself),
            worker_count,
            inboxes: OnceLock::new(),
            active_workers: AtomicUsize::new(if packing { 1 } else { worker_count.max(1) }),
            started: Instant::now(),
            places: (0..worker_count).map(|_| Place::default()).collect(),
            connection_count: AtomicU64::new(0),
            open_count: AtomicUsize::new(0),
            listening: Default::default(),
            scraping: Scraping::default(),
            oom_score: OomScore::default(),
            acceptor: RwLock::default(),
            port: AtomicUsize::new(0),
            driver_name: OnceLock::new(),
            shutdown: Box::new(shutdown),
            hands_over: AtomicBool::new(false),
            successor: AtomicU32::new(0),
            predecessor: Mutex::default(),
        })
    }

    /// Itself, for a thread that ends when nobody else holds it.
    pub fn weak(&self) -> Weak<Network> {
        Weak::clone(&self.itself)
    }

    /// The TCP sockets that listen for a service.
    pub fn listening(&self, service: Service) -> &Mutex<Vec<Bound>> {
        &self.listening[service as usize]
    }

    /// Has the first worker accept on listeners that no worker has, in the place of those that it has.
    pub fn listen(&self, listeners: Vec<(Service, Listener)>) {
        let mut rest = listeners;
        for service in Service::ALL {
            let (own, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(of, _)| *of == service);
            rest = others;
            let opened: Vec<_> = own.into_iter().map(|(_, listener)| listener).collect();
            if opened.is_empty() {
                continue;
            }
            let bound = bound(&opened);
            if let Some(first) = bound.first().filter(|_| service == Service::Resp) {
                self.port.store(usize::from(first.address().port()), Ordering::Relaxed);
            }
            *self.listening(service).lock() = bound;
            self.post(0, Message::Listen { service, kept: Vec::new(), opened });
        }
    }

    /// Makes the workers' inboxes known. Called once, when all workers exist.
    pub fn set_inboxes(&self, inboxes: Vec<Inbox>) {
        let _already_set = self.inboxes.set(inboxes);
    }

    /// A worker's messages so far, with the LSNs that they wait for.
    pub fn take_messages(&self, worker: usize) -> Vec<(u64, Message)> {
        self.inbox(worker).map(Inbox::take).unwrap_or_default()
    }

    /// Leaves a message for a worker.
    pub fn post(&self, worker: usize, message: Message) {
        if let Some(inbox) = self.inbox(worker) {
            inbox.put(message, 0);
        }
    }

    /// Leaves a message for every worker.
    pub fn post_all(&self, message: impl Fn() -> Message) {
        (0..self.worker_count).for_each(|worker| self.post(worker, message()));
    }

    /// The worker that the next connection goes to.
    pub fn choose_worker(&self) -> usize {
        let number = self.connection_count.fetch_add(1, Ordering::Relaxed);
        number as usize % self.active_workers.load(Ordering::Relaxed)
    }

    /// Milliseconds on the clock of the times that are noted of workers. It begins after 0, which is never.
    fn ms_at(&self, at: Instant) -> u64 {
        NEVER_MS + at.saturating_duration_since(self.started).as_millis() as u64
    }

    /// Notes that a worker serves a client whose requests are short.
    pub fn note_quick(&self, worker: usize, at: Instant) {
        if let Some(place) = self.places.get(worker) {
            place.quick_at_ms.store(self.ms_at(at), Ordering::Relaxed);
        }
    }

    /// Notes that a worker serves a client whose requests are long.
    pub fn note_long(&self, worker: usize, at: Instant) {
        if let Some(place) = self.places.get(worker) {
            place.long_at_ms.store(self.ms_at(at), Ordering::Relaxed);
        }
    }

    /// Notes the part of its time that each worker is busy for.
    pub fn note_loads(&self, loads: &[f64]) {
        for (place, load) in self.places.iter().zip(loads) {
            place.load.store((load * 1000.0) as u32, Ordering::Relaxed);
        }
    }

    /// Where a client with long requests is served: by the worker with the least load of those that do not
    /// take part. None if there is none, or if nobody has to wait where it is.
    pub fn aside(&self, worker: usize, client: u64, at: Instant) -> Option<usize> {
        let active = self.active_workers.load(Ordering::Relaxed);
        let now_ms = self.ms_at(at);
        let here = self.places.get(worker).filter(|_| worker < active)?;
        if now_ms > here.quick_at_ms.load(Ordering::Relaxed) + ASIDE_MS {
            return None;
        }
        let others = active..self.worker_count;
        // Loads are known a moment later: clients that come at the same time go to different ones.
        let key = |other: &usize| {
            (self.places[*other].load.load(Ordering::Relaxed), (*other as u64 + client) % others.len() as u64)
        };
        others.clone().min_by_key(key)
    }

    /// Which workers serve clients with long requests that others would have to wait for. None, if no client
    /// with short ones is served: then there is no reason to set any aside.
    pub fn aside_at(&self, at: Instant) -> Vec<bool> {
        let serves_quick = self.serves_quick(at);
        let since_ms = self.ms_at(at) - ASIDE_MS;
        let is_long = |place: &Place| serves_quick && place.long_at_ms.load(Ordering::Relaxed) >= since_ms;
        self.places.iter().map(is_long).collect()
    }

    /// Whether a worker that takes part has served a client with short requests within [`ASIDE_MS`].
    pub fn serves_quick(&self, at: Instant) -> bool {
        let since_ms = self.ms_at(at) - ASIDE_MS;
        let active = self.active_workers.load(Ordering::Relaxed);
        self.places.iter().take(active).any(|place| place.quick_at_ms.load(Ordering::Relaxed) >= since_ms)
    }

    /// The inbox of a worker, once it exists.
    pub fn inbox(&self, worker: usize) -> Option<&Inbox> {
        self.inboxes.get()?.get(worker)
    }
}

/// Further handles of the TCP sockets among these.
pub fn bound(listeners: &[Listener]) -> Vec<Bound> {
    listeners.iter().filter_map(Listener::bound).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_is_set_aside_only_where_others_would_wait() {
        let network = Network::new(4, true, |_| ());
        let now = Instant::now();
        let later = now + Duration::from_millis(ASIDE_MS + 1);
        network.note_long(0, now);
        assert_eq!((network.aside(0, 7, now), network.aside_at(now)), (None, vec![false; 4]));
        network.note_quick(0, now);
        assert_eq!(network.aside_at(now), [true, false, false, false]);
        let places: Vec<_> = (0..3).map(|client| network.aside(0, client, now)).collect();
        assert_eq!(places, [Some(3), Some(2), Some(1)], "they go to different ones");
        network.note_loads(&[0.0, 0.5, 0.1, 0.5]);
        assert!((0..3).all(|client| network.aside(0, client, now) == Some(2)), "the one with the least load");
        assert_eq!(network.aside(2, 7, now), None, "it is aside");
        assert_eq!((network.aside(0, 7, later), network.aside_at(later)), (None, vec![false; 4]));
    }

    #[test]
    fn there_is_no_place_aside_where_all_take_part() {
        for (count, packing) in [(4, false), (1, true)] {
            let network = Network::new(count, packing, |_| ());
            let now = Instant::now();
            network.note_quick(0, now);
            assert_eq!(network.aside(0, 7, now), None);
        }
    }
}
