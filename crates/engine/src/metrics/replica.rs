//! Metrics of the link to the primary: none where the server follows nobody.

use std::sync::atomic::Ordering;

use mantissa_sys::clock::unix_ms;

use super::Figures;
use super::text::Samples;
use crate::state::replication::{Address, LinkState, Replication};

/// Adds a figure, with the primary in the labels.
fn add(figures: &Figures, samples: &mut Samples, value: impl FnOnce(&Replication) -> i64) {
    let replication = &figures.source.engine.replication;
    let primary = replication.primary.lock().clone();
    if let Some(Address { host, port }) = primary {
        let port = port.to_string();
        samples.add(&[("master_host", &host), ("master_port", &port)], value(replication));
    }
}

pub fn link_up(figures: &Figures, samples: &mut Samples) {
    add(figures, samples, |replication| i64::from(replication.link.is_up()));
}

pub fn last_io(figures: &Figures, samples: &mut Samples) {
    add(figures, samples, |replication| match replication.link.is_up() {
        true => (unix_ms() - replication.link.heard_ms.load(Ordering::Relaxed)).max(0) / 1000,
        false => -1,
    });
}

pub fn sync_in_progress(figures: &Figures, samples: &mut Samples) {
    add(figures, samples, |replication| i64::from(replication.link.state() == LinkState::Transfer));
}

pub fn offset(figures: &Figures, samples: &mut Samples) {
    let end = figures.source.engine.log.end();
    add(figures, samples, |replication| replication.offset_of(end) as i64);
}

pub fn info(figures: &Figures, samples: &mut Samples) {
    let read_only = match figures.source.active.config.replica_read_only {
        true => "1",
        false => "0",
    };
    let primary = figures.source.engine.replication.primary.lock().clone();
    if let Some(Address { host, port }) = primary {
        let port = port.to_string();
        let labels = [("master_host", &*host), ("master_port", &port), ("read_only", read_only)];
        samples.add(&labels, 1);
    }
}
