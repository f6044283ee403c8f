"""The `.bmodel` format: dataclasses, reader and writer."""

from __future__ import annotations

import enum
import hashlib
import io
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from tpuc.api import CorruptFile, Unsupported
from tpuc_chip_parts.files import FileType
from tpuc_chip_parts.flatbuffer import Record, Schema

from tpuc_bm1684x.isa.geometry import DDR_BASE

MAGIC = 0xFF55AAEE
HEADER = struct.Struct("<IIIQ44x")
SECTION_BYTES = 4096
RANK_LIMIT = 8
CHIP = "BM1684X"
GIVEN, WANTED, INNER = 1, 2, 5
"""Values of the field `hidden`: network inputs, network outputs, and tensors between subnets."""
TPU_MEMORY, HOST_MEMORY = 1, 2
"""Bits of the field `mem_type`: the memories that hold a tensor."""
DEFAULT_TIME = "1970-01-01 00:00:00"
DEFAULT_VERSION = "2.2+tpuc"


class TensorType(FileType):
    """Element types of inputs and outputs; the numbers differ from those in commands."""

    F32 = 0
    F16 = 1
    INT8 = 2
    UINT8 = 3
    INT16 = 4
    UINT16 = 5
    INT32 = 6
    UINT32 = 7
    BF16 = 8
    INT4 = 9
    UINT4 = 10


@dataclass(frozen=True)
class Tensor:
    """An input or output at DDR `address`. `scale` and `zero_point` are information for users.

    A tensor that a CPU layer reads or writes is `on_host`: the runtime keeps it in its own memory.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    address: int
    scale: float = 1.0
    zero_point: int = 0
    on_host: bool = False

    @property
    def bytes(self) -> int:
        """Size in DDR."""
        return math.prod(self.shape) * self.type.numpy.itemsize


@dataclass(frozen=True)
class CommandGroup:
    """The two streams of a group with their end commands, which the counts include."""

    tiu: bytes
    gdma: bytes
    tiu_count: int
    gdma_count: int


@dataclass(frozen=True)
class Location:
    """Offset and size of one weight in the coefficients."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Coefficients:
    """The weights and the DDR address that the commands expect them at."""

    data: bytes
    address: int = DDR_BASE
    locations: tuple[Location, ...] = ()


class SubNetMode(enum.IntEnum):
    """The processor that executes a subnet."""

    TPU = 0
    CPU = 1
    MERGE = 2
    SWITCH = 3


@dataclass(frozen=True)
class CpuLayer:
    """A layer of the vendor's CPU library: its number and its encoded parameters."""

    number: int
    parameters: bytes


@dataclass(frozen=True)
class SubNet:
    """Part of a net. A TPU subnet runs its command groups in order, or one group of each core beside the others; a CPU
    subnet has one layer.
    """

    groups: tuple[CommandGroup, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    mode: SubNetMode = SubNetMode.TPU
    layer: CpuLayer | None = None
    cores: tuple[CommandGroup, ...] = ()


@dataclass(frozen=True)
class Stage:
    """A network compiled for one set of shapes. Weights are below `writable_address`, writable memory starts there."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    context_address: int
    context_bytes: int
    subnets: tuple[SubNet, ...]
    coefficients: Coefficients | None = None
    is_dynamic: bool = False
    io_address: int = 0
    io_bytes: int = 0
    """In address mode 1, inputs and outputs have a separate region before the context."""

    @property
    def writable_address(self) -> int:
        """End of the weights and start of inputs, outputs and context."""
        return min(self.io_address, self.context_address) if self.io_bytes else self.context_address

    @property
    def groups(self) -> tuple[CommandGroup, ...]:
        """The command groups of all subnets, in order."""
        return tuple(group for subnet in self.subnets for group in (*subnet.groups, *subnet.cores))


@dataclass(frozen=True)
class Net:
    """A named network."""

    name: str
    stages: tuple[Stage, ...]
    address_mode: int = 0


@dataclass(frozen=True)
class BModel:
    """A whole file. The caller chooses the text `time`, so that equal programs give equal files."""

    nets: tuple[Net, ...]
    chip: str = CHIP
    version: str = DEFAULT_VERSION
    time: str = DEFAULT_TIME

    def to_bytes(self) -> bytes:
        """Encode the file."""
        area = io.BytesIO()
        writer = ModelWriter(area)
        for net in self.nets:
            writer.add(net)
        return writer.start(self) + area.getbuffer()

    @classmethod
    def from_bytes(cls, data: bytes, expected: str = CHIP) -> BModel:
        """Decode a file; raises CorruptFile, or Unsupported for another chip."""
        if len(data) < HEADER.size:
            raise CorruptFile(f"bmodel of {len(data)} bytes: the header alone has {HEADER.size}; the file is truncated")
        magic, header_bytes, block_bytes, area_bytes = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise CorruptFile(f"bmodel: starts with {magic:#010x}, not {MAGIC:#010x}; this is another kind of file")
        needed = header_bytes + block_bytes + area_bytes
        if header_bytes < HEADER.size or needed > len(data):
            raise CorruptFile(f"bmodel of {len(data)} bytes: the header states {needed}; the file is truncated")
        record = _schema().read(data[header_bytes : header_bytes + block_bytes], "Model")
        chip = record.get("chip", "")
        if chip != expected:
            raise Unsupported(f"bmodel for chip {chip!r}: only files for {expected} can be read here; recompile it")
        area = memoryview(data)[header_bytes + block_bytes : needed]
        nets = tuple(_read_net(item, area) for item in record.get("net", []))
        if not nets:
            raise CorruptFile("bmodel: the file has no network; the file is damaged")
        return cls(nets, chip, record.get("version", ""), record.get("time", ""))


# -- writing -----------------------------------------------------------------------------------------------------------


class ModelWriter:
    """Writes the networks of a file one after another: their sections to `area`, which follows all else in a file."""

    def __init__(self, area: BinaryIO) -> None:
        self._area = _BinaryArea(area)
        self._records: list[Record] = []
        self._largest = 0

    def add(self, net: Net) -> None:
        """Write the sections of a network."""
        self._records.append(_net_record(net, self._area))
        self._largest = max([self._largest, *(stage.context_bytes for stage in net.stages)])

    def start(self, model: BModel) -> bytes:
        """Return what stands before the area in a file of the chip, version, and time of `model`."""
        record = {
            "type": "B",
            "version": model.version,
            "time": model.time,
            "chip": model.chip,
            "net": self._records,
            "neuron_size": self._largest,
            "device_num": 1,
        }
        block = _schema().write(record, "Model")
        block += bytes(-(HEADER.size + len(block)) % SECTION_BYTES)
        return HEADER.pack(MAGIC, HEADER.size, len(block), self._area.size) + block


@dataclass
class _BinaryArea:
    """Write padded sections; equal sections are stored once."""

    output: BinaryIO
    size: int = 0
    known: dict[bytes, tuple[int, int]] = field(default_factory=dict[bytes, tuple[int, int]])

    def add(self, section: bytes) -> tuple[int, int]:
        """Add a section; return its (start, size)."""
        digest = hashlib.blake2b(section).digest()
        if digest not in self.known:
            self.known[digest] = (self.size, len(section))
            filler = bytes(-len(section) % SECTION_BYTES)
            self.output.write(section)
            self.output.write(filler)
            self.size += len(section) + len(filler)
        return self.known[digest]


def _net_record(net: Net, area: _BinaryArea) -> Record:
    stages = [_stage_record(stage, area) for stage in net.stages]
    return {"name": net.name, "parameter": stages, "addr_mode": net.address_mode}


def _stage_record(stage: Stage, area: _BinaryArea) -> Record:
    inputs, outputs = _tensor_records(stage.inputs, GIVEN), _tensor_records(stage.outputs, WANTED)
    ends = {record["name"]: record for record in (*outputs, *inputs)}
    subnets = [
        _subnet_record(subnet, index, len(stage.subnets), ends, area) for index, subnet in enumerate(stage.subnets)
    ]
    record: Record = {
        "input_tensor": inputs,
        "output_tensor": outputs,
        "ctx_addr": stage.context_address,
        "ctx_size": stage.context_bytes,
        "is_dynamic": int(stage.is_dynamic),
        "cmd_group": [group for subnet in subnets for group in subnet["cmd_group"]],
        "sub_net": subnets,
        "ctx_sizes": [stage.context_bytes],
        "core_num": max([1, *(len(subnet.cores) for subnet in stage.subnets)]),
    }
    if stage.io_bytes:
        record |= {"io_addr": stage.io_address, "io_size": stage.io_bytes}
    if stage.coefficients is not None:
        record["coeff_mem"] = _coefficient_record(stage.coefficients, area)
    return record


def _coefficient_record(coefficients: Coefficients, area: _BinaryArea) -> Record:
    locations = [{"name": item.name, "offset": item.offset, "size": item.size} for item in coefficients.locations]
    return {
        "address": coefficients.address,
        "check_code": hashlib.sha256(coefficients.data).digest(),
        "binary_coeff": area.add(coefficients.data),
        "location": locations,
    }


def _subnet_record(subnet: SubNet, index: int, count: int, ends: Mapping[str, Record], area: _BinaryArea) -> Record:
    record: Record = {
        "subnet_mode": int(subnet.mode),
        "cmd_group": [_group_record(group, area) for group in subnet.groups],
        "input_tensor": [_part_record(tensor, ends) for tensor in subnet.inputs],
        "output_tensor": [_part_record(tensor, ends) for tensor in subnet.outputs],
        "is_dynamic": 0,
        "id": index,
        "next_subnet_ids": [index + 1 if index + 1 < count else -1],
        "run_core": max(1, len(subnet.cores)),
    }
    if subnet.cores:
        record["core_commands"] = [{"gdma_tiu_commands": [_group_record(group, area)]} for group in subnet.cores]
    if subnet.layer is not None:
        record["cpu_param"] = [_layer_record(subnet.layer, area)]
    return record


def _layer_record(layer: CpuLayer, area: _BinaryArea) -> Record:
    return {"op_type": layer.number, "binary_param": area.add(layer.parameters), "is_custom": 0}


def _group_record(group: CommandGroup, area: _BinaryArea) -> Record:
    return {
        "bdc_num": group.tiu_count,
        "gdma_num": group.gdma_count,
        "binary_bdc": area.add(group.tiu),
        "binary_gdma": area.add(group.gdma),
        "bdc_cmd_byte": len(group.tiu),
        "gdma_cmd_byte": len(group.gdma),
    }


def _part_record(tensor: Tensor, ends: Mapping[str, Record]) -> Record:
    """The record of a tensor that a subnet reads or writes: a network input or output, or a tensor between subnets."""
    end = ends.get(tensor.name)
    return _tensor_record(tensor, INNER, 0) if end is None else _tensor_record(tensor, end["hidden"], end["index"])


def _tensor_records(tensors: Sequence[Tensor], role: int) -> list[Record]:
    return [_tensor_record(tensor, role, index) for index, tensor in enumerate(tensors)]


def _tensor_record(tensor: Tensor, role: int, index: int) -> Record:
    return {
        "name": tensor.name,
        "data_type": int(tensor.type),
        "gmem_stmode": 0,
        "device_addr": tensor.address,
        "size": tensor.bytes,
        "shape": [{"dim": list(tensor.shape)}],
        "mem_type": TPU_MEMORY | HOST_MEMORY if tensor.on_host else TPU_MEMORY,
        "scale": tensor.scale,
        "zero_point": tensor.zero_point,
        "hidden": role,
        "index": index,
    }


# -- reading -----------------------------------------------------------------------------------------------------------


def _section(area: memoryview, place: tuple[int, int] | None, what: str) -> bytes:
    if place is None:
        raise CorruptFile(f"bmodel: {what} has no location; the file is damaged")
    start, size = place
    if start + size > len(area):
        raise CorruptFile(f"bmodel: {what} at {start}, {size} bytes, in an area of {len(area)}; the file is truncated")
    return bytes(area[start : start + size])


def _read_net(record: Record, area: memoryview) -> Net:
    stages = tuple(_read_stage(item, area) for item in record.get("parameter", []))
    if not stages:
        raise CorruptFile(f"bmodel: network {record.get('name', '')!r} has no shapes; the file is damaged")
    return Net(record.get("name", ""), stages, record.get("addr_mode", 0))


def _read_stage(record: Record, area: memoryview) -> Stage:
    coefficients = None
    if "coeff_mem" in record:
        memory = record["coeff_mem"]
        places = memory.get("location", [])
        coefficients = Coefficients(
            _section(area, memory.get("binary_coeff"), "weights"),
            memory.get("address", 0),
            tuple(Location(item.get("name", ""), item.get("offset", 0), item.get("size", 0)) for item in places),
        )
    sizes = record.get("ctx_sizes", [])
    return Stage(
        _read_tensors(record.get("input_tensor", [])),
        _read_tensors(record.get("output_tensor", [])),
        record.get("ctx_addr", 0),
        max(record.get("ctx_size", 0), sum(sizes)),
        tuple(_read_subnet(item, area) for item in record.get("sub_net", [])),
        coefficients,
        bool(record.get("is_dynamic", 0)),
        record.get("io_addr", 0),
        record.get("io_size", 0),
    )


def _read_subnet(record: Record, area: memoryview) -> SubNet:
    mode = record.get("subnet_mode", 0)
    if mode not in set(SubNetMode):
        raise CorruptFile(f"bmodel: subnet mode {mode} is unknown; the file is damaged or newer")
    return SubNet(
        tuple(_read_group(item, area) for item in record.get("cmd_group", [])),
        _read_tensors(record.get("input_tensor", [])),
        _read_tensors(record.get("output_tensor", [])),
        SubNetMode(mode),
        _read_layer(record, area) if mode == SubNetMode.CPU else None,
        tuple(_read_core(item, area) for item in record.get("core_commands", [])),
    )


def _read_core(record: Record, area: memoryview) -> CommandGroup:
    groups = record.get("gdma_tiu_commands", [])
    if len(groups) != 1:
        raise Unsupported(f"bmodel: a core with {len(groups)} groups of commands instead of one; compile it statically")
    return _read_group(groups[0], area)


def _read_layer(record: Record, area: memoryview) -> CpuLayer:
    layers = record.get("cpu_param", [])
    if len(layers) != 1:
        raise CorruptFile(f"bmodel: a CPU subnet with {len(layers)} layers instead of one; the file is damaged")
    return CpuLayer(layers[0].get("op_type", 0), _section(area, layers[0].get("binary_param"), "layer parameters"))


def _read_group(record: Record, area: memoryview) -> CommandGroup:
    return CommandGroup(
        _section(area, record.get("binary_bdc"), "compute code"),
        _section(area, record.get("binary_gdma"), "DMA code"),
        record.get("bdc_num", 0),
        record.get("gdma_num", 0),
    )


def _read_tensors(records: Sequence[Mapping[str, Any]]) -> tuple[Tensor, ...]:
    return tuple(_read_tensor(record) for record in records)


def _read_tensor(record: Mapping[str, Any]) -> Tensor:
    name, code = record.get("name", ""), record.get("data_type", 0)
    shapes = record.get("shape", [])
    if code not in set(TensorType):
        raise CorruptFile(f"bmodel: tensor {name!r} has the unknown type code {code}; the file is damaged or newer")
    if not shapes:
        raise CorruptFile(f"bmodel: tensor {name!r} has no shape; the file is damaged")
    shape = tuple(shapes[0].get("dim", []))
    if len(shape) > RANK_LIMIT or 0 in shape:
        raise CorruptFile(f"bmodel: tensor {name!r} has shape {shape[:RANK_LIMIT]}; the file is damaged")
    return Tensor(
        name,
        TensorType(code),
        shape,
        record.get("device_addr", 0),
        record.get("scale", 1.0),
        record.get("zero_point", 0),
        bool(record.get("mem_type", 0) & HOST_MEMORY),
    )


def _schema() -> Schema:
    return Schema.load("tpuc_bm1684x.container", "bmodel_schema.json")
