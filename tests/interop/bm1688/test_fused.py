"""Commands that requantize their own sums: our simulator against the vendor's model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import IllegalCommand, Instruction
from tpuc_bm1684x import isa
from tpuc_bm1684x.isa.fused import RECORDS, RESULT_POINT, SHIFT
from tpuc_bm1684x.isa.stream import decode_fields
from tpuc_bm1684x.isa.system import WriteRegisters
from tpuc_bm1684x.isa.tables import identify
from tpuc_bm1684x.isa.types import ROUNDINGS, DType, Layout, Operand
from tpuc_bm1684x.machine import Machine
from tpuc_bm1688.target import ACTIVATIONS, CV186X

from tests.chips.bm1684x.cases import make_case
from tests.chips.oracles import load_oracle
from tests.interop.bm1688.moved import moved, write

CASES, QUICK, FIRST_SEED = 2000, 150, 1000
DDR_BYTES = 1 << 16
TABLE, BIAS = 0x18000, 0x19000
SUMS = ("conv", "pool", "matmul")

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def oracle(oracle_dir: Path) -> Iterator[Any]:
    """The functional model."""
    module = load_oracle(oracle_dir, "oracle_bm1688")
    with module.Oracle(DDR_BYTES) as oracle:
        yield oracle


def _fused(one: Any, random: np.random.Generator) -> list[Instruction] | None:
    """The same command with a narrow result, and the registers that it reads; None for another kind of command."""
    is_sum = not isinstance(one, isa.PoolOrDepthwise) or one.operation in (isa.PoolOp.DEPTHWISE, isa.PoolOp.AVERAGE)
    if not is_sum or not one.is_integer or getattr(one, "accumulate", False) or getattr(one, "is_fused", False):
        return None
    kind = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)[random.integers(4)]
    changes: dict[str, Any] = {}
    has_table = bool(random.integers(2)) and not isinstance(one, isa.MatMul)
    if isinstance(one, isa.MatMul):
        changes["bias"] = None
    elif getattr(one, "operation", None) is not isa.PoolOp.AVERAGE:
        changes["bias"] = Operand(BIAS, DType.INT32, Layout.COMPACT) if random.integers(2) else None
    if isinstance(one, isa.PoolOrDepthwise):
        changes["shift"] = 0
    command = replace(
        one,
        result=replace(one.result, dtype=kind),
        requantizes=True,
        table=TABLE if has_table else None,
        relu=bool(random.integers(2)),
        rounding=ROUNDINGS[random.integers(len(ROUNDINGS))],
        **changes,
    )
    values = [(5, int(random.integers(-128, 128))), (RECORDS, TABLE)]
    if command.table is None:
        shift, point = int(random.integers(-45, 3)), int(random.integers(-300, 300))
        values = [values[0], (RECORDS, int(random.integers(-(2**31), 2**31))), (SHIFT, shift), (RESULT_POINT, point)]
    parts = [values[:3], values[3:]]
    return [*(WriteRegisters(values=tuple(part), target=CV186X) for part in parts if part), command]


def _records(random: np.random.Generator) -> np.ndarray[Any, Any]:
    records = random.integers(-(2**31), 2**31, (CV186X.lanes, 8, 2))
    shifts, points = random.integers(-45, 3, records.shape[:2]), random.integers(-300, 300, records.shape[:2])
    records[..., 1] = shifts & 0xFF | (points & 0xFFFF) << 16
    return records.astype(np.uint32).view(np.uint8).reshape(CV186X.lanes, -1)


@pytest.mark.parametrize("name", SUMS)
def test_every_byte_is_the_models(name: str, oracle: Any, thorough: bool) -> None:
    machine, compared = Machine(0, CV186X), 0
    machine.tagged[ACTIVATIONS] = np.zeros(DDR_BYTES, np.uint8)
    for seed in range(FIRST_SEED, FIRST_SEED + (CASES if thorough else QUICK)):
        random = np.random.default_rng(seed)
        case = make_case(name, seed)
        try:
            last = moved(case.instruction)[-1]
            commands = _fused(last, random)
            if commands is None:
                continue
            commands[-1].check()
        except IllegalCommand:
            continue  # what this chip lacks
        machine.lmem[:] = random.integers(0, 256, machine.lmem.shape, np.uint8)
        lanes = machine.lmem.reshape(CV186X.lanes, CV186X.lane_bytes)
        records = _records(random)
        lanes[:, TABLE : TABLE + records.shape[1]] = records
        write(machine, case)
        oracle.lmem[0][:] = machine.lmem
        for one in commands:
            code = one.encode(1, 0)
            table = identify(one.engine, int.from_bytes(code[:16], "little"), CV186X.tables)
            assert decode_fields(table, table.unpack(code), CV186X).encode(1, 0) == code
            one.execute(machine)
            oracle.run(0, code)
        wrong = int(np.count_nonzero(machine.lmem != oracle.lmem[0]))
        assert not wrong, (seed, wrong, commands[-1].describe())
        compared += 1
    assert compared > QUICK // 6
