//! A running server beside the limits of the machine: what one client sees of PING, GET, SET and ZADD.
//!
//! It writes keys that begin with `mantissa:probe:` and the number of this process, and deletes them
//! also when it is asked to end; keys of others are left alone.

use std::io;
use std::ops::Range;

use mantissa_protocol::{Value, encode_request};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::findings::Section;
use super::statistics::{Figure, Pace};
use crate::connection::Connection;
use crate::target::{Target, ask};

/// Strings, and members of the sorted set.
const KEYS: u32 = 10_000;
/// Commands that are sent together.
const PIPELINE: usize = 100;
const VALUE_BYTES: usize = 100;

/// A limit that costs are multiples of: its name, the same in words, nanoseconds.
pub(crate) type Limit = (&'static str, &'static str, f64);

/// Measures the server, and puts what its commands cost beside the limits.
pub(crate) fn measure(pace: &Pace, target: &Target, limits: &[Limit]) -> io::Result<Section> {
    let mut connection = target.open()?;
    let prefix = format!("mantissa:probe:{}:", std::process::id());
    let outcome = measure_with(pace, &mut connection, &prefix, limits);
    let cleared = clear(&mut connection, &prefix);
    let section = outcome?;
    cleared.map(|()| section)
}

fn measure_with(
    pace: &Pace,
    connection: &mut Connection,
    prefix: &str,
    limits: &[Limit],
) -> io::Result<Section> {
    let mut section = Section::new("server", "The running server, as one client sees it");
    let mut random = SmallRng::seed_from_u64(1);
    let ping = pace.repeat(0.04, || {
        let began = std::time::Instant::now();
        for _ in 0..PIPELINE {
            ask(connection, &["PING"])?;
        }
        Ok(began.elapsed().as_secs_f64() * 1e9 / PIPELINE as f64)
    })?;
    section.add("ping", "PING and its reply, one at a time", "ns", ping);
    let value = "v".repeat(VALUE_BYTES);
    let key = |i: u32| format!("{prefix}{i}");
    let set = |i: u32| vec!["SET".to_owned(), key(i), value.clone()];
    fill(pace, connection, &set)?;
    let board = format!("{prefix}board");
    let score = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 8) / 1024.0;
    fill(pace, connection, &|i| vec!["ZADD".to_owned(), board.clone(), score(i).to_string(), key(i)])?;
    let mut costs = Vec::new();
    for name in ["get", "set", "zadd"] {
        let figure = pace.repeat(0.05, || {
            let mut requests = Vec::new();
            for _ in 0..PIPELINE {
                let i = random.random_range(0..KEYS);
                let command = match name {
                    "get" => vec!["GET".to_owned(), key(i)],
                    "set" => set(i),
                    _ => vec!["ZADD".to_owned(), board.clone(), score(random.random()).to_string(), key(i)],
                };
                encode_request(&mut requests, &command);
            }
            let began = std::time::Instant::now();
            exchange(connection, &requests, PIPELINE)?;
            Ok(began.elapsed().as_secs_f64() * 1e9 / PIPELINE as f64)
        })?;
        section.add(name, &format!("{}, {PIPELINE} at a time", name.to_uppercase()), "ns", figure);
        costs.push((name, figure.min));
    }
    costs.insert(0, ("ping", ping.min));
    for (name, cost) in costs {
        for (limit, words, nanoseconds) in limits {
            let title = format!("{} / {words}", name.to_uppercase());
            section.add(&format!("{name}_per_{limit}"), &title, "x", Figure::once(cost / nanoseconds));
        }
    }
    section.notes.push(format!(
        "With {KEYS} strings of {VALUE_BYTES} bytes and a sorted set of {KEYS} members, deleted afterwards. \
         Times are those of the client, its own work included; multiples are those of best rounds."
    ));
    Ok(section)
}

/// Runs a command for each key.
fn fill(pace: &Pace, connection: &mut Connection, command: &dyn Fn(u32) -> Vec<String>) -> io::Result<()> {
    for keys in batches() {
        pace.check()?;
        let mut requests = Vec::new();
        keys.clone().for_each(|i| encode_request(&mut requests, &command(i)[..]));
        exchange(connection, &requests, keys.len())?;
    }
    Ok(())
}

fn batches() -> impl Iterator<Item = Range<u32>> {
    (0..KEYS).step_by(PIPELINE).map(|first| first..first + PIPELINE as u32)
}

/// Sends commands and takes all of their replies. An error among them is returned when the last has come, so
/// that the connection can still be used.
fn exchange(connection: &mut Connection, requests: &[u8], count: usize) -> io::Result<()> {
    connection.send_encoded(requests)?;
    let mut failed = None;
    for _ in 0..count {
        let reply: Value = connection.receive_reply()?;
        if let Some(error) = reply.as_error() {
            failed = Some(io::Error::other(String::from_utf8_lossy(error).into_owned()));
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Deletes what was written.
fn clear(connection: &mut Connection, prefix: &str) -> io::Result<()> {
    ask(connection, &["UNLINK".to_owned(), format!("{prefix}board")])?;
    for keys in batches() {
        let mut command = vec!["UNLINK".to_owned()];
        command.extend(keys.map(|i| format!("{prefix}{i}")));
        ask(connection, &command)?;
    }
    Ok(())
}
