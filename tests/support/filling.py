"""Data of every type and encoding, with values at the edges of their formats."""

from support.seeds import generator

FAR = 33_177_117_420_000


def fill(connection, field_expiry=True):
    """Keys of every type and encoding, with values at the edges of their formats. Without `field_expiry` no field of
    a hash expires, for servers that know nothing of that."""
    random = generator("dump")
    numbers = [
        0,
        1,
        -1,
        127,
        -128,
        128,
        32767,
        -32768,
        32768,
        2**31 - 1,
        -(2**31),
        2**31,
        2**63 - 1,
        -(2**63),
    ]
    values = [
        "",
        "a",
        "x" * 19,
        "y" * 20,
        "z" * 63,
        "w" * 64,
        "v" * 65,
        "long" * 5000,
        b"\x00\xff\r\n",
        *numbers,
    ]
    values += [random.randbytes(300), "abc" * 100]
    for index, value in enumerate(values):
        connection.call("SET", f"string:{index}", value)
        connection.call("RPUSH", "list:all", value)
        connection.call("HSET", "hash:all", f"field:{index}", value)
        connection.call("SADD", "set:all", value)
        connection.call("ZADD", "zset:all", index, value)
    connection.call("SET", "key with \x00 zero", "v")
    connection.call("SET", "", "empty key")
    for size in (1, 3, 130, 600):
        elements = [f"element:{number}" for number in range(size)]
        connection.call("RPUSH", f"list:{size}", *elements)
        connection.call("SADD", f"set:{size}", *elements)
        connection.call("SADD", f"intset:{size}", *[number * 1000 for number in range(size)])
        connection.call("HSET", f"hash:{size}", *[word for element in elements for word in (element, size)])
        connection.call(
            "ZADD", f"zset:{size}", *[w for i, element in enumerate(elements) for w in (i / 3, element)]
        )
    connection.call("SADD", "intset:wide", 1, 2**40, -(2**62))
    connection.call("SADD", "intset:middle", 1, 70000)
    connection.call(
        "ZADD",
        "zset:edges",
        "inf",
        "a",
        "-inf",
        "b",
        "-0.5",
        "c",
        "5e-324",
        "d",
        "1.7976931348623157e308",
        "e",
    )
    if field_expiry:
        fill_expiring_fields(connection)
    connection.call("SET", "expiring", "v", "PXAT", FAR)
    connection.call("PEXPIREAT", "list:3", FAR + 1)
    connection.call("SELECT", 3)
    connection.call("SET", "in database 3", "v")
    connection.call("SELECT", 0)


def fill_expiring_fields(connection):
    connection.call("HSET", "hash:expiring", "a", "1", "b", "2", "c", "3")
    connection.call("HPEXPIREAT", "hash:expiring", FAR, "FIELDS", 1, "a")
    connection.call("HSET", "hash:expiring:large", *[w for number in range(600) for w in (f"f{number}", "v")])
    connection.call("HPEXPIREAT", "hash:expiring:large", FAR + 12345, "FIELDS", 2, "f1", "f2")
