"""Every kind of conflict, who is named in it, and that all of a job are told at once."""

import pytest

from pipeline.errors import BadInput
from pipeline.records import PodSelection, Requirement, Taint
from rules.hosts.cluster import StreamPod
from rules.hosts.job import read
from tests.support.hosting import host, hosts, job, manifests, placed, planned, refused

BLUE = {"streams.ibm.com/hostpool": "blue"}


def kinds(*given, **more):
    return [(each.conflict, each.pes) for each in refused(*given, **more)]


def test_everything_wrong_with_a_job_is_told_at_once():
    found = refused(
        job(
            'hostColocation("two words")',
            'host("nowhere")',
            'hostIsolation, hostColocation("t")',
            'hostColocation("t")',
            "host(Small[7])",
            "host(Loose[0])",
            hostPools={
                "Small": "createPool({size=2u}, Sys.Shared)",
                "Loose": "createPool(Sys.Shared)",
                "Own": "createPool(Sys.Exclusive)",
                "Twice": '["n1", "n1"]',
                "Huge": "createPool({size=9u}, Sys.Shared)",
            },
        ),
        hosts("n1", "n2"),
    )
    assert sorted((each.conflict, each.pes) for each in found) == [
        ("duplicate-host", ()),
        ("illegal-token", (0,)),
        ("index-out-of-range", (4,)),
        ("isolation-and-colocation", (2, 3)),
        ("no-such-node", (1,)),
        ("pool-too-small", ()),
        ("unsized-exclusive-pool", ()),
        ("unsized-pool-indexed", (5,)),
    ]


@pytest.mark.parametrize(
    ("placements", "expected"),
    [
        (
            [f'host("{name}"), hostColocation("t"), hostExlocation("x")' for name in ("nowhere", "nor here")],
            [("no-such-node", (0,)), ("no-such-node", (1,)), ("colocated-and-exlocated", (0, 1))],
        ),
        (
            ['host("nowhere"), hostColocation("t"), hostIsolation', 'host("nor here"), hostColocation("t")'],
            [("no-such-node", (0,)), ("no-such-node", (1,)), ("isolation-and-colocation", (0, 1))],
        ),
        (
            [f'host("{name}"), hostColocation("t"), hostExlocation("not {name}")' for name in ("n1", "n2")],
            [("illegal-token", (0,)), ("illegal-token", (1,)), ("several-hosts", (0, 1))],
        ),
        (
            ['hostIsolation, host("n1")', 'host("n1")', *['hostExlocation("x")'] * 3],
            [("isolation-and-shared-host", (0, 1)), ("exlocation-exceeds-nodes", (2, 3, 4))],
        ),
        (
            [*['host("n1"), hostExlocation("x")'] * 2, *['hostExlocation("x")'] * 2],
            [("colocated-and-exlocated", (0, 1)), ("exlocation-exceeds-nodes", (0, 2, 3))],
        ),
        (
            ['hostIsolation, host("n1")', 'host("n1")', "hostIsolation", "hostIsolation"],
            [("isolation-and-shared-host", (0, 1)), ("infeasible", (0, 2, 3))],
        ),
        # what only follows from a conflict is none of its own
        (
            ['host("n1"), hostExlocation("x")', 'host("n1"), hostExlocation("x")', 'hostExlocation("x")'],
            [("colocated-and-exlocated", (0, 1))],
        ),
        (
            ['host("nowhere"), hostColocation("t")', 'host("nor here"), hostColocation("t")'],
            [("no-such-node", (0,)), ("no-such-node", (1,))],
        ),
    ],
)
def test_no_conflict_hides_another(placements, expected):
    assert kinds(job(*placements), hosts("n1", "n2")) == expected


@pytest.mark.parametrize("index", [0, 1])
def test_indices_of_a_literal_pool(index):
    found = placed(job(f"host(P[{index}])", hostPools={"P": ["n2", "n1"]}), hosts("n1", "n2"))
    [pod] = manifests(found)
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    named = {"key": "metadata.name", "operator": "In", "values": [["n2", "n1"][index]]}
    assert terms == {"nodeSelectorTerms": [{"matchFields": [named]}]}
    assert kinds(job("host(P[2])", hostPools={"P": ["n2", "n1"]}), hosts("n1", "n2")) == [
        ("index-out-of-range", (0,))
    ]


def test_a_name_and_an_address_of_one_node_are_a_duplicate():
    nodes = [host("n1", None, "10.0.0.1")]
    [conflict] = refused(job("host(P)", hostPools={"P": ["n1", "10.0.0.1"]}), nodes)
    assert (conflict.conflict, conflict.pes) == ("duplicate-host", (0,))
    assert "10.0.0.1" in conflict.message
    assert kinds(job("", hostPools={"P": ["nowhere", "n1"]}), nodes) == [("no-such-node", ())]
    assert kinds(job("", hostPools={"P": ["n1", "n1"]}), nodes) == [("duplicate-host", ())]


def test_conflicts_reach_over_transitive_groups():
    found = job(
        'host("n1"), hostColocation("a")',
        'hostColocation("a"), hostColocation("b")',
        'hostColocation("b"), host("n2")',
    )
    [conflict] = refused(found, hosts("n1", "n2"))
    assert (conflict.conflict, conflict.pes, conflict.tokens) == ("several-hosts", (0, 2), ("a", "b"))


def test_exlocation_over_a_transitive_group():
    found = job(
        'hostExlocation("x"), hostColocation("a")',
        'hostColocation("a"), hostColocation("b")',
        'hostColocation("b"), hostExlocation("x")',
    )
    [conflict] = refused(found, hosts("n1", "n2"))
    assert (conflict.conflict, conflict.pes) == ("colocated-and-exlocated", (0, 2))
    assert conflict.tokens == ("a", "b", "x")


def test_two_operators_of_one_pe_that_say_the_same_exlocation():
    operators = [{"name": name, "placement": 'hostExlocation("x")'} for name in ("A", "B")]
    [conflict] = refused(job(pes=[{"id": 0, "operators": operators}]), hosts("n1", "n2"))
    assert (conflict.conflict, conflict.operators, conflict.tokens) == ("colocated-and-exlocated", ("A", "B"), ("x",))


def test_one_host_named_by_pes_that_must_be_apart():
    assert kinds(job(*['host("n1"), hostExlocation("x")'] * 2), hosts("n1", "n2")) == [
        ("colocated-and-exlocated", (0, 1))
    ]
    assert kinds(job('host("n1"), hostIsolation', 'host("n1")'), hosts("n1", "n2")) == [
        ("isolation-and-shared-host", (0, 1))
    ]
    pool = {"P": "createPool({size=2u}, Sys.Shared)"}
    found = job("host(P[1]), hostIsolation", "", "host(P[1])", hostPools=pool)
    assert kinds(found, hosts("n1", "n2", "n3")) == [("isolation-and-shared-host", (0, 2))]


def test_more_exlocated_pes_than_nodes():
    [conflict] = refused(job(*['hostExlocation("x")'] * 3), hosts("n1", "n2"))
    assert (conflict.conflict, conflict.pes, conflict.tokens) == ("exlocation-exceeds-nodes", (0, 1, 2), ("x",))


def test_of_exlocated_pes_only_those_are_named_that_have_too_few_nodes():
    in_pool = 'host(P), hostExlocation("x")'
    found = job(in_pool, 'hostExlocation("x")', in_pool, in_pool, hostPools={"P": ["n1", "n2"]})
    assert kinds(found, hosts("n1", "n2", "n3", "n4")) == [("exlocation-exceeds-nodes", (0, 2, 3))]
    sized = job(in_pool, 'hostExlocation("x")', in_pool, hostPools={"P": "createPool({size=1u}, Sys.Shared)"})
    assert kinds(sized, hosts("n1", "n2", "n3", "n4")) == [("exlocation-exceeds-nodes", (0, 2))]


def test_isolation_that_leaves_no_node_for_the_others():
    [conflict] = refused(job("hostIsolation", "", "hostIsolation"), hosts("n1", "n2"))
    assert (conflict.conflict, conflict.pes) == ("infeasible", (0, 2, 1))
    placed(job("hostIsolation", "", "hostIsolation", ""), hosts("n1", "n2", "n3"))


def test_overlapping_tokens_are_a_colouring():
    """Five units in a ring of five tokens need three nodes, though no token needs more than two."""
    ring = [f'hostExlocation("t{at}"), hostExlocation("t{(at + 1) % 5}")' for at in range(5)]
    [conflict] = refused(job(*ring, ""), hosts("n1", "n2"))
    assert (conflict.conflict, conflict.pes) == ("infeasible", (0, 1, 2, 3, 4))
    assert sorted(conflict.tokens) == ["t0", "t1", "t2", "t3", "t4"]
    placed(job(*ring, ""), hosts("n1", "n2", "n3"))


def test_tokens_that_have_nothing_to_do_with_it_are_not_blamed():
    ring = [f'hostExlocation("t{at}"), hostExlocation("t{(at + 1) % 3}")' for at in range(3)]
    [conflict] = refused(job(*ring, *['hostExlocation("other")'] * 2), hosts("n1", "n2"))
    assert (conflict.conflict, conflict.pes) == ("infeasible", (0, 1, 2))


def test_time_that_runs_out_is_undecided_and_refused():
    from datetime import timedelta

    from jobs.hosts.solver import within
    from rules.hosts.cluster import Cluster
    from rules.hosts.plan import Refused, plan

    ring = [f'hostExlocation("t{at}"), hostExlocation("t{(at + 1) % 5}")' for at in range(5)]
    given = job(*ring)
    clock = iter([0.0, 10.0])
    found = plan(
        given, Cluster(hosts("n1", "n2"), (), "ex", "default"), within(timedelta(seconds=1), lambda: next(clock))
    )
    assert isinstance(found, Refused)
    [conflict] = found.conflicts
    assert (conflict.conflict, conflict.pes) == ("undecided", (0, 1, 2, 3, 4))


@pytest.mark.parametrize(
    ("state", "template", "said"),
    [
        ({"ready": False}, {}, "not Ready"),
        ({"schedulable": False}, {}, "cordoned"),
        ({"taints": [Taint("gpu", "NoSchedule", "yes")]}, {}, "gpu=yes:NoSchedule"),
        ({"taints": [Taint("gone", "NoExecute")]}, {}, "gone:NoExecute"),
        ({}, {"nodeSelector": {"disk": "ssd"}}, "nodeSelector"),
    ],
)
def test_a_named_node_that_the_pod_cannot_use(state, template, said):
    given = job('host("n1")', template={"spec": template})
    [conflict] = refused(given, [host("n1", **state), host("n2", {"disk": "ssd"})])
    assert (conflict.conflict, conflict.operators) == ("node-unusable", ("A",))
    assert said in conflict.message
    assert "n1" in conflict.message


def test_a_taint_of_the_jobs_value_but_another_effect_keeps_its_pods_off():
    state = {"taints": [Taint("streams.ibm.com/exclusive", "NoExecute", "ex")]}
    assert kinds(job('host("n1")'), [host("n1", **state), host("n2")]) == [("node-unusable", (0,))]
    state = {"taints": [Taint("streams.ibm.com/exclusive", "NoSchedule", "ex")]}
    placed(job('host("n1")'), [host("n1", **state), host("n2")])


def test_a_template_that_tolerates_the_taint_can_use_the_node():
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    found = job('host("n1")', template={"spec": {"tolerations": tolerations}})
    [pod] = manifests(placed(found, [host("n1", taints=[Taint("gpu", "NoSchedule", "yes")])]))
    assert pod["spec"]["nodeName"] == "n1"
    assert tolerations[0] in pod["spec"]["tolerations"]


def test_a_template_that_names_another_node():
    template = {"spec": {"nodeName": "n2"}}
    assert kinds(job('host("n1")', template=template), hosts("n1", "n2")) == [("several-hosts", (0,))]


def test_two_exclusive_pools_with_too_few_nodes_for_both():
    pools = dict.fromkeys(("P", "Q"), 'createPool({size=2u, tags=["blue"]}, Sys.Exclusive)')
    nodes = [*(host(f"n{at}", BLUE) for at in range(3)), *hosts("m1", "m2")]
    [conflict] = refused(job("host(P)", "host(Q)", hostPools=pools), nodes)
    assert (conflict.conflict, conflict.pes) == ("pool-too-small", (0, 1))


def test_partitions_that_contradict_each_other():
    def operator(name, clauses):
        return f'() as {name} = Op() {{ config placement: partitionColocation("p"), {clauses}; }}'

    spl = operator("A", 'partitionExlocation("q")') + operator("B", 'partitionExlocation("q")')
    [conflict] = refused(read({"job": "ex", "spl": spl}, "job"), hosts("n1"))
    assert (conflict.conflict, conflict.operators, conflict.tokens) == (
        "colocated-and-exlocated", ("A", "B"), ("p", "q"),
    )  # fmt: skip
    spl = operator("A", "partitionIsolation") + operator("B", "hostIsolation")
    [conflict] = refused(read({"job": "ex", "spl": spl}, "job"), hosts("n1"))
    assert conflict.conflict == "isolation-and-colocation"


def test_an_operator_that_names_several_hosts():
    [conflict] = refused(job('host("n1"), host("n2")'), hosts("n1", "n2"))
    assert (conflict.conflict, conflict.operators) == ("several-hosts", ("A",))


def test_a_preferred_colocation_contradicts_nothing():
    both = 'hostColocation("t"), hostExlocation("x")'
    pods = manifests(placed(job(both, both, colocation="preferred"), hosts("n1", "n2")))
    for pod in pods:
        [wish] = pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert wish["weight"] == 100
        assert "requiredDuringSchedulingIgnoredDuringExecution" not in pod["spec"]["affinity"]["podAffinity"]


def test_tokens_of_other_jobs_count_in_scope_token_only():
    key = "streams.ibm.com/hostexlocation.B76ADE163D874CC5BC0F408D70CFC165667EEC5F"
    other = StreamPod("other", "default", "n1", {"streams.ibm.com/job": "other", key: "apart"})
    placed(job('hostExlocation("apart")'), hosts("n1"), [other])
    assert [kind for kind, _ in kinds(job('hostExlocation("apart")', scope="token"), hosts("n1"), [other])] == [
        "exlocation-exceeds-nodes"
    ]
    elsewhere = StreamPod("other", "team", "n1", other.labels)
    placed(job('hostExlocation("apart")', scope="token"), hosts("n1"), [elsewhere])


def test_pods_of_other_jobs_keep_their_own_nodes_free_of_the_job():
    """One of scope token does not look at which job a pod is of."""
    key = "streams.ibm.com/hostexlocation.B76ADE163D874CC5BC0F408D70CFC165667EEC5F"
    term = PodSelection((Requirement(key, "In", ("apart",)),), "kubernetes.io/hostname", ("default",))
    other = StreamPod("other", "default", "n1", {"streams.ibm.com/job": "other"}, (term,))
    found = placed(job("host(P)", 'hostExlocation("apart")', hostPools={"P": ["n1"]}), hosts("n1", "n2"), [other])
    assert found.rules[1].freedom[2] == 1, "n2 alone"
    [(kind, pes)] = kinds(job('hostExlocation("apart")'), hosts("n1"), [other])
    assert (kind, pes) == ("exlocation-exceeds-nodes", (0,))
    placed(job('hostExlocation("apart")', namespace="team"), hosts("n1"), [other])


def test_a_cluster_without_nodes_refuses():
    found = planned(job("", ""), [])
    assert [each.conflict for each in found.conflicts] == ["node-unusable", "node-unusable"]


def test_a_job_without_pes_is_placed():
    assert manifests(placed(job(), hosts("n1"))) == []


def test_pools_that_no_operator_could_name_are_errors():
    with pytest.raises(BadInput, match=r"hostPools\.P: a pool of no hosts"):
        job("", hostPools={"P": []})
