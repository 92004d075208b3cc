"""A simulated FaaS cluster whose slowdowns are known: the truth that estimates are measured against.

A run of function a on node k needs *work* seconds alone on the first node type. While it runs it advances at

    1 / (speed[a, type_k] * slow * (1 + crowding_a * overload_k) * backend)

where slow is ``1 + sum_b S[a, b] n_b`` (additive truth) or ``prod_b (1 + S[a, b]) ** n_b`` (multiplicative truth),
n_b the other activations of b on the node at that moment. Neither is the model that is fitted: partial overlaps,
several neighbours at once and the stretching of the overlap by the slowdown come out of the mechanics.

What makes it hard, each adjustable in `Setting`: Zipf popularity; daily load that also drives the unobserved input
sizes; cold starts with their initialisation inside the duration; node types with a speed of their own for each
function; nodes that queue above their capacity; nodes that are slow for a day; a backend that slows while the
functions sharing it burst together; functions throttled by their own quota; new versions; skewed clocks;
activations whose node nobody knows; and placement that follows given advice.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.eventloop import simulate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

RANDOM, LEAST_LOADED, ADVISED = 0, 1, 2
RESOURCES = 4
#: A measured share is the demand and a little more, off by a factor with this standard deviation of its log for good.
PROFILE_LEAST, PROFILE_ERROR = 0.02, 0.15


@dataclass(frozen=True, slots=True)
class Setting:
    """What kind of cluster is simulated; the defaults are a cluster of 8 nodes that 40 functions share."""

    functions: int = 40
    nodes: int = 8
    activations: int = 20_000
    interfering: float = 0.12  #: share of ordered pairs that interfere
    unexplained: float = 0.25  #: share of the pairs' variance that no resource explains
    multiplicative: bool = False
    busy: float = 1.8  #: mean runs on a node at once, by work alone
    capacity: int = 8  #: runs on a node at once at most
    days: float = 2.0  #: length of the window in simulated days
    hosts: int = 3  #: nodes that may hold a function, at most; 0: all
    zipf: float = 0.7
    policy: int = LEAST_LOADED
    noisy: float = 0.15  #: share of node days that are slow
    shared: int = 0  #: functions that share a backend and burst together
    backend: float = 1.5  #: how much slower the backend makes its users in a burst
    throttled: float = 0.1  #: share of functions that their own quota holds back at times
    renewed: float = 0.15  #: share of functions with a new version within the window
    skew: float = 0.02  #: standard deviation of node clocks, seconds
    ambiguous: float = 0.03  #: share of activations whose node is not known


@dataclass(frozen=True, slots=True)
class World:
    """The truth: *slowdown* [F, F] victim by aggressor, *interferes* [F, F], and all else about the functions."""

    setting: Setting
    seed: int
    slowdown: Floats
    interferes: Bools
    demand: Floats
    sensitivity: Floats
    profile: Floats
    dominant: Ints
    work: Floats
    spread: Floats
    speed: Floats
    crowding: Floats
    initialisation: Floats
    popularity: Floats
    hosts: Bools
    node_type: Ints
    sharing: Bools
    quota: Bools
    renewal: Floats
    version_factor: Floats


@dataclass(frozen=True, slots=True)
class Records:
    """What the cluster would have recorded, by start: n activations; times in seconds, *node* -1 where not known."""

    function: Ints
    node: Ints
    start: Floats
    end: Floats
    initialisation: Floats
    wait: Floats
    cold: Bools
    version: Ints
    throttled: Floats
    work: Floats
    true_node: Ints


def world(seed: int, setting: Setting) -> World:
    """Draw a cluster; the same *seed* and *setting* give the same."""
    draw = np.random.default_rng([seed, 11])
    f, k = setting.functions, setting.nodes
    dominant = draw.integers(0, RESOURCES, f)
    demand = draw.gamma(1.3, 0.11, (f, RESOURCES))
    sensitivity = draw.gamma(1.3, 0.11, (f, RESOURCES))
    demand[np.arange(f), dominant] += draw.uniform(0.45, 1.05, f)
    sensitivity[np.arange(f), dominant] += draw.uniform(0.25, 1.0, f)
    second = np.flatnonzero(draw.random(f) < 0.3)
    sensitivity[second, draw.integers(0, RESOURCES, len(second))] += draw.uniform(0.3, 0.8, len(second))
    clash = sensitivity @ demand.T
    clash = (clash - clash.mean()) / clash.std()
    score = np.sqrt(1 - setting.unexplained) * clash + np.sqrt(setting.unexplained) * draw.normal(size=(f, f))
    edge = np.quantile(score, 1 - setting.interfering)
    interferes = score >= edge
    slowdown = np.abs(draw.normal(0, 0.012, (f, f)))
    above = (score[interferes] - edge) / (score.max() - edge)
    slowdown[interferes] = 0.11 + 0.9 * above * draw.uniform(0.6, 1.05, len(above))
    node_type = (np.arange(k) % 8 >= 5).astype(np.int64)
    speed = np.ones((f, 2))
    speed[:, 1] = np.exp(draw.normal(np.log(1.3), 0.13, f))
    rank = draw.permutation(f)
    popularity = (1.0 + rank) ** -setting.zipf
    hosts = np.ones((f, k), bool)
    if setting.hosts:
        several = max(setting.hosts, int(np.ceil(1.5 * setting.hosts * k / max(f, 1))))
        hosts[:] = False
        for row in hosts:
            row[draw.choice(k, min(k, several - int(draw.random() < 0.35)), replace=False)] = True
    sharing = np.zeros(f, bool)
    sharing[draw.permutation(f)[: setting.shared]] = True
    return World(
        setting=setting,
        seed=seed,
        slowdown=slowdown,
        interferes=interferes,
        demand=demand,
        sensitivity=sensitivity,
        profile=(demand + PROFILE_LEAST) * np.exp(draw.normal(0, PROFILE_ERROR, (f, RESOURCES))),
        dominant=dominant,
        work=np.clip(np.exp(draw.normal(np.log(1.2), 0.9, f)), 0.15, 12.0),
        spread=draw.uniform(0.12, 0.45, f),
        speed=speed,
        crowding=draw.uniform(0.1, 0.5, f),
        initialisation=np.exp(draw.normal(np.log(0.7), 0.5, f)),
        popularity=popularity / popularity.sum(),
        hosts=hosts,
        node_type=node_type,
        sharing=sharing,
        quota=draw.random(f) < setting.throttled,
        renewal=np.where(draw.random(f) < setting.renewed, draw.uniform(0.3, 0.7, f), 2.0),
        version_factor=np.exp(draw.normal(0, 0.25, f)),
    )


def _bursts(draw: np.random.Generator, window: float) -> tuple[Floats, Floats]:
    """Return starts and ends of bursts: about a fifth of the window, in spells of a 160th of it each."""
    starts = np.sort(draw.uniform(0, window, 32))
    return starts, starts + draw.exponential(window / 160, 32)


def _arrivals(w: World, draw: np.random.Generator) -> tuple[Ints, Floats, Floats, Floats, Floats]:
    """Return function, arrival, work, throttling and the window's length; load and input size share the day."""
    s = w.setting
    rate = w.popularity * s.busy * s.nodes / w.work
    window = s.activations / rate.sum()
    day = window / s.days
    phase = draw.normal(0, 0.6, s.functions)
    burst_start, burst_end = _bursts(draw, window)
    quiet = draw.normal(0.15, 0.12, (s.functions, 48))
    parts = []
    for f in range(s.functions):
        peak = 4.0 if w.sharing[f] else 1.0
        t = draw.uniform(0, window, draw.poisson(rate[f] * window * 2 * peak))
        level = 0.5 + 0.45 * np.sin(2 * np.pi * t / day + phase[f])
        if w.sharing[f]:
            at = np.searchsorted(burst_start, t, side="right") - 1
            bursting = (at >= 0) & (t < burst_end[at])
            level *= np.where(bursting, 1.0, 0.6 / peak)
        t = t[draw.random(len(t)) < level]
        load = 0.45 * np.sin(2 * np.pi * t / day)
        work = w.work[f] * np.exp(draw.normal(0, w.spread[f], len(t)) + 0.35 * load)
        work *= np.where(t > w.renewal[f] * window, w.version_factor[f], 1.0)
        held = np.zeros(len(t))
        if w.quota[f]:
            held = np.clip(quiet[f][(t / window * 48).astype(np.int64)] + 0.6 * load, 0, 0.8)
            work *= 1 + 0.7 * held
        parts.append((np.full(len(t), f), t, work, held))
    function, arrival, work, held = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(arrival, kind="stable")
    return function[order].astype(np.int64), arrival[order], work[order], held[order], np.array([window, day])


def run(w: World, advice: Floats | None = None, repeat: int = 0) -> Records:
    """Run the cluster on the load of *repeat*; *advice* [F, F] are the slowdowns that the policy ADVISED believes."""
    s = w.setting
    draw = np.random.default_rng([w.seed, 13, repeat])
    function, arrival, work, held, (window, day) = _arrivals(w, draw)
    n = len(function)
    noisy = np.where(draw.random((s.nodes, int(s.days) + 1)) < s.noisy, draw.uniform(1.1, 1.4), 1.0)
    believed = w.slowdown if advice is None else advice
    node, start, end, cold, init = simulate(
        function,
        arrival,
        work,
        w.slowdown,
        s.multiplicative,
        w.speed,
        w.crowding,
        w.initialisation * 1.0,
        w.hosts,
        w.node_type,
        w.sharing,
        s.backend,
        noisy,
        day,
        s.capacity,
        window / 120,
        s.policy,
        believed,
        np.exp(draw.normal(0, 0.05, n)),
        np.exp(draw.normal(0, 0.3, n)),
        draw.random((n, 2)),
    )
    clock = draw.normal(0, s.skew, s.nodes)
    order = np.argsort(start, kind="stable")
    hidden = draw.random(n) < s.ambiguous
    seen = np.where(hidden, -1, node)
    shift = clock[node]
    version = (arrival > w.renewal[function] * window).astype(np.int64)
    measured = np.where(held > 0, np.clip(held + draw.normal(0, 0.05, n), 0, 1), 0.0)
    table = Records(
        function, seen, start + shift, end + shift, init, start - arrival, cold, version, measured, work, node
    )
    return Records(*(getattr(table, name)[order] for name in Records.__dataclass_fields__))


def advised(w: World) -> World:
    """Return the same world whose placement follows advice."""
    return replace(w, setting=replace(w.setting, policy=ADVISED))


def followed(before: Records, after: Records) -> Records:
    """Return both records as one history, *after* a minute later than the end of *before*."""
    shift = float(before.end.max() - after.start.min()) + 60.0
    later = replace(after, start=after.start + shift, end=after.end + shift)
    return Records(
        *(np.concatenate([getattr(before, name), getattr(later, name)]) for name in Records.__dataclass_fields__)
    )
