"""On small clusters: what is accepted can be placed, what is refused cannot, and the pods say just that."""

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pipeline.records import Taint
from rules.hosts.actions import wanted
from rules.hosts.plan import Plan
from tests.support.hosting import changed, host, job, manifests, planned
from tests.support.placements import placements, schedulable

TAG = "streams.ibm.com/hostpool"
NAMES = ["n0", "n1", "n2", "n3"]
POOLS = {
    "L": ['["n0", "n1"]', '["n1"]', '["n2", "n0", "n3"]', '["n1", "n1"]'],
    "T": ['createPool({tags=["blue"]}, Sys.Shared)'],
    "S": [f"createPool({{size={size}u}}, Sys.Shared)" for size in (1, 2)]
    + ['createPool({size=1u, tags=["blue"]}, Sys.Shared)'],
    "E": [f"createPool({{size={size}u}}, Sys.Exclusive)" for size in (1, 2)]
    + ['createPool({size=1u, tags=["blue"]}, Sys.Exclusive)'],
}
TOKENS = ['hostColocation("a")', 'hostColocation("b")', 'hostExlocation("x")', 'hostExlocation("y")', "hostIsolation"]
HOSTS = [
    *['host("n0")', 'host("n1")', "host(L)", "host(L[0])", "host(L[1])", "host(T)", "host(S)", "host(S[0])"],
    *["host(S[1])", "host(E)", "host(E[0])"],
]

nodes = st.lists(
    st.tuples(st.sampled_from(["", "", "blue"]), st.sampled_from(["up"] * 8 + ["tainted", "down"])),
    min_size=1,
    max_size=4,
)


@st.composite
def jobs(draw):
    pools = {name: draw(st.sampled_from(forms)) for name, forms in POOLS.items() if draw(st.integers(0, 2)) == 0}
    named = [each for each in HOSTS if each[5] == '"' or each[5] in pools]
    named = draw(st.lists(st.sampled_from(named), min_size=1, max_size=2))  # the same ones meet more often
    tokens = st.lists(st.sampled_from(TOKENS), max_size=2, unique=True)
    hosts = st.sampled_from([[], [], []] + [[each] for each in named] + [named])
    placement = st.tuples(tokens, hosts).map(lambda parts: ", ".join([*parts[0], *parts[1]]))
    return job(*draw(st.lists(placement, min_size=2, max_size=4)), hostPools=pools)


def cluster(drawn):
    return [
        host(
            NAMES[number],
            {TAG: tag} if tag else {},
            ready=state != "down",
            taints=[Taint("dedicated", "NoSchedule", "other")] if state == "tainted" else [],
        )
        for number, (tag, state) in enumerate(drawn)
    ]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(jobs(), nodes)
def test_the_checker_is_exact_and_the_pods_admit_just_the_placements(given_job, drawn):
    there = cluster(drawn)
    found = planned(given_job, there)
    possible = next(placements(given_job, there), None)
    if not isinstance(found, Plan):
        event("refused: " + ", ".join(sorted({each.conflict for each in found.conflicts})))
        assert possible is None, found
        assert "undecided" not in {each.conflict for each in found.conflicts}
        return
    event("accepted")
    assert possible is not None
    actions = {each.name: each for each in wanted(found, [each.node for each in there])}
    prepared = [
        changed(each, actions[each.node.name].labels, actions[each.node.name].taints)
        if each.node.name in actions
        else each
        for each in there
    ]
    assert schedulable(manifests(found), prepared) == set(placements(given_job, there, found.pools))
    again = planned(given_job, prepared)
    assert isinstance(again, Plan)
    assert again.pools == found.pools
    assert manifests(again) == manifests(found)
