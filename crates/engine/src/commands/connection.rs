//! Connections: PING, ECHO, AUTH, HELLO, SELECT, QUIT, RESET.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Categories, Databases, Flags, Group, InStream, Traits};
use mantissa_commands::{Error, Locks, Outcome, parse};
use mantissa_protocol::{Args, Protocol, Reply};

use crate::context::Context;
use crate::engine::Engine;
use crate::invocation::{EngineSpec, Invocation};
use crate::session::{ReplyMode, Session, flag};
use crate::{acl, admission, transaction};

fn ping(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 2 {
        return Err(Error::arity("ping"));
    }
    let message = args.get(1);
    if invocation.session.is_subscribed() && invocation.session.protocol == Protocol::Resp2 {
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(message.unwrap_or(b""));
    } else if let Some(message) = message {
        reply.bulk(message);
    } else {
        reply.simple("PONG");
    }
    Ok(())
}

fn echo(_session: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.bulk(args.at(1));
    Ok(())
}

/// Logs in with a name and password.
fn authenticate(
    invocation: &mut Invocation<'_, '_, '_>,
    name: &[u8],
    password: &[u8],
    command: &[u8],
) -> Outcome {
    let acl = &invocation.context.engine.acl;
    if let Some(user) = acl.user(name).filter(|user| user.rights().accept(password)) {
        let before = std::mem::replace(&mut invocation.session.user, Arc::clone(&user));
        invocation.session.set_user(&user);
        // A user deleted meanwhile was not told of this client: check again.
        if acl.is_current(&user) {
            invocation.session.authenticated = true;
            return Ok(());
        }
        invocation.session.set_user(&before);
    }
    admission::note_failed_login(invocation, name, command);
    Err(Error::fixed("WRONGPASS invalid username-password pair or user is disabled."))
}

fn auth(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match args.len() {
        2 => {
            if invocation.engine().acl.default_user().rights().no_password {
                return Err(Error::fixed(
                    "ERR AUTH <password> called without any password configured for the default user. Are \
                     you sure your configuration is correct?",
                ));
            }
            authenticate(invocation, acl::DEFAULT_USER, args.at(1), args.at(0))?;
        }
        3 => authenticate(invocation, args.at(1), args.at(2), args.at(0))?,
        _ => return Err(Error::SYNTAX),
    }
    reply.ok();
    Ok(())
}

/// Whether a text may be a client's name or a library's: printable ASCII without spaces, up to the first NUL.
pub fn is_plain_word(text: &[u8]) -> bool {
    text.iter().take_while(|&&byte| byte != 0).all(|byte| (b'!'..=b'~').contains(byte))
}

/// The error for a name that is no plain word.
pub const NAME_NOT_PLAIN: Error =
    Error::fixed("ERR Client names cannot contain spaces, newlines or special characters.");

fn hello(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut protocol = invocation.session.protocol;
    if let Some(version) = args.get(1) {
        let number = parse::integer_or(version, "ERR Protocol version is not an integer or out of range")?;
        protocol = match number {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(Error::fixed("NOPROTO unsupported protocol version")),
        };
    }
    let (mut credentials, mut name) = (None, None);
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        if parse::is(args.at(at), "AUTH") && left >= 2 {
            credentials = Some((args.at(at + 1), args.at(at + 2)));
            at += 3;
        } else if parse::is(args.at(at), "SETNAME") && left >= 1 {
            if !is_plain_word(args.at(at + 1)) {
                return Err(NAME_NOT_PLAIN);
            }
            name = Some(args.at(at + 1));
            at += 2;
        } else {
            return Err(Error::quoting("ERR Syntax error in HELLO option '", args.at(at), "'"));
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(invocation, user, password, args.at(0))?;
    }
    if !invocation.session.authenticated {
        return Err(Error::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
             AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol \
             version at \
             the same time",
        ));
    }
    if let Some(name) = name {
        invocation.session.shared.change_identity(|identity| identity.name = name.to_vec());
    }
    invocation.session.set_protocol(protocol);
    reply.set_protocol(protocol);
    write_greeting(invocation.engine(), invocation.session, reply);
    Ok(())
}

fn write_greeting(engine: &Engine, session: &Session, reply: &mut Reply) {
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(super::REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if session.protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(session.shared.id as i64);
    reply.bulk(b"mode");
    reply.bulk(engine.active_config().config.mode().as_bytes());
    reply.bulk(b"role");
    reply.bulk(if engine.replication.is_replica() { &b"replica"[..] } else { b"master" });
    reply.bulk(b"modules");
    super::modules::write_list(reply);
}

fn select(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let number = parse::integer(args.at(1))?;
    if i32::try_from(number).is_err() {
        return Err(Error::fixed("ERR value is out of range, value must between -2147483648 and 2147483647"));
    }
    let count = invocation.engine().keyspace.database_count();
    let number = usize::try_from(number).ok().filter(|&number| number < count);
    invocation.session.select(number.ok_or(Error::DATABASE_OUT_OF_RANGE)?);
    reply.ok();
    Ok(())
}

fn quit(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    invocation.session.closing = true;
    reply.ok();
    Ok(())
}

fn reset(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    begin_anew(invocation.context, invocation.session);
    reply.set_protocol(invocation.session.protocol);
    reply.simple("RESET");
    Ok(())
}

/// Makes a session what it was when its client had just connected.
pub fn begin_anew(context: &Context, session: &mut Session) {
    transaction::end(context, session);
    super::leave_everything(context, session);
    session.shared.mark(flag::NO_EVICT | flag::NO_TOUCH | flag::READONLY | flag::PUBSUB, false);
    for count in
        [&session.shared.channel_count, &session.shared.pattern_count, &session.shared.shard_channel_count]
    {
        count.store(0, Ordering::Relaxed);
    }
    session.no_touch = false;
    session.field_sets = None;
    // After CLIENT REPLY SKIP, RESET itself is not answered.
    if session.reply_mode != ReplyMode::Skip {
        session.set_reply_mode(ReplyMode::On);
    }
    session.select(0);
    session.set_protocol(session.first_protocol);
    session.set_user(context.engine.acl.default_user());
    session.authenticated = !context.engine.acl.needs_login();
    session.shared.change_identity(|identity| identity.name = Vec::new());
}

/// Logs in for a host whose clients do so by other means than AUTH.
pub fn log_in(context: &mut Context, session: &mut Session, name: &[u8], password: &[u8]) -> Outcome {
    authenticate(&mut Invocation { context, session, access: None }, name, password, b"AUTH")
}

fn monitor(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    if invocation.in_transaction() {
        return Err(Error::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let session = &invocation.session.shared;
    if session.has(flag::MONITOR) {
        return Ok(()); // without a reply, as in Redis
    }
    session.mark(flag::MONITOR, true);
    let engine = invocation.context.engine;
    let mut monitors = engine.monitors.write();
    monitors.push(Arc::clone(session));
    engine.monitor_count.store(monitors.len(), Ordering::Relaxed);
    reply.ok();
    Ok(())
}

const LOGIN: Flags = Flags::NOSCRIPT
    .or(Flags::LOADING)
    .or(Flags::STALE)
    .or(Flags::FAST)
    .or(Flags::NO_AUTH)
    .or(Flags::ALLOW_BUSY);
const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);

/// Whether an argument of HELLO is one of the two after AUTH; any after it where these are not both there.
fn is_login(args: Args<'_>, index: usize) -> bool {
    let mut at = 2;
    while at < index.min(super::OPTIONS_END) {
        at += match args.at(at) {
            option if parse::is(option, "AUTH") && (index <= at + 2 || at + 2 >= args.len()) => return true,
            option if parse::is(option, "AUTH") => 3,
            option if parse::is(option, "SETNAME") => 2,
            // No option: the words are as good as after AUTH if that comes before.
            _ => 1,
        };
    }
    false
}

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::new("ping", -1, ping, Flags::FAST)
        .traits(Traits::WHILE_SUBSCRIBED.or(Traits::TELLS_HEALTH))
        .in_stream(InStream::ChangesNothing)
        .categories(Categories::CONNECTION)
        .docs(Group::Connection, "1.0.0", "O(1)", "Answers PONG, or the given message: the server is alive.")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .arguments("message:string?"),
    EngineSpec::new("echo", 2, echo, ANY_TIME)
        .categories(Categories::CONNECTION)
        .docs(Group::Connection, "1.0.0", "O(1)", "Sends the message back.")
        .arguments("message:string"),
    EngineSpec::new("auth", -2, auth, LOGIN)
        .secrets(|_, index| index >= 1)
        .categories(Categories::CONNECTION)
        .docs(Group::Connection, "1.0.0", "O(N), N being the user's passwords", "Logs the connection in.")
        .history(&[("6.0.0", "A username may come before the password.")])
        .arguments("username:string?<6.0.0 password:string"),
    EngineSpec::new("hello", -1, hello, LOGIN)
        .secrets(is_login)
        .categories(Categories::CONNECTION)
        .docs(Group::Connection, "6.0.0", "O(1)", "Chooses the protocol, logs in and names the connection.")
        .history(&[("6.2.0", "Without arguments it only describes the connection.")])
        .arguments(
            "arguments:block(protover:integer auth:block(username:string password:string)@AUTH? \
             clientname:string@SETNAME?)?",
        ),
    EngineSpec::new("select", 2, select, ANY_TIME)
        .locks(Locks::Nothing)
        .databases(Databases::Arguments)
        .in_stream(InStream::ChangesNothing)
        .categories(Categories::CONNECTION)
        .docs(Group::Connection, "1.0.0", "O(1)", "Makes another database the connection's current one.")
        .arguments("index:integer"),
    EngineSpec::new("quit", -1, quit, LOGIN)
        .traits(Traits::NOT_QUEUED.or(Traits::WHILE_SUBSCRIBED))
        .categories(Categories::CONNECTION)
        .docs(Group::Connection, "1.0.0", "O(1)", "Asks the server to close the connection.")
        .deprecated("7.2.0", "closing the connection from the client's side"),
    EngineSpec::new("reset", 1, reset, LOGIN)
        .traits(Traits::NOT_QUEUED.or(Traits::WHILE_SUBSCRIBED))
        .categories(Categories::CONNECTION)
        .docs(Group::Connection, "6.2.0", "O(1)", "Brings the connection back to the state of a new one."),
    EngineSpec::new(
        "monitor",
        1,
        monitor,
        Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
    )
    .docs(
        Group::Server,
        "1.0.0",
        "O(1) for each command shown",
        "Shows every command that the server runs.",
    ),
];
