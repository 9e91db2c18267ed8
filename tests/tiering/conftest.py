"""Servers that keep values on disk."""

import pytest


@pytest.fixture
def tiered(start_server, tmp_path, request):
    """Starts servers with a folder for values, and with as little memory as the module's `LIMIT_BYTES`."""

    def start(**options):
        folder = tmp_path / "tier"
        folder.mkdir(exist_ok=True)
        limit = str(request.module.LIMIT_BYTES)
        options = {"maxmemory": limit, "tier-dir": str(folder), "save": ""} | options
        return start_server(options=options, workers=2)

    return start
