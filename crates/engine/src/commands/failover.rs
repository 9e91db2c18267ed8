//! FAILOVER: this primary hands its role to a replica.

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};

use super::replicaof::with_all_shards;
use crate::engine::Engine;
use crate::invocation::Invocation;
use crate::replication::{failover, primary};
use crate::state::failover::{FailoverState, Plan};
use crate::state::replication::{Address, ReplicaState};

/// What the arguments say.
#[derive(Default)]
struct Request {
    aborts: bool,
    forces: bool,
    timeout_ms: Option<i64>,
    target: Option<(Vec<u8>, i64)>,
}

impl Request {
    fn parse(args: Args<'_>) -> Outcome<Request> {
        let (mut request, mut at) = (Request::default(), 1);
        while let Some(option) = args.get(at) {
            let left = args.len() - at - 1;
            if parse::is(option, "TIMEOUT") && left >= 1 && request.timeout_ms.is_none() {
                let timeout_ms = parse::integer(args.at(at + 1))?;
                if timeout_ms <= 0 {
                    return Err(Error::fixed("ERR FAILOVER timeout must be greater than 0"));
                }
                request.timeout_ms = Some(timeout_ms);
                at += 1;
            } else if parse::is(option, "ABORT") && args.len() == 2 {
                request.aborts = true;
            } else if parse::is(option, "TO") && left >= 2 && request.target.is_none() {
                request.target = Some((args.at(at + 1).to_vec(), parse::integer(args.at(at + 2))?));
                at += 2;
            } else if parse::is(option, "FORCE") && !request.forces {
                request.forces = true;
            } else {
                return Err(Error::SYNTAX);
            }
            at += 1;
        }
        Ok(request)
    }

    /// The replica that is named.
    fn target(&self, engine: &Engine) -> Outcome<Option<Address>> {
        let Some((host, port)) = &self.target else { return Ok(None) };
        let host = String::from_utf8_lossy(host).into_owned();
        let address = Address { host, port: u16::try_from(*port).unwrap_or(0) };
        match failover::find(engine, &address) {
            None => Err(Error::fixed("ERR FAILOVER target HOST and PORT is not a replica.")),
            Some(replica) if replica.state() != ReplicaState::Online => {
                Err(Error::fixed("ERR FAILOVER target replica is not online."))
            }
            Some(_) => Ok(Some(address)),
        }
    }
}

pub(super) fn failover(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    const UNDER_WAY: Error = Error::fixed("ERR FAILOVER already in progress.");
    let engine = invocation.engine();
    if engine.active_config().config.cluster_enabled {
        return Err(Error::fixed("ERR FAILOVER not allowed in cluster mode."));
    }
    let request = Request::parse(args)?;
    let is_under_way = engine.replication.failover.state() != FailoverState::None;
    match (request.aborts, is_under_way) {
        (true, true) => {
            let reason = "Failover manually aborted";
            with_all_shards(invocation, |engine, _| failover::abort_locked(engine, reason))?;
            reply.ok();
            return Ok(());
        }
        (true, false) => return Err(Error::fixed("ERR No failover in progress.")),
        (false, true) => return Err(UNDER_WAY),
        (false, false) => {}
    }
    if engine.replication.is_replica() {
        return Err(Error::fixed("ERR FAILOVER is not valid when server is a replica."));
    }
    if primary::shown(engine).is_empty() {
        return Err(Error::fixed("ERR FAILOVER requires connected replicas."));
    }
    if request.forces && (request.timeout_ms.is_none() || request.target.is_none()) {
        const INCOMPLETE: &str =
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.";
        return Err(Error::fixed(INCOMPLETE));
    }
    let now_ms = invocation.context.now_ms;
    let plan = Plan {
        target: request.target(engine)?,
        deadline_ms: request.timeout_ms.map(|timeout_ms| now_ms.saturating_add(timeout_ms)),
        forces: request.forces,
    };
    if !failover::begin(engine, plan) {
        return Err(UNDER_WAY);
    }
    reply.ok();
    Ok(())
}
