"""Pools: which nodes are chosen, that they stay, what they ask of nodes, and what is left when a job goes."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from msgspec import structs

from pipeline.records import Taint
from rules.hosts import keys
from rules.hosts.actions import released, wanted
from rules.hosts.cluster import StreamPod
from tests.support.hosting import changed, host, hosts, job, manifests, placed, refused

SHARED = {"P": "createPool({size=2u}, Sys.Shared)"}
OWN = {"P": "createPool({size=2u}, Sys.Exclusive)"}
MEMBER = keys.member("ex", "P")
START = datetime(2026, 1, 1, tzinfo=UTC)


def after(found, nodes):
    """The nodes as they are when everything that *found* asks for was done."""
    actions = {each.name: each for each in wanted(found, [each.node for each in nodes])}
    return [
        changed(each, actions[each.node.name].labels, actions[each.node.name].taints)
        if each.node.name in actions
        else each
        for each in nodes
    ]


def test_the_choice_does_not_depend_on_the_order_of_the_nodes():
    nodes = hosts(*(f"n{at}" for at in range(6)))
    expected = placed(job("host(P)", hostPools=SHARED), nodes).pools
    random.Random(1).shuffle(nodes)
    assert placed(job("host(P)", hostPools=SHARED), nodes).pools == expected == {"P": ("n0", "n1")}


def test_nodes_that_are_added_later_change_no_choice():
    """By the labels that were set, by what was stored, and by age where neither is there."""
    given = job("host(P[1])", "host(P)", hostPools=OWN)
    nodes = [replace(each, created=START) for each in hosts("m1", "m2", "m3")]
    before = placed(given, nodes)
    new = [replace(each, created=START + timedelta(days=1)) for each in hosts("a1", "a2")]
    assert placed(given, [*new, *nodes]).pools == before.pools
    unaged = [replace(each, created=None) for each in new]
    assert placed(given, [*unaged, *after(before, nodes)]).pools == before.pools
    assert placed(given, [*unaged, *nodes], before=before.pools).pools == before.pools
    assert placed(given, [*unaged, *nodes]).pools != before.pools, "else the rest says nothing"


def test_a_node_that_is_gone_is_replaced_and_the_others_keep_their_index():
    given = job("host(P[0])", "host(P[1])", hostPools=OWN)
    nodes = hosts("n1", "n2", "n3")
    before = placed(given, nodes)
    assert before.pools == {"P": ("n1", "n2")}
    [_, *left] = after(before, nodes)
    assert placed(given, left).pools == {"P": ("n3", "n2")}
    assert placed(given, left, before=before.pools).pools == {"P": ("n3", "n2")}


def test_a_node_that_is_cordoned_is_replaced():
    given = job("host(P)", hostPools=SHARED)
    nodes = after(placed(given, hosts("n1", "n2", "n3")), hosts("n1", "n2", "n3"))
    nodes[0] = replace(nodes[0], node=structs.replace(nodes[0].node, schedulable=False))
    found = placed(given, nodes)
    assert found.pools == {"P": ("n2", "n3")}
    stale = {each.name: each for each in wanted(found, [each.node for each in nodes])}["n1"]
    assert (stale.stale, stale.labels) == ((MEMBER,), {})


def test_what_a_shared_pool_asks_of_nodes():
    found = placed(job("host(P[1])", "host(P)", hostPools=SHARED), hosts("n1", "n2", "n3"))
    first, second = wanted(found, [each.node for each in hosts("n1", "n2", "n3")])
    assert (first.name, first.labels, first.taints) == ("n1", {MEMBER: "ex"}, ())
    assert (second.name, second.labels) == ("n2", {MEMBER: "ex", keys.member("ex", "P", 1): "ex"})
    indexed, pooled = manifests(found)
    for pod, key in ((indexed, keys.member("ex", "P", 1)), (pooled, MEMBER)):
        [term] = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert term == {"matchExpressions": [{"key": key, "operator": "In", "values": ["ex"]}]}
        assert "tolerations" not in pod["spec"]


def test_keys_are_digests_of_job_pool_and_index():
    import hashlib

    digest = hashlib.sha1(b"ex/P/1").hexdigest().upper()
    assert keys.member("ex", "P", 1) == f"streams.ibm.com/hostpool-member.{digest}"
    assert f"streams.ibm.com/hostpool-member.{hashlib.sha1(b'ex/P').hexdigest().upper()}" == MEMBER


def test_an_exclusive_pool_taints_its_nodes_and_only_its_users_tolerate_it():
    found = placed(job("host(P)", "", hostPools=OWN), hosts("n1", "n2", "n3"))
    taint = {"key": "streams.ibm.com/exclusive", "value": "ex", "effect": "NoSchedule"}
    assert [each.taints for each in wanted(found, [each.node for each in hosts("n1", "n2")])] == [(taint,), (taint,)]
    pooled, other = manifests(found)
    wanted_toleration = {
        "key": "streams.ibm.com/exclusive",
        "operator": "Equal",
        "value": "ex",
        "effect": "NoSchedule",
    }
    assert pooled["spec"]["tolerations"] == [wanted_toleration]
    assert "tolerations" not in other["spec"]


def test_a_pod_that_tolerates_everything_is_kept_off_exclusive_nodes_by_their_label():
    tolerant = {"spec": {"tolerations": [{"operator": "Exists"}]}}
    found = placed(job("host(P)", "", hostPools=OWN, template=tolerant), hosts("n1", "n2", "n3"))
    _, other = manifests(found)
    [term] = other["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchExpressions": [{"key": MEMBER, "operator": "DoesNotExist"}]}


def test_exclusive_nodes_run_no_pe_of_another_job_and_are_in_no_pool_of_one():
    nodes = [host("n1"), host("n2", {keys.member("other", "Q"): "other"}), *hosts("n3", "n4"), host("n5")]
    nodes[4] = host("n5", taints=[Taint(keys.EXCLUSIVE, "NoSchedule", "other")])
    pods = [
        StreamPod("other", "default", "n1", {}),
        StreamPod("ex", "default", "n3", {}),
    ]
    assert placed(job("host(P)", hostPools=OWN), nodes, pods).pools == {"P": ("n3", "n4")}
    assert placed(job("host(P)", hostPools=SHARED), nodes, pods).pools == {"P": ("n1", "n2")}
    [conflict] = refused(job("host(P)", hostPools=OWN), nodes[:3], pods)
    assert conflict.conflict == "pool-too-small"


def test_a_pool_of_a_namespace_s_job_is_not_that_of_another_namespace():
    pods = [StreamPod("ex", "team", "n1", {})]
    assert placed(job("host(P)", hostPools=OWN), hosts("n1", "n2", "n3"), pods).pools == {"P": ("n2", "n3")}


def test_an_exclusive_pool_leaves_nodes_that_others_name():
    found = placed(job("host(P)", 'host("n1")', hostPools=OWN), hosts("n1", "n2", "n3"))
    assert found.pools == {"P": ("n2", "n3")}


def test_nodes_are_chosen_so_that_a_placement_is_left():
    """The first node alone would do for the pool, but then the two that must be apart share it."""
    pools = {"P": "createPool({size=1u}, Sys.Shared)"}
    found = placed(
        job('host(P), hostExlocation("x")', 'host("n1"), hostExlocation("x")', hostPools=pools), hosts("n1", "n2")
    )
    assert found.pools == {"P": ("n2",)}


def test_pools_with_tags_take_only_tagged_nodes():
    pools = {"P": 'createPool({size=1u, tags=["ib", "blue"]}, Sys.Shared)'}
    both = {keys.tag("ib"): "", keys.tag("blue"): "x"}
    nodes = [host("n1", {keys.TAG: "ib"}), host("n2", {keys.tag("ib"): ""}), host("n3", both)]
    assert placed(job("host(P)", hostPools=pools), nodes).pools == {"P": ("n3",)}


def test_release_takes_off_what_is_the_job_s_and_nothing_else():
    theirs = Taint(keys.EXCLUSIVE, "NoSchedule", "other")
    nodes = hosts("n1", "n2", "n3")
    mine = after(placed(job("host(P[0])", hostPools=OWN), nodes), nodes)
    mine[2] = host("n3", {keys.member("other", "Q"): "other", keys.TAG: "blue"}, taints=[theirs])
    found = released("ex", [each.node for each in mine])
    assert [(each.name, set(each.stale), each.untaint) for each in found] == [
        ("n1", {MEMBER, keys.member("ex", "P", 0)}, True),
        ("n2", {MEMBER}, True),
    ]
    assert released("ex", [each.node for each in nodes]) == []


def test_what_an_action_changes_can_be_taken_back():
    nodes = hosts("n1", "n2")
    found = placed(job("host(P[0])", hostPools=OWN), nodes)
    [action, _] = wanted(found, [each.node for each in nodes])
    assert action.changes(nodes[0].node)
    done = changed(nodes[0], action.labels, action.taints).node
    assert not action.changes(done)
    back = action.inverse(nodes[0].node)
    assert set(back.stale) == set(action.labels)
    assert back.untaint
    assert not action.inverse(done).untaint
