"""Required rules about other pods, the pod's own and those of pods that run, against an oracle of the scheduler."""

from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.objects import pod_of
from rules.policy import Policy
from rules.recommend import Recommendation, recommend
from rules.view import prepare
from tests.support import scheduling
from tests.support.scheduling import PREFERRED, REQUIRED
from tests.support.worlds import NOW, World, critical, flow, names, node, of_workflow, pod

NODES = [
    node("A", {"zone": "z1"}),
    node("B", {"zone": "z1"}),
    node("C", {"zone": "z2"}),
    node("D"),
]
OWN = "colocation.internal"


def term(
    key: str = "kubernetes.io/hostname", /, namespaces: list[str] | None = None, **labels: str
) -> dict[str, Any]:
    found: dict[str, Any] = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return found if namespaces is None else {**found, "namespaces": namespaces}


def affinity(beside: Any = (), apart: Any = ()) -> dict[str, Any]:
    kinds = {"podAffinity": list(beside), "podAntiAffinity": list(apart)}
    return {"affinity": {kind: {REQUIRED: terms} for kind, terms in kinds.items() if terms}}


def there(where: str, namespace: str = "ow", spec: dict[str, Any] | None = None, **labels: str) -> dict[str, Any]:
    """A pod that runs on node *where*."""
    return {
        "metadata": {"name": f"p-{where}", "namespace": namespace, "labels": labels},
        "spec": {"nodeName": where, "containers": [], **(spec or {})},
        "status": {"phase": "Running"},
    }


def advise(manifest: dict[str, Any], *running: dict[str, Any], mode: Any = "prefer", **world: Any) -> Recommendation:
    return World(NODES, pods=[pod_of(each) for each in running], **world).advise(manifest, mode)


def new(spec: dict[str, Any] | None = None, **labels: str) -> dict[str, Any]:
    return pod(labels=labels, spec=spec or {})


def spread(key: str = "zone", skew: int = 1, **more: Any) -> dict[str, Any]:
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                  "labelSelector": {"matchLabels": {"app": "web"}}, **more}  # fmt: skip
    return {"topologySpreadConstraints": [constraint]}


def test_the_pods_own_affinity_leaves_the_domain_of_what_it_wants():
    answer = advise(new(affinity(beside=[term("zone", app="db")])), there("A", app="db"))
    assert set(names(answer)) == {"A", "B"}
    assert any("own affinity to other pods admits 2 of 4" in reason.sentence for reason in answer.reasons)


def test_two_terms_speak_of_the_same_pod():
    """A database here and a cache there do not make a pod that is both."""
    wanted = affinity(beside=[term(app="db"), term(tier="fast")])
    assert not advise(new(wanted), there("A", app="db"), there("A", tier="fast")).satisfiable
    assert names(advise(new(wanted), there("A", app="db", tier="fast"))) == ["A"]


def test_the_first_of_a_kind_may_go_anywhere_in_a_domain():
    wanted = affinity(beside=[term("zone", app="db")])
    assert set(names(advise(new(wanted, app="db")))) == {"A", "B", "C"}
    assert not advise(new(wanted, app="web")).satisfiable


def test_the_pods_own_anti_affinity_takes_away_the_domain():
    answer = advise(new(affinity(apart=[term("zone", app="db")])), there("A", app="db"))
    assert set(names(answer)) == {"C", "D"}


def test_anti_affinity_of_a_pod_that_runs_reaches_one_that_never_asked():
    loner = there("A", spec=affinity(apart=[term("zone", app="web")]), app="loner")
    assert set(names(advise(new(app="web"), loner))) == {"C", "D"}
    assert set(names(advise(new(app="other"), loner))) == {"A", "B", "C", "D"}


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        ({}, "ABCD"),
        ({"namespaces": ["ow"]}, "BCD"),
        ({"namespaceSelector": {}}, "BCD"),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ow"}}}, "BCD"),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "else"}}}, "ABCD"),
    ],
)
def test_a_term_reaches_the_namespaces_that_it_names(scope, left):
    loner = there("A", "team", affinity(apart=[{**term(app="web"), **scope}]))
    assert set(names(advise(new(app="web"), loner))) == set(left)


def by_label(**selector: Any) -> dict[str, Any]:
    return {**term(app="web"), "namespaceSelector": selector}


GOLD = {"matchLabels": {"tier": "gold"}}
NOT_GOLD = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}
LABELLED = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
BARE = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}


@pytest.mark.parametrize(
    ("selector", "labels", "left"),
    [
        (GOLD, {"tier": "gold"}, "BCD"),
        (GOLD, {"tier": "iron"}, "ABCD"),
        (GOLD, {}, "ABCD"),
        (NOT_GOLD, {"tier": "gold"}, "ABCD"),
        (NOT_GOLD, {}, "BCD"),
        (LABELLED, {"tier": ""}, "BCD"),
        (BARE, {}, "BCD"),
        (BARE, {"tier": "gold"}, "ABCD"),
        # Of a namespace that nobody has seen all but its name may be so: the node is passed over.
        (GOLD, None, "BCD"),
        (NOT_GOLD, None, "BCD"),
        ({"matchLabels": {"tier": "gold", "kubernetes.io/metadata.name": "else"}}, None, "ABCD"),
    ],
)
def test_a_namespace_is_selected_by_any_label_of_it(selector, labels, left):
    """A pod that runs on A shuns pods of namespaces with such labels; the new one is in namespace ow."""
    loner = there("A", "team", affinity(apart=[by_label(**selector)]))
    scopes = {} if labels is None else {"ow": labels, "team": {"tier": "iron"}}
    assert set(names(advise(new(app="web"), loner, scopes=scopes))) == set(left)


def test_the_pods_own_terms_select_namespaces_by_label_too():
    scopes = {"team": {"tier": "gold"}, "other": {"tier": "iron"}}
    running = [there("A", "team", app="web"), there("B", "other", app="web")]
    beside = new(affinity(beside=[by_label(**GOLD)]))
    assert set(names(advise(beside, *running, scopes=scopes))) == {"A"}
    apart = new(affinity(apart=[by_label(**GOLD)]))
    assert set(names(advise(apart, *running, scopes=scopes))) == {"B", "C", "D"}


def test_strictness_does_not_take_the_last_node_that_a_namespace_s_rule_leaves():
    """A is shunned by a label of the namespace, B runs the disturber: a required rule would leave none."""
    loner = there("A", "team", affinity(apart=[by_label(**GOLD)]))
    disturber = there("B", **{"openwhisk/action": "Model_training"})
    world = World(
        NODES[:2], pods=[pod_of(loner), pod_of(disturber)], slowdowns={("hello", "Model_training"): 0.8},
        workflows=[flow(critical("hello"))], scopes={"ow": {"tier": "gold"}},
    )  # fmt: skip
    answer = world.advise(of_workflow("hello", labels={"app": "web"}), "require")
    assert names(answer) == ["B"]
    assert REQUIRED not in answer.affinity["podAntiAffinity"]


def test_a_term_without_a_selector_speaks_of_no_pod():
    loner = there("A", spec=affinity(apart=[{"topologyKey": "zone"}]))
    assert len(names(advise(new(app="web"), loner))) == 4


def test_spread_keeps_within_the_skew_of_the_emptiest_domain():
    pods = [there("A", app="web"), there("B", app="web")]
    assert names(advise(new(spread(), app="web"), *pods)) == ["C"]
    assert set(names(advise(new(spread(skew=3), app="web"), *pods))) == {"A", "B", "C"}
    assert len(names(advise(new(spread(whenUnsatisfiable="ScheduleAnyway"), app="web"), *pods))) == 4


def test_spread_over_more_domains_than_there_are_allows_no_more_than_the_skew_in_each():
    few = spread(minDomains=3)
    assert names(advise(new(few, app="web"), there("A", app="web"))) == ["C"]
    assert not advise(new(few, app="web"), there("A", app="web"), there("C", app="web")).satisfiable


def test_spread_counts_only_domains_that_the_pod_may_go_to():
    """z2 is empty, but the pod needs z1: its two pods do not make z1 too full."""
    pods = [there("A", app="web"), there("B", app="web")]
    needs = {**spread(), "nodeSelector": {"zone": "z1"}}
    assert set(names(advise(new(needs, app="web"), *pods))) == {"A", "B"}


def test_spread_by_hardware_that_the_workflow_needs_counts_only_where_that_is():
    """As the scheduler will see it: what the workflow needs is node affinity of the pod when it gets there."""
    world = World(
        [node("A", {"zone": "z1", "gpu": "yes"}), node("C", {"zone": "z2"})],
        pods=[pod_of(there("A", app="web"))],
        workflows=[flow(critical("hello", extraResources={"gpu": True}))],
    )
    assert names(world.advise(of_workflow("hello", spec=spread(), labels={"app": "web"}))) == ["A"]


def test_a_revision_is_spread_for_itself():
    pods = [there("A", app="web", rev="1"), there("B", app="web", rev="1")]
    assert names(advise(new(spread(matchLabelKeys=["rev"]), app="web", rev="2"), *pods)) == ["A", "B", "C"]


def test_strict_rules_leave_room_for_the_pods_own():
    """Only A has what the pod must be beside, and Model_training runs there too: nothing may keep it from A."""
    wanted = affinity(beside=[term(app="db")])
    answer = advise(
        of_workflow("hello", spec=wanted),
        there("A", app="db"),
        there("A", **{"openwhisk/action": "Model_training"}),
        mode="require",
        slowdowns={("hello", "Model_training"): 0.8},
        workflows=[flow(critical("hello"))],
    )
    assert names(answer) == ["A"]
    assert REQUIRED not in answer.affinity["podAntiAffinity"]
    assert PREFERRED in answer.affinity["podAntiAffinity"]


def test_together_with_others_does_not_undo_the_pods_own_affinity():
    """The scheduler wants one pod that meets all required terms: a second one of ours would leave the pod Pending."""
    wanted = affinity(beside=[term(app="db")])
    answer = advise(
        of_workflow("hello", spec=wanted),
        there("A", app="db"),
        there("B", **{f"{OWN}/function": "world", f"{OWN}/workflow": "w", "openwhisk/action": "world"}),
        workflows=[flow(critical("hello"), {"name": "world"}, together="must")],
    )
    assert names(answer) == ["A"]
    assert answer.affinity["podAffinity"][REQUIRED] == wanted["affinity"]["podAffinity"][REQUIRED]
    assert answer.affinity["podAffinity"][PREFERRED]
    assert any("preferred" in reason.sentence for reason in answer.reasons if reason.rule == "workflow")


def _strict(where: str) -> dict[str, Any]:
    """A pod that a strict rule of ours keeps away from batch."""
    batch = {"key": f"{OWN}/function", "operator": "In", "values": ["batch"]}
    shuns = {"labelSelector": {"matchExpressions": [batch]}, "topologyKey": "kubernetes.io/hostname"}
    return there(where, spec=affinity(apart=[shuns]), **{f"{OWN}/function": "hello"})


def test_labels_of_ours_never_keep_a_pod_from_the_last_nodes():
    manifest = pod("batch")
    some = advise(manifest, _strict("A"), known=("batch",))
    assert set(names(some)) == {"B", "C", "D"}
    assert jsonpatch.apply_patch(manifest, list(some.patch))["metadata"]["labels"][f"{OWN}/function"] == "batch"
    full = advise(manifest, *map(_strict, "ABCD"), known=("batch",))
    assert set(names(full)) == {"A", "B", "C", "D"}
    assert full.satisfiable
    assert f"{OWN}/function" not in jsonpatch.apply_patch(manifest, list(full.patch))["metadata"]["labels"]
    assert any(reason.rule == "unlabelled" for reason in full.reasons)


def test_what_the_snapshot_saw_of_labels_is_looked_at_without_a_live_cluster():
    world = World(NODES, pods=[pod_of(there("A", app="db")), pod_of(there("C", "else", app="db"))])
    view = prepare(world.snapshot(), "c1", NOW)
    manifest = new(affinity(apart=[term("zone", app="db")]))
    request = world.request(manifest, Policy(mode="prefer"), view)
    assert set(names(recommend(request, view, Policy(), decision="d"))) == {"C", "D"}


LABELS = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("web", "db")), max_size=2)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": sorted(values)},
        st.sampled_from(("app", "tier")),
        st.sampled_from(("In", "NotIn")),
        st.sets(st.sampled_from(("web", "db")), min_size=1),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(("app", "tier")),
        st.sampled_from(("Exists", "DoesNotExist")),
    ),
)
KEYS = st.sampled_from(("zone", "kubernetes.io/hostname"))
SELECTORS = st.one_of(
    st.builds(lambda labels: {"matchLabels": labels}, LABELS),
    st.builds(lambda each: {"matchExpressions": [each]}, EXPRESSIONS),
)
TERMS = st.builds(
    lambda selector, key, scope: {"labelSelector": selector, "topologyKey": key, **scope},
    SELECTORS,
    KEYS,
    st.sampled_from(({}, {"namespaces": ["team"]}, {"namespaceSelector": {}})),
)
AFFINITIES = st.builds(affinity, st.lists(TERMS, max_size=2), st.lists(TERMS, max_size=1))
SPREADS = st.lists(
    st.builds(
        lambda selector, key, skew, domains, hard: {
            "labelSelector": selector, "topologyKey": key, "maxSkew": skew, "minDomains": domains,
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        },
        SELECTORS, KEYS, st.integers(1, 2), st.integers(1, 4), st.booleans(),
    ),
    max_size=2,
)  # fmt: skip
RUNNING = st.builds(
    lambda where, namespace, spec, labels: there(where, namespace, spec, **labels),
    st.sampled_from("ABCD"),
    st.sampled_from(("ow", "team")),
    st.one_of(st.just({}), st.builds(lambda terms: affinity(apart=terms), st.lists(TERMS, min_size=1, max_size=1))),
    LABELS,
)


@settings(max_examples=120, deadline=None)
@given(AFFINITIES, SPREADS, LABELS, st.lists(RUNNING, max_size=6))
def test_the_nodes_that_remain_are_those_that_the_scheduler_would_take(spec, spreads, labels, running):
    manifest = new({**spec, "topologySpreadConstraints": spreads}, **labels)
    by_name = {each.name: each for each in NODES}
    placed = [(each, by_name[each["spec"]["nodeName"]]) for each in running]
    expected = {each.name for each in NODES if scheduling.lets_in(manifest, each, NODES, placed)}
    answer = advise(manifest, *running)
    assert set(names(answer)) == expected
    assert answer.satisfiable == bool(expected)


OF_FUNCTIONS = st.builds(
    lambda where, action, terms, labels: there(
        where, "ow", affinity(apart=terms), **{**labels, "openwhisk/action": action}
    ),
    st.sampled_from("ABCD"),
    st.sampled_from(("batch", "world")),
    st.lists(st.one_of(TERMS, st.just(term(**{f"{OWN}/function": "hello"}))), max_size=1),
    LABELS,
)


@settings(max_examples=100, deadline=None)
@given(AFFINITIES, SPREADS, LABELS, st.lists(OF_FUNCTIONS, max_size=6), st.sampled_from(("prefer", "require")))
def test_with_rules_about_other_pods_what_could_be_scheduled_still_can(spec, spreads, labels, running, mode):
    """By its own rules, those of pods that run, and strict ones of ours: one node stays open if one was."""
    manifest = of_workflow("hello", spec={**spec, "topologySpreadConstraints": spreads}, labels=labels)
    by_name = {each.name: each for each in NODES}
    placed = [(each, by_name[each["spec"]["nodeName"]]) for each in running]
    answer = advise(
        manifest, *running, mode=mode, slowdowns={("hello", "batch"): 0.8}, workflows=[flow(critical("hello"))]
    )
    patched = jsonpatch.apply_patch(manifest, list(answer.patch))
    before, after = (
        {each.name for each in NODES if scheduling.lets_in(pod, each, NODES, placed)} for pod in (manifest, patched)
    )
    assert bool(after) == bool(before) == answer.satisfiable
    assert set(names(answer)) <= after
