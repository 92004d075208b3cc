"""The one change of a pod: what the user wrote holds, patches apply cleanly, a second run changes nothing."""

import json

import jsonpatch
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.objects import pod_of
from rules.advice import Expression, NodeNeed, NodeWish, PodTerm
from rules.affinity.emission import additions
from rules.affinity.merge import merge
from rules.affinity.patch import json_patch
from tests.support import scheduling
from tests.support.manifests import check
from tests.support.scheduling import PREFERRED, REQUIRED
from tests.support.worlds import World, critical, flow, node, of_workflow

PREFIX = "colocation.internal"
SSD = Expression("disktype", "In", ("ssd",))
NVME = Expression("nvme", "Exists")
GPU = Expression("gpu", "In", ("yes",))
HOST = "kubernetes.io/hostname"


def merged(pod, *terms, labels=None, decision="d1"):
    return merge(pod, additions(terms, labels or {}), prefix=PREFIX, decision=decision)


def with_required(*terms):
    return {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}}


def required(pod):
    return pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_a_need_joins_each_of_the_users_terms():
    a, b = ({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "ab")
    ssd = {"key": "disktype", "operator": "In", "values": ["ssd"]}
    result = required(merged(with_required(a, b), NodeNeed(((SSD,),))))
    assert result == [{"matchExpressions": [*each["matchExpressions"], ssd]} for each in (a, b)]


def test_several_alternatives_make_a_cross_product():
    pod = with_required({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})
    result = required(merged(pod, NodeNeed(((SSD,), (NVME,))), NodeNeed(((GPU,),))))
    keys = [[each["key"] for each in term["matchExpressions"]] for term in result]
    assert keys == [["zone", "disktype", "gpu"], ["zone", "nvme", "gpu"]]


def test_match_fields_are_kept():
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    [term] = required(merged(with_required({"matchFields": [field]}), NodeNeed(((SSD,),))))
    assert term["matchFields"] == [field]
    assert [each["key"] for each in term["matchExpressions"]] == ["disktype"]


@pytest.mark.parametrize("empty", [{}, {"matchExpressions": []}, {"matchExpressions": None, "matchFields": []}])
def test_an_empty_term_goes_on_matching_nothing(empty):
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    terms = required(merged(with_required(empty, zone), NodeNeed(((SSD,),))))
    ssd = node("n", {"disktype": "ssd"})
    assert not any(scheduling.term_admits(term, ssd) for term in terms)


def test_own_labels_are_overwritten_and_untrusted_ones_removed():
    labels = {f"{PREFIX}/function": "forged", f"{PREFIX}/workflow": "forged", "app": "mine"}
    pod = {"metadata": {"labels": labels}, "spec": {}}
    result = merged(pod, labels={f"{PREFIX}/function": "hello", f"{PREFIX}/workflow": None})
    assert result["metadata"]["labels"] == {f"{PREFIX}/function": "hello", "app": "mine"}
    assert pod["metadata"]["labels"] is labels and labels[f"{PREFIX}/function"] == "forged"


def test_a_pod_with_nothing_added_stays_as_it_is():
    for pod in ({}, {"metadata": None, "spec": None}, {"spec": {"affinity": None}}, {"spec": {"affinity": {}}}):
        assert json_patch(pod, merged(pod, labels={f"{PREFIX}/function": None})) == []


def test_ours_of_an_earlier_decision_are_replaced_not_heaped_up():
    pod = {"spec": {"affinity": {"nodeAffinity": {PREFERRED: [_preference("own", 9)]}}}}
    first = merged(pod, NodeWish(50, (SSD,)), PodTerm(True, (NVME,), HOST, 25))
    second = merged(first, NodeWish(70, (GPU,)), decision="d2")
    standing = second["spec"]["affinity"]["nodeAffinity"][PREFERRED]
    assert [each["weight"] for each in standing] == [9, 70]
    assert PREFERRED not in second["spec"]["affinity"].get("podAntiAffinity", {})
    assert second["metadata"]["annotations"][f"{PREFIX}/decision"] == "d2"


def test_what_others_put_behind_ours_in_the_meantime_is_no_change():
    first = merged({"spec": {}}, NodeWish(50, (SSD,)))
    first["spec"]["affinity"]["nodeAffinity"][PREFERRED].append(_preference("other", 1))
    assert json_patch(first, merged(first, NodeWish(50, (SSD,)), decision="d2")) == []


def _preference(key, weight):
    return {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}


# -- the real files

NEED = NodeNeed(((SSD,),))
WISH = NodeWish(40, (GPU,))
APART = PodTerm(True, (Expression("openwhisk/action", "In", ("batch",)),), HOST, 60)


def twice(pod):
    """Merge, patch as the API server does, check, and see that a second run has nothing to say."""
    result = merged(pod, NEED, WISH, APART, labels={f"{PREFIX}/function": "f"})
    patched = jsonpatch.apply_patch(pod, json_patch(pod, result))
    assert patched == result
    assert (
        json_patch(result, merged(result, NEED, WISH, APART, labels={f"{PREFIX}/function": "f"}, decision="d2")) == []
    )
    return result


def test_real_three_terms_of_a_control_plane(real):
    affinity = yaml.safe_load((real / "affinity_three_terms_control_plane.yaml").read_text())["affinity"]
    pod = {"metadata": {"name": "p"}, "spec": {"affinity": affinity, "containers": [{"name": "c", "image": "i"}]}}
    result = twice(pod)
    check(result)
    terms = required(result)
    assert [len(term["matchExpressions"]) for term in terms] == [2, 2, 2]
    own = [term["matchExpressions"][0] for term in affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]]
    assert [term["matchExpressions"][0] for term in terms] == own
    assert all(term["matchExpressions"][1]["key"] == "disktype" for term in terms)


def test_real_required_preferred_and_anti_affinity(real):
    pod = json.loads((real / "pod_aks_coredns_required_and_preferred.json").read_text())
    before = pod["spec"]["affinity"]
    after = twice(pod)["spec"]["affinity"]
    own = before["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]["matchExpressions"]
    assert after["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]["matchExpressions"][: len(own)] == own
    for kind in ("nodeAffinity", "podAntiAffinity"):
        standing = before[kind][PREFERRED]
        assert after[kind][PREFERRED][: len(standing)] == standing
        assert len(after[kind][PREFERRED]) == len(standing) + 1


def test_real_match_fields(real):
    pod = json.loads((real / "pod_aks_daemonset_matchfields.json").read_text())
    before = required(pod)
    after = required(twice(pod))
    assert [term["matchFields"] for term in after] == [term["matchFields"] for term in before]


def test_real_template_without_metadata(real):
    job = yaml.safe_load((real / "cronjob_no_template_metadata.yaml").read_text())
    template = job["spec"]["jobTemplate"]["spec"]["template"]
    assert "metadata" not in template
    operations = json_patch(template, twice(template), "/spec/jobTemplate/spec/template")
    result = jsonpatch.apply_patch(job, operations)["spec"]["jobTemplate"]["spec"]["template"]
    assert result["metadata"]["labels"] == {f"{PREFIX}/function": "f"}
    check(result)


@pytest.mark.parametrize(
    ("file", "cause"),
    [
        ("pod_aks_coredns_required_and_preferred.json", "namespace"),
        ("pod_aks_daemonset_matchfields.json", "daemonset"),
        ("pod_static_mirror_etcd.json", "mirror"),
    ],
)
def test_real_pods_that_are_left_alone(real, file, cause):
    pod = json.loads((real / file).read_text())
    excluded = ("kube-system",) if cause == "namespace" else ()
    answer = World([node("A")]).advise(pod, "require", excluded_namespaces=excluded)
    assert (answer.outcome, answer.cause, answer.patch) == ("left_alone", cause, ())
    assert answer.affinity == (pod["spec"].get("affinity") or {})
    assert answer.reasons


# -- properties

_KEYS, _VALUES = st.sampled_from("abc"), st.sampled_from(("x", "y", "1", "2"))
_EXPRESSION = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        _KEYS, st.sampled_from(("In", "NotIn")), st.lists(_VALUES, min_size=1, max_size=2, unique=True),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator}, _KEYS, st.sampled_from(("Exists", "DoesNotExist"))
    ),
    st.builds(
        lambda key, operator, value: {"key": key, "operator": operator, "values": [value]},
        _KEYS, st.sampled_from(("Gt", "Lt")), st.sampled_from(("1", "2")),
    ),
)  # fmt: skip
_FIELD = st.builds(
    lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
    st.sampled_from(("In", "NotIn")), st.sampled_from(("n0", "n1")),
)  # fmt: skip
_TERM = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(_EXPRESSION, max_size=3),
        "matchFields": st.lists(_FIELD, max_size=1),
    },
)
_LABELS = st.dictionaries(_KEYS, _VALUES, max_size=3)
_NEED = st.lists(
    st.lists(_EXPRESSION, min_size=1, max_size=2).map(
        lambda found: tuple(Expression(e["key"], e["operator"], tuple(e.get("values", ()))) for e in found)
    ),
    min_size=1,
    max_size=2,
).map(lambda alternatives: NodeNeed(tuple(alternatives)))


@given(
    st.lists(_TERM, min_size=1, max_size=3), st.lists(_NEED, min_size=1, max_size=2), st.lists(_LABELS, max_size=4)
)
def test_a_merged_rule_admits_just_what_both_admit(terms, needs, labels):
    pod = with_required(*terms)
    result = merged(pod, *needs)
    for number, each in enumerate(labels):
        there = node(f"n{number}", each)
        own = scheduling.admits(pod["spec"]["affinity"], there)
        ours = all(
            any(
                all(
                    scheduling.holds({"key": e.key, "operator": e.operator, "values": list(e.values)}, there.labels)
                    for e in alternative
                )
                for alternative in need.alternatives
            )
            for need in needs
        )
        assert scheduling.admits(result["spec"]["affinity"], there) == (own and ours)


_WISH = st.builds(NodeWish, st.integers(1, 100), st.builds(lambda key: (Expression(key, "Exists"),), _KEYS))
_POD_TERM = st.builds(
    PodTerm,
    st.booleans(),
    st.builds(lambda value: (Expression("a/b~c", "In", (value,)),), _VALUES),
    st.just(HOST),
    st.none() | st.integers(1, 100),
)
_PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "labels": st.none() | st.dictionaries(st.sampled_from(("a/b", "c~d", f"{PREFIX}/function")), _VALUES),
                "annotations": st.none() | st.dictionaries(st.sampled_from(("x/y", "workflow")), _VALUES),
            },
        ),
        "spec": st.fixed_dictionaries(
            {"containers": st.just([])},
            optional={
                "affinity": st.none()
                | st.fixed_dictionaries(
                    {},
                    optional={
                        "nodeAffinity": st.none()
                        | st.fixed_dictionaries(
                            {},
                            optional={
                                REQUIRED: st.builds(
                                    lambda terms: {"nodeSelectorTerms": terms},
                                    st.lists(_TERM, min_size=1, max_size=2),
                                ),
                                PREFERRED: st.lists(st.builds(_preference, _KEYS, st.integers(1, 100)), max_size=2),
                            },
                        )
                    },
                )
            },
        ),
    },
)


@given(_PODS, st.lists(_NEED | _WISH | _POD_TERM, max_size=4), st.none() | _VALUES)
def test_a_patch_applies_cleanly_and_a_second_one_is_empty(pod, terms, function):
    labels = {f"{PREFIX}/function": function}
    before = json.dumps(pod)
    result = merged(pod, *terms, labels=labels)
    assert json.dumps(pod) == before
    assert jsonpatch.apply_patch(pod, json_patch(pod, result)) == result
    assert json_patch(result, merged(result, *terms, labels=labels, decision="d2")) == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(("", "x", "~", "/")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("a", "~", "/", "~1", "")), inner),
    max_leaves=8,
)


@given(_JSON, _JSON)
def test_the_difference_of_any_two_documents(one, other):
    assume(isinstance(one, dict) == isinstance(other, dict))
    result = jsonpatch.apply_patch({"d": one}, json_patch({"d": one}, {"d": other}))
    assert json.dumps(result, sort_keys=True) == json.dumps({"d": other}, sort_keys=True)
    assert json_patch(one, one) == []


def test_keys_are_escaped_and_parents_created():
    assert json_patch({}, {"metadata": {"labels": {"a/b~c": "1"}}}) == [
        {"op": "add", "path": "/metadata", "value": {"labels": {"a/b~c": "1"}}}
    ]
    [operation] = json_patch({"labels": {}}, {"labels": {"a/b~c": "1"}})
    assert operation == {"op": "add", "path": "/labels/a~1b~0c", "value": "1"}


def test_a_whole_recommendation_is_empty_on_its_own_result():
    world = World(
        [node("A", {"disktype": "ssd"}), node("B", {"disktype": "ssd"})],
        slowdowns={("hello", "batch"): 0.4},
        workflows=[flow(critical("hello", extraResources={"diskType": "ssd"}), {"name": "b"}, together="should")],
        load={"A": 0.2, "B": 0.8},
    )
    manifest = of_workflow("hello")
    patched = jsonpatch.apply_patch(manifest, list(world.advise(manifest).patch))
    assert pod_of(patched).annotations[f"{PREFIX}/decision"] == "d1"
    again = world.advise(patched)
    assert (again.patch, again.outcome) == ((), "unchanged")
