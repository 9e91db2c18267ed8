//! What the engine asks of its host, answered by the network.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_engine::blocking;
use mantissa_engine::config::{Config, SetError};
use mantissa_engine::host::{Host, HostFacts, Message as EngineMessage, Stream, Upgrade};
use mantissa_engine::state::replication::Address;
use mantissa_engine::{Engine, warning};
use mantissa_protocol::Reply;

use crate::handover::predecessor;
use crate::inbox::Message;
use crate::network::Network;
use crate::{crash, handover, outgoing, reconfigure};

impl Host for Network {
    fn worker_count(&self) -> usize {
        self.worker_count
    }

    fn send(&self, worker: usize, message: EngineMessage, required_lsn: u64) {
        if let Some(inbox) = self.inbox(worker) {
            inbox.put(Message::Engine(message), required_lsn);
        }
    }

    fn wake(&self, worker: usize) {
        if let Some(inbox) = self.inbox(worker) {
            inbox.wake();
        }
    }

    fn shut_down(&self, code: u8) -> bool {
        (self.shutdown)(code);
        true
    }

    fn configure(
        &self,
        engine: &Engine,
        old: &Config,
        new: &mut Config,
        given: &[&[u8]],
    ) -> Result<(), SetError> {
        reconfigure::configure(self, engine, old, new, given)
    }

    fn role_changed(&self, engine: &Engine) {
        self.oom_score.follow_role(engine);
    }

    fn log_failed(&self, error: &str) {
        warning!("{error}. The fsync policy is 'always', so the server can't go on. Exiting...");
        std::process::exit(1);
    }

    fn connect(&self, config: &Config, address: &Address, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        if address.host == handover::PREDECESSOR {
            return handover::successor::connect(self, timeout);
        }
        outgoing::connect(config, address, timeout)
    }

    fn upgrade(&self, engine: &Engine, request: Upgrade) -> io::Result<()> {
        let network = self.weak();
        engine.spawn("upgrade", move |engine| {
            let Some(network) = network.upgrade() else { return };
            let client = request.blocked.session.id;
            let wanted = predecessor::Request { binary: request.binary, options: request.options, client };
            if let Err(reason) = predecessor::hand_over(engine, &network, &wanted) {
                let mut reply = Reply::new(request.blocked.protocol);
                reply.error(&format!("ERR the upgrade failed, this server goes on: {}", reason.trim_end()));
                blocking::release(engine, &request.blocked, reply.into_bytes());
            }
        })
    }

    fn facts(&self) -> HostFacts {
        HostFacts {
            multiplexing: self.driver_name.get().copied().unwrap_or("-"),
            port: self.port.load(Ordering::Relaxed) as u16,
        }
    }

    fn abort(&self, report: String) -> ! {
        crash::abort(report)
    }
}
