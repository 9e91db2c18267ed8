//! What to change on this machine, and what that would gain here: measured, or said not to be.

use super::findings::{Advice, Findings, shown};
use super::system::{clock_source, clock_sources, line};

/// Connections that the server asks the system to let wait, by default.
const BACKLOG: u64 = 511;
/// Clients that the server takes by default, and its own descriptors.
const DESCRIPTORS: u64 = 10_032;

const NOT_MEASURED: &str = "what it would gain is not measured";

/// Advice on what was measured.
pub(crate) fn of(findings: &Findings) -> Vec<Advice> {
    vec![huge_pages(findings), io_uring(findings), backlog(), clock(findings), overcommit(), descriptors()]
}

fn advice(what: &'static str, state: String, change: &str, gain: Option<String>) -> Advice {
    let measured = gain.is_some();
    let gain = gain.unwrap_or_else(|| NOT_MEASURED.to_owned());
    Advice { what, state, change: change.to_owned(), gain, measured }
}

fn huge_pages(findings: &Findings) -> Advice {
    let text = line("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split(['[', ']']).nth(1).unwrap_or("unknown");
    let change = match chosen {
        "never" => "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        _ => "",
    };
    let latency = |name| findings.best("memory", name);
    let gain = latency("latency_small_pages").zip(latency("latency_huge_pages")).map(|(small, huge)| {
        format!(
            "at best a load from memory takes {} with 4 KiB pages, {} where huge pages were asked for",
            shown(small, "ns"),
            shown(huge, "ns")
        )
    });
    advice("transparent huge pages", chosen.to_owned(), change, gain)
}

fn io_uring(findings: &Findings) -> Advice {
    let (epoll, uring) = (findings.best("network", "epoll"), findings.best("network", "io_uring"));
    let gain = epoll.zip(uring).map(|(epoll, uring)| {
        format!(
            "at best a loopback round trip takes {} by epoll, {} by io_uring; with many clients io_uring \
             also saves system calls, which is not measured",
            shown(epoll, "ns"),
            shown(uring, "ns")
        )
    });
    let disabled = line("/proc/sys/kernel/io_uring_disabled");
    let (state, change) = match (uring, epoll, disabled.as_deref()) {
        (Some(_), ..) => ("works", ""),
        (None, Some(_), Some("1" | "2")) => ("disabled", "sysctl kernel.io_uring_disabled=0"),
        (None, Some(_), _) => {
            ("not allowed", "allow io_uring_setup, io_uring_enter and io_uring_register in the container")
        }
        _ => ("not measured", ""),
    };
    advice("io_uring", state.to_owned(), change, gain)
}

fn backlog() -> Advice {
    let most = line("/proc/sys/net/core/somaxconn").and_then(|text| text.parse::<u64>().ok());
    let change = match most {
        Some(most) if most < BACKLOG => "sysctl net.core.somaxconn=511",
        _ => "",
    };
    let state = most.map_or_else(|| "unknown".to_owned(), |most| format!("net.core.somaxconn is {most}"));
    advice("backlog of connections", state, change, None)
}

fn clock(findings: &Findings) -> Advice {
    let source = clock_source();
    let change = match source.as_deref() {
        Some("hpet" | "acpi_pm" | "jiffies") if clock_sources().contains("tsc") => {
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
        }
        Some("hpet" | "acpi_pm") => "choose a machine whose counter of cycles is stable (tsc)",
        _ => "",
    };
    let cost = |name| findings.best("system", name);
    let gain = cost("clock").zip(cost("coarse_clock")).map(|(clock, coarse)| {
        let most = (clock - coarse).max(0.0);
        format!(
            "at best reading it takes {}; at most {} of that are its counter",
            shown(clock, "ns"),
            shown(most, "ns")
        )
    });
    advice("clock source", source.unwrap_or_else(|| "unknown".to_owned()), change, gain)
}

/// The server does not fork, so that nothing depends on it but very large reservations.
fn overcommit() -> Advice {
    let state = line("/proc/sys/vm/overcommit_memory");
    let text = state.map_or_else(|| "unknown".to_owned(), |value| format!("vm.overcommit_memory is {value}"));
    let gain = "saving does not fork, so nothing is gained; this is by design, not measured";
    Advice { what: "overcommit", state: text, change: String::new(), gain: gain.to_owned(), measured: false }
}

fn descriptors() -> Advice {
    let Ok((soft, hard)) = mantissa_sys::process::raise_nofile_limit(0) else {
        return advice("open files", "unknown".to_owned(), "", None);
    };
    // The server raises the soft limit itself.
    let change =
        if hard < DESCRIPTORS { "raise the hard limit (LimitNOFILE, ulimit -Hn) to 10032" } else { "" };
    let clients = hard.saturating_sub(32);
    let state = format!("{soft}, and at most {hard}");
    let gain =
        if hard == u64::MAX { "there is no limit".to_owned() } else { format!("room for {clients} clients") };
    advice("open files", state, change, Some(gain))
}
