"""The `.cvimodel` format: dataclasses, reader and writer."""

from __future__ import annotations

import enum
import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from tpuc.api import CorruptFile, ImageFrame, Unsupported
from tpuc_chip_parts.files import FileType
from tpuc_chip_parts.flatbuffer import Record, Schema

from tpuc_cv18.container.lz4 import decompress_block
from tpuc_cv18.isa.geometry import BASE_REGISTERS, GMEM_BITS, gmem
from tpuc_cv18.isa.target import Target
from tpuc_cv18.runtimes import NEWEST, Version

MAGIC = b"CviModel"
HEADER = struct.Struct("<8sIBB16s16s2s")
PADDING = b"Cv"
"""The last two bytes of the header, as the vendor writes them."""
DEFAULT_TIME = "1970-01-01 00:00:00"
DEFAULT_PRODUCER = "tpuc"
NO_ADDRESS = -1
RANK = 4
"""Tensor rank in the runtime."""
THRESHOLD_STEPS = 128
"""The threshold that files state for a tensor, in quantization steps."""
Value = float | int | bool | str | tuple[float, ...] | tuple[int, ...]
"""An argument of a CPU routine."""


class TensorType(FileType):
    """Element types of tensors in the file."""

    F32 = 0
    INT32 = 1
    UINT32 = 2
    BF16 = 3
    INT16 = 4
    UINT16 = 5
    INT8 = 6
    UINT8 = 7


@dataclass(frozen=True)
class Tensor:
    """A tensor in GMEM. `tag` is its memory (the TDMA base register); None means no device memory.

    `scale`: inputs are stored as value * scale, outputs represent stored * scale; 0 when the file states none.
    `threshold`: the value of 128 steps, for an input that is divided by the step and rounded half to even, as in ONNX;
    0 where inputs are multiplied by `scale`, or nothing is stated. `hidden`: its memory is reused later, so it cannot
    be read after a run. `frame`: it holds images in a camera's memory layout; `shape` then has one row with all bytes
    of each image.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    tag: int | None
    offset: int = 0
    scale: float = 0.0
    zero_point: float = 0.0
    hidden: bool = False
    threshold: float = 0.0
    frame: ImageFrame | None = None

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return math.prod(self.shape) * self.type.numpy.itemsize

    @property
    def address(self) -> int:
        """The address that DMA commands use."""
        return gmem(self.tag or 0, self.offset)


@dataclass(frozen=True)
class TpuRoutine:
    """Commands in the section `cmdbuf`, or in the section `dmabuf` without such a section."""

    cmdbuf: str = ""
    dmabuf: str = ""


@dataclass(frozen=True)
class CpuRoutine:
    """A built-in function of the runtime with its encoded arguments."""

    function: str
    arguments: bytes = b""


@dataclass(frozen=True)
class Routine:
    """One step of a program."""

    body: TpuRoutine | CpuRoutine
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """One set of shapes: routines that run in order. `shared_bytes` and `private_bytes` are the sizes of the memories
    with tags 0 and 2.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    routines: tuple[Routine, ...]
    shared_bytes: int = 0
    private_bytes: int = 0

    def tensor(self, name: str) -> Tensor:
        """The tensor called `name`; raises CorruptFile if there is none."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise CorruptFile(f"tensor {name!r} is used but not described; the file is damaged")


class SectionKind(enum.IntEnum):
    """Content of a section."""

    WEIGHT = 0
    CMDBUF = 1
    X86_FUNCTIONS = 2
    ARM_FUNCTIONS = 3
    DMABUF = 4


@dataclass(frozen=True)
class Section:
    """A section of the binary area, decompressed."""

    kind: SectionKind
    name: str
    data: bytes


@dataclass(frozen=True)
class Weight:
    """Location of one weight in the weight section; only CPU routines need it."""

    name: str
    offset: int
    size: int
    shape: tuple[int, ...]
    type: TensorType


@dataclass(frozen=True)
class CviModel:
    """A whole file for a chip. The caller chooses the text `time`, so that equal programs give equal files. The runtime
    compares `version` with its own.
    """

    target: Target
    name: str
    programs: tuple[Program, ...]
    sections: tuple[Section, ...]
    weights: tuple[Weight, ...] = ()
    time: str = DEFAULT_TIME
    producer: str = DEFAULT_PRODUCER
    version: Version = NEWEST

    def section(self, kind: SectionKind, name: str | None = None) -> Section | None:
        """The first section of a kind, and with a given name if there is one."""
        return next((item for item in self.sections if item.kind is kind and name in (None, item.name)), None)

    def to_bytes(self) -> bytes:
        """Encode the file."""
        area, records = bytearray(), list[Record]()
        for section in self.sections:
            place = {"size": len(section.data), "offset": len(area)}
            records.append({"type": int(section.kind), "name": section.name, **place})
            area += section.data
        record: Record = {
            "version": self.version,
            "name": self.name,
            "build_time": self.time,
            "weight_map": [_weight_record(weight) for weight in self.weights],
            "programs": [_program_record(program) for program in self.programs],
            "sections": records,
            "target": self.target.name,
            "mlir_version": self.producer,
        }
        body = _schema().write(record, "Model") + bytes(area)
        size = len(body) - len(area)
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        return HEADER.pack(MAGIC, size, *self.version[:2], digest, self.target.name.encode(), PADDING) + body

    @classmethod
    def from_bytes(cls, data: bytes, target: Target) -> CviModel:
        """Decode a file; raises CorruptFile, or Unsupported for another chip or version."""
        if len(data) < HEADER.size:
            raise CorruptFile(
                f"cvimodel of {len(data)} bytes: the header alone has {HEADER.size}; the file is truncated"
            )
        magic, size, major, minor, _, chip, _ = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise CorruptFile(f"cvimodel: starts with {magic!r}, not {MAGIC!r}; this is another kind of file")
        if (major, minor) == (1, 0):
            raise Unsupported("cvimodel version 1.0: an old header without a chip; compile it again")
        if HEADER.size + size > len(data):
            raise CorruptFile(
                f"cvimodel of {len(data)} bytes: the header states a body of {size}; the file is truncated"
            )
        name = chip.rstrip(b"\0").decode("ascii", "replace")
        if name != target.name:
            raise Unsupported(
                f"cvimodel for chip {name!r}: only files for {target.name} can be read here; recompile it"
            )
        record = _schema().read(data[HEADER.size : HEADER.size + size], "Model")
        area = memoryview(data)[HEADER.size + size :]
        programs = tuple(_read_program(item) for item in record.get("programs", []))
        if not programs:
            raise CorruptFile("cvimodel: the file has no program; the file is damaged")
        return cls(
            target,
            record.get("name", ""),
            programs,
            tuple(_read_section(item, area) for item in record.get("sections", [])),
            tuple(_read_weight(item) for item in record.get("weight_map", [])),
            record.get("build_time", ""),
            record.get("mlir_version", ""),
            record.get("version", (major, minor, 0)),
        )


# -- writing -----------------------------------------------------------------------------------------------------------


def _shape_record(shape: Sequence[int]) -> Record:
    return {"dim": list(shape)}


def _weight_record(weight: Weight) -> Record:
    return {
        "name": weight.name,
        "offset": 1 << GMEM_BITS | weight.offset,
        "size": weight.size,
        "shape": _shape_record(weight.shape),
        "type": int(weight.type),
    }


def _tensor_record(tensor: Tensor) -> Record:
    record: Record = {
        "name": tensor.name,
        "offset": NO_ADDRESS if tensor.tag is None else tensor.tag << GMEM_BITS | tensor.offset,
        "dtype": int(tensor.type),
        "shape": _shape_record((*tensor.shape, *(1,) * (RANK - len(tensor.shape)))),
        "overwrote": int(tensor.hidden),
    }
    if tensor.frame is not None:
        record |= {"pixel_format": tensor.frame.pixel_format, "aligned": 1, "size": tensor.bytes}
        record["shape"] = _shape_record(tensor.frame.dims)
    if tensor.scale:
        record["quant"] = {"type": 1, "zero_point": tensor.zero_point, "qscale": tensor.scale}
    if tensor.threshold:
        record["quant"] |= {"max_value": tensor.threshold, "min_value": -tensor.threshold}
    return record


def _routine_record(routine: Routine) -> Record:
    record: Record = {"in_tensors": list(routine.inputs), "out_tensors": list(routine.outputs)}
    match routine.body:
        case TpuRoutine(cmdbuf, dmabuf):
            names = {"cmdbuf_section": cmdbuf, "dmabuf_section": dmabuf}
            return record | {"type": 0, "tpu_routine": {key: name for key, name in names.items() if name}}
        case CpuRoutine(function, arguments):
            return record | {
                "type": 1,
                "cpu_routine": {"function_section": function, "function_args": arguments},
            }


def _program_record(program: Program) -> Record:
    return {
        "input_tensors": list(program.inputs),
        "output_tensors": list(program.outputs),
        "tensor_map": [_tensor_record(tensor) for tensor in program.tensors],
        "routines": [_routine_record(routine) for routine in program.routines],
        "shared_gmem": program.shared_bytes,
        "private_gmem": program.private_bytes,
    }


def write_arguments(values: Mapping[str, Value]) -> bytes:
    """Encode the arguments of a CPU routine."""
    return _schema().write({"attributes": [_attribute(key, value) for key, value in values.items()]}, "Parameter")


def _attribute(key: str, value: Value) -> Record:
    match value:
        case bool():
            return {"bool_attr": {"key": key, "value": int(value)}}
        case int():
            return {"int_attr": {"key": key, "value": value}}
        case float():
            return {"float_attr": {"key": key, "value": value}}
        case str():
            return {"str_attr": {"key": key, "value": value}}
        case tuple():
            name = "float_array_attr" if any(isinstance(item, float) for item in value) else "int_array_attr"
            return {name: {"key": key, "value": list(value)}}


# -- reading -----------------------------------------------------------------------------------------------------------


def read_arguments(data: bytes) -> dict[str, Value]:
    """Decode the arguments of a CPU routine."""
    if not data:
        return {}
    values: dict[str, Value] = {}
    for attribute in _schema().read(data, "Parameter").get("attributes", []):
        for name, record in attribute.items():
            value = record.get("value", "" if name == "str_attr" else [] if "array" in name else 0)
            if name == "bool_attr":
                value = bool(value)
            elif name == "float_attr":
                value = float(value)
            values[record.get("key", "")] = tuple(cast("list[float]", value)) if isinstance(value, list) else value
    return values


def _read_shape(record: Record | None, what: str) -> tuple[int, ...]:
    shape = tuple((record or {}).get("dim", ()))
    if not shape or len(shape) > 8 or min(shape) < 1:
        raise CorruptFile(f"cvimodel: {what} has shape {shape[:8]}; the file is damaged")
    return shape


def _read_type(code: int, what: str) -> TensorType:
    if code not in set(TensorType):
        raise CorruptFile(f"cvimodel: {what} has the unknown type code {code}; the file is damaged or newer")
    return TensorType(code)


def _read_tensor(record: Record) -> Tensor:
    name, place = record.get("name", ""), record.get("offset", 0)
    what = f"tensor {name!r}"
    quant = record.get("quant", {})
    if place != NO_ADDRESS and not 0 <= place >> GMEM_BITS < BASE_REGISTERS:
        raise CorruptFile(f"cvimodel: {what} is at {place:#x}, outside all memories; the file is damaged")
    tensor = Tensor(
        name,
        _read_type(record.get("dtype", 0), what),
        _read_shape(record.get("shape"), what),
        None,
        0,
        quant.get("qscale", 0.0),
        quant.get("zero_point", 0.0),
        bool(record.get("overwrote", 0)),
        quant.get("max_value", 0.0),
    )
    if record.get("aligned", 0):
        tensor = _aligned(tensor, record)
    if place == NO_ADDRESS:
        return tensor
    return replace(tensor, tag=place >> GMEM_BITS, offset=place & ((1 << GMEM_BITS) - 1))


def _aligned(tensor: Tensor, record: Record) -> Tensor:
    """Add the image frame to a tensor, with its size in the aligned memory layout."""
    images, size = tensor.shape[0], record.get("size", 0)
    if not size or size % images or tensor.type is not TensorType.UINT8:
        raise CorruptFile(
            f"cvimodel: tensor {tensor.name!r} holds {images} frames in {size} bytes of {tensor.type.name}; the file "
            "is damaged"
        )
    frame = ImageFrame(record.get("pixel_format", ""), tensor.shape)
    return replace(tensor, shape=(images, 1, 1, size // images), frame=frame)


def _read_routine(record: Record) -> Routine:
    body: TpuRoutine | CpuRoutine
    if record.get("type", 0):
        part = record.get("cpu_routine", {})
        body = CpuRoutine(part.get("function_section", ""), bytes(part.get("function_args", b"")))
    else:
        part = record.get("tpu_routine", {})
        body = TpuRoutine(part.get("cmdbuf_section", ""), part.get("dmabuf_section", ""))
    return Routine(body, tuple(record.get("in_tensors", ())), tuple(record.get("out_tensors", ())))


def _read_program(record: Record) -> Program:
    if record.get("neuron_size", 0):
        raise Unsupported("cvimodel: a program with one activation memory, the layout before version 1.3; recompile it")
    return Program(
        tuple(record.get("input_tensors", ())),
        tuple(record.get("output_tensors", ())),
        tuple(_read_tensor(item) for item in record.get("tensor_map", [])),
        tuple(_read_routine(item) for item in record.get("routines", [])),
        record.get("shared_gmem", 0),
        record.get("private_gmem", 0),
    )


def _read_section(record: Record, area: memoryview) -> Section:
    name, code = record.get("name", ""), record.get("type", 0)
    start, size = record.get("offset", 0), record.get("size", 0)
    if code not in set(SectionKind):
        raise CorruptFile(f"cvimodel: section {name!r} is of the unknown kind {code}; the file is damaged or newer")
    if start + size > len(area):
        raise CorruptFile(
            f"cvimodel: section {name!r} at {start}, {size} bytes, in an area of {len(area)}; the file is truncated"
        )
    if record.get("encrypt", 0):
        raise Unsupported(f"cvimodel: section {name!r} is encrypted; use the file from before encryption")
    data = bytes(area[start : start + size])
    if record.get("compress", 0):
        data = decompress_block(data, record.get("decompressed_size", 0))
    return Section(SectionKind(code), name, data)


def _read_weight(record: Record) -> Weight:
    name = record.get("name", "")
    return Weight(
        name,
        record.get("offset", 0) & ((1 << GMEM_BITS) - 1),
        record.get("size", 0),
        _read_shape(record.get("shape"), f"weight {name!r}"),
        _read_type(record.get("type", 0), f"weight {name!r}"),
    )


def _schema() -> Schema:
    return Schema.load("tpuc_cv18.container", "cvimodel_schema.json")
