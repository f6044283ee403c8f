"""The order of what the TPU and the processor compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tpuc.api import Operation
from tpuc_driver.session import Session
from tpuc_plan.subnet_divide import HOST, TPU, crossings, fewest_crossings

from tests.chips.layered_networks import read_layered
from tests.families import each
from tests.frontends.caffe.files import inputs, layer, read


def _sums(seed: int, folder: Path) -> list[Operation]:
    """A network of sums of any two that came before, each of which is read."""
    random = np.random.default_rng(seed)
    names, text = ["x", "z"], inputs(x=(1, 2), z=(1, 2))
    for index in range(6):
        first, second = random.choice(names, 2, replace=False)
        text += layer("Eltwise", "eltwise_param { operation: SUM }", f"{first} {second}", f"s{index}", f"s{index}")
        names.append(f"s{index}")
    return read(text, folder).main.operations


def _orders(operations: Sequence[Operation], placed: tuple[Operation, ...] = ()) -> Iterator[tuple[Operation, ...]]:
    """Every order in which all operands come first."""
    if len(placed) == len(operations):
        yield placed
    for operation in operations:
        makers = {value.defining for value in operation.operands} - {None}
        if operation not in placed and makers & set(operations) <= set(placed):
            yield from _orders(operations, (*placed, operation))


@each("seed", range(12))
def test_no_order_goes_to_the_processor_less_often(seed: int, tmp_path: Path) -> None:
    operations = _sums(seed, tmp_path)
    computed = [operation for operation in operations if operation.op.name == "top.Add"]
    random = np.random.default_rng(seed)
    sides = {operation: str(random.choice([TPU, HOST])) for operation in computed}
    order = fewest_crossings(operations, sides)
    assert sorted(map(id, order)) == sorted(map(id, operations))
    places = {operation: place for place, operation in enumerate(order)}
    assert all(
        places[value.defining] < places[operation]
        for operation in order
        for value in operation.operands
        if value.defining is not None
    )
    assert crossings(order, sides) == min(crossings(other, sides) for other in _orders(computed))


def test_an_order_that_cannot_be_better_stays(tmp_path: Path) -> None:
    operations = _sums(0, tmp_path)
    computed = [operation for operation in operations if operation.op.name == "top.Add"]
    assert fewest_crossings(operations, dict.fromkeys(computed, TPU)) is operations


@each(("chip", "mode"), [("bm1684x", "f32"), ("cv183x", "bf16")])
def test_parallel_functions_are_one_part(chip: str, mode: str, tmp_path: Path) -> None:
    session = Session(chip=chip, quantize=mode, cpu_ops=("all",))
    loaded = session.chip.load(session.build(read_layered("parallel", tmp_path)).data)
    assert len({call.position for call in loaded.host_calls}) == 1
    assert len(loaded.host_calls) == 2
