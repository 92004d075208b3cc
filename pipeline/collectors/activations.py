"""Activations from OpenWhisk, as pages of its own records; the store reads their columns.

What a record's fields mean, for whoever reads them (OpenWhisk's ``WhiskActivation``):

* ``start`` and ``end`` are epoch milliseconds. ``end`` 0, or none, is no end: triggers and rules have it, and a
  duration must not be made of it. ``duration`` is milliseconds of the action's run and holds ``initTime``.
* ``annotations`` is a list of {key, value}. ``path`` names what ran, ``namespace/[package/]action``, and is the
  function's name where present: an action may run in another's namespace, or under the name of a composition. Without
  it (triggers, rules, old records) the name is ``namespace/name``. ``kind`` is the runtime; ``limits`` has ``memory``
  (MB), ``timeout`` (ms) and ``concurrency``; ``waitTime`` (ms, negative where clocks differ); ``initTime`` (ms) only
  where the container was started for this run; ``causedBy: sequence`` on components.
* ``kind: sequence`` and ``conductor: true`` mark records of compositions: no container of their own, a duration that
  is the sum of their parts, and ``logs`` that are the parts' ids. They are composite, and so are triggers.
* ``response.statusCode`` is 0 success, 1 application error, 2 developer error, 3 error of the platform. Short
  listings have ``statusCode`` at the top; old records only ``response.status``. A ``result`` that holds an ``error``
  beside a recorded 0 is an application error all the same.
* Actions of ``whisk.system`` named ``invokerHealthTestAction*`` are the platform's own checks, not a workload.
"""

from pathlib import Path

from pipeline.ports import ActivationPages
from pipeline.records import Batch, Window


def collect(pages: ActivationPages, window: Window, spool: Path, *, scope: str = "") -> Batch:
    """Spool every record that started in *window* into files of *spool*, which are the caller's.

    *scope* is the namespace. A record may stand in two files, and was only kept by the server when its run had ended:
    the next window must overlap this one by the longest run and delay to be expected. Raises `SourceError`, with
    whole files or none; never a part for the whole.
    """
    files = tuple(pages(window.since, window.until, spool))
    return Batch("activations", files=files, watermark=window.until, scope=scope)
