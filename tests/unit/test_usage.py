from __future__ import annotations

import numpy as np
import pytest

from projections.usage import COLUMNS, LastUse, Resources, Samples


def samples(*rows: tuple[int, int, float], is_last: bool = True) -> Samples:
    nodes, resources, used = (list(column) for column in zip(*rows, strict=True))
    return Samples(
        numbers=np.array(nodes, dtype=np.int64),
        resources=np.array(resources, dtype=np.int64),
        at_us=np.zeros(len(rows), dtype=np.int64),
        used=np.array(used, dtype=np.float64),
        is_last=np.full(len(rows), is_last),
        new_resources=[],
    )


def test_names_get_numbers_in_the_order_in_which_they_come() -> None:
    resources = Resources(["cpu"])

    numbers, new = resources.numbers(["memory", "cpu", "gpu", "memory"])

    assert (numbers.tolist(), new) == ([1, 0, 2, 1], ["memory", "gpu"])
    resources.add(new)
    assert resources.numbers(["gpu"])[0].tolist() == [2]


def test_names_beyond_the_limit_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("projections.usage.MOST_RESOURCES", 2)

    numbers, new = Resources(["cpu"]).numbers(["a", "b", "a", "cpu"])

    assert (numbers.tolist(), new) == ([1, -1, 1, 0], ["a"])


def test_the_last_values_of_a_node_replace_those_before() -> None:
    resources, last_use = Resources(["cpu", "memory", *[f"r{at}" for at in range(COLUMNS)]]), LastUse()
    last_use.hold(2)
    last_use.put(np.array([0, 1]), samples((0, 0, 1.0), (0, COLUMNS + 1, 5.0), (1, 1, np.nan)))

    assert last_use.of(0, resources) == {"cpu": 1.0, f"r{COLUMNS - 1}": 5.0}
    assert last_use.of(1, resources) == {"memory": None}
    last_use.put(np.array([0]), samples((0, 1, 2.0)))
    assert last_use.of(0, resources) == {"memory": 2.0}
    last_use.put(np.array([1]), samples((1, 1, 9.0), is_last=False))
    assert last_use.of(1, resources) == {}
    assert last_use.of(10**6, resources) == {}


def test_values_are_summed_by_group_without_unknown_ones() -> None:
    last_use = LastUse()
    last_use.hold(5)
    far = COLUMNS + 2
    rows = [(0, 0, 1.0), (1, 0, 2.0), (1, 1, 4.0), (2, 0, np.nan), (3, far, 8.0), (4, far, 16.0), (4, 0, 0.0)]
    last_use.put(np.arange(5), samples(*rows))

    assert last_use.sums(np.array([1, 0, 3, 2]), np.array([0, 2])) == [{0: 3.0, 1: 4.0}, {far: 8.0}]
    assert last_use.sums(np.array([4]), np.array([0])) == [{0: 0.0, far: 16.0}]
    assert last_use.sums(np.empty(0, np.int64), np.empty(0, np.int64)) == []
