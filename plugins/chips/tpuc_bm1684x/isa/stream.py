"""Encode and decode command streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpuc.api import Command, CorruptFile, Engine, IllegalCommand
from tpuc.api.encoding import Fields, RawFields

from tpuc_bm1684x.isa.arithmetic import Arithmetic
from tpuc_bm1684x.isa.command import HEADER, Bm1684xInstruction
from tpuc_bm1684x.isa.conv import Conv
from tpuc_bm1684x.isa.dma import ChannelBroadcast, Fill, TensorCopy, TransposeCW, TransposeNC
from tpuc_bm1684x.isa.dma_matrix import LinearCopy, MatrixCopy
from tpuc_bm1684x.isa.dma_rows import RowGather, RowScatter
from tpuc_bm1684x.isa.fused import RECORDS
from tpuc_bm1684x.isa.gather import Gather, GatherLines
from tpuc_bm1684x.isa.lanes import LaneTransfer
from tpuc_bm1684x.isa.matmul import MatMul, SplitMatMul
from tpuc_bm1684x.isa.pool import PoolOrDepthwise
from tpuc_bm1684x.isa.requantize import Requantize
from tpuc_bm1684x.isa.select import CompareSelect
from tpuc_bm1684x.isa.special import ScaleBias, SpecialFunction
from tpuc_bm1684x.isa.system import ComputeMessage, DmaMessage, EndCompute, EndDma, RawCommand, WriteRegisters
from tpuc_bm1684x.isa.tables import CommandTable, identify
from tpuc_bm1684x.isa.target import BM1684X, Target

ID_LIMIT = 1 << 20
"""Command ids have 20 bits; a new command group must start before they overflow."""
STREAM_UNIT = 128
"""Streams are zero-padded to a multiple of this many bytes."""

Any1684x: TypeAlias = Bm1684xInstruction | RawCommand

_COMPUTE: tuple[type[Bm1684xInstruction], ...] = (
    Arithmetic,
    CompareSelect,
    Conv,
    Gather,
    GatherLines,
    LaneTransfer,
    MatMul,
    PoolOrDepthwise,
    Requantize,
    ScaleBias,
    SpecialFunction,
    SplitMatMul,
)
_BY_TABLE = {cls.table_name: cls for cls in _COMPUTE}
_LONG = {name[1:]: cls for name, cls in _BY_TABLE.items()}
_TENSOR = {0: TensorCopy, 1: TransposeNC, 3: ChannelBroadcast}


def _class_of(table: CommandTable, fields: Fields, target: Target) -> type[Bm1684xInstruction] | None:
    special = fields.get(table.sub, 0)
    match table.name:
        case "SYSID" if special in (8, 9) and target.cores > 1:
            return ComputeMessage
        case "SYSID":
            return EndCompute if special == 31 else None
        case "SYS_TR_ACC":
            return WriteRegisters
        case "sDMA_sys" if special in (3, 4) and target.cores > 1:
            return DmaMessage
        case "sDMA_sys":
            return EndDma if special == 0 else None
        case "DMA_tensor":
            return Fill if fields.get("fill_constant_en") and special == 0 else _TENSOR.get(special)
        case "DMA_cw_transpose":
            return TransposeCW
        case "DMA_matrix":
            return MatrixCopy
        case "DMA_general":
            return LinearCopy if special == 0 else None
        case "DMA_gather":
            return RowGather
        case "DMA_scatter":
            return RowScatter
        case _:
            return _BY_TABLE.get(table.name) or _LONG.get(table.name)


def decode_fields(table: CommandTable, fields: Fields, target: Target = BM1684X) -> Any1684x:
    """The instruction for unpacked fields; a RawCommand when no class represents them."""
    cls = _class_of(table, fields, target)
    if cls is None:
        return RawCommand.of(table, fields, target=target)
    try:
        raw = fields if isinstance(fields, RawFields) else RawFields(fields)
        instruction = cls.encoding.instruction(cls, raw, long_form=table.name in _LONG, target=target)
        written = instruction.header() | instruction.fields()
    except (IllegalCommand, ValueError) as error:
        return RawCommand.of(table, fields, str(error), target)
    leftover = table.leftover(fields, written, HEADER - {"cmd_id_en"})
    return dataclasses.replace(instruction, leftover=leftover) if leftover else instruction


@dataclass(frozen=True)
class DecodedStream:
    """The commands of one stream, and its end command."""

    commands: tuple[Command, ...]
    end: Command


def decode_stream(engine: Engine, data: bytes, target: Target = BM1684X) -> DecodedStream:
    """Decode a stream up to its end command; raises CorruptFile or IllegalCommand."""
    name = "compute" if engine is Engine.COMPUTE else "DMA"
    commands: list[Command] = []
    registers: dict[int, int] = {}
    at = 0
    while at + 16 <= len(data):
        head = int.from_bytes(data[at : at + 16], "little")
        table = identify(engine, head, target.tables)
        if at + table.length_bytes > len(data):
            break
        if table.short == 1 and engine is Engine.DMA and table.name != "sDMA_sys":
            raise IllegalCommand(
                f"DMA command {len(commands) + 1}: the short form cannot be relocated; use the long one"
            )
        fields = table.unpack(data[at : at + table.length_bytes])
        instruction = decode_fields(table, fields, target)
        if isinstance(instruction, WriteRegisters):
            registers |= dict(instruction.values)
        elif isinstance(instruction, Conv | PoolOrDepthwise) and instruction.table is not None:
            instruction = dataclasses.replace(instruction, table=registers.get(RECORDS, 0))
        command = Command(instruction, len(commands) + 1, _wait_of(fields, target))
        at += table.length_bytes
        if isinstance(instruction, EndCompute | EndDma):
            return DecodedStream(tuple(commands), command)
        commands.append(command)
    raise CorruptFile(f"{name} stream of {len(data)} bytes: no end command; the file is truncated")


def _wait_of(fields: Fields, target: Target) -> int:
    """The id that the command waits for. The vendor's runtime ignores it when `cmd_id_en` is cleared."""
    return fields.get("cmd_id_dep", 0) if fields.get("cmd_id_en", 0) or not target.has_ids else 0


def encode_stream(commands: Sequence[Command], engine: Engine, target: Target = BM1684X) -> bytes:
    """Encode one engine's commands and the end command, padded as the runtime expects; raises IllegalCommand when ids
    overflow.
    """
    mine = [command for command in commands if command.engine is engine]
    if len(mine) + 1 >= ID_LIMIT:
        raise IllegalCommand(f"{len(mine)} commands in one group: ids have 20 bits; begin a new group")
    end = EndCompute(target=target) if engine is Engine.COMPUTE else EndDma(target=target)
    parts = [command.instruction.encode(command.number, command.wait) for command in mine]
    parts.append(end.encode(len(mine) + 1, 0))
    data = b"".join(parts)
    return data + bytes(-len(data) % STREAM_UNIT)
