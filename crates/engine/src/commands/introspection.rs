//! SLOWLOG, COMMANDLOG, LATENCY, TIME, ROLE and LOLWUT.

use mantissa_commands::spec::{Flags, Group};
use mantissa_commands::{Error, Locks, Outcome, parse};
use mantissa_protocol::{Args, Protocol, Reply};

use crate::command_log::{self, Cause};
use crate::invocation::{Command, EngineSpec, Invocation};
use crate::latency::{self, Histogram};
use mantissa_sys::clock::unix_us;

fn slowlog_get(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 3 {
        return Err(super::wrong_subcommand(args));
    }
    let count =
        args.get(2).map_or(Ok(command_log::DEFAULT_COUNT), command_log::parse_count).map_err(Error::fixed)?;
    invocation.engine().command_log(Cause::Slow).reply_get(count, reply);
    Ok(())
}

fn slowlog_len(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(invocation.engine().command_log(Cause::Slow).len() as i64);
    Ok(())
}

fn slowlog_reset(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    invocation.engine().command_log(Cause::Slow).reset();
    reply.ok();
    Ok(())
}

fn commandlog_get(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = command_log::parse_count(args.at(2)).map_err(Error::fixed)?;
    let cause = Cause::of(args.at(3)).map_err(Error::fixed)?;
    invocation.engine().command_log(cause).reply_get(count, reply);
    Ok(())
}

fn commandlog_len(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cause = Cause::of(args.at(2)).map_err(Error::fixed)?;
    reply.integer(invocation.engine().command_log(cause).len() as i64);
    Ok(())
}

fn commandlog_reset(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cause = Cause::of(args.at(2)).map_err(Error::fixed)?;
    invocation.engine().command_log(cause).reset();
    reply.ok();
    Ok(())
}

fn commandlog_help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "COMMANDLOG",
        &[
            (
                "GET <count> <type>",
                "The last commands of the type slow, large-request or large-reply, newest first; all with \
                 -1. Each is shown as SLOWLOG GET shows it, a large one with its bytes for a duration.",
            ),
            ("LEN <type>", "How many commands of a type are kept."),
            ("RESET <type>", "Forgets the commands of a type."),
        ],
    );
    Ok(())
}

fn write_lines(reply: &mut Reply, lines: &[&str]) {
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
}

fn slowlog_help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    write_lines(reply, command_log::HELP);
    Ok(())
}

fn latency_help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    write_lines(reply, latency::HELP);
    Ok(())
}

fn latency_latest(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    invocation.engine().latency.lock().reply_latest(reply);
    Ok(())
}

fn latency_history(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    invocation.engine().latency.lock().reply_history(args.at(2), reply);
    Ok(())
}

fn latency_graph(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let now_s = invocation.context.now_ms / 1000;
    invocation.engine().latency.lock().reply_graph(args.at(2), now_s, reply)
}

fn latency_doctor(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let config = &invocation.context.active.config;
    let (threshold, slower_than) = (config.latency_monitor_threshold_ms, config.slowlog_log_slower_than_us);
    let now_s = invocation.context.now_ms / 1000;
    invocation.engine().latency.lock().reply_doctor(now_s, threshold, slower_than, reply);
    Ok(())
}

fn latency_reset(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let events: Vec<&[u8]> = args.from(2).iter().collect();
    reply.integer(invocation.engine().latency.lock().reset(&events) as i64);
    Ok(())
}

fn latency_histogram(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    let mut wanted: Vec<&'static Command> = Vec::new();
    if args.len() == 2 {
        for command in engine.registry.iter() {
            wanted.push(command);
            wanted.extend(&command.subcommands);
        }
    }
    for name in args.from(2) {
        let mut parts = name.splitn(2, |&byte| byte == b'|');
        let command = parts.next().and_then(|name| engine.registry.lookup(name));
        match (command, parts.next()) {
            (Some(command), None) => {
                wanted.push(command);
                wanted.extend(&command.subcommands);
            }
            (Some(command), Some(subcommand)) => wanted.extend(command.subcommand(subcommand)),
            (None, _) => {}
        }
    }
    let histogram_of = |command: &'static Command| {
        let sum = Histogram::new();
        let recorded =
            engine.stats.commands.iter().filter_map(|worker| worker[command.index].histogram.get());
        recorded.for_each(|histogram| sum.add(histogram));
        (sum.calls() > 0).then_some((command.name.as_str(), sum))
    };
    let found: Vec<(&str, Histogram)> = wanted.into_iter().filter_map(histogram_of).collect();
    reply.map(found.len());
    for (name, histogram) in found {
        reply.bulk(name.as_bytes());
        histogram.reply(reply);
    }
    Ok(())
}

/// Time stands still in a transaction and in a script.
fn time(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_part = invocation.in_transaction() || invocation.context.in_script;
    let now_us = match is_part {
        true => *invocation.context.unit_time_us.get_or_insert_with(unix_us),
        false => unix_us(),
    };
    reply.array(2);
    reply.bulk_integer(now_us / 1_000_000);
    reply.bulk_integer(now_us % 1_000_000);
    Ok(())
}

/// A number line whose marks lie where the mantissas of doubles do: twice as dense with every step toward
/// zero.
fn lolwut(_session: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const WIDTH: usize = 64;
    if let Some(option) = args.get(1)
        && parse::is(option, "VERSION")
        && let Some(version) = args.get(2)
    {
        parse::integer(version)?;
    }
    let mut text = String::new();
    for row in 0..7_u32 {
        let mut line = vec![' '; WIDTH + 1];
        let mut power = 1.0_f64;
        while power > 1.0 / 64.0 {
            let marks = 1_u32 << row.min(6);
            for mark in 0..=marks {
                let value = power / 2.0 * (1.0 + f64::from(mark) / f64::from(marks));
                line[(value * WIDTH as f64) as usize] = if mark == 0 || mark == marks { '|' } else { '.' };
            }
            power /= 2.0;
        }
        text.push_str(line.iter().collect::<String>().trim_end());
        text.push('\n');
    }
    text.push_str("0             1/4             1/2                             1\n");
    text.push_str(&format!("\nRedis ver. {}\n", super::REDIS_VERSION));
    match reply.protocol() {
        Protocol::Resp2 => reply.bulk(text.as_bytes()),
        Protocol::Resp3 => reply.verbatim("txt", text.as_bytes()),
    }
    Ok(())
}

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE);
const LOG: Flags = Flags::ADMIN.or(Flags::LOADING).or(Flags::STALE);
const HELP: Flags = Flags::LOADING.or(Flags::STALE);
const SPECIAL: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

const SLOWLOG: &[EngineSpec] = &[
    EngineSpec::new("reset", 2, slowlog_reset, LOG)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.2.12", "O(N), N being the entries", "Empties the slow log.")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    EngineSpec::new("help", 2, slowlog_help, HELP).locks(Locks::Nothing).docs(
        Group::Server,
        "6.2.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    EngineSpec::new("len", 2, slowlog_len, LOG)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.2.12", "O(1)", "Counts the entries of the slow log.")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]),
    EngineSpec::new("get", -2, slowlog_get, LOG)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.2.12", "O(N), N being the entries returned", "Shows commands that took long.")
        .history(&[("4.0.0", "The client's address and name are shown.")])
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .arguments("count:integer?"),
];

/// The argument that names a cause, in the notation of arguments.
macro_rules! cause {
    () => {
        "type:oneof(slow:pure-token@SLOW large-request:pure-token@LARGE-REQUEST \
         large-reply:pure-token@LARGE-REPLY)"
    };
}

const COMMANDLOG: &[EngineSpec] = &[
    EngineSpec::new("get", 4, commandlog_get, LOG)
        .locks(Locks::Nothing)
        .docs(
            Group::Server,
            "8.1.0",
            "O(N), N being the entries returned",
            "Shows commands that took long or had a large request or reply.",
        )
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .arguments(concat!("count:integer ", cause!())),
    EngineSpec::new("help", 2, commandlog_help, HELP).locks(Locks::Nothing).docs(
        Group::Server,
        "8.1.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    EngineSpec::new("len", 3, commandlog_len, LOG)
        .locks(Locks::Nothing)
        .docs(Group::Server, "8.1.0", "O(1)", "Counts the commands of a type that are kept.")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .arguments(cause!()),
    EngineSpec::new("reset", 3, commandlog_reset, LOG)
        .locks(Locks::Nothing)
        .docs(Group::Server, "8.1.0", "O(N), N being the entries", "Forgets the commands of a type.")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .arguments(cause!()),
];

const LATENCY: &[EngineSpec] = &[
    EngineSpec::new("history", 3, latency_history, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.8.13", "O(1)", "Shows the samples of one latency event.")
        .tips(SPECIAL)
        .arguments("event:string"),
    EngineSpec::new("latest", 2, latency_latest, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.8.13", "O(1)", "Shows the last sample of every latency event.")
        .tips(SPECIAL),
    EngineSpec::new("help", 2, latency_help, HELP).locks(Locks::Nothing).docs(
        Group::Server,
        "2.8.13",
        "O(1)",
        "Lists the subcommands.",
    ),
    EngineSpec::new("histogram", -2, latency_histogram, ADMIN)
        .locks(Locks::Nothing)
        .docs(
            Group::Server,
            "7.0.0",
            "O(N), N being the commands",
            "Shows how the times of commands are spread.",
        )
        .tips(SPECIAL)
        .arguments("command:string?*"),
    EngineSpec::new("reset", -2, latency_reset, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.8.13", "O(1)", "Forgets latency events.")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum"])
        .arguments("event:string?*"),
    EngineSpec::new("graph", 3, latency_graph, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.8.13", "O(1)", "Draws the samples of one latency event.")
        .tips(SPECIAL)
        .arguments("event:string"),
    EngineSpec::new("doctor", 2, latency_doctor, ADMIN)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.8.13", "O(1)", "Explains latency events in words.")
        .tips(SPECIAL),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::container("slowlog", -2, Flags::NONE)
        .docs(Group::Server, "2.2.12", "Depends on the subcommand", "Shows commands that took long.")
        .subcommands(SLOWLOG),
    EngineSpec::container("commandlog", -2, Flags::NONE)
        .docs(
            Group::Server,
            "8.1.0",
            "Depends on the subcommand",
            "Shows commands that took long or had a large request or reply.",
        )
        .subcommands(COMMANDLOG),
    EngineSpec::container("latency", -2, Flags::NONE)
        .docs(Group::Server, "2.8.13", "Depends on the subcommand", "Shows where time goes.")
        .subcommands(LATENCY),
    EngineSpec::new("time", 1, time, Flags::LOADING.or(Flags::STALE).or(Flags::FAST))
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.6.0", "O(1)", "Tells the server's clock.")
        .tips(&["nondeterministic_output"]),
    EngineSpec::new("lolwut", -1, lolwut, Flags::READONLY.or(Flags::FAST))
        .locks(Locks::Nothing)
        .docs(Group::Server, "5.0.0", "O(1)", "Draws something, and tells the version.")
        .arguments("version:integer@VERSION?"),
];
