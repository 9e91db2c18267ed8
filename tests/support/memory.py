"""What a server says of its memory."""


def figure(connection, name):
    """A line of INFO, as text."""
    text = connection("INFO", "everything").value.decode()
    return next(line.split(":", 1)[1] for line in text.splitlines() if line.startswith(name + ":"))


def used(connection):
    """Bytes in use."""
    return int(figure(connection, "used_memory"))
