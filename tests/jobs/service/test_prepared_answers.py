"""Answers from the desk: prepared once for many pods, each the same as one that is worked out for its pod alone."""

import base64
import json
from dataclasses import replace
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.asking import InTurn
from jobs.service import review
from jobs.service.counts import Tally
from jobs.service.desk import Desk
from jobs.service.prepared import PLACE
from jobs.service.reservations import Reservations
from jobs.service.routes import RecommendationRequest
from pipeline.errors import BadInput
from pipeline.objects import pod_of
from pipeline.records import PodSelection, Requirement
from rules.changes import Changes, updated
from rules.labels import label_value
from rules.policy import Policy
from rules.recommend import recommend
from rules.request import from_pod
from rules.view import prepare
from tests.support.service import Fixed
from tests.support.service import review as reviewed
from tests.support.worlds import NOW, World, critical, flow, node, running

POLICY = Policy(
    mode="prefer", namespaces={"quiet": "observe", "strict": "require"}, across=frozenset({"open"}),
    excluded_namespaces=("kube-system",),
)  # fmt: skip
#: Whose pod that runs will have no pod with the label app: batch beside it.
SHUNNING = msgspec.structs.replace(
    running("guest/world", "n3"),
    apart=(PodSelection((Requirement("app", "In", ("batch",)),), "kubernetes.io/hostname", ("ow",)),),
)
HELLO = {"labelSelector": {"matchLabels": {"app": "hello"}}, "topologyKey": "kubernetes.io/hostname"}
WORLD = World(
    [node(f"n{each}", {"zone": f"z{each % 2}", "gpu": "yes"} if each == 1 else {}, cpu=4) for each in range(4)],
    pods=[running("guest/batch", "n0", cpu=1.0), running("guest/hello", "n2"), SHUNNING],
    slowdowns={("guest/hello", "guest/batch"): 0.8, ("guest/batch", "guest/batch"): 0.4},
    known=("guest/hello", "guest/batch", "guest/world"),
    workflows=[flow(critical("hello", extraResources={"gpu": True}), {"name": "world"})],
    load={"n0": 0.1, "n3": 0.7},
)
OWN = "colocation.internal"


SPEC = st.fixed_dictionaries(
    {"containers": st.sampled_from([[{"name": "c", "resources": {"requests": {"cpu": cpu}}}] for cpu in ("1", "3")])},
    optional={
        "affinity": st.sampled_from(
            (
                None,
                {},
                {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}},
                {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [HELLO]}},
            )
        ),
        "nodeSelector": st.sampled_from((None, {"zone": "z0"})),
        "topologySpreadConstraints": st.just([{**HELLO, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]),
        "tolerations": st.just([{"operator": "Exists"}]),
    },
)  # fmt: skip
LABELS = st.dictionaries(
    st.sampled_from(("openwhisk/action", "openwhisk/namespace", f"{OWN}/function", f"{OWN}/workflow", "app")),
    st.sampled_from(("hello", "batch", "guest")),
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(("workflow", f"{OWN}/action", f"{OWN}/mode", f"{OWN}/applied", "other")),
    st.sampled_from(("w", "hello", "world", "observe", "12345678")),
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(("x", "inv-0-7-guest-hello", "inv-0-8-guest-batch", "inv-0-9-prewarm-1"))},
            optional={
                "labels": st.one_of(st.none(), LABELS),
                "annotations": st.one_of(st.none(), ANNOTATIONS),
                "ownerReferences": st.sampled_from(
                    ([{"kind": "DaemonSet", "name": "d", "controller": True}], [{"kind": "Job", "name": "guest"}])
                ),
            },
        ),
        "spec": SPEC,
    }
)
NAMESPACES = st.sampled_from(("ow", "quiet", "strict", "open", "kube-system"))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[dict[str, Any], str] | None]:
    """Reviews of pods that are often alike, or but for their function, None where the view changes."""
    some = draw(st.lists(st.tuples(PODS, NAMESPACES), min_size=1, max_size=4))
    others = [(of_another_function(pod), namespace) for pod, namespace in some]
    return draw(st.lists(st.sampled_from([*some, *others, None]), min_size=2, max_size=25))


def of_another_function(pod: dict[str, Any]) -> dict[str, Any]:
    labels = pod["metadata"].get("labels") or {}
    action = "hello" if labels.get("openwhisk/action") == "batch" else "batch"
    return {**pod, "metadata": {**pod["metadata"], "labels": {**labels, "openwhisk/action": action}}}


def asked(pod: dict[str, Any], namespace: str, number: int) -> review.AdmissionRequest:
    body = reviewed(pod, uid=f"{number:08d}-0000-4000-8000-000000000000", namespace=namespace)
    return review.decode(msgspec.json.encode(body)).request


def given_patch(answer: bytes) -> list[Any]:
    response = json.loads(answer)["response"]
    patch: list[Any] = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    return patch


@settings(max_examples=150, deadline=None)
@given(histories())
def test_each_pod_gets_the_answer_that_is_worked_out_for_it_alone(steps):
    state = Fixed(WORLD)
    desk = Desk(state, POLICY, Reservations(), deadline=60.0, now=lambda: NOW)
    for number, step in enumerate(steps):
        if step is None:
            came = (running("guest/hello", f"n{number % 4}", number, cpu=1.0),)
            state.show(updated(state.current.view, NOW, Changes(came=came)))
            continue
        pod, namespace = step
        request = asked(pod, namespace, number)
        decided = desk.decide(request, NOW, dry_run=True)
        view = state.current.view
        expected = recommend(
            from_pod(pod, pod_of(pod), view, namespace=namespace, cluster="c1", policy=POLICY), view, POLICY,
            decision=request.uid, at=NOW,
        )  # fmt: skip
        patch = given_patch(decided.answer(request.uid))
        assert jsonpatch.apply_patch(pod, patch) == jsonpatch.apply_patch(pod, list(expected.patch))
        assert (decided.kept.mode, decided.kept.outcome) == (expected.mode, expected.outcome)
        assert decided.kept.function == expected.function
        assert decided.reason == (expected.cause or "none")
        document = msgspec.json.decode(msgspec.json.encode(decided.record().document))
        assert document == msgspec.json.decode(msgspec.json.encode(expected))


def _hello() -> dict[str, Any]:
    labels = {"openwhisk/namespace": "guest", "openwhisk/action": "hello"}
    return {"metadata": {"name": "x", "labels": labels}, "spec": {"containers": [{"name": "c", "resources": {}}]}}


@pytest.mark.parametrize(
    "field", ["affinity", "tolerations", "nodeSelector", "nodeName", "topologySpreadConstraints"]
)
def test_null_and_not_there_are_not_alike(field):
    """A patch replaces what is null and adds what is missing: one prepared for the other would not apply."""
    desk = Desk(Fixed(WORLD), POLICY, Reservations(), now=lambda: NOW)
    bare, null = _hello(), _hello()
    null["spec"][field] = None
    results = [
        jsonpatch.apply_patch(
            each, given_patch(desk.decide(asked(each, "ow", number), NOW, dry_run=True).answer("u"))
        )
        for number, each in enumerate((null, bare, null, bare))
    ]
    assert all(each["spec"]["affinity"] == results[0]["spec"]["affinity"] for each in results)


def test_a_person_is_answered_of_the_only_cluster_that_is_known():
    """Where no setting names the one that is served: a history from files is learned without any."""

    class Unnamed(Fixed):
        cluster = "default"

        def view_of(self, cluster):
            assert cluster == "c1"
            return self.current.view

    asked_for = RecommendationRequest(_hello())
    told = Desk(Unnamed(WORLD), POLICY, Reservations(), now=lambda: NOW, named=False).recommend(asked_for)
    assert "guest/hello" in " ".join(reason.sentence for reason in told.reasons)

    several = Unnamed(WORLD)
    several.current = replace(several.current, snapshot=replace(WORLD.snapshot(), clusters=("c1", "c2")))
    with pytest.raises(BadInput, match=r"^cluster: say which of c1, c2$"):
        Desk(several, POLICY, Reservations(), now=lambda: NOW, named=False).recommend(asked_for)


def test_a_burst_of_fifty_pods_does_not_all_go_to_one_node():
    requests = {"requests": {"cpu": "250m"}}
    pod = _hello() | {"spec": {"containers": [{"name": "c", "resources": requests}]}}
    book = Reservations()
    desk = Desk(Fixed(replace(WORLD, load={})), POLICY, book, now=lambda: NOW)
    for number in range(50):
        desk.decide(asked(pod, "ow", number), NOW, dry_run=False)
    by_node = dict.fromkeys(("n0", "n1", "n2", "n3"), 0)
    for reservation in book.current():
        by_node[reservation.node] += 1
    # 4 cores each: 16 pods of a quarter of a core fit on a node; n0 disturbs and comes last.
    assert by_node == {"n0": 2, "n1": 16, "n2": 16, "n3": 16}


@pytest.mark.parametrize("uid", ["u-1", 'odd "uid"', "é" * 36, "00000000-0000-4000-8000-000000000000"])
def test_whatever_the_uid_is_the_answer_and_the_annotation_bear_it(uid):
    desk = Desk(Fixed(WORLD), POLICY, Reservations(), now=lambda: NOW)
    request = msgspec.structs.replace(asked(_hello(), "ow", 1), uid=uid)
    answer = desk.decide(request, NOW, dry_run=True).answer(uid)
    assert json.loads(answer)["response"]["uid"] == uid
    patched = jsonpatch.apply_patch(_hello(), given_patch(answer))
    assert patched["metadata"]["annotations"][f"{OWN}/decision"] == uid


@pytest.mark.parametrize("again", [False, True])
def test_names_of_any_length_are_kept_up_to_what_they_may_have(again):
    pod = {
        "metadata": {"name": "p" * 300_000, "labels": {"openwhisk/action": "f" * 300_000}},
        "spec": {"containers": []},
    }
    if again:  # decided by itself then
        pod["metadata"]["annotations"] = {f"{OWN}/decision": "another"}
    pod["metadata"].setdefault("annotations", {})["workflow"] = "w" * 300_000
    desk = Desk(Fixed(WORLD), POLICY, Reservations(), now=lambda: NOW)
    kept = desk.decide(asked(pod, "ow", 1), NOW, dry_run=False).record()
    assert (kept.pod, kept.function) == ("p" * 250 + "...", "f" * 1021 + "...")
    told = json.loads(msgspec.json.encode(kept.document))
    assert (told["pod"], told["function"]) == (kept.pod, kept.function)
    assert max(len(reason["sentence"]) for reason in told["reasons"]) < 1100


@pytest.mark.parametrize(
    ("name", "cause"), [("wskowdev-invoker-00-3-prewarm-nodejs14", "prewarm"), ("x-inv-0-1-guest-hello", "none")]
)
def test_pods_started_ahead_of_any_function_get_no_patch_and_are_counted(name, cause):
    pod = {"metadata": {"name": name, "labels": {"user-action-pod": "true"}}, "spec": {"containers": []}}
    desk = Desk(Fixed(WORLD), POLICY, Reservations(), now=lambda: NOW)
    decided = desk.decide(asked(pod, "ow", 1), NOW, dry_run=False)
    assert decided.reason == cause
    assert (decided.kept.outcome == "left_alone") is (cause == "prewarm")
    assert bool(given_patch(decided.answer("u"))) is not (cause == "prewarm")


def test_the_prefix_of_own_labels_and_annotations_is_configurable():
    policy = replace(POLICY, label_prefix="advice.example.org")
    snapshot = WORLD.snapshot()
    view = prepare(
        snapshot, "c1", NOW, nodes=WORLD.nodes, pods=WORLD.pods, label_prefix=policy.label_prefix,
    )  # fmt: skip
    desk = Desk(Fixed(WORLD, view), policy, Reservations(), now=lambda: NOW)
    pod = _hello()
    pod["metadata"]["labels"]["advice.example.org/function"] = "forged"
    patched = jsonpatch.apply_patch(pod, given_patch(desk.decide(asked(pod, "ow", 1), NOW, dry_run=True).answer("u")))
    assert patched["metadata"]["labels"]["advice.example.org/function"] == label_value("guest/hello")
    assert patched["metadata"]["annotations"]["advice.example.org/decision"] == "u"
    assert OWN not in json.dumps(patched)
    assert "advice.example.org/function" in json.dumps(patched["spec"]["affinity"]["podAntiAffinity"])


def test_an_answer_without_all_rules_is_for_its_pod_alone_and_counted():
    tally = Tally()
    desk = Desk(Fixed(WORLD), POLICY, Reservations(), left_out=tally.without, deadline=60.0, now=lambda: NOW)
    patient, desk._in_turn = desk._in_turn, InTurn(tally.without, seconds=0.0)
    hurried = [desk.decide(asked(_hello(), "ow", number), NOW, dry_run=True) for number in range(2)]
    assert tally.left_out["interference", "deadline"] == 2
    for number, decided in enumerate(hurried):
        document = msgspec.json.decode(msgspec.json.encode(decided.record().document))
        assert "interference" in document["left_out"]
        assert "podAntiAffinity" not in str(given_patch(decided.answer(decided.kept.decision))), number
    desk._in_turn = patient
    whole = desk.decide(asked(_hello(), "ow", 3), NOW, dry_run=True)
    assert "podAntiAffinity" in str(given_patch(whole.answer(whole.kept.decision)))
    assert tally.left_out["interference", "deadline"] == 2


def test_a_pod_that_holds_the_placeholder_itself_is_decided_alone():
    pod = _hello()
    pod["metadata"]["annotations"] = {"workflow": PLACE}
    desk = Desk(Fixed(WORLD), POLICY, Reservations(), now=lambda: NOW)
    decided = desk.decide(asked(pod, "ow", 1), NOW, dry_run=True)
    metadata = jsonpatch.apply_patch(pod, given_patch(decided.answer("u")))["metadata"]
    assert metadata["annotations"]["workflow"] == PLACE
    assert PLACE not in metadata["annotations"][f"{OWN}/decision"]


def burst(mode: str = "prefer") -> tuple[Desk, list[dict[str, Any]]]:
    """A desk, and pods as they were after their first review, of a burst that fills node after node."""
    desk = Desk(Fixed(WORLD), replace(POLICY, mode=mode), Reservations(), now=lambda: NOW)
    pod = _hello() | {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}}
    reviews = [asked(pod, "ow", number) for number in range(30)]
    answers = [given_patch(desk.decide(each, NOW, dry_run=False).answer(each.uid)) for each in reviews]
    return desk, [jsonpatch.apply_patch(pod, patch) for patch in answers]


def again(desk: Desk, pod: dict[str, Any], number: int = 1000) -> list[Any]:
    request = asked(pod, "ow", number)
    return given_patch(desk.decide(request, NOW, dry_run=False).answer(request.uid))


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_asked_once_more_in_a_burst_a_pod_stays_as_it_is(mode):
    """By then other nodes are the best for it; what it was given still holds."""
    desk, pods = burst(mode)
    assert len({json.dumps(each["spec"]["affinity"]) for each in pods}) > 1, "answers change as nodes fill"
    assert [again(desk, each, 1000 + number) for number, each in enumerate(pods)] == [[]] * len(pods)


def _without_our_terms(pod: dict[str, Any]) -> None:
    del pod["spec"]["affinity"]["podAntiAffinity"]


def _forged(pod: dict[str, Any]) -> None:
    pod["metadata"]["labels"][f"{OWN}/function"] = "forged"


def _of_a_workflow(pod: dict[str, Any]) -> None:
    pod["metadata"]["annotations"] |= {"workflow": "w", f"{OWN}/action": "hello"}


def _copied(pod: dict[str, Any]) -> None:
    pod["metadata"]["annotations"][f"{OWN}/decision"] = "of another time"


@pytest.mark.parametrize(
    ("change", "shows"),
    [
        (_without_our_terms, "podAntiAffinity"),
        (_forged, "labels"),
        (_of_a_workflow, '"gpu"'),
        (_copied, "expected"),
    ],
)
def test_asked_once_more_a_pod_that_others_changed_is_put_right(change, shows):
    desk, pods = burst()
    change(pods[-1])
    assert shows in json.dumps(again(desk, pods[-1]))


@pytest.mark.parametrize("first", ["labels", "annotations"])
def test_a_label_and_an_annotation_of_one_name_are_two_things(first: str) -> None:
    """Some pod's rule looks at the label, so that it counts; as an annotation it states a mode."""
    key = f"{OWN}/mode"
    averse = msgspec.structs.replace(
        running("guest/world", "n3"),
        apart=(PodSelection((Requirement(key, "In", ("x",)),), "kubernetes.io/hostname", ("ow",)),),
    )
    world = World([node("n0"), node("n3")], pods=[averse], known=("guest/hello", "guest/world"))
    desk = Desk(Fixed(world), Policy(mode="observe"), Reservations())  # type: ignore[arg-type]
    found = {}
    for place in (first, *({"labels", "annotations"} - {first})):
        metadata: dict[str, Any] = {"name": "p", "labels": {"app": "x"}, "annotations": {"note": "x"}}
        metadata[place][key] = "prefer"
        pod = {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}}
        request = review.decode(msgspec.json.encode(reviewed(pod, uid=f"{place:-<36}", namespace="ow"))).request
        found[place] = desk.decide(request, NOW, dry_run=True).kept.mode
    assert found == {"labels": "observe", "annotations": "prefer"}
