"""CUDA_VISIBLE_DEVICES, as CUDA reads it."""

from __future__ import annotations

import pytest

from gpubench.telemetry.visible import visible_devices

UUIDS = ["GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"]


@pytest.mark.parametrize(
    ("variable", "places"),
    [
        (None, (0, 1, 2, 3)),
        ("", ()),
        ("2", (2,)),
        ("3,0", (3, 0)),  # the order counts
        (" 1 , 2 ", (1, 2)),
        ("0,9,1", (0,)),  # what does not exist hides what follows
        ("-1", ()),
        ("0,-1,1", (0,)),
        ("1,none,2", (1,)),
        ("1,1", ()),  # twice hides all
        ("GPU-bb33,GPU-aa11", (2, 0)),
        ("GPU-c", (3,)),  # a prefix that only one has
        ("GPU-bb33,GPU-aa,GPU-cc44", (2,)),  # a prefix that two have
        ("GPU-bb33,2", ()),
        ("MIG-1234", ()),
    ],
)
def test_the_variable_selects_devices_in_its_order(variable: str | None, places: tuple[int, ...]):
    assert visible_devices(variable, UUIDS).ids == tuple(UUIDS[place] for place in places)


@pytest.mark.parametrize(
    ("variable", "ids"),
    [
        (None, ("GPU-aa11", "MIG-1", "MIG-2", "GPU-bb33", "GPU-cc44")),  # each instance can be given to a process
        ("MIG-2,GPU-cc44", ("MIG-2", "GPU-cc44")),
        ("MIG-GPU-aa22/2/0", ("MIG-2",)),  # as drivers before R470 named it
        ("1,0", ("MIG-1", "GPU-aa11")),  # a GPU that is cut means its first instance
        ("GPU-aa22", ("MIG-1",)),
        ("GPU-aa22,MIG-1", ()),  # twice the same
        ("MIG-9,0", ()),
    ],
)
def test_mig_instances_are_devices(variable: str | None, ids: tuple[str, ...]):
    instances = {"GPU-aa22": {"MIG-1": "MIG-GPU-aa22/1/0", "MIG-2": "MIG-GPU-aa22/2/0"}}
    assert visible_devices(variable, UUIDS, instances).ids == ids


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("0,9,1", "'9' fits no GPU"),
        ("GPU-aa", "'GPU-aa' fits 2 GPUs"),
        ("1,1", "second time"),
        ("MIG-1234", "'MIG-1234' fits no MIG instance"),
    ],
)
def test_what_is_wrong_with_the_variable_is_said(variable: str, words: str):
    assert words in (visible_devices(variable, UUIDS).problem or "")


@pytest.mark.parametrize("variable", [None, "", "-1", "0,1", "0,-1", "GPU-bb"])
def test_the_usual_ways_are_no_problem(variable: str | None):
    assert visible_devices(variable, UUIDS).problem is None
