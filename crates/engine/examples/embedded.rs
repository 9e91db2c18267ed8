//! Redis's data structures inside a Rust program: a durable store in a folder, without a server.
//!
//!     cargo run --release --package mantissa-engine --example embedded -- FOLDER
//!
//! Run it twice with the same folder: the second run finds what the first has written.

use std::error::Error;
use std::path::PathBuf;

use mantissa_engine::embedded::Embedded;
use mantissa_protocol::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("embedded-data"), PathBuf::from);

    // Any directive of redis.conf may be given; the files are those of a server.
    let store = Embedded::open(&folder, &[("appendonly", "yes"), ("appendfsync", "everysec")])?;
    let mut client = store.client()?;

    let Value::Integer(runs) = client.call(&["INCR", "runs"]) else { return Err("INCR failed".into()) };
    report(&format!("run {runs} on {}", folder.display()))?;

    // A transaction is atomic over any keys, for all threads that have a client.
    client.call(&["MULTI"]);
    client.call(&["ZADD", "temperatures", "21.5", "roof"]);
    client.call(&["ZADD", "temperatures", "18.25", "cellar"]);
    client.call(&["XADD", "log", "*", "event", "measured"]);
    report(&format!("transaction: {:?}", client.call(&["EXEC"])))?;
    report(&format!("coldest: {:?}", client.call(&["ZRANGE", "temperatures", "0", "0", "WITHSCORES"])))?;

    drop(client);
    store.close()?;

    // Opened again, the folder holds the same.
    let store = Embedded::open(&folder, &[("appendonly", "yes")])?;
    let mut client = store.client()?;
    let found = client.call(&["GET", "runs"]);
    report(&format!("opened again: runs = {found:?}"))?;
    if found != Value::Bulk(runs.to_string().into_bytes()) {
        return Err("the store has lost a write".into());
    }
    drop(client);
    store.close()?;
    Ok(())
}

/// Writes a line.
fn report(line: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}")
}
