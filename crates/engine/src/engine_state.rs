//! The state of an engine that is neither in its data nor in its configuration, in a form that another
//! process can take over: see the hand-over of an upgrade in the server.
//!
//! It is pairs of a name and a value; names that are not known are left out, so that two versions understand
//! each other. Statistics, the slow log and latency events are not in it: they begin anew.

use std::sync::atomic::Ordering;

use crate::engine::Engine;
use crate::scripting::source::{self, Script};
use crate::state::replication::History;

/// A name and a value.
pub type Pair = (&'static [u8], Vec<u8>);

/// What a process that takes over has to know.
pub fn capture(engine: &Engine) -> Vec<Pair> {
    let number = |value: i64| value.to_string().into_bytes();
    let mut pairs: Vec<Pair> = vec![
        (b"next-client", number(engine.last_client_id() as i64 + 1)),
        (b"pause-until-ms", number(paused_until_ms(engine))),
        (b"pause-all", number(engine.pause.all.load(Ordering::Relaxed).into())),
        (b"unsaved-changes", number(engine.persistence.dirty.get() as i64)),
        (b"last-save-s", number(engine.persistence.last_save_s.load(Ordering::Relaxed))),
    ];
    if let Some((id, offset)) = engine.replication.history().second {
        pairs.push((b"former-history", format!("{id} {offset}").into_bytes()));
    }
    pairs.push((b"users-anew", Vec::new()));
    pairs.extend(engine.acl.lines().into_iter().map(|line| (&b"user"[..], line)));
    engine.scripting.cache.for_each(|_, body| pairs.push((b"script", body.to_vec())));
    pairs
}

/// Takes over one of the pairs. An error says why it can not be.
pub fn restore(engine: &Engine, name: &[u8], value: &[u8]) -> Result<(), String> {
    let number = || mantissa_number::parse_i64(value).ok_or_else(|| "a number was expected".to_owned());
    match name {
        b"next-client" => engine.skip_client_ids(number()? as u64),
        b"pause-until-ms" => engine.pause.until_ms.store(number()?, Ordering::Relaxed),
        b"pause-all" => engine.pause.all.store(number()? != 0, Ordering::Relaxed),
        b"unsaved-changes" => engine.persistence.dirty.add(0, number()? as u64),
        b"last-save-s" => engine.persistence.last_save_s.store(number()?, Ordering::Relaxed),
        b"former-history" => {
            let id = engine.replication.history().id;
            let second = std::str::from_utf8(value).ok().and_then(|text| text.split_once(' '));
            let second = second.and_then(|(id, offset)| Some((id.to_owned(), offset.parse().ok()?)));
            engine.replication.set_history(History { id, second });
        }
        b"users-anew" => forget_users(engine)?,
        b"user" => restore_user(engine, value)?,
        b"script" => {
            let script = Script::new(source::digest_of(value), value);
            let script = script.map_err(|error| error.text().into_owned())?;
            engine.scripting.cache.add(script, true);
        }
        _ => {}
    }
    Ok(())
}

/// Until when CLIENT PAUSE says that clients wait, Unix time in ms. A shutdown that holds writes back begins
/// anew in the other process, which holds them back itself.
fn paused_until_ms(engine: &Engine) -> i64 {
    let holding = engine.replication.serving.holding.lock();
    let until_ms = engine.pause.until_ms.load(Ordering::Relaxed);
    if holding.0 > 0 && until_ms == i64::MAX { holding.1 } else { until_ms }
}

/// Removes the users that files have: those that are there come behind.
fn forget_users(engine: &Engine) -> Result<(), String> {
    let name_of = |line: &Vec<u8>| line.split(|&byte| byte == b' ').nth(1).map(<[u8]>::to_vec);
    let mut names: Vec<Vec<u8>> = engine.acl.lines().iter().filter_map(name_of).collect();
    names.retain(|name| name != b"default");
    let removed = engine.acl.delete_users(names.iter().map(Vec::as_slice));
    removed.map(drop).map_err(|error| error.text().into_owned())
}

/// Makes the user that a line of ACL LIST describes.
fn restore_user(engine: &Engine, line: &[u8]) -> Result<(), String> {
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).skip(1);
    let name = words.next().ok_or("a user has no name")?;
    let rules: Vec<&[u8]> = std::iter::once(&b"reset"[..]).chain(words).collect();
    let config = &engine.active_config().config;
    let changed = engine.acl.set_user(engine.registry, config, name, &rules);
    changed.map(drop).map_err(|error| error.text().into_owned())
}
