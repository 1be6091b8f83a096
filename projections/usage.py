"""What heartbeats measured (floor 2, pure): numbers for names of resources, and each node's last values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from events.log import Int64s

Floats = npt.NDArray[np.float64]

MOST_RESOURCES = 10_000
# Names that are remembered; a fleet uses a few dozen. Without a bound, one agent that makes names up would
# fill the memory of everybody.
COLUMNS = 8
# Resources, the first that were ever named, whose last values lie in an array; others lie in a dict for each
# node.
_NEVER = -np.inf
# In the array: not measured. An unknown value is NaN, and an infinite one is never taken.


@dataclass(frozen=True, slots=True)
class Samples:
    """Measured values in stream order: columns of one length, and the names that are new with them.

    `is_last` marks those of each node's last accepted heartbeat.
    """

    numbers: Int64s
    resources: Int64s
    at_us: Int64s
    used: Floats
    is_last: npt.NDArray[np.bool_]
    new_resources: list[str]


class Resources:
    """Name of a resource to its number and back. Only the writer changes it."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = list(names)
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def numbers(self, names: Sequence[str]) -> tuple[Int64s, list[str]]:
        """Return the number of each name, and the names among them that are new; -1 beyond MOST_RESOURCES."""
        get = self._numbers.get
        found = [get(name, -1) for name in names]
        made: dict[str, int] = {}
        if -1 in found:
            room = MOST_RESOURCES - len(self.names)
            for at, number in enumerate(found):
                if number < 0 and (names[at] in made or len(made) < room):
                    found[at] = made.setdefault(names[at], len(self.names) + len(made))
        return np.array(found, dtype=np.int64), list(made)

    def add(self, names: Iterable[str]) -> None:
        """Make the numbers of new names known, once they are committed."""
        for name in names:
            self._numbers[name] = len(self.names)
            self.names.append(name)


class LastUse:
    """The values of each node's last accepted heartbeat. Only the writer changes it, holding its lock."""

    def __init__(self) -> None:
        self._held = 0
        self._columns: dict[int, Floats] = {}
        self._others: dict[int, dict[int, float]] = {}

    def hold(self, count: int) -> None:
        """Make room for the numbers below `count`."""
        if count > self._held:
            more = max(count, self._held + self._held // 4, 1024) - self._held
            self._held += more
            for resource, column in self._columns.items():
                self._columns[resource] = np.concatenate([column, np.full(more, _NEVER)])

    def put(self, nodes: Int64s, samples: Samples) -> None:
        """Take over the last samples of nodes, some of which may have none."""
        last = np.flatnonzero(samples.is_last)
        sample_nodes, resources, values = samples.numbers[last], samples.resources[last], samples.used[last]
        for column in self._columns.values():
            column[nodes] = _NEVER
        if self._others:
            for node in nodes.tolist():
                self._others.pop(node, None)
        for resource in np.unique(resources[resources < COLUMNS]).tolist():
            if resource not in self._columns:
                self._columns[resource] = np.full(self._held, _NEVER)
            of_it = resources == resource
            self._columns[resource][sample_nodes[of_it]] = values[of_it]
        for at in np.flatnonzero(resources >= COLUMNS).tolist():
            self._others.setdefault(int(sample_nodes[at]), {})[int(resources[at])] = float(values[at])

    def of(self, node: int, resources: Resources) -> dict[str, float | None]:
        """Return the last values of a node by resource; None is reported as unknown."""
        if node >= self._held:
            return {}
        values = {resource: float(column[node]) for resource, column in self._columns.items()}
        values |= self._others.get(node, {})
        return {
            resources.names[resource]: None if np.isnan(value) else value
            for resource, value in sorted(values.items())
            if value != _NEVER
        }

    def sums(self, nodes: Int64s, begins: Int64s) -> list[dict[int, float]]:
        """Return for each group of nodes the sum of their last values, by the number of the resource.

        A group goes from one of `begins` to the next; each node is in one.
        """
        found: list[dict[int, float]] = [{} for _ in range(len(begins))]
        if not found:
            return found
        for resource, column in self._columns.items():
            values = column[nodes]
            is_number = np.isfinite(values)
            sums = np.add.reduceat(np.where(is_number, values, 0.0), begins)
            for group in np.flatnonzero(np.logical_or.reduceat(is_number, begins)).tolist():
                found[group][resource] = float(sums[group])
        if self._others:
            group_of = np.full(self._held, -1)
            group_of[nodes] = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(nodes)))
            for node, rare in self._others.items():
                group = int(group_of[node])
                for resource, value in rare.items() if group >= 0 else ():
                    if np.isfinite(value):
                        found[group][resource] = found[group].get(resource, 0.0) + value
        return found
