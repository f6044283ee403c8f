"""Another chip of the family, of 8 lanes, made of the same classes: its files compute what the ops say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tpuc.registry import Registry
from tpuc.registry.offers import installed_offers
from tpuc_cv18.base import Cv18Chip
from tpuc_cv18.container import CviModel, SectionKind
from tpuc_cv18.isa import DType, decode_cmdbuf, split_columns
from tpuc_cv18.kernels import kernel_table
from tpuc_cv183x.chip import CV183X
from tpuc_driver.session import Session
from tpuc_testing.kernel_conformance import Sample, compile_kernels
from tpuc_testing.values import build_exposed

from tests.chips.cv18.steps import check_steps
from tests.chips.cv183x.test_kernels import FLOATS, INTEGERS
from tests.core.fakes import offer
from tests.families import each
from tests.models.networks import Network

NARROW = replace(CV183X, name="narrow", lanes=8, clock_hz=500_000_000, record_magic=0xA7, number=0x1822)


@pytest.fixture(name="registry")
def _registry() -> Registry:
    """What is installed, and the narrow chip."""
    own = [offer("chips", "narrow", Cv18Chip(NARROW)), offer("kernels", "narrow.tpu", kernel_table(NARROW))]
    return Registry(offers=[*installed_offers(), *own])


@pytest.mark.slow  # every kernel, of which files of the chip itself and of its family are quick
@pytest.mark.parametrize("samples", [INTEGERS, FLOATS], ids=["integers", "floats"])
def test_kernels_compute_what_the_ops_say(registry: Registry, samples: dict[str, Sample]) -> None:
    compiled = compile_kernels(samples, "narrow", registry)
    loaded = registry.get("tpuc.chips", "narrow").load(compiled.data)
    integers, floats = check_steps(compiled.module, compiled.inputs | loaded.run(compiled.inputs))
    assert integers + floats == sum(1 + len(sample.tilings) for sample in samples.values())


def test_a_network_computes_what_its_ops_say(registry: Registry, network: Callable[[str], Network]) -> None:
    net = network("digits")
    session = Session(registry, chip="narrow", quantize="int8")
    final, data = build_exposed(session, net.module, net.table)
    inputs = net.inputs(3)
    integers, _ = check_steps(final, inputs | session.chip.load(data).run(inputs))
    assert integers


def test_files_and_cycles_are_those_of_the_chip(registry: Registry) -> None:
    chip = registry.get("tpuc.chips", "narrow")
    data = compile_kernels({"conv": INTEGERS["conv"]}, "narrow", registry).data
    model = CviModel.from_bytes(data, NARROW)
    section = model.section(SectionKind.CMDBUF)
    assert section is not None
    assert section.data[0] == NARROW.record_magic
    (segment,) = decode_cmdbuf(section.data, NARROW)
    assert {command.instruction.target for command in segment.order} == {NARROW}
    wide = compile_kernels({"conv": INTEGERS["conv"]}, "cv183x").data
    assert chip.load(data).timeline("vendor").cycles > Cv18Chip(CV183X).load(wide).timeline("vendor").cycles


@each(("columns", "split"), [(10, (1, 10)), (100, (7, 16)), (129, (5, 32)), (1000, (8, 128))])
def test_columns_lie_over_the_lanes_of_the_chip(columns: int, split: tuple[int, int]) -> None:
    assert split_columns(columns, DType.INT8, NARROW) == split
