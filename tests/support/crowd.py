"""Many clients at once: threads that work until they are told to stop, whose failures fail the test."""

import threading

from support.resp import Closed
from support.waiting import PATIENCE_S



class Crowd:
    """Runs functions of (connection, random, stop) in threads, each on its own connection."""

    def __init__(self, server):
        self.server = server
        self.threads, self.failures = [], []
        self.stop = threading.Event()

    def start(self, work, random, protocol=2):
        """Run `work(connection, random, stop)` in a thread of its own."""

        def run():
            try:
                with self.server.connect(protocol, timeout=PATIENCE_S) as connection:
                    work(connection, random, self.stop)
            except (Exception, Closed) as failure:  # whatever it is, the test must hear of it
                self.failures.append(failure)
                self.stop.set()

        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def join(self, threads=None):
        """Wait for threads (all of them if not told which) and raise the first failure."""
        for thread in threads or self.threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a client hangs"
        if self.failures:
            raise self.failures[0]
