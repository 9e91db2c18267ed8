"""Payloads of Top-K sketches without what differs between equal ones: redis-server's have addresses in them, which are
here the state that chance is drawn from."""

PLACE_BYTES = 24
ADDRESS = slice(8, 16)


def length(data, at):
    """A length of a dump, and where it ends."""
    first = data[at]
    if first < 0x40:
        return first, at + 1
    if first < 0x80:
        return (first & 0x3F) << 8 | data[at + 1], at + 2
    size = 4 if first == 0x80 else 8
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


def without_addresses(payload):
    """The value of an uncompressed payload, with zeros for addresses."""
    body = bytearray(payload[:-10])
    _, at = length(body, 1)
    strings = []
    while body[at] != 0:
        opcode, at = length(body, at)
        if opcode == 4:
            at += 8
            continue
        size, at = length(body, at)
        if opcode == 5:
            strings.append((at, size))
            at += size
    start, size = strings[1]
    for place in range(start, start + size, PLACE_BYTES):
        body[place + ADDRESS.start : place + ADDRESS.stop] = bytes(8)
    return bytes(body)
