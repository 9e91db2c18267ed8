"""Fixtures for servers that replicate."""

import pytest

from support.replication import PAIRS, Node, Proxy, stand_in, wanted
from support.servers import starting


@pytest.fixture
def start_node(request):
    """Starts nodes that end with the test; on failure their folders are kept and their logs shown."""
    yield from starting(request, Node)


@pytest.fixture(params=wanted(PAIRS))
def pair(request, start_node):
    """A primary and what is to be its replica, of every pair of kinds."""
    kinds = stand_in(request.param)
    return start_node(kinds[0]), start_node(kinds[1])


@pytest.fixture
def make_proxy():
    """Makes proxies that end with the test."""
    proxies = []

    def make(target):
        proxies.append(Proxy(target))
        return proxies[-1]

    yield make
    for proxy in proxies:
        proxy.close()
