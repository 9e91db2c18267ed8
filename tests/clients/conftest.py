"""A server of either kind, and redis-py on it in either protocol."""

import pytest
import redis

from support.servers import Server
from support.waiting import PATIENCE_S


@pytest.fixture(scope="module", params=["subject", "oracle"])
def server(request):
    with Server(request.param, workers=2) as server:
        yield server


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(request, server):
    client = redis.Redis(port=server.port, protocol=request.param, decode_responses=True, socket_timeout=PATIENCE_S)
    client.flushall()
    yield client
    client.close()
