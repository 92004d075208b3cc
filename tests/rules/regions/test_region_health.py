"""The health of a region from its processing elements and their pods."""

from rules.regions.health import Connectivity, Element, Health, Runner, health


def element(pe: int, launch: int = 1, connectivity: Connectivity = Connectivity.FULL) -> Element:
    return Element(pe, f"uid-{pe}", launch, connectivity, (0,))


def runner(pe: int, launch: int = 1, phase: str = "Running", owner: str | None = None) -> Runner:
    return Runner(pe, owner or f"uid-{pe}", launch, phase)


ELEMENTS = {pe: element(pe) for pe in (0, 1)}
RUNNERS = {pe: [runner(pe)] for pe in (0, 1)}


def test_all_connected_and_running_is_healthy_and_clean() -> None:
    assert health((0, 1), ELEMENTS, RUNNERS) == Health(True, True)


def test_a_missing_element_pod_or_launch_is_unknown() -> None:
    assert health((0, 1, 2), ELEMENTS, RUNNERS) is None
    assert health((0, 1), ELEMENTS, {0: [runner(0)]}) is None
    assert health((0, 1), {**ELEMENTS, 1: element(1, launch=2)}, RUNNERS) is None
    assert health((0, 1), ELEMENTS, {**RUNNERS, 1: [runner(1, owner="of another job")]}) is None


def test_partial_connectivity_or_a_pending_pod_is_unhealthy() -> None:
    for connectivity in (Connectivity.PARTIAL, Connectivity.NONE):
        assert health((0, 1), {**ELEMENTS, 1: element(1, connectivity=connectivity)}, RUNNERS) == Health(False, True)
    for phase in ("Pending", "Failed", "Succeeded", "Unknown"):
        assert health((0, 1), ELEMENTS, {**RUNNERS, 1: [runner(1, phase=phase)]}) == Health(False, True)


def test_a_second_launch_is_not_clean_and_the_pod_of_the_first_no_longer_counts() -> None:
    elements = {**ELEMENTS, 1: element(1, launch=2)}
    both = {**RUNNERS, 1: [runner(1, launch=1, phase="Failed"), runner(1, launch=2)]}
    assert health((0, 1), elements, both) == Health(True, False)
