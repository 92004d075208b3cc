"""The intents in the control store: what each request of the API does to them, in one transaction each."""

import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from featurestore.store import tree
from featurestore.store.control import Control
from featurestore.store.tree import Item
from pipeline.errors import BadInput
from rules.hpa import model
from rules.hpa.bodies import Body
from rules.hpa.levels import LEVELS, check_consumer, item_template, template

Fields = Mapping[str, str]


class Intents:
    """Items by level (`rules.hpa.levels`) and the fields of their paths; *changed* is told of every change.

    Methods raise `tree.Missing`, `tree.Taken` and, for a body that is wrong, `BadInput`.
    """

    def __init__(
        self,
        control: Control,
        changed: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._control = control
        self._changed = changed
        self._now = now

    def create(self, name: str, fields: Fields, given: object) -> Body:
        """Create an item below its parent and return its body."""
        level = LEVELS[name]
        body = level.read(given)
        collection, parent = template(name).format_map(fields), _parent(name, fields)
        path = f"{collection}/{level.name_of(body)}"

        def work(con: sqlite3.Connection) -> None:
            self._check(con, name, parent, body)
            tree.add(con, parent, collection, path, body, self._now())

        self._control.write(work)
        self._changed()
        return body

    def replace(self, name: str, fields: Fields, given: object) -> Body:
        """Replace an item and return its body."""
        level = LEVELS[name]
        body = level.read(given)
        path = item_template(name).format_map(fields)
        said, asked = level.name_of(body), "/".join(fields[part] for part in level.parts)
        if said != asked:
            raise BadInput(f"metadata.name: {said} is not {asked} of the path")

        def work(con: sqlite3.Connection) -> None:
            tree.need(con, path)
            self._check(con, name, _parent(name, fields), body)
            tree.put(con, path, body, self._now(), childless=level.settled)

        self._control.write(work)
        self._changed()
        return body

    def delete(self, name: str, fields: Fields) -> None:
        """Delete an item that has no children."""
        path = item_template(name).format_map(fields)

        def work(con: sqlite3.Connection) -> None:
            if name == "app":
                tree.need(con, path)
                _unused(con, path, fields["app"])
            tree.remove(con, path)

        self._control.write(work)
        self._changed()

    def get(self, name: str, fields: Fields) -> Any:
        """Return one item as it is shown."""
        path = item_template(name).format_map(fields)
        return self._control.read(lambda con: _shown(con, name, tree.one(con, path)))

    def listed(self, name: str, fields: Fields) -> list[Any]:
        """Return every item of a collection as it is shown, in order of their names."""
        collection, parent = template(name).format_map(fields), _parent(name, fields)

        def work(con: sqlite3.Connection) -> list[Any]:
            tree.need(con, parent)
            return [_shown(con, name, item) for item in tree.listed(con, collection)]

        return self._control.read(work)

    def of_group(self, fields: Fields) -> tuple[model.Intents, list[str]]:
        """Return the intents of one group, and the names of the clusters that were created."""
        path = item_template("group").format_map(fields)

        def work(con: sqlite3.Connection) -> tuple[list[Item], list[Item]]:
            return [tree.one(con, path), *tree.below(con, path)], tree.listed(con, template("cluster"))

        items, clusters = self._control.read(work)
        return model.intents((item.path, item.body) for item in items), [item.name for item in clusters]

    @staticmethod
    def _check(con: sqlite3.Connection, name: str, parent: str, body: Body) -> None:
        if name == "requirement" and (wrong := check_consumer(body, tree.one(con, parent).body)):
            raise BadInput(wrong)


def _parent(name: str, fields: Fields) -> str:
    above = LEVELS[name].above
    return item_template(above).format_map(fields) if above else ""


def _shown(con: sqlite3.Connection, name: str, item: Item) -> Any:
    if name != "intent":
        return item.body
    consumers = tree.listed(con, f"{item.path}/{LEVELS['consumer'].segment}")
    spec = {**item.body["spec"], "resourceConsumers": [consumer.body for consumer in consumers]}
    return {**item.body, "spec": spec}


def _unused(con: sqlite3.Connection, path: str, app: str) -> None:
    """Raise `tree.Taken` where an intent of the composite application is for *app*."""
    above = path.rsplit("/", 2)[0]
    for item in tree.below(con, f"{above}/{LEVELS['group'].segment}"):
        if item.path.split("/")[-2] == LEVELS["intent"].segment and item.body["spec"]["appName"] == app:
            raise tree.Taken(f"{path}: {item.path.removeprefix(above)[1:]} is for it, and has to be deleted first")
