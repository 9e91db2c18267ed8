//! Metrics of each replica of this server.

use std::sync::atomic::Ordering;

use super::Figures;
use super::text::Samples;
use crate::replication::primary;
use crate::state::replication::Replica;

fn add(figures: &Figures, samples: &mut Samples, value: impl Fn(&Replica) -> i64) {
    for replica in primary::shown(figures.source.engine) {
        let address = primary::address_of(&replica);
        let port = replica.port.load(Ordering::Relaxed).to_string();
        let state = primary::state_name(&replica);
        let labels = [("slave_ip", &*address), ("slave_port", &port), ("slave_state", state)];
        samples.add(&labels, value(&replica));
    }
}

pub fn offset(figures: &Figures, samples: &mut Samples) {
    add(figures, samples, |replica| replica.acked.load(Ordering::Relaxed) as i64);
}

pub fn lag(figures: &Figures, samples: &mut Samples) {
    let now_ms = figures.source.now_ms;
    add(figures, samples, |replica| (now_ms - replica.acked_ms.load(Ordering::Relaxed)).max(0) / 1000);
}
