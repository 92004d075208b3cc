"""Pod names and the functions they speak of."""

import re
from pathlib import Path

import pytest

from pipeline.mangling import CUT, Index, mangled

KNOWN = (
    "guest/video-processing",
    "guest/Model_training",
    "default/tiles2",
    "whisk.system/invokerHealthTestAction0",
    "guest/tools/resize image",
)


def oracle(prefix: str, number: int, function: str) -> str:
    """The invoker's own rule, said once more."""
    namespace, action = function.split("/", 1)
    tail = "-".join(re.sub("[^a-zA-Z0-9]", "", part).lower() for part in (namespace, action))
    return f"{prefix}-{number}-{tail}"[:63].rstrip("-")


def test_letters_and_digits_are_kept_in_lower_case() -> None:
    assert mangled("Model_training") == mangled("model-training") == "modeltraining"
    assert mangled("a@b.c d/e") == "abcde"


@pytest.mark.parametrize(
    ("pod", "function"),
    [
        ("wskowdev-invoker-00-20-guest-videoprocessing", "guest/video-processing"),
        ("wskowdev-invoker-00-19-guest-modeltraining", "guest/Model_training"),
        ("other-release-invoker-3-916-default-tiles2", "default/tiles2"),
        ("wskowdev-invoker-00-6-whisksystem-invokerhealthtestaction0", "whisk.system/invokerHealthTestAction0"),
        ("wskowdev-invoker-00-6-guest-toolsresizeimage", "guest/tools/resize image"),
        ("wskowdev-invoker-00-6-guest-resizeimage", "guest/tools/resize image"),
        ("wskowdev-invoker-00-7-prewarm-nodejs14", None),
        ("wskowdev-invoker-00-7-guest-unknown", None),
        ("web-5d9c7b6f4-x2x2x", None),
        ("guest-videoprocessing", None),
        ("", None),
    ],
)
def test_a_pod_name_names_a_known_function(pod: str, function: str | None) -> None:
    assert Index(KNOWN).of_pod(pod) == function


def test_two_functions_that_come_out_alike_are_not_guessed() -> None:
    index = Index(["guest/Model_training", "guest/model-training"])
    pod = "wskowdev-invoker-00-19-guest-modeltraining"
    assert index.of_pod(pod) is None
    assert index.candidates(pod) == {"guest/Model_training", "guest/model-training"}


def test_prewarm_pods_have_no_function_even_where_one_would_fit() -> None:
    assert Index(["prewarm/nodejs14"]).of_pod("w-invoker-00-7-prewarm-nodejs14") is None


@pytest.mark.parametrize("length", range(1, 60))
def test_a_cut_name_still_fits_its_function(length: int) -> None:
    function = f"guest/{'Ab-' * length}"
    pod = oracle("wskowdev-invoker-00", 12, function)
    assert len(pod) <= CUT
    assert Index([function, "guest/other"]).of_pod(pod) == function


@pytest.mark.parametrize("length", range(30, 50))
def test_a_name_may_be_cut_inside_its_namespace(length: int) -> None:
    function = f"{'n' * length}/action"
    assert Index([function, "guest/action"]).of_pod(oracle("wskowdev-invoker-00", 7, function)) == function


def test_a_cut_name_that_fits_two_functions_is_not_guessed() -> None:
    functions = [f"guest/{'a' * 60}{end}" for end in ("x", "y")]
    pod = oracle("wskowdev-invoker-00", 7, functions[0])
    assert Index(functions).of_pod(pod) is None
    assert Index(functions[:1]).of_pod(pod) == functions[0]


def test_a_label_without_the_package_names_the_one_action_it_fits() -> None:
    index = Index(["guest/tools/resize", "guest/hello", "guest/a/twice", "guest/b/twice"])
    assert index.of_labels("guest", "resize") == "guest/tools/resize"
    assert index.of_labels("guest", "hello") == "guest/hello"
    assert index.of_labels("guest", "twice") == "guest/twice"
    assert index.of_labels("guest", "new") == "guest/new"


def test_real_pod_names(real: Path) -> None:
    names = [
        line.split()[0] for line in (real / "ow_action_pod_names.txt").read_text().splitlines() if line[0] != "#"
    ]
    index = Index([*KNOWN, "whisk.system/nameNode15"])
    found = [index.of_pod(name) for name in names]
    assert found == [
        None, None, "guest/Model_training", "guest/video-processing", "whisk.system/invokerHealthTestAction0", None,
        None, "whisk.system/nameNode15", "default/tiles2", None,
    ]  # fmt: skip


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_an_index_that_grew_knows_what_one_made_at_once_does(parts: int) -> None:
    functions = [
        *("guest/hello", "guest/Hello", "guest/tools/resize", "guest/a/twice", "guest/b/twice", "guest/twice"),
        *("plain", f"guest/{'long' * 15}x", f"guest/{'long' * 15}y", f"guest/pack/{'long' * 15}z", "Other/hello"),
    ]
    grown = Index()
    for first in range(parts):
        grown = grown.extended([*functions[first::parts], functions[0]])
    whole = Index(functions)
    called = [oracle("w-invoker-00", number, each) for number, each in enumerate(functions) if "/" in each]
    for pod in [*called, "w-invoker-00-1-guest-resize", "w-invoker-00-1-guest-toolsresize", "w-1-guest-none", "x"]:
        assert grown.candidates(pod) == whole.candidates(pod)
    assert whole.candidates(called[0]) == {"guest/hello", "guest/Hello"}
    for action in ("hello", "resize", "twice", "none", "a/twice"):
        assert grown.of_labels("guest", action) == whole.of_labels("guest", action)
    assert whole.of_labels("guest", "resize") == "guest/tools/resize"
