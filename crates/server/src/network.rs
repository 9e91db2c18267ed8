//! What surrounds the engine in the server's process: the workers' inboxes, the listening sockets, TLS.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};

use mantissa_net::{Acceptor, Listener, LocalAddress};
use parking_lot::{Mutex, RwLock};

use crate::inbox::{Inbox, Message};
use crate::scraping::Scraping;
use crate::service::Service;

/// The workers' inboxes and the sockets that listen. It is the engine's host: see `engine_host`.
pub struct Network {
    itself: Weak<Network>,
    /// The number of workers.
    pub worker_count: usize,
    inboxes: OnceLock<Vec<Inbox>>,
    /// The workers that take part, from the first on; at least one.
    pub active_workers: AtomicUsize,
    /// When each worker last ran [long requests](Self::note_long), Unix time in ms.
    long_at_ms: Vec<AtomicI64>,
    /// Connections so far, from which the worker of the next one is chosen.
    connection_count: AtomicU64,
    /// Connections that are open.
    pub open_count: AtomicUsize,
    /// The TCP addresses that are listened on, for each service in the order of [`Service::ALL`].
    listening: [Mutex<Vec<SocketAddr>>; Service::ALL.len()],
    /// Writes scrapes.
    pub scraping: Scraping,
    /// What TLS offers to clients, once it is configured.
    pub acceptor: RwLock<Option<Acceptor>>,
    /// The TCP port that is listened on; differs from the configured one if that is 0 or was changed.
    pub port: AtomicUsize,
    /// How the kernel is asked about sockets; known once the workers run.
    pub driver_name: OnceLock<&'static str>,
    /// Told when the server is to end: the process's exit code.
    pub shutdown: mpsc::Sender<u8>,
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
    pub fn new(worker_count: usize, packing: bool, shutdown: mpsc::Sender<u8>) -> Arc<Self> {
        Arc::new_cyclic(|itself| Network {
            itself: Weak::clone(itself),
            worker_count,
            inboxes: OnceLock::new(),
            active_workers: AtomicUsize::new(if packing { 1 } else { worker_count.max(1) }),
            long_at_ms: (0..worker_count).map(|_| AtomicI64::new(0)).collect(),
            connection_count: AtomicU64::new(0),
            open_count: AtomicUsize::new(0),
            listening: Default::default(),
            scraping: Scraping::default(),
            acceptor: RwLock::default(),
            port: AtomicUsize::new(0),
            driver_name: OnceLock::new(),
            shutdown,
            hands_over: AtomicBool::new(false),
            successor: AtomicU32::new(0),
            predecessor: Mutex::default(),
        })
    }

    /// Itself, for a thread that ends when nobody else holds it.
    pub fn weak(&self) -> Weak<Network> {
        Weak::clone(&self.itself)
    }

    /// The TCP addresses that are listened on for a service.
    pub fn addresses(&self, service: Service) -> &Mutex<Vec<SocketAddr>> {
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
            let addresses = tcp_addresses(&opened);
            if let Some(address) = addresses.first().filter(|_| service == Service::Resp) {
                self.port.store(usize::from(address.port()), Ordering::Relaxed);
            }
            *self.addresses(service).lock() = addresses;
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

    /// Where a client with long requests, for which others would have to wait, is served: one of the workers
    /// that do not take part. None if there is none, or if it is on such a one.
    pub fn aside(&self, worker: usize, client: u64) -> Option<usize> {
        let active = self.active_workers.load(Ordering::Relaxed);
        let others = self.worker_count.checked_sub(active).filter(|&others| others > 0 && worker < active)?;
        Some(active + (client % others as u64) as usize)
    }

    /// Notes that a worker runs long requests.
    pub fn note_long(&self, worker: usize, now_ms: i64) {
        if let Some(at_ms) = self.long_at_ms.get(worker) {
            at_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Which workers have run long requests within this time.
    pub fn long_within(&self, ms: i64, now_ms: i64) -> Vec<bool> {
        self.long_at_ms.iter().map(|at_ms| now_ms - at_ms.load(Ordering::Relaxed) <= ms).collect()
    }

    /// The inbox of a worker, once it exists.
    pub fn inbox(&self, worker: usize) -> Option<&Inbox> {
        self.inboxes.get()?.get(worker)
    }
}

/// The TCP addresses of sockets.
pub fn tcp_addresses(listeners: &[Listener]) -> Vec<SocketAddr> {
    let tcp = |listener: &Listener| match listener.local_addr() {
        LocalAddress::Tcp(address) => Some(*address),
        LocalAddress::Unix(_) => None,
    };
    listeners.iter().filter_map(tcp).collect()
}
