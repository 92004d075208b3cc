"""The compiled sweep of one node: its events in order of time, each visiting only the functions that matter.

Written for `exposure.sweep`, which says what is computed. The state is a tuple of arrays, so that the sweep
can stop when the output is full and go on after it has grown.
"""

from typing import TypeAlias

import numpy as np

from featurestore.arrays import Codes as Codes
from featurestore.arrays import Counts as Counts
from featurestore.arrays import Floats as Floats
from featurestore.arrays import Ints as Ints
from featurestore.compiled import compiled

#: starts, ends, activation, kind (the function's number on this node), names (its code), by_end;
#: base, head, points; running, place; newer, older; progress. See `prepare` and `advance`.
State: TypeAlias = tuple[Ints, Ints, Codes, Codes, Codes, Codes, Ints, Ints, Ints, Codes, Codes, Codes, Codes, Ints]

#: More runs of a function at once than this count as so many.
MOST = 65_535

_DIGIT = 11
_LONG_AGO = int(np.iinfo(np.int64).min)


@compiled
def grouped(code: Codes, at: Ints) -> Codes:
    """Return the stable order that groups equal codes; *at* holds where each group starts and is used up."""
    order = np.empty(len(code), np.int32)
    for i in range(len(code)):
        order[at[code[i]]] = i
        at[code[i]] += 1
    return order


@compiled
def sorted_order(keys: Ints) -> Codes:
    """Return the stable order of *keys* (n > 0): a radix sort by digits of 11 bits over the range that occurs."""
    n = len(keys)
    order = np.empty(n, np.int32)
    low = high = keys[0]
    ascending = True
    for i in range(n):
        order[i] = i
        key = keys[i]
        ascending = ascending and (i == 0 or key >= keys[i - 1])
        low = min(low, key)
        high = max(high, key)
    if ascending:
        return order
    other = np.empty(n, np.int32)
    current = keys - low
    moved = np.empty(n, np.int64)
    mask = (1 << _DIGIT) - 1
    shift = 0
    while shift < 63 and (high - low) >> shift > 0:
        at = np.zeros(mask + 2, np.int64)
        for i in range(n):
            at[((current[i] >> shift) & mask) + 1] += 1
        for digit in range(mask):
            at[digit + 1] += at[digit]
        for i in range(n):
            digit = (current[i] >> shift) & mask
            to = at[digit]
            at[digit] = to + 1
            moved[to] = current[i]
            other[to] = order[i]
        current, moved = moved, current
        order, other = other, order
        shift += _DIGIT
    return order


@compiled
def prepare(members: Codes, start: Ints, end: Ints, function: Codes, local: Codes) -> State:
    """Sort the activations *members* of one node by start and by end, and lay out the state of their sweep.

    *local* is a scratch of -1 for every function, left as it was found. Functions are numbered anew, as they occur.
    """
    n = len(members)
    begin = np.empty(n, np.int64)
    until = np.empty(n, np.int64)
    codes = np.empty(n, np.int32)
    for i in range(n):
        m = members[i]
        begin[i], until[i], codes[i] = start[m], end[m], function[m]
    origin = begin.min()
    keys = np.empty(n, np.int64)
    lasting = 0
    for i in range(n):  # at the same time, a run of zero length comes after the starts of others
        lasts = until[i] > begin[i]
        lasting += lasts
        keys[i] = 2 * (begin[i] - origin) + (0 if lasts else 1)
    by_start = sorted_order(keys)
    starts = np.empty(n, np.int64)
    ends = np.empty(n, np.int64)
    activation = np.empty(n, np.int32)
    kind = np.empty(n, np.int32)
    names = np.empty(n, np.int32)
    longs = np.empty(lasting, np.int32)
    seen = 0
    last = 0
    for i in range(n):
        k = by_start[i]
        activation[i] = members[k]
        starts[i] = begin[k] - origin
        ends[i] = max(until[k], begin[k]) - origin
        if ends[i] > starts[i]:
            keys[last] = ends[i]
            longs[last] = i
            last += 1
        b = codes[k]
        if local[b] < 0:
            local[b] = seen
            names[seen] = b
            seen += 1
        kind[i] = local[b]
    names = names[:seen].copy()
    for f in range(seen):
        local[names[f]] = -1
    by_end = longs[sorted_order(keys[:lasting])] if lasting > 0 else longs
    base = np.zeros(seen + 1, np.int64)  # breakpoints of each function: two a run, and one before every time
    for i in range(lasting):
        base[kind[longs[i]] + 1] += 2
    for f in range(seen):
        base[f + 1] += base[f] + 1
    points = np.empty((base[seen], 3), np.int64)  # time, integral until then, running from then on
    for f in range(seen):
        points[base[f], 0] = _LONG_AGO
        points[base[f], 1] = 0
        points[base[f], 2] = 0
    running = np.zeros(seen, np.int32)
    place = np.zeros(seen, np.int32)
    newer = np.arange(seen + 1).astype(np.int32)
    older = np.arange(seen + 1).astype(np.int32)
    progress = np.zeros(3, np.int64)
    return (starts, ends, activation, kind, names, by_end,
            base, base.copy(), points, running, place, newer, older, progress)  # fmt: skip


@compiled
def integral(points: Ints, base: int, head: int, since: int, until: int) -> int:
    """Return the integral over [since, until] of what runs; the newest breakpoint *head* is not after *until*.

    Gallops back from *head*, then halves: O(log k) for k breakpoints after *since*.
    """
    total = points[head, 1] + points[head, 2] * (until - points[head, 0])
    low = head
    if points[head, 0] > since:
        step = 1
        high = head
        low = head - 1
        while points[low, 0] > since:
            high = low
            step *= 2
            low = max(base, low - step)
        while high - low > 1:
            middle = (low + high) // 2
            if points[middle, 0] > since:
                high = middle
            else:
                low = middle
    total -= points[low, 1] + points[low, 2] * (since - points[low, 0])
    return total  # type: ignore[no-any-return]  # indexing an array is untyped


@compiled
def before(points: Ints, head: int, now: int) -> int:
    """Return how many ran right before *now*; the newest breakpoint *head* is not after it."""
    return points[head if points[head, 0] < now else head - 1, 2]  # type: ignore[no-any-return]  # as above


@compiled
def advance(
    starts: Ints,
    ends: Ints,
    activation: Codes,
    kind: Codes,
    names: Codes,
    by_end: Codes,
    base: Ints,
    head: Ints,
    points: Ints,
    running: Codes,
    place: Codes,
    newer: Codes,
    older: Codes,
    progress: Ints,
    indices: Codes | Counts,
    values: Floats,
    last: Counts,
    indptr: Ints,
    rows: Codes,
    cursor: Ints,
) -> bool:
    """Go on with the sweep of one node until it is done (True) or the output is full (False: grow it, call again).

    *points* from *base* to *head* of a function are its breakpoints so far. *running* lists the functions that run
    now, *place* where each stands there; *newer* and *older* link those that ran before, the last seen first, in a
    ring through the element after the last function. *progress* is starts done, ends done, functions running;
    *cursor* is rows written, non-zeros written, room that is missing.
    """
    n, lasting, seen = len(starts), len(by_end), len(names)
    p, q, live = progress[0], progress[1], progress[2]
    row, out = cursor[0], cursor[1]
    while p < n or q < lasting:
        ending = q < lasting and (p == n or ends[by_end[q]] <= starts[p])
        i = by_end[q] if ending else p
        begin = starts[i]
        lasts = ends[i] > begin
        if (ending or not lasts) and out + seen > len(indices):
            progress[0], progress[1], progress[2] = p, q, live
            cursor[0], cursor[1], cursor[2] = row, out, seen
            return False
        now = ends[i] if ending else begin
        own = kind[i]
        if lasts:
            h = head[own]
            count = points[h, 2]
            if points[h, 0] < now:
                points[h + 1, 0] = now
                points[h + 1, 1] = points[h, 1] + count * (now - points[h, 0])
                h += 1
                head[own] = h
            points[h, 2] = count - 1 if ending else count + 1
            if not ending:
                p += 1
                if count == 0:  # it runs again: out of the ring (if it is in it), into the list
                    older[newer[own]] = older[own]
                    newer[older[own]] = newer[own]
                    running[live] = own
                    place[own] = live
                    live += 1
                continue
            q += 1
            if count == 1:  # it ran until now: out of the list, to the front of the ring
                live -= 1
                running[place[own]] = running[live]
                place[running[live]] = place[own]
                newer[own] = seen
                older[own] = older[seen]
                newer[older[seen]] = own
                older[seen] = own
            length = ends[i] - begin
            for at in range(live):
                b = running[at]
                total = integral(points, base[b], head[b], begin, now)
                if b == own:
                    total -= length
                    if total == 0:
                        continue
                indices[out] = names[b]
                values[out] = total / length
                last[out] = min(before(points, head[b], now) - (b == own), MOST)
                out += 1
            b = older[seen]
            while b != seen and points[head[b], 0] > begin:
                total = integral(points, base[b], head[b], begin, now)
                if b == own:
                    total -= length
                if total != 0:
                    indices[out] = names[b]
                    values[out] = total / length
                    last[out] = min(before(points, head[b], now) - (b == own), MOST)
                    out += 1
                b = older[b]
        else:
            p += 1
            for at in range(live):
                b = running[at]
                indices[out] = names[b]
                values[out] = points[head[b], 2]
                last[out] = min(points[head[b], 2], MOST)
                out += 1
        rows[row] = activation[i]
        row += 1
        indptr[row] = out
    cursor[0], cursor[1] = row, out
    return True
