"""Reads all data of a server through its commands, in a form that two servers with the same data share."""

import time

from support.resp import show
from support.top_k import without_addresses

EXPIRY_MILLISECONDS_NEAR = 2000
# What expires this soon may be gone before it is looked at again.
SOON_MS = 20_000


def databases(connection):
    """The numbers of the databases that hold keys."""
    found, number = [], 0
    while not connection("SELECT", number).is_error:
        if connection.call("DBSIZE"):
            found.append(number)
        number += 1
    return found


def all_keys(connection):
    keys, cursor = set(), b"0"
    while True:
        cursor, found = connection.call("SCAN", cursor, "COUNT", 1000)
        keys.update(found)
        if cursor == b"0":
            return sorted(keys)


def pairs_of(reply):
    """Field-value pairs, sorted, from a flat or a nested reply."""
    values = reply.plain()
    if values and isinstance(values[0], list):
        return sorted(map(tuple, values))
    return sorted(zip(values[::2], values[1::2]))


def in_batches(connection, requests_of, keys):
    """For every key the replies to its requests, pipelined."""
    requests = [request for key in keys for request in requests_of(key)]
    replies = iter(connection.pipeline(requests))
    return {key: [next(replies) for _ in requests_of(key)] for key in keys}


def read_key(connection, key, kind):
    """The contents of one key as its type defines them."""
    if kind == b"string":
        return connection("GET", key).value
    if kind == b"list":
        return [element.value for element in connection("LRANGE", key, 0, -1).value]
    if kind == b"set":
        return sorted(element.value for element in connection("SMEMBERS", key).value)
    if kind == b"zset":
        values = connection("ZRANGE", key, 0, -1, "WITHSCORES").plain()
        return values if values and isinstance(values[0], list) else list(zip(values[::2], values[1::2]))
    if kind == b"hash":
        return pairs_of(connection("HGETALL", key))
    if kind == b"stream":
        return connection("XRANGE", key, "-", "+").plain()
    if kind == b"TopK-TYPE":
        return without_addresses(connection("DUMP", key).value)
    if kind == b"vectorset":
        # The graph of a payload depends on chance.
        return connection("DEBUG", "DIGEST-VALUE", key).plain()
    return connection("DUMP", key).value


def field_expiries(connection, key, contents):
    """The moments at which fields of a hash expire, in milliseconds; -1 where they do not."""
    fields = [field for field, _ in contents]
    moments = {}
    for start in range(0, len(fields), 500):
        part = fields[start : start + 500]
        reply = connection("HPEXPIRETIME", key, "FIELDS", len(part), *part)
        if reply.is_error and reply.text().startswith("ERR unknown command"):
            return dict.fromkeys(fields, -1)
        moments |= zip(part, reply.plain())
    return moments


def read_state(connection, encodings=True):
    """Everything in the server: {(database, key): (type, encoding, expiry, contents, field expiries)}."""
    state = {}
    for database in databases(connection):
        connection.call("SELECT", database)
        keys = all_keys(connection)
        heads = in_batches(
            connection, lambda key: [("TYPE", key), ("OBJECT", "ENCODING", key), ("PEXPIRETIME", key)], keys
        )
        for key in keys:
            kind, encoding, expiry = (reply.plain() for reply in heads[key])
            contents = read_key(connection, key, kind)
            expiries = field_expiries(connection, key, contents) if kind == b"hash" and contents else {}
            state[database, key] = (kind, encoding if encodings else None, expiry, contents, expiries)
    connection.call("SELECT", 0)
    return state


def lasting(state):
    """The part of a state that does not expire while a test runs."""
    soon = time.time() * 1000 + SOON_MS
    return {
        place: value
        for place, value in state.items()
        if not 0 < value[2] < soon and not any(0 < moment < soon for moment in value[4].values())
    }


def whole_state(connection):
    """The data, and what belongs to it beside: the groups of streams, and functions."""
    state = lasting(read_state(connection, encodings=False))
    for (database, key), (kind, *_) in list(state.items()):
        if kind == b"stream":
            connection.call("SELECT", database)
            groups = without_times(connection("XINFO", "STREAM", key, "FULL", "COUNT", 0).plain())
            state[database, key + b" (groups)"] = (b"groups", None, -1, groups, {})
    connection.call("SELECT", 0)
    functions = connection("FUNCTION", "LIST", "WITHCODE").plain()
    state[-1, b"functions"] = (b"functions", None, -1, sorted(map(repr, functions)), {})
    return state


def without_times(value):
    """XINFO's reply without what depends on the time at which it is asked, on how nodes were split, or on a consumer
    that reads again what it has, which nobody logs: when and how often an entry was delivered."""
    if not isinstance(value, list):
        return value
    if len(value) >= 3 and all(isinstance(part, int) for part in value[-2:]):
        return value[:-2]
    names = (b"seen-time", b"active-time", b"radix-tree-keys", b"radix-tree-nodes")
    kept, skip = [], False
    for element in value:
        if not skip and element not in names:
            kept.append(without_times(element))
        skip = not skip and element in names
    return kept


def moments_agree(left, right, near):
    return left == right or (left > 0 and right > 0 and abs(left - right) <= near)


def differences(oracle, subject, near=EXPIRY_MILLISECONDS_NEAR):
    """What differs between two states, in words. Moments may be `near` milliseconds apart."""
    found = []
    for place in sorted(oracle.keys() | subject.keys()):
        name = f"db{place[0]} {show(place[1])}"
        left, right = oracle.get(place), subject.get(place)
        if left is None or right is None:
            found.append(f"{name}: oracle has {brief(left)}, subject has {brief(right)}")
            continue
        for part, a, b in zip(("type", "encoding", "expiry", "contents"), left, right):
            if not (moments_agree(a, b, near) if part == "expiry" else a == b):
                found.append(f"{name}: {part}: oracle {brief(a)}, subject {brief(b)}")
        for field in left[4].keys() | right[4].keys():
            a, b = left[4].get(field, -2), right[4].get(field, -2)
            if not moments_agree(a, b, near):
                found.append(f"{name}: expiry of field {show(field)}: oracle {a}, subject {b}")
    return found


def brief(value, limit=300):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."
