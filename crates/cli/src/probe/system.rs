//! The processor and the system: calls, clocks, instruction sets, energy; loopback round trips.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mantissa_net::{Driver, DriverKind, Event, Handler, Listener, LocalAddress, Waker};
use mantissa_number::vector::Kernels;
use mantissa_sys::pages;

use super::findings::Section;
use super::statistics::{Figure, Pace};

const CLOCK_FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
/// Doubles that a sum goes over: 16 KiB, which lie in the first cache.
const SUM_LEN: usize = 2048;

/// A file of the system, without the end of its line.
pub(crate) fn line(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The clock source in use.
pub(crate) fn clock_source() -> Option<String> {
    line(format!("{CLOCK_FOLDER}/current_clocksource"))
}

/// Others that there are.
pub(crate) fn clock_sources() -> String {
    line(format!("{CLOCK_FOLDER}/available_clocksource")).unwrap_or_default()
}

/// System calls and clocks.
pub(crate) fn calls(pace: &Pace) -> io::Result<Section> {
    let mut section = Section::new("system", "System calls and clocks");
    let call = pace.nanoseconds(0.02, 10_000, pages::shortest_system_call)?;
    section.add("system_call", "shortest system call", "ns", call);
    let clock = pace.nanoseconds(0.02, 10_000, || {
        black_box(Instant::now());
    })?;
    section.add("clock", "monotonic clock", "ns", clock);
    let coarse = pace.nanoseconds(0.02, 10_000, || {
        black_box(pages::coarse_clock_ns());
    })?;
    section.add("coarse_clock", "the same without its counter", "ns", coarse);
    match clock_source() {
        Some(source) => section.notes.push(format!("Clock source: {source}, of {}.", clock_sources())),
        None => section.notes.push("The system does not tell the clock source.".to_owned()),
    }
    Ok(section)
}

/// Sums by instruction set, and their energy where it can be read.
pub(crate) fn sums(pace: &Pace) -> io::Result<Section> {
    let mut section = Section::new("simd", "Instruction sets: sums of doubles in the first cache");
    let values: Vec<f64> = (0..SUM_LEN).map(|i| i as f64).collect();
    let mut energy_known = false;
    for (name, level) in sum_kernels() {
        let sum = |values: &[f64]| level.map_or_else(|| values.iter().sum(), |level| level.sum_f64(values));
        let (before, mut operations) = (energy_uj(Path::new(ENERGY_FOLDER)), 0.0);
        let figure = pace.repeat(0.02, || {
            let began = Instant::now();
            for _ in 0..200 {
                black_box(sum(black_box(&values)));
            }
            operations += 200.0 * SUM_LEN as f64;
            Ok(200.0 * SUM_LEN as f64 / began.elapsed().as_secs_f64())
        })?;
        section.add(name, name, "1/s", figure);
        // The counter wraps around: a negative difference tells nothing.
        let used = before.zip(energy_uj(Path::new(ENERGY_FOLDER))).map(|(before, after)| after - before);
        if let Some(used) = used.filter(|used| *used > 0.0) {
            energy_known = true;
            let title = format!("{name}, energy of the package for an addition");
            let figure = Figure::once(used / 1e6 / operations * 1e12);
            section.add(&format!("{name}_energy"), &title, "pJ", figure);
        }
    }
    if !energy_known {
        section.notes.push(
            "Energy is not measured: RAPL's counters are missing or not readable (root may read them)."
                .into(),
        );
    }
    section.notes.push(format!("Kernels for vectors: {}.", Kernels::get().name()));
    Ok(section)
}

/// One number after another first, by no kernel, then the levels that differ for doubles.
fn sum_kernels() -> Vec<(&'static str, Option<Kernels>)> {
    let all = Kernels::all();
    let is_alone = all.len() == 1;
    let levels = all.into_iter().map(|level| (level.name(), Some(level)));
    let levels = levels.filter(|(name, _)| *name != "avx512bf16" && (is_alone || *name != "portable"));
    [("scalar", None)].into_iter().chain(levels).collect()
}

const ENERGY_FOLDER: &str = "/sys/class/powercap";

/// What all processor packages have used, in microjoules.
fn energy_uj(folder: &Path) -> Option<f64> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let packages = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // `intel-rapl:0` is a package, `intel-rapl:0:1` a part of one.
        name.strip_prefix("intel-rapl:").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let used: Vec<f64> =
        packages.filter_map(|entry| line(entry.path().join("energy_uj"))?.parse().ok()).collect();
    (!used.is_empty()).then(|| used.iter().sum())
}

/// Sends back what comes.
struct Echo;

impl Handler for Echo {
    fn event(&mut self, driver: &mut Driver, event: Event<'_>) {
        match event {
            Event::Accepted { socket, .. } => {
                if let Ok(conn) = driver.adopt(socket) {
                    driver.set_nodelay(conn, true);
                }
            }
            Event::Received { conn, bytes } => {
                let mut buffer = driver.take_buffer();
                buffer.extend_from_slice(bytes);
                driver.send(conn, buffer);
            }
            _ => {}
        }
    }
}

/// Round trips over the loopback interface by each driver of the server; the client waits in `read`.
pub(crate) fn round_trips(pace: &Pace) -> io::Result<Section> {
    let mut section = Section::new("network", "Loopback round trips of 64 bytes");
    for kind in [DriverKind::Epoll, DriverKind::IoUring] {
        match round_trip(pace, kind) {
            Ok(figure) => section.add(kind.name(), kind.name(), "ns", figure),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => section.notes.push(format!("{} does not work here: {error}.", kind.name())),
        }
    }
    Ok(section)
}

fn round_trip(pace: &Pace, kind: DriverKind) -> io::Result<Figure> {
    let listener = Listener::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 16)?;
    let LocalAddress::Tcp(address) = listener.local_addr().clone() else {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    };
    let ends = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = std::sync::mpsc::channel::<io::Result<Waker>>();
    let server = std::thread::spawn({
        let ends = Arc::clone(&ends);
        move || {
            let mut driver = match Driver::new(Some(kind)) {
                Ok(driver) => driver,
                Err(error) => return drop(sender.send(Err(error))),
            };
            driver.set_batching_delay(Duration::ZERO);
            driver.add_listener(listener);
            let _ = sender.send(Ok(driver.waker()));
            while !ends.load(Ordering::Relaxed) && driver.run_once(None, &mut Echo).is_ok() {}
        }
    });
    let waker = receiver.recv().map_err(io::Error::other)??;
    let outcome = (|| {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let mut message = [7; 64];
        pace.repeat(0.04, || {
            let began = Instant::now();
            for _ in 0..200 {
                stream.write_all(&message)?;
                stream.read_exact(&mut message)?;
            }
            Ok(began.elapsed().as_secs_f64() * 1e9 / 200.0)
        })
    })();
    ends.store(true, Ordering::Relaxed);
    waker.wake();
    let _ = server.join();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_that_of_packages() {
        let folder = std::env::temp_dir().join(format!("mantissa-energy-{}", std::process::id()));
        assert_eq!(energy_uj(&folder), None);
        for (name, energy) in [("intel-rapl:0", "5\n"), ("intel-rapl:1", "6\n"), ("intel-rapl:0:0", "100\n")]
        {
            std::fs::create_dir_all(folder.join(name)).expect("a folder can be made");
            std::fs::write(folder.join(name).join("energy_uj"), energy).expect("a file can be made");
        }
        assert_eq!(energy_uj(&folder), Some(11.0));
        std::fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn echoes_come_back_by_epoll() {
        let pace = Pace::new(Duration::ZERO, Arc::default());
        assert!(round_trip(&pace, DriverKind::Epoll).expect("epoll works").median > 0.0);
    }
}
