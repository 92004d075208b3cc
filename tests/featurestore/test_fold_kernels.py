"""What came under kernels that no node runs any more is old evidence; kernels that run side by side lose none."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from featurestore.engines.beginning import _faded
from featurestore.exposure.sweep import OPEN
from featurestore.interference.blocks import Block, Linearisation
from featurestore.interference.fold import faded, fold, renewed
from featurestore.interference.reduction import reduce
from featurestore.node_kernels import NodeKernels, read
from featurestore.states import Step, folded, pack_blocks, unpack_blocks
from tests.support.victims import design

MEMORY = 100.0


def one(**more):
    """One node type, one aggressor and its placebo; a quarter of the evidence came under kernel a."""
    return Block(
        types=np.array([0]),
        columns=np.array([1]),
        gram=np.array([[4.0, 2.0, 0.0], [2.0, 5.0, 0.0], [0.0, 0.0, 3.0]]),
        pull=np.array([2.0, 3.0, 1.0]),
        rows=40.0,
        met=np.array([1]),
        overlaps=np.array([20.0]),
        activations=np.array([30.0]),
        kernels=("a", "b"),
        under=np.array([1.25, 3.75]),
        **more,
    )


def plain(information, **under):
    """A block of an aggressor alone, whose evidence came under kernels, by their names."""
    return Block(
        columns=np.array([1]),
        gram=np.diag([information, 1.0]),
        pull=np.array([0.3 * information, 0.0]),
        rows=10.0,
        met=np.array([1]),
        overlaps=np.array([10.0]),
        activations=np.array([10.0]),
        kernels=tuple(under),
        under=np.array(list(under.values())),
    )


def test_the_share_under_a_vanished_kernel_is_worth_a_tenth_and_the_base_of_it_nothing():
    """By hand: with the base integrated out the information is 5 - 2 * 2 / 4 = 4, and the pull 3 - 2 * 2 / 4 = 2.
    A quarter of the state becomes a tenth of that, three quarters stay."""
    found = faded(one(), {"b"})
    slow, placebo = 0.75 * 5 + 0.025 * 4, 0.775 * 3
    np.testing.assert_allclose(found.gram, [[3, 1.5, 0], [1.5, slow, 0], [0, 0, placebo]], rtol=1e-12)
    np.testing.assert_allclose(found.pull, [1.5, 0.75 * 3 + 0.025 * 2, 0.775], rtol=1e-12)
    assert slow - 1.5**2 / 3 == pytest.approx(0.775 * 4, rel=1e-12)  # what is known of the slowdown by itself
    np.testing.assert_allclose(np.linalg.solve(found.gram, found.pull), np.linalg.solve(one().gram, one().pull))
    assert (found.rows, found.overlaps.tolist(), found.activations.tolist()) == (
        pytest.approx(31.0), [pytest.approx(15.5)], [30.0],
    )  # fmt: skip
    assert (found.kernels, found.under.tolist()) == (("b",), [3.75])


def test_where_all_of_it_vanished_it_is_as_for_a_new_version():
    state = replace(one(), under=np.array([1.0, 4.0]))
    gone, anew = faded(state, {"c"}), renewed(state)
    np.testing.assert_allclose(gone.gram, anew.gram, rtol=1e-12)
    np.testing.assert_allclose(gone.pull, anew.pull, rtol=1e-12)
    assert (gone.rows, gone.kernels) == (pytest.approx(anew.rows), ())


def test_a_new_version_leaves_the_shares_as_they_were():
    state = renewed(one())
    np.testing.assert_allclose(state.under / state.information, [0.25, 0.75], rtol=1e-12)


@pytest.mark.parametrize("running", [("a", "b"), ("a", "b", "c"), ()])
def test_where_nothing_is_known_to_have_vanished_nothing_fades(running):
    state = one()
    assert faded(state, running) is state
    nobody = replace(state, kernels=(), under=np.zeros(0))
    assert faded(nobody, running) is nobody


def steps(*given):
    return [Step(n, n + 1, 10.0, blocks, running) for n, (blocks, running) in enumerate(given)]


def test_a_rolling_upgrade_fades_once_at_its_end():
    """Of 100 under a, a second day of 100 leaves half; it came half under a: 100 of 150 did, and then a is gone. The
    third day halves what is left again, and nothing fades twice."""
    first, second, third = plain(100.0, a=100.0), plain(100.0, a=50.0, b=50.0), plain(100.0, b=100.0)
    days = steps(({0: first}, ("a",)), ({0: second}, ("a", "b")), ({}, ("b",)), ({0: third}, ("b",)))
    mixed, gone, after = (folded({}, days[:n], MEMORY)[0] for n in (2, 3, 4))
    assert (mixed.information, mixed.under.tolist()) == (pytest.approx(150), [pytest.approx(100), pytest.approx(50)])
    assert gone.information == pytest.approx(150 * (1 / 3 + 0.1 * 2 / 3))
    assert (gone.kernels, gone.under[0]) == (("b",), pytest.approx(50))
    assert after.information == pytest.approx(60 / 2 + 100)
    assert after.under[0] == pytest.approx(50 / 2 + 100)


def test_a_cluster_of_two_kernels_forgets_nothing():
    days = [plain(100.0, a=100.0), plain(100.0, b=100.0)] * 4  # the victim itself ran under one of them a day
    with_kernels = folded({}, steps(*(({0: day}, ("a", "b")) for day in days)), MEMORY)[0]
    without = Block()
    for day in days:
        without = fold(without, replace(day, kernels=(), under=np.zeros(0)), MEMORY)
    assert np.array_equal(with_kernels.gram, without.gram)
    assert np.array_equal(with_kernels.pull, without.pull)
    assert with_kernels.under.sum() == pytest.approx(without.information)


def test_a_kernel_that_comes_back_finds_its_old_evidence_old():
    days = steps(({0: plain(100.0, a=100.0)}, ("a",)), ({}, ("b",)), ({}, ("a",)))
    assert [folded({}, days[:n], MEMORY)[0].information for n in (1, 2, 3)] == [100, *[pytest.approx(10)] * 2]


def test_evidence_under_vanished_kernels_is_what_the_fold_says():
    under_a, under_b = plain(100.0, a=100.0), plain(100.0, b=100.0)
    days = steps(({0: under_a, 1: under_b, 2: plain(9.0)}, ("a", "b")), ({1: under_b}, ()), ({1: under_b}, ("b",)))
    assert _faded(days[:2]) == set()
    assert _faded(days) == {0}


def test_a_block_tells_what_share_came_under_which_kernel():
    """At a point without slowdowns, and without outliers, a run's information is the square of its exposure."""
    draw = np.random.default_rng(5)
    exposure = np.stack([np.zeros(60), draw.uniform(0.2, 1.0, 60)], axis=1)
    times = 2.0 * np.exp(draw.normal(0, 0.1, 60))
    ran = draw.integers(-1, 2, 60)
    nothing = np.zeros(0)
    point = Linearisation(0, np.array([0]), np.log([2.0]), np.zeros(0, np.int64), nothing, nothing, noise=1.0)
    day = design(times, exposure)
    block, without = reduce(day, point, ran=(("b", "a"), ran)), reduce(day, point)
    squares = exposure[:, 1] ** 2
    assert block.kernels == ("a", "b")
    wanted = [squares[ran == 1].sum() / squares.sum(), squares[ran == 0].sum() / squares.sum()]
    np.testing.assert_allclose(block.under / block.information, wanted, rtol=1e-12)
    assert np.array_equal(block.gram, without.gram)
    assert (without.kernels, len(without.under)) == ((), 0)


def test_blocks_are_packed_with_their_kernels():
    blocks = {3: one(), 5: plain(7.0)}
    found = unpack_blocks(pack_blocks(blocks))
    assert [(block.kernels, block.under.tolist()) for block in found.values()] == [
        (("a", "b"), [1.25, 3.75]),
        ((), []),
    ]


def specs(*rows):
    names = ("node", "valid_from", "valid_to", "kernel")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    time = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "node": pa.array(columns["node"]),
            "valid_from": pa.array(columns["valid_from"], time),
            "valid_to": pa.array(columns["valid_to"], time),
            "kernel": pa.array(columns["kernel"], pa.string()),
        }
    )


def test_kernels_of_nodes_are_those_of_the_specification_valid_then():
    given = specs(
        ("m", 10, 20, "a"), ("m", 20, None, "b"), ("n", 0, 30, "b"), ("n", 40, 50, None), ("n", 50, None, "c")
    )
    found = read(given.take([4, 1, 0, 3, 2]), pa.array(["m", "n"]))
    node, time = [0, 0, 0, 0, 0, 1, 1, 1, 1, -1], [9, 10, 19, 20, OPEN - 1, 29, 35, 45, 50, 15]
    kernels = [found.names[code] if code >= 0 else None for code in found.at(np.array(node), np.array(time))]
    assert kernels == [None, "a", "a", "b", "b", "b", None, None, "c", None]
    spans = {(0, 20): ("a", "b"), (20, 40): ("b",), (15, 21): ("a", "b"), (35, 41): (), (50, 60): ("b", "c")}
    assert {span: found.during(*span) for span in spans} == spans


def test_without_kernels_nothing_is_known():
    nodes = pa.array(["m"])
    for given in (specs(("m", 0, None, None)), specs(("m", 0, None, "a")).drop_columns(["kernel"])):
        found = read(given, nodes)
        assert (found.names, found.during(0, 10)) == ((), ())
        assert found.at(np.array([0]), np.array([5])).tolist() == [-1]
    assert NodeKernels().during(0, 1) == ()
