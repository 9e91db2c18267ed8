"""What primaries and replicas say of themselves, allow and refuse: each scenario is played on a pair of redis-servers
first, then on pairs with this server on either or both sides, which must be seen to do the same."""

import pytest

from replication import scenarios, scenarios_of_change
from replication.stage import Stage
from support.replication import Node, Proxy, link, until, wanted
from support.servers import subject_is_oracle

SCENARIOS = scenarios.SCENARIOS | scenarios_of_change.SCENARIOS
SUBJECTS = [("mantissa", "mantissa"), ("redis", "mantissa"), ("mantissa", "redis")]
SEEN = {}


def play(name, kinds, start_node, make_proxy):
    scenario, options = SCENARIOS[name]
    primary = start_node(kinds[0], **options.get("primary", {}))
    replica = start_node(kinds[1], **options.get("replica", {}))
    stage = Stage(primary, replica, start_node, make_proxy)
    scenario(stage)
    return stage.seen


def of_redis(name):
    """What is seen of a pair of redis-servers."""
    if name not in SEEN:
        made = []

        def make(constructor, *arguments, **options):
            made.append((constructor(*arguments, **options)))
            return made[-1]

        try:
            SEEN[name] = play(
                name,
                ("redis", "redis"),
                lambda kind, **options: make(Node, kind, **options),
                lambda target: make(Proxy, target),
            )
        finally:
            for one in reversed(made):
                one.stop() if isinstance(one, Node) else one.close()
    return SEEN[name]


@pytest.mark.parametrize("kinds", wanted(SUBJECTS[:1] if subject_is_oracle() else SUBJECTS))
@pytest.mark.parametrize("name", SCENARIOS)
def test_as_redis(name, kinds, start_node, make_proxy):
    expected = of_redis(name)
    kinds = ("redis", "redis") if subject_is_oracle() else kinds
    found = play(name, kinds, start_node, make_proxy)
    differ = [
        f"{left[0]}\n  redis:   {left[1]}\n  subject: {right[1]}"
        for left, right in zip(expected, found)
        if left != right
    ]
    assert not differ, "\n" + "\n".join(differ[:8])
    assert found == expected


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server looks at random keys, and takes long")
def test_a_writable_replica_with_many_keys_of_its_own(start_node):
    primary, replica = start_node("mantissa"), start_node("mantissa", replica_read_only="no")
    link(replica, primary)
    many, few = 3000, 50
    with replica.connect() as connection:
        for number in range(many):
            connection.call("SET", f"stays{number}", "v", "EX", "1000")
        for number in range(few):
            connection.call("SET", f"soon{number}", "v", "PX", "20")
    until(lambda: replica.call("DBSIZE") == many, "what it wrote itself does not expire")
