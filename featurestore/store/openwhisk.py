"""Activation records made into columns by DuckDB's own JSON reader, away from the store's file.

What the records hold, and habits of the original that the columns get right:

* the function is the annotation ``path``, else ``namespace/name``;
* the status code is ``response.statusCode``, else a short listing's own ``statusCode``, else what the status text or
  ``success`` says, else -1. A result with an ``error`` beside a recorded 0 is an application error, 1: such a run is
  no evidence of how long a good one takes;
* sequences and conductors have no container, triggers neither: ``composite``. A trigger is what has no end (0 or
  none) and neither kind nor limits; it is kept, without an end and without a duration;
* a run is ended at its time limit, so an ``end`` long past that (twice the limit and a minute) is not believed and
  the run is kept without one;
* the invokers' health actions are noise and left out.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection

from pipeline.errors import NOT_JSON, BadInput
from pipeline.records import Refusal

#: Verdict on a record that is understood but no workload.
NOISE = "health action"

#: So many refused records are told one by one.
_TOLD = 5

# The reader's own limit of one record, raised where one is longer; it takes a multiple of that in memory.
_OBJECT = 16 << 20

_BOM = b"\xef\xbb\xbf"

# ignore_errors: a field of a wrong kind becomes null and the record is judged by what is left of it; text that is no
# JSON is an error all the same.
_RECORDS = """
SELECT * FROM read_json(?, columns = {
    activationId: 'VARCHAR', namespace: 'VARCHAR', name: 'VARCHAR', version: 'VARCHAR',
    "start": 'BIGINT', "end": 'BIGINT', duration: 'DOUBLE', statusCode: 'INTEGER',
    response: 'STRUCT(statusCode INTEGER, status VARCHAR, success BOOLEAN, result STRUCT(error JSON))',
    annotations: 'STRUCT("key" VARCHAR, "value" VARCHAR)[]',
    node: 'VARCHAR', pod: 'VARCHAR', node_type: 'VARCHAR'
}, format = ?, maximum_object_size = ?, ignore_errors = true, hive_partitioning = false, compression = 'none')
"""

# Years 1 to 9999 are what a datetime holds.
_FACTS = """
WITH listed AS (
    SELECT *, list_transform(annotations, lambda a: a."key") AS k,
        list_transform(annotations, lambda a: a."value") AS v
    FROM records
), noted AS (
    SELECT * EXCLUDE (annotations, k, v), v[list_position(k, 'path')] AS path, v[list_position(k, 'kind')] AS kind,
        v[list_position(k, 'limits')] AS limits, v[list_position(k, 'causedBy')] AS caused_by,
        v[list_position(k, 'initTime')] AS init, v[list_position(k, 'waitTime')] AS wait,
        coalesce(v[list_position(k, 'conductor')] = 'true', false) AS conductor,
        "end" IS NULL OR ("end" = 0 AND "start" > 0) AS endless
    FROM listed
), limited AS (
    SELECT *, CASE WHEN json_valid(limits)
        THEN json_extract_string(limits, ['$.memory', '$.timeout', '$.concurrency']) END AS l
    FROM noted
)
SELECT activationId AS activation_id, coalesce(path, namespace || '/' || nullif(name, '')) AS function, version, kind,
    CASE WHEN "start" BETWEEN -62135596800000 AND 253402300799999 THEN "start" * 1000 END AS start_us,
    CASE WHEN endless THEN NULL WHEN "end" BETWEEN -62135596800000 AND 253402300799999 THEN "end" * 1000
        ELSE -9e18::BIGINT END AS end_us,
    CASE WHEN NOT endless OR duration > 0 THEN duration END AS duration_ms,
    TRY_CAST(init AS DOUBLE) AS init_ms, TRY_CAST(wait AS DOUBLE) AS wait_ms,
    CASE
        WHEN response.result.error IS NOT NULL AND coalesce(response.statusCode, statusCode, 0) = 0 THEN 1
        ELSE coalesce(response.statusCode, statusCode, CASE response.status
            WHEN 'success' THEN 0 WHEN 'application error' THEN 1
            WHEN 'action developer error' THEN 2 WHEN 'developer error' THEN 2
            WHEN 'whisk internal error' THEN 3 WHEN 'whisk error' THEN 3 END,
            CASE WHEN response.success THEN 0 END)
    END AS status_code,
    TRY_CAST(l[1] AS INTEGER) AS memory_mb, TRY_CAST(l[2] AS BIGINT) AS timeout_ms,
    TRY_CAST(l[3] AS INTEGER) AS concurrency,
    coalesce(kind = 'sequence', false) OR conductor OR (endless AND kind IS NULL AND limits IS NULL) AS composite,
    caused_by, nullif(trim(node), '') AS node, nullif(trim(pod), '') AS pod, nullif(trim(node_type), '') AS node_type
FROM limited
"""

_GIVEN = """
SELECT activation_id, function, version, kind, epoch_us("start") AS start_us, epoch_us("end") AS end_us, duration_ms,
    init_ms, wait_ms, status_code, memory_mb, timeout_ms, concurrency, composite, caused_by, node, pod, node_type
FROM given
"""

# No limit is longer than the years that there are, and none is no time at all.
_JUDGED = """
WITH facts AS (
    SELECT * REPLACE (CASE WHEN timeout_ms BETWEEN 1 AND 315537897600000 THEN timeout_ms END AS timeout_ms)
    FROM told
)
SELECT activation_id, function, coalesce(version, '') AS version, coalesce(kind, '') AS kind,
    make_timestamptz(start_us) AS "start",
    CASE WHEN end_us >= start_us AND (
        coalesce(composite, false) OR coalesce(end_us - start_us <= 2000 * timeout_ms + 60000000, true)
    ) THEN make_timestamptz(end_us) END AS "end",
    duration_ms, CASE WHEN isfinite(init_ms) AND init_ms >= 0 THEN init_ms END AS init_ms,
    CASE WHEN isfinite(wait_ms) THEN wait_ms END AS wait_ms, coalesce(status_code, -1) AS status_code,
    memory_mb, timeout_ms, concurrency, coalesce(composite, false) AS composite,
    coalesce(caused_by, '') AS caused_by, node, pod, node_type,
    CASE
        WHEN coalesce(activation_id, '') = '' THEN 'no activation id'
        WHEN coalesce(function, '') = '' THEN 'no name'
        WHEN start_us IS NULL THEN 'start is no time'
        WHEN end_us < start_us THEN 'end is no time after start'
        WHEN duration_ms < 0 OR NOT isfinite(duration_ms) THEN 'duration is no length of time'
        WHEN starts_with(function, 'whisk.system/invokerHealthTestAction') THEN 'health action'
    END AS verdict
FROM facts
"""


def _staged(records: str) -> str:
    return f"WITH records AS ({records}), told AS ({_FACTS}) SELECT * FROM ({_JUDGED})"


def stage_files(con: DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Read *files* into the temporary table ``staged``, in their order.

    A file is an array of records, a record a line, or one record. The columns are those of
    `pipeline.columns.ACTIVATIONS` and ``verdict``: null, `NOISE`, or why the record is refused.
    Raises `BadInput` naming a file that holds no records at all, such as half a page.
    """
    create = f"CREATE OR REPLACE TEMP TABLE staged AS {_staged(_RECORDS)}"
    try:
        form = "newline_delimited" if all(map(_a_record_a_line, files)) else "array"
        con.execute(create, [[_literal(file) for file in files], form, _OBJECT])
    except duckdb.InvalidInputException:
        # One text the reader cannot take, such as half a surrogate, must cost only its own record.
        with tempfile.TemporaryDirectory() as aside:
            lines = Path(aside) / "records.json"
            refused, longest = _salvage(con, files, lines)
            con.execute(create, [[_literal(lines)], "newline_delimited", max(_OBJECT, longest)])
        if refused:
            con.execute(
                "INSERT INTO staged (verdict, composite) SELECT 'no JSON that can be kept', false FROM range(?)",
                [refused],
            )


def stage_rows(con: DuckDBPyConnection, rows: pa.Table) -> None:
    """Take *rows* (`pipeline.columns.ACTIVATIONS`) into ``staged`` as `stage_files` does."""
    con.register("given", rows)
    con.execute(f"CREATE OR REPLACE TEMP TABLE staged AS WITH told AS ({_GIVEN}) SELECT * FROM ({_JUDGED})")
    con.unregister("given")


def refusals(con: DuckDBPyConnection, files: Sequence[Path]) -> tuple[Refusal, ...]:
    """Return the first records of *files* that are refused: each is read again, since to keep with every record where
    it came from would cost all of them."""
    found: list[Refusal] = []
    for file in files:
        stage_files(con, [file])
        asked = (
            "SELECT rowid + 1, activation_id, verdict FROM staged WHERE verdict IS NOT NULL AND verdict <> ?"
            " ORDER BY rowid LIMIT ?"
        )
        for number, name, why in con.execute(asked, [NOISE, _TOLD - len(found)]).fetchall():
            found.append(Refusal(f"{file}, {f'activation {name[:60]}' if name else f'record {number}'}", why))
        if len(found) == _TOLD:
            break
    return tuple(found)


def _literal(file: Path) -> str:
    """Return the name of *file* as the reader takes it, which would look for others by some signs in it."""
    return re.sub(r"[*?[]", r"[\g<0>]", str(file))


def _a_record_a_line(file: Path) -> bool:
    with file.open("rb") as content:
        try:
            return isinstance(msgspec.json.decode(content.readline().removeprefix(_BOM)), dict)
        except NOT_JSON:
            return False


def _salvage(con: DuckDBPyConnection, files: Sequence[Path], lines: Path) -> tuple[int, int]:
    """Write every record of *files* that is JSON to *lines*, one a line.

    Return how many were not, and the bytes of the longest line.
    """
    refused = longest = 0
    with lines.open("w", encoding="utf-8") as out:
        for file in files:
            texts = [text.encode("utf-8", "backslashreplace").decode() for text in _records(file)]
            [[valid]] = con.execute(
                "SELECT list_transform(?::VARCHAR[], lambda t: json_valid(t))", [texts]
            ).fetchall()
            out.writelines(f"{text}\n" for text, good in zip(texts, valid, strict=True) if good)
            refused += valid.count(False)
            longest = max(longest, *(len(text.encode()) + 1 for text in texts), 0)
    return refused, longest


def _records(file: Path) -> Iterable[str]:
    """Take *file* apart into its records, each on one line; bytes that are no UTF-8 become text that is no JSON."""
    text = file.read_bytes().removeprefix(_BOM).decode("utf-8", "surrogateescape")
    if not text.strip():
        return []
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{"):
            return [line for line in text.split("\n") if line.strip()]  # a string may hold other line ends
        raise BadInput(f"{file}: no array of activation records: {error}") from None
    return [json.dumps(record) for record in (whole if isinstance(whole, list) else [whole])]
