//! MANTISSA.JSON.QUERY: values of many documents. RedisJSON has no such command.

use mantissa_commands::spec::{Categories, Flags, Group};
use mantissa_commands::{Locks, Outcome, json};
use mantissa_protocol::{Args, Reply};
use mantissa_store::ShardSet;

use crate::acl::{AclRequest, KeyPermit, READ};
use crate::invocation::{EngineSpec, Invocation};

/// Keys that the user may not read are passed over.
fn query(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    let request = AclRequest::new(engine.registry.resolve(args)?, args, invocation.session.database);
    let permit = KeyPermit::new(&invocation.session.user, &request, READ);
    let outcome = invocation
        .with_access(ShardSet::EMPTY, |access| json::query(access, args, reply, &|key| permit.has(key)));
    if invocation.context.outbox.holds_replies() {
        invocation.context.outbox.required_lsn = engine.log.end();
    }
    outcome
}

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] =
    &[EngineSpec::new("mantissa.json.query", -4, query, Flags::READONLY.or(Flags::NOSCRIPT))
        .locks(Locks::Sweep)
        .categories(Categories::JSON.or(Categories::KEYSPACE))
        .docs(
            Group::Generic,
            "1.0.0",
            "O(N) for N keys and bytes of documents of a page",
            "Finds values in many documents, page by page.",
        )
        .tips(&["nondeterministic_output"])
        .arguments("cursor:integer path:string@PATH prefix:string@PREFIX? count:integer@COUNT?")];
