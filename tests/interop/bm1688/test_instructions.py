"""Random instructions that CV186x shares with BM1684X: our simulator against the vendor's model, whole memories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import Engine, IllegalCommand, Instruction
from tpuc_bm1684x import isa
from tpuc_bm1684x.isa.stream import decode_fields
from tpuc_bm1684x.isa.tables import identify
from tpuc_bm1684x.isa.target import BM1684X
from tpuc_bm1684x.machine import Machine
from tpuc_bm1688.target import ACTIVATIONS, CV186X
from tpuc_ops.quant.arithmetic import Rounding

from tests.chips.bm1684x.cases import FLOAT_GENERATORS, GENERATORS, make_case
from tests.chips.bm1684x.draw import Array, Case
from tests.chips.oracles import load_oracle
from tests.interop.bm1688.moved import local, moved, write

CASES, QUICK, FIRST_SEED = 2000, 30, 1000
DDR_BYTES = 1 << 20
NOT_AT_ENDS = ("division", "pool")
"""Their results for infinities and what is no number differ from the model's; the page of the chip says so."""

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def oracle(oracle_dir: Path) -> Iterator[Any]:
    """The functional model, with the base of activations set."""
    module = load_oracle(oracle_dir, "oracle_bm1688")
    with module.Oracle(DDR_BYTES) as oracle:
        oracle.set_tags({ACTIVATIONS: module.DDR_BASE})
        yield oracle


@pytest.mark.parametrize("name", GENERATORS)
def test_every_byte_that_an_instruction_writes_is_the_models(name: str, oracle: Any, thorough: bool) -> None:
    _compare(name, oracle, CASES if thorough else QUICK, edges=False)


@pytest.mark.parametrize("name", [name for name in FLOAT_GENERATORS if name not in NOT_AT_ENDS])
def test_infinite_denormal_and_no_numbers_too(name: str, oracle: Any, thorough: bool) -> None:
    """The sign of a NaN in a sum comes from the order of operands in the host's instructions and is not compared."""
    _compare(name, oracle, CASES if thorough else QUICK, edges=True)


def _is_known_to_differ(case: Case) -> bool:
    """True for what the page of the chip lists as not equal to the model, and for results that overlap themselves in
    fewer lanes.
    """
    match case.instruction:
        case isa.Arithmetic(operation=isa.ArithmeticOp.CAST, left=source, result=result, rounding=rounding):
            on_half = rounding in (Rounding.HALF_UP, Rounding.HALF_DOWN)
            return on_half and not source.dtype.is_float and result.dtype.is_float
        case isa.Conv(accumulate=True, input=source, weight=weight) if not source.dtype.signed:
            return not weight.dtype.signed
        case isa.MatMul(accumulate=accumulate, left=left):
            return accumulate and not left.dtype.is_float
        case isa.MatrixCopy(destination=address, local_strides=(step, slot), pieces=pieces, width=width):
            slots = CV186X.slots_of(local(address - BM1684X.lmem_base) // CV186X.lane_bytes, pieces)
            return BM1684X.in_lmem(address) and step < (slots - 1) * slot + width
        case isa.TensorCopy(destination=address, destination_strides=(batch, slot, *_)) if BM1684X.in_lmem(address):
            n, c, _, _ = case.instruction.result_shape()
            slots = CV186X.slots_of(local(address - BM1684X.lmem_base) // CV186X.lane_bytes, c)
            return min(n, slots) > 1 and batch < slots * slot
        case _:
            return False


def _varied(instructions: Sequence[Instruction], seed: int) -> Sequence[Instruction]:
    """The instructions; every other product of floats with what only this generation has."""
    *before, last = instructions
    is_float = isinstance(last, isa.MatMul) and not last.is_integer
    return [*before, replace(last, relu=True)] if is_float and seed % 2 else instructions


def _compare(name: str, oracle: Any, count: int, *, edges: bool) -> None:
    machine, compared = Machine(0, CV186X), 0
    machine.tagged[ACTIVATIONS] = np.zeros(DDR_BYTES, np.uint8)
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        case = make_case(name, seed, edges=edges)
        if _is_known_to_differ(case):
            continue
        try:
            instructions = _varied(moved(case.instruction), seed)
            for one in instructions:
                one.check()
            codes = [one.encode(1, 0) for one in instructions]
            heads = [int.from_bytes(code[:16], "little") for code in codes]
            tables = [identify(one.engine, head, CV186X.tables) for one, head in zip(instructions, heads, strict=True)]
        except IllegalCommand:
            continue  # what this chip lacks
        machine.lmem[:], machine.tagged[ACTIVATIONS][:] = 0, 0
        write(machine, case)
        oracle.lmem[0][:], oracle.ddr[:] = machine.lmem, machine.tagged[ACTIVATIONS]
        for one, code, table in zip(instructions, codes, tables, strict=True):
            assert decode_fields(table, table.unpack(code), CV186X).encode(1, 0) == code
            one.execute(machine)
            oracle.run(0 if one.engine is Engine.COMPUTE else 1, code)
        wrong = _differences(machine.lmem, oracle.lmem[0], case, edges=edges)
        wrong += _differences(machine.tagged[ACTIVATIONS], oracle.ddr, case, edges=edges)
        assert not wrong, (seed, wrong, instructions[-1].describe())
        compared += 1
    assert compared > count // 4


def _differences(ours: Array, theirs: Array, case: Case, *, edges: bool) -> int:
    """How many elements differ; at the ends of a range every NaN is the same."""
    kind = case.result.dtype.numpy
    one, other = ours.view(kind), theirs.view(kind)
    unequal = one.view(f"u{kind.itemsize}") != other.view(f"u{kind.itemsize}")
    if edges and kind.kind not in "iu":
        unequal &= ~(np.isnan(one.astype(np.float32)) & np.isnan(other.astype(np.float32)))
    return int(np.count_nonzero(unequal))
