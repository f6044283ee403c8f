"""Encode and decode command buffers: the CMDBUF section of a file, and the DMABUF that devices execute."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tpuc.api import Command, CorruptFile, Engine, IllegalCommand, Instruction, Unsupported
from tpuc.api.encoding import Fields

from tpuc_cv18.isa.arithmetic import Arithmetic
from tpuc_cv18.isa.command import Cv18Instruction
from tpuc_cv18.isa.conv import Conv
from tpuc_cv18.isa.depthwise import Depthwise
from tpuc_cv18.isa.dma import RotateChannels, TensorCopy, TransposeCW, TransposeNC
from tpuc_cv18.isa.dma_special import Fill, LinearCopy, MatrixCopy
from tpuc_cv18.isa.geometry import BASE_REGISTERS, round_up
from tpuc_cv18.isa.lookup import LOOKUP_CODE, ChannelSum, Lookup
from tpuc_cv18.isa.matmul import MatMul
from tpuc_cv18.isa.pool import AveragePool, MaxPool, MinPool
from tpuc_cv18.isa.tables import (
    ENABLE,
    END,
    LAYER,
    NUMBER,
    WAIT,
    encode,
    from_storage,
    to_storage,
)
from tpuc_cv18.isa.target import Target

RECORD = struct.Struct("<BBBBI")
ENGINE_CODES = {0: Engine.COMPUTE, 2: Engine.DMA}
CPU_CODE = 1
_CODES = {engine: code for code, engine in ENGINE_CODES.items()}

DMABUF_HEADER = struct.Struct("<HHIIIIIII64s32x")
DMABUF_MAGIC = 0xB5B5
CPU_RECORD = struct.Struct("<IIIII8x196s")
CPU_SYNC = 2
GAP_BYTES = 128
"""Zero bytes after each segment's compute descriptors."""


@dataclass(frozen=True)
class Segment:
    """Commands that run until both engines are done; ids start at 1. `order` is the file's order."""

    order: tuple[Command, ...]

    def stream(self, engine: Engine) -> tuple[Command, ...]:
        """The commands of one engine."""
        return tuple(command for command in self.order if command.engine is engine)


# -- one descriptor ----------------------------------------------------------------------------------------------------

_COMPUTE: dict[tuple[int, int], type[Cv18Instruction]] = {
    (1, 0): MaxPool,
    (1, 1): AveragePool,
    (1, 2): Depthwise,
    (1, 3): MinPool,
}


def _compute_class(fields: Fields, target: Target) -> type[Cv18Instruction]:
    match fields["tsk_typ"]:
        case 0:
            return Conv
        case 2:
            return MatMul
        case 3:
            if fields["tens_lookup"] or (not target.has_lookup_bit and fields["tsk_eu_typ"] == LOOKUP_CODE):
                return Lookup
            return ChannelSum if fields["tens_mdsum"] else Arithmetic
        case task:
            found = _COMPUTE.get((task, fields["tsk_eu_typ"]))
    if found is None:
        raise IllegalCommand(
            f"compute descriptor: no operation {fields['tsk_typ']}.{fields['tsk_eu_typ']}; the stream is damaged"
        )
    return found


_TRANSPOSITIONS: dict[int, type[Cv18Instruction]] = {
    0: TransposeNC,
    1: RotateChannels,
    2: RotateChannels,
    3: TransposeCW,
}


def _dma_class(fields: Fields) -> type[Cv18Instruction]:
    if fields["trans_fmt"]:
        return LinearCopy
    match fields["spec_func"]:
        case 0:
            return MatrixCopy if fields["sys_dtype"] else TensorCopy
        case 1:
            return MatrixCopy if fields["sys_dtype"] else _TRANSPOSITIONS[fields["transpose_md"]]
        case 4:
            return Fill
        case code:
            raise IllegalCommand(f"DMA descriptor: no special function {code}; the stream is damaged")


def decode(engine: Engine, logical: bytes, target: Target) -> Command:
    """Decode the command of one logical descriptor; enable and end bits are dropped. Raises CorruptFile or
    IllegalCommand.
    """
    layout = target.layouts(engine)
    if len(logical) != layout.length_bytes:
        raise CorruptFile(
            f"{layout.name} of {len(logical)} bytes: it must have {layout.length_bytes}; the file is damaged"
        )
    fields = layout.unpack(logical)
    kind = _compute_class(fields, target) if engine is Engine.COMPUTE else _dma_class(fields)
    try:
        plain = kind.encoding.instruction(kind, fields, layer=fields[LAYER[engine]], target=target)
        written = ENABLE[engine] | plain.fields()
    except ValueError as error:  # a code that an enumeration does not have
        raise IllegalCommand(f"{engine.name.lower()} descriptor: {error}; the stream is damaged") from error
    leftover = layout.leftover(fields, written, {*END[engine], NUMBER[engine], WAIT[engine]})
    instruction = replace(plain, leftover=leftover) if leftover else plain
    return Command(instruction, fields[NUMBER[engine]], fields[WAIT[engine]])


def _numbered(instruction: Instruction, engine: Engine, logical: bytes, target: Target) -> Command:
    """The command of a known instruction; only the ids are read from its descriptor."""
    layout = target.layouts(engine)
    assert instruction.engine is engine, "another instruction than the file's"
    return Command(instruction, layout.value(logical, NUMBER[engine]), layout.value(logical, WAIT[engine]))


def _described(command: Command) -> Cv18Instruction:
    assert isinstance(command.instruction, Cv18Instruction), "an instruction of another chip"
    return command.instruction


# -- cmdbuf ------------------------------------------------------------------------------------------------------------


def encode_cmdbuf(commands: Iterable[Command], target: Target) -> bytes:
    """The CMDBUF section for commands in program order."""
    parts: list[bytes] = []
    for command in commands:
        logical = encode(_described(command), command.number, command.wait, target.layouts)
        parts += [RECORD.pack(target.record_magic, len(logical), _CODES[command.engine], 0, 0), logical]
    return b"".join(parts)


def decode_cmdbuf(section: bytes, target: Target, known: Iterator[Instruction] | None = None) -> list[Segment]:
    """Decode a CMDBUF section into segments. A segment starts where an engine's ids restart, or after a CPU record.

    Where the instructions are `known`, only the ids are decoded, which takes a twentieth of the time.
    """
    segments: list[list[Command]] = [[]]
    last = dict.fromkeys(Engine, 0)
    for index, (engine, logical) in enumerate(split_cmdbuf(section, target)):
        if engine is None:
            segments.append([])
            continue
        try:
            if known is None:
                command = decode(engine, logical, target)
            else:
                command = _numbered(next(known), engine, logical, target)
        except IllegalCommand as error:
            raise IllegalCommand(f"record {index + 1}: {error}") from error
        if command.number <= last[engine] and segments[-1]:
            if any(other.engine is engine for other in segments[-1]):
                segments.append([])
            last = dict.fromkeys(Engine, 0)
        last[engine] = command.number
        segments[-1].append(command)
    return [Segment(tuple(segment)) for segment in segments if segment]


def split_cmdbuf(section: bytes, target: Target) -> list[tuple[Engine | None, bytes]]:
    """The records of a CMDBUF section, each as an engine (None: CPU) and a logical descriptor; raises CorruptFile."""
    at, records = 0, list[tuple[Engine | None, bytes]]()
    while at < len(section):
        if at + RECORD.size > len(section):
            raise CorruptFile(f"command buffer of {len(section)} bytes: cut off in record {len(records) + 1}")
        magic, length, engine, _, mask = RECORD.unpack_from(section, at)
        size = length or mask
        if magic != target.record_magic:
            raise CorruptFile(
                f"command buffer: record {len(records) + 1} starts with {magic:#x}, not "
                f"{target.record_magic:#x} as for {target.name}; the file is damaged or for another chip"
            )
        logical = section[at + RECORD.size : at + RECORD.size + size]
        if len(logical) < size:
            raise CorruptFile(f"command buffer of {len(section)} bytes: cut off in record {len(records) + 1}")
        code = engine & 15
        if code != CPU_CODE and code not in ENGINE_CODES:
            raise CorruptFile(f"command buffer: record {len(records) + 1} is for engine {code}; the file is damaged")
        records.append((ENGINE_CODES.get(code), logical))
        at += RECORD.size + size
    return records


# -- dmabuf ------------------------------------------------------------------------------------------------------------


def encode_dmabuf(segments: Sequence[Segment], target: Target) -> bytes:
    """The DMABUF of whole segments; the runtime fills in base registers and clocks. Raises Unsupported for a chip whose
    DMABUF is unknown.
    """
    _check_known(target)
    queues = {engine: [segment.stream(engine) for segment in segments] for engine in Engine}
    compute_area, dma_area, places = bytearray(), bytearray(), list[tuple[int, int]]()
    for compute, dma in zip(queues[Engine.COMPUTE], queues[Engine.DMA], strict=True):
        compute_area += bytes(-len(compute_area) % 256)
        places.append((len(compute_area), len(dma_area)))
        compute_area += b"".join(to_storage(data) for data in _ended(Engine.COMPUTE, compute, target)) + bytes(
            GAP_BYTES
        )
        dma_area += b"".join(_ended(Engine.DMA, dma, target))
    records_end = DMABUF_HEADER.size + CPU_RECORD.size * len(segments)
    compute_start = round_up(records_end, 256)
    dma_start = round_up(compute_start + len(compute_area), 64)
    records = b"".join(
        CPU_RECORD.pack(CPU_SYNC, len(compute), len(dma), compute_start + first, dma_start + second, b"layer_end")
        for (first, second), compute, dma in zip(places, queues[Engine.COMPUTE], queues[Engine.DMA], strict=True)
    )
    counts = [sum(map(len, queues[engine])) for engine in Engine]
    total = dma_start + len(dma_area)
    bases = bytes(8 * BASE_REGISTERS)
    header = DMABUF_HEADER.pack(DMABUF_MAGIC, target.number, total, len(segments), *counts, 0, 0, 0, bases)
    body = header + records
    body += bytes(compute_start - len(body)) + bytes(compute_area)
    return body + bytes(dma_start - len(body)) + bytes(dma_area)


def _check_known(target: Target) -> None:
    if target.number is None:
        raise Unsupported(f"dmabuf: its format for {target.name} is unknown; use a file with a command buffer")


def _ended(engine: Engine, commands: Sequence[Command], target: Target) -> list[bytes]:
    """Encode logical descriptors, the last one with its end bits set."""
    encoded = [command.instruction.encode(command.number, command.wait) for command in commands]
    if encoded:
        word = int.from_bytes(encoded[-1], "little")
        for name, value in END[engine].items():
            word |= value << target.layouts(engine).fields[name][0]
        encoded[-1] = word.to_bytes(len(encoded[-1]), "little")
    return encoded


def decode_dmabuf(data: bytes, target: Target) -> list[Segment]:
    """Decode a DMABUF into segments; within a segment, compute commands come first. Raises CorruptFile, or Unsupported
    for a chip whose DMABUF is unknown.
    """
    _check_known(target)
    if len(data) < DMABUF_HEADER.size:
        raise CorruptFile(f"dmabuf of {len(data)} bytes: the header alone has {DMABUF_HEADER.size}; it is truncated")
    magic, chip, total, count, *_ = DMABUF_HEADER.unpack_from(data)
    if (magic, chip) != (DMABUF_MAGIC, target.number):
        raise CorruptFile(f"dmabuf: starts with {magic:#x}, {chip:#x}; it is damaged or for another chip")
    if total > len(data) or DMABUF_HEADER.size + count * CPU_RECORD.size > len(data):
        raise CorruptFile(f"dmabuf of {len(data)} bytes: the header states {total}; it is truncated")
    segments: list[Segment] = []
    for index in range(count):
        place = DMABUF_HEADER.size + index * CPU_RECORD.size
        _, compute, dma, compute_at, dma_at, _ = CPU_RECORD.unpack_from(data, place)
        commands = [
            decode(Engine.COMPUTE, from_storage(data[at : at + 112], target.layouts(Engine.COMPUTE)), target)
            for at in range(compute_at, compute_at + 112 * compute, 112)
        ]
        dma_places = range(dma_at, dma_at + 64 * (dma & 0xFFFF), 64)
        commands += [decode(Engine.DMA, data[at : at + 64], target) for at in dma_places]
        segments.append(Segment(tuple(commands)))
    return segments
