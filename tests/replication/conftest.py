"""Fixtures for servers that replicate."""

import pytest

from support.replication import Node


@pytest.fixture
def start_node(request):
    """Starts nodes that end with the test; on failure their folders are kept and their logs shown."""
    nodes = []

    def start(kind, **options):
        node = Node(kind, **options)
        nodes.append(node)
        return node

    yield start
    report = getattr(request.node, "report_call", None)
    for node in nodes:
        if report is not None and report.failed:
            node.keep()
            print(f"{node.kind} at {node.port}: {node.directory}\n{node.log_tail()}")
        node.stop()
