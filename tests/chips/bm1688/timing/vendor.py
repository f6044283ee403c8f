"""The vendor's clock of the second generation: its kernel library is asked for every command, as for BM1684X.

A call that emits the same command tells its cost. Transposes of C and W to local memory are a command
of another name there. Beside the command the library writes registers and copies one byte
onto itself; both cost nothing there, so the cost of the call is that of the command.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from tpuc.api import DecodedStreams, Engine, Instruction, stretches
from tpuc.api.simulation import make_timelines
from tpuc_bm1684x.container import BModel
from tpuc_bm1684x.cores import decode_cores, decode_group
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, ChannelBroadcast, Conv, Fill, PoolOrDepthwise, TransposeNC
from tpuc_bm1684x.isa.dma import dma_strides
from tpuc_bm1684x.isa.stream import decode_fields
from tpuc_bm1684x.isa.system import RawCommand, WriteRegisters
from tpuc_bm1684x.isa.tables import identify
from tpuc_bm1684x.isa.types import DType, Layout, Operand, Shape4, rounding_code
from tpuc_bm1684x.timing import cycles
from tpuc_bm1688.target import BM1688, CV186X, PROFILES

LIBRARY = "bm1688"
TOLD_APART = (ChannelBroadcast, TransposeNC)
"""What costs something else without strides: the last arguments of a call but the element type."""
STRIDES = 2
NO_CALL, OTHER = "no call", "emitted as another command"


class Clock:
    """The kernel library, with DDR at the rate of a profile."""

    def __init__(self, folder: Path, profile: str = "vendor") -> None:
        self.rates = PROFILES[profile].rates
        self._calls, self._clock, child = _modules(folder)
        speeds = [(name, [self.rates.load.copy / 1e9]) for name in ("set_gdma_bw_s2l", "set_gdma_bw_l2s")]
        self.vendor = child.Vendor(chip=LIBRARY, setup=speeds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.vendor.close()

    def costs(self, instructions: Sequence[Instruction]) -> list[int | str]:
        """Cycles of each instruction, or why there are none; those of both chips are the same."""
        instructions = [replace(one, target=CV186X) if hasattr(one, "target") else one for one in instructions]
        calls = [self._call(instruction) for instruction in instructions]
        answers = iter(self.vendor.answers([call for call in calls if call is not None]))
        pairs = zip(instructions, calls, strict=True)
        return [
            0 if isinstance(one, WriteRegisters) else NO_CALL if call is None else self._cost(one, next(answers))
            for one, call in pairs
        ]

    def report(self, path: Path, worst: int = 3, beside: Clock | None = None) -> Any:
        """The file's commands and totals by both, as the clock of BM1684X reports them. `beside`: the clock for what
        several cores execute at the same time.
        """
        target, parts = CV186X if beside is None else BM1688, list[DecodedStreams]()
        for net in BModel.from_bytes(path.read_bytes(), target.file_chip).nets:
            for subnet in net.stages[0].subnets:
                for group in subnet.groups:
                    streams = decode_group(group, str(path), target)
                    parts.append(DecodedStreams.of(streams[Engine.COMPUTE], streams[Engine.DMA], str(path)))
                if subnet.cores:
                    parts += decode_cores(subnet.cores, str(path), target)
        alone, together = list[Instruction](), list[Instruction]()
        for stretch in stretches(parts):
            kept = together if sum(bool(part.order) for part in stretch) > 1 else alone
            kept += [command.instruction for part in stretch for command in part.order]
        timed = [(self, alone)] if beside is None else [(self, alone), (beside, together)]
        assert sum(len(part.order) for part in parts) == sum(len(instructions) for _, instructions in timed)
        return self._report(path, parts, timed, worst)

    def _report(
        self,
        path: Path,
        parts: Sequence[DecodedStreams],
        timed: Sequence[tuple[Clock, Sequence[Instruction]]],
        worst: int,
    ) -> Any:
        kinds: defaultdict[str, Any] = defaultdict(self._clock.Kind)
        costs: dict[int, int] = {}
        modeled: dict[int, int] = {}
        wrong: list[tuple[int, int, str]] = []
        triples = [
            (one, cost, clock) for clock, ones in timed for one, cost in zip(ones, clock.costs(ones), strict=True)
        ]
        for one, cost, clock in triples:
            operation = getattr(one, "operation", None)
            kind = kinds[type(one).__name__ + (f".{operation.name}" if operation is not None else "")]
            modeled[id(one)] = ours = cycles(one, clock.rates)
            costs[id(one)] = found = ours if isinstance(cost, str) else cost
            kind.commands, kind.model, kind.vendor = kind.commands + 1, kind.model + ours, kind.vendor + found
            if isinstance(cost, str):
                kind.untimed, kind.untimed_cycles = kind.untimed + 1, kind.untimed_cycles + ours
                kind.reasons[cost] += 1
            elif found == ours:
                kind.equal += 1
            else:
                wrong.append((ours, found, one.describe()))
        model, vendor = (make_timelines(parts, partial(_looked_up, known)).cycles for known in (modeled, costs))
        wrong.sort(key=lambda item: -abs(item[0] - item[1]))
        return self._clock.Report(path.name, dict(kinds), model, vendor, wrong[:worst])

    def _call(self, instruction: Instruction) -> Any:
        """The call that emits an instruction."""
        if isinstance(instruction, Conv) and instruction.is_integer and not instruction.requantizes:
            instruction = replace(instruction, bias=None)  # it has no argument of its own, and is free
        if isinstance(instruction, Conv | PoolOrDepthwise) and instruction.table is not None:
            return self._fused(instruction)
        call = self._calls.call_of(instruction)
        if call is None or not isinstance(instruction, TOLD_APART) or instruction.source_strides is not None:
            return call
        name, arguments = call
        return name, [*arguments[: -STRIDES - 1], *(None,) * STRIDES, arguments[-1]]

    def _fused(self, command: Conv | PoolOrDepthwise) -> Any:
        """The call of sums that are requantized by a table, where there is one."""
        kernel, pads, stride, dilation, insert = self._calls.window(command)
        bias, table, weight = command.bias, command.table, command.weight
        if any(insert) or command.rotate or not isinstance(weight, Operand) or table is None:
            return None
        place = 0 if bias is None else bias.address
        head = [command.result.address, command.input.address, weight.address, place, table % CV186X.lane_bytes]
        pad = self._calls.bits(command.pad_value)
        kinds = [self._calls.data_type(kind) for kind in (command.result.dtype, command.input.dtype, weight.dtype)]
        kinds.append(self._calls.data_type(DType.INT32))
        geometry, flags = [kernel, pads, stride, dilation], [int(command.relu), 0, 0, rounding_code(command.rounding)]
        if isinstance(command, Conv):
            shape = (command.result_shape[0], *command.input_shape)
            middle = [0, pad, shape, _strides(command.input, shape), command.result_shape[1], *geometry, *kinds]
            return "tpu_bdc_conv2d_requant_pc_asym_C", [*head, *middle, 1, int(bias is not None), *flags]
        shape = (*command.shape[:2], *command.input_size)
        middle = [pad, shape, *geometry, *kinds, int(bias is not None), 1]
        return "tpu_bdc_depthwise2d_requant_pc_asym_C", [*head, *middle, flags[0], *flags[2:]]

    def _cost(self, wanted: Instruction, answer: Any) -> int | str:
        if isinstance(answer, str):
            return answer
        total, *emitted = answer
        data = bytes.fromhex(emitted[0 if wanted.engine is Engine.COMPUTE else 1])
        others = [_as_transpose(one) for one in decoded(wanted.engine, data) if not _is_free(one)]
        if len(others) != 1 or self._essence(others[0]) != self._essence(wanted):
            return OTHER
        return max(1, int(total))

    def _essence(self, instruction: Instruction) -> Any:
        if isinstance(instruction, Fill) and instruction.strides is None:
            natural = dma_strides(instruction.destination, instruction.shape, instruction.dtype, CV186X)
            instruction = replace(instruction, strides=natural)
        if isinstance(instruction, Conv) and instruction.is_integer and not instruction.requantizes:
            instruction = replace(instruction, bias=None)
        if isinstance(instruction, Conv | PoolOrDepthwise) and instruction.table is not None:
            instruction = replace(instruction, table=0)  # in a register
        is_plain = isinstance(instruction, TOLD_APART) and instruction.source_strides is None
        return is_plain, self._calls.essence(instruction)


def decoded(engine: Engine, data: bytes) -> list[Instruction]:
    """The commands of a stream without an end."""
    commands: list[Instruction] = []
    while data:
        table = identify(engine, int.from_bytes(data[:16], "little"), CV186X.tables)
        commands.append(decode_fields(table, table.unpack(data[: table.length_bytes]), CV186X))
        data = data[table.length_bytes :]
    return commands


def _looked_up(costs: Mapping[int, int], instruction: Instruction) -> int:
    return costs[id(instruction)]


def _as_transpose(instruction: Instruction) -> Instruction:
    """What distributes a row over lanes as the transpose that it is: to local memory the library has no other."""
    if not isinstance(instruction, RawCommand) or not instruction.mnemonic().endswith(".distribute"):
        return instruction
    table = CV186X.layouts["DMA_cw_transpose"]
    assert table.opcode is not None
    fields = dict(instruction.raw) | {table.main: table.opcode, table.sub: 0, "nchw_copy": 1}
    return decode_fields(table, {name: fields.get(name, 0) for name in table.fields}, CV186X)


def _is_free(instruction: Instruction) -> bool:
    match instruction:
        case Arithmetic(operation=ArithmeticOp.COPY, shape=(1, 1, 1, 1), result=result, left=left):
            return result == left
        case _:
            return isinstance(instruction, WriteRegisters)


def _strides(operand: Any, shape: Shape4) -> Any:
    """Explicit strides; None for the aligned layout."""
    if not isinstance(operand, Operand) or operand.layout is Layout.ALIGNED:
        return None
    return operand.strides(shape, CV186X)


def _modules(folder: Path) -> tuple[ModuleType, ModuleType, ModuleType]:
    """A copy of the table of calls with this chip's addresses, the clock of BM1684X, and the child process."""
    sys.path.insert(0, str(folder))
    try:
        clock, child = (importlib.import_module(name) for name in ("vendor_clock", "vendor_child"))
        found = importlib.util.spec_from_file_location("second_vendor_calls", folder / "vendor_calls.py")
        assert found is not None
        assert found.loader is not None
        calls = importlib.util.module_from_spec(found)
        found.loader.exec_module(calls)
    finally:
        sys.path.remove(str(folder))
    changes = {"in_lmem": CV186X.in_lmem, "LMEM_BASE": 0, "SMEM_BASE": CV186X.smem_base, "strides": _strides}
    for name, value in changes.items():
        assert hasattr(calls, name)
        setattr(calls, name, value)
    return calls, clock, child
