"""Decides whether two replies agree. POLICY.md is this file in words."""

import re

from differential.missing_commands import LATER
from support.modules import COMMANDS
from support.resp import Reply

CLIENT_FIELDS_MASKED = set(
    b"id addr laddr fd age idle qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll omem tot-mem io-thread "
    b"tot-net-in tot-net-out tot-cmds events".split()
)
# Integers from here on are taken for moments, in Unix time in ms.
MOMENT_MIN = 1_000_000_000_000
MOMENT_DISTANCE_MAX = 60_000
MONITOR_MOMENT = re.compile(rb"^\d+\.\d{6} \[(\d+) [^\]]*\]")

# ACL categories that a full Redis 8 has of its modules, and redis-server alone has not; that of arrays is of 8.8.
MODULE_CATEGORIES = b"json bloom cuckoo cms topk tdigest timeseries vectorset array".split()
OWN_COMMANDS = tuple(name.encode() for name in ("mantissa.", *COMMANDS, *LATER))

COMMAND_POLICIES = {
    "unordered": "SMEMBERS SINTER SUNION SDIFF HKEYS HVALS KEYS PUBSUB|CHANNELS PUBSUB|SHARDCHANNELS",
    "names": "COMMAND|LIST ACL|CAT",
    "pairs": "HGETALL CONFIG|GET PUBSUB|NUMSUB PUBSUB|SHARDNUMSUB",
    "scan": "SCAN SSCAN HSCAN ZSCAN",
    "shape": "SPOP SRANDMEMBER HRANDFIELD ZRANDMEMBER RANDOMKEY CLIENT|ID MEMORY|USAGE MEMORY|STATS "
    "TIME LASTSAVE SLOWLOG|GET LATENCY|LATEST LATENCY|HISTORY DEBUG|SDSLEN",
    "nested": "COMMAND|INFO COMMAND",
    "near=2": "TTL EXPIRETIME HTTL HEXPIRETIME OBJECT|IDLETIME",
    "near=3": "OBJECT|FREQ",
    "near=60000": "XPENDING XINFO|CONSUMERS",
    "moments": "XINFO|STREAM",
    "near=2000": "PTTL PEXPIRETIME HPTTL HPEXPIRETIME",
    "client": "CLIENT|LIST CLIENT|INFO",
    "acl_log": "ACL|LOG",
    "hello": "HELLO",
    "kind": "LOLWUT MEMORY|DOCTOR MEMORY|MALLOC-STATS LATENCY|DOCTOR DEBUG|OBJECT DEBUG|HTSTATS "
    "DEBUG|HTSTATS-KEY DEBUG|LISTPACK DEBUG|JMAP INFO COMMAND|DOCS LATENCY|HISTOGRAM",
}
POLICY_OF = {name: policy for policy, names in COMMAND_POLICIES.items() for name in names.split()}


def policy_of(args):
    """The policy of a command by its name, or by its name and subcommand."""
    if not args:
        return "exact"
    name = args[0].decode("latin-1").upper()
    if name == "COMMAND" and len(args) <= 2 and (args[1:] or [b"INFO"])[0].upper() == b"INFO":
        return "kind"  # all commands: redis-server has modules built in
    if len(args) > 1:
        policy = POLICY_OF.get(f"{name}|{args[1].decode('latin-1').upper()}")
        if policy or args[1].upper() == b"HELP":
            return policy or "kind"
    if name == "XPENDING" and len(args) == 3:
        return "exact"
    cursor = args[1:2] if name == "SCAN" else args[2:3]
    if POLICY_OF.get(name) == "scan" and cursor != [b"0"]:
        return "kind"
    return POLICY_OF.get(name, "exact")


def agree(policy, oracle, subject):
    """Whether the subject's reply is as good as the oracle's."""
    if oracle.raw == subject.raw:
        return True
    name, _, argument = policy.partition("=")
    if oracle.is_error or subject.is_error:
        return name == "ignore" or (name == "code" and first_word(oracle) == first_word(subject))
    if name == "near":
        return near(oracle, subject, int(argument))
    return COMPARERS[name](oracle, subject)


def agree_exec(policies, oracle, subject):
    """EXEC's replies, each compared by the policy of its own command."""
    if oracle.raw == subject.raw:
        return True
    if not (oracle.is_aggregate and subject.is_aggregate and oracle.kind == subject.kind):
        return False
    if not len(oracle.value) == len(subject.value) == len(policies):
        return False
    return all(map(agree, policies, oracle.value, subject.value))


def first_word(reply):
    return reply.kind, reply.value.split(b" ")[0]


def elements(reply, step):
    """The elements of an aggregate in groups of `step`, sorted."""
    raws = [element.raw for element in reply.value]
    return sorted(tuple(raws[start : start + step]) for start in range(0, len(raws), step))


def groups_agree(oracle, subject, step):
    if oracle.kind != subject.kind or not (oracle.is_aggregate and subject.is_aggregate):
        return False
    return elements(oracle, step) == elements(subject, step)


def unordered(oracle, subject):
    return groups_agree(oracle, subject, 1)


def pairs(oracle, subject):
    return groups_agree(oracle, subject, 2)


def nested(oracle, subject):
    return sorted_deeply(oracle) == sorted_deeply(subject)


def sorted_deeply(reply):
    """A reply as text in which the elements of every aggregate are sorted, and without the text of remarks."""
    if not reply.is_aggregate:
        return repr(reply.raw)
    shown, is_remark = [], False
    for element in reply.value:
        shown.append(element.kind if is_remark else sorted_deeply(element))
        is_remark = element.value == b"notes"
    return f"{reply.kind}({' '.join(sorted(shown))})"


def scan(oracle, subject):
    if not same_kind(oracle, subject) or not oracle.is_aggregate or len(subject.value) != len(oracle.value):
        return False
    if len(oracle.value) != 2 or b"0" != oracle.value[0].value or b"0" != subject.value[0].value:
        return same_kind(oracle.value[0], subject.value[0]) and same_kind(oracle.value[1], subject.value[1])
    return unordered(oracle.value[1], subject.value[1])


def same_kind(oracle, subject):
    return oracle.kind == subject.kind and oracle.is_null == subject.is_null


def shape(oracle, subject):
    if not same_kind(oracle, subject):
        return False
    if not oracle.is_aggregate:
        return True
    return len(oracle.value) == len(subject.value) and all(map(shape, oracle.value, subject.value))


def near(oracle, subject, distance):
    if oracle.is_aggregate and subject.is_aggregate:
        same = oracle.kind == subject.kind and len(oracle.value) == len(subject.value)
        return same and all(near(left, right, distance) for left, right in zip(oracle.value, subject.value))
    if oracle.kind != ":" or subject.kind != ":":
        return oracle.raw == subject.raw
    left, right = int(oracle.value), int(subject.value)
    return left == right or (left >= 0 and right >= 0 and abs(left - right) <= distance)


def moments(oracle, subject):
    if oracle.is_aggregate and subject.is_aggregate:
        same = oracle.kind == subject.kind and len(oracle.value) == len(subject.value)
        return same and all(map(moments, oracle.value, subject.value))
    if oracle.kind != ":" or subject.kind != ":" or min(int(oracle.value), int(subject.value)) < MOMENT_MIN:
        return oracle.raw == subject.raw
    return abs(int(oracle.value) - int(subject.value)) <= MOMENT_DISTANCE_MAX


def client(oracle, subject):
    if not same_kind(oracle, subject) or oracle.value is None:
        return False
    return masked_clients(oracle.value) == masked_clients(subject.value)


def masked_clients(text):
    """CLIENT LIST without what is the server's own: each line's fields, the changing ones without value."""
    lines = []
    for line in text.removeprefix(b"txt:").split(b"\n"):
        fields = [field.partition(b"=") for field in line.split(b" ")]
        lines.append([(name, b"*" if name in CLIENT_FIELDS_MASKED else value) for name, _, value in fields])
    return sorted(lines)


def acl_log(oracle, subject):
    if not oracle.is_aggregate or not subject.is_aggregate:
        return False
    if oracle.kind != subject.kind or len(oracle.value) != len(subject.value):
        return False
    return all(map(same_refusal, oracle.value, subject.value))


def same_refusal(oracle, subject):
    """Two entries of ACL LOG: everything but the client, how old they are, and when they were made."""
    if oracle.kind != subject.kind or len(oracle.value) != len(subject.value):
        return False
    own = {b"age-seconds", b"client-info", b"timestamp-created", b"timestamp-last-updated"}
    masked = {index + 1 for index, field in enumerate(oracle.value) if field.value in own}
    return all(
        left.kind == right.kind if index in masked else left.raw == right.raw
        for index, (left, right) in enumerate(zip(oracle.value, subject.value))
    )


def monitor(oracle, subject):
    if not same_kind(oracle, subject) or oracle.value is None:
        return False
    return MONITOR_MOMENT.sub(rb"[\1]", oracle.value) == MONITOR_MOMENT.sub(rb"[\1]", subject.value)


def hello(oracle, subject):
    if oracle.kind != subject.kind or len(oracle.value) != len(subject.value):
        return False
    own = [index + 1 for index, field in enumerate(oracle.value) if field.value in (b"id", b"modules")]
    return all(
        index in own or left.raw == right.raw
        for index, (left, right) in enumerate(zip(oracle.value, subject.value))
    )


def names(oracle, subject):
    """The multisets of elements, without the commands and categories that only this server has."""
    left = [element.raw for element in oracle.value]
    right = [element.raw for element in subject.value if not is_own(element.value)]
    return oracle.kind == subject.kind and sorted(left) == sorted(right)


def is_own(name):
    return name in MODULE_CATEGORIES or name.startswith(OWN_COMMANDS)


COMPARERS = {
    "exact": lambda oracle, subject: False,  # equal bytes never get this far
    "code": lambda oracle, subject: False,
    "unordered": unordered,
    "names": names,
    "pairs": pairs,
    "nested": nested,
    "scan": scan,
    "shape": shape,
    "moments": moments,
    "client": client,
    "monitor": monitor,
    "acl_log": acl_log,
    "hello": hello,
    "kind": same_kind,
    "ignore": lambda oracle, subject: True,
}


def known(policy):
    """Whether a policy of this name exists."""
    name, _, argument = policy.partition("=")
    return name in COMPARERS or (name == "near" and argument.isdigit())


def simple(text):
    """A made-up simple reply, to stand for something that happened instead of a reply."""
    data = text.encode()
    return Reply("+", data, b"+" + data + b"\r\n")
