//! When keys expire: EXPIRE and its like, TTL and its like, PERSIST.

use mantissa_protocol::{Args, Reply};
use smallvec::SmallVec;

use crate::DataSpec;
use crate::access::Access;
use crate::effects::{EventClass, removal};
use crate::error::{Error, Outcome};
use crate::expiry::TimeForm;
use crate::packed::packs_text;
use crate::parse;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec, Traits};

/// The condition under which EXPIRE changes the expiry.
#[derive(Default)]
struct Condition {
    /// `NX`: the key has no expiry.
    only_without_expiry: bool,
    /// `XX`: the key has an expiry.
    only_with_expiry: bool,
    /// `GT`: the new expiry is later.
    only_if_later: bool,
    /// `LT`: the new expiry is earlier.
    only_if_sooner: bool,
}

impl Condition {
    fn parse(options: Args<'_>) -> Outcome<Condition> {
        let mut condition = Condition::default();
        for option in options {
            if parse::is(option, "NX") {
                condition.only_without_expiry = true;
            } else if parse::is(option, "XX") {
                condition.only_with_expiry = true;
            } else if parse::is(option, "GT") {
                condition.only_if_later = true;
            } else if parse::is(option, "LT") {
                condition.only_if_sooner = true;
            } else {
                return Err(Error::quoting("ERR Unsupported option ", option, ""));
            }
        }
        let with_expiry = condition.only_with_expiry || condition.only_if_later || condition.only_if_sooner;
        if condition.only_without_expiry && with_expiry {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(Error::fixed(text));
        }
        if condition.only_if_later && condition.only_if_sooner {
            return Err(Error::fixed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// Whether a key that expires at `old` (`None`: never) may be made to expire at `new`.
    fn admits(&self, old: Option<i64>, new: i64) -> bool {
        match old {
            None => !self.only_with_expiry && !self.only_if_later,
            Some(old) => {
                !self.only_without_expiry
                    && (!self.only_if_later || new > old)
                    && (!self.only_if_sooner || new < old)
            }
        }
    }
}

fn expire(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_expiry(access, args, reply, TimeForm::SECONDS, "expire")
}

fn pexpire(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_expiry(access, args, reply, TimeForm::MILLISECONDS, "pexpire")
}

fn expireat(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_expiry(access, args, reply, TimeForm::UNIX_SECONDS, "expireat")
}

fn pexpireat(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    set_expiry(access, args, reply, TimeForm::UNIX_MILLISECONDS, "pexpireat")
}

fn set_expiry(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    form: TimeForm,
    name: &str,
) -> Outcome {
    let (key, now_ms) = (args.at(1), access.now_ms());
    let condition = Condition::parse(args.from(3))?;
    let time = form.unix_ms(parse::integer(args.at(2))?, access.clock_ms(), name)?;
    let Some(mut entry) = access.find_unexpired(key) else {
        reply.integer(0);
        return Ok(());
    };
    if !condition.admits(entry.expiry(), time) {
        reply.integer(0);
        return Ok(());
    }
    if time <= now_ms {
        access.delete_as(access.settings().lazy_expire, key);
        access.log_instead(&[removal(access.settings().lazy_expire), key]);
    } else {
        entry.set_expiry(Some(time));
        access.modified(key, EventClass::GENERIC, "expire");
        if form != TimeForm::UNIX_MILLISECONDS {
            let mut digits = [0; 20];
            let time = mantissa_number::format_i64(&mut digits, time);
            let mut command: SmallVec<[&[u8]; 8]> = SmallVec::from_slice(&[b"PEXPIREAT", key, time]);
            command.extend(args.from(3));
            access.log_instead(&command);
        }
    }
    reply.integer(1);
    Ok(())
}

fn ttl(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    write_expiry(access, args.at(1), reply, TimeForm::SECONDS)
}

fn pttl(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    write_expiry(access, args.at(1), reply, TimeForm::MILLISECONDS)
}

fn expiretime(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    write_expiry(access, args.at(1), reply, TimeForm::UNIX_SECONDS)
}

fn pexpiretime(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    write_expiry(access, args.at(1), reply, TimeForm::UNIX_MILLISECONDS)
}

/// Replies when a key expires, seconds being rounded; -1 for never, -2 if it is not there.
fn write_expiry(access: &Access<'_>, key: &[u8], reply: &mut Reply, form: TimeForm) -> Outcome {
    reply.integer(match access.read_untouched(key).map(|entry| entry.expiry()) {
        None => -2,
        Some(None) => -1,
        Some(Some(time)) => {
            let ms = if form.absolute { time } else { (time - access.now_ms()).max(0) };
            if form.seconds { ms.saturating_add(500) / 1000 } else { ms }
        }
    });
    Ok(())
}

fn persist(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let entry = access.find_unexpired(key).filter(|entry| entry.expiry().is_some());
    let had_expiry = match entry {
        Some(mut entry) => {
            entry.set_expiry(None);
            true
        }
        None => false,
    };
    if had_expiry {
        access.modified(key, EventClass::GENERIC, "persist");
    }
    reply.integer(i64::from(had_expiry));
    Ok(())
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("expire", -3, expire, Flags::WRITE.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Generic, "1.0.0", "O(1)", "Lets a key expire after some seconds.")
        .history(&[("7.0.0", "NX, XX, GT and LT.")])
        .arguments(
            "key:key#0 seconds:integer condition:oneof(nx:pure-token@NX xx:pure-token@XX \
            gt:pure-token@GT lt:pure-token@LT)?<7.0.0",
        ),
    DataSpec::new("pexpire", -3, pexpire, Flags::WRITE.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Generic, "2.6.0", "O(1)", "Lets a key expire after some milliseconds.")
        .history(&[("7.0.0", "NX, XX, GT and LT.")])
        .arguments(
            "key:key#0 milliseconds:integer condition:oneof(nx:pure-token@NX xx:pure-token@XX \
            gt:pure-token@GT lt:pure-token@LT)?<7.0.0",
        ),
    DataSpec::new("expireat", -3, expireat, Flags::WRITE.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Generic, "1.2.0", "O(1)", "Lets a key expire at a Unix time in seconds.")
        .history(&[("7.0.0", "NX, XX, GT and LT.")])
        .arguments(
            "key:key#0 unix-time-seconds:unix-time condition:oneof(nx:pure-token@NX \
            xx:pure-token@XX gt:pure-token@GT lt:pure-token@LT)?<7.0.0",
        ),
    DataSpec::new("pexpireat", -3, pexpireat, Flags::WRITE.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Generic, "2.6.0", "O(1)", "Lets a key expire at a Unix time in milliseconds.")
        .history(&[("7.0.0", "NX, XX, GT and LT.")])
        .arguments(
            "key:key#0 unix-time-milliseconds:unix-time condition:oneof(nx:pure-token@NX \
            xx:pure-token@XX gt:pure-token@GT lt:pure-token@LT)?<7.0.0",
        ),
    DataSpec::new("ttl", 2, ttl, Flags::READONLY.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .packed(packs_text!(ttl))
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Generic, "1.0.0", "O(1)", "Tells in how many seconds a key expires.")
        .history(&[("2.8.0", "-2 for a missing key.")])
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0"),
    DataSpec::new("pttl", 2, pttl, Flags::READONLY.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .packed(packs_text!(pttl))
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Generic, "2.6.0", "O(1)", "Tells in how many milliseconds a key expires.")
        .history(&[("2.8.0", "-2 for a missing key.")])
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0"),
    DataSpec::new("expiretime", 2, expiretime, Flags::READONLY.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Generic, "7.0.0", "O(1)", "Tells when a key expires, as a Unix time in seconds.")
        .arguments("key:key#0"),
    DataSpec::new("pexpiretime", 2, pexpiretime, Flags::READONLY.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::Generic, "7.0.0", "O(1)", "Tells when a key expires, as a Unix time in milliseconds.")
        .arguments("key:key#0"),
    DataSpec::new("persist", 2, persist, Flags::WRITE.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(Group::Generic, "2.2.0", "O(1)", "Lets a key live for ever again.")
        .arguments("key:key#0"),
];
