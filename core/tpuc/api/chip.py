"""The interface that a chip plugin implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, TypeAlias

from tpuc.api.kernel import DdrTensor, HostArgument, LocalBlock, LocalTensor, Shape4
from tpuc.errors import Unsupported, UsageError
from tpuc.ir import BF16, F16, F32, ElementType, Module, ScalarType, TensorType
from tpuc.ir.state import State, states_of
from tpuc.machine import Instruction, Recorder, Timeline
from tpuc.spelling import takes_british_arguments

if TYPE_CHECKING:
    import numpy.typing as npt

    from tpuc.api.planning import LayerCommands
    from tpuc.ir.preprocess import Preprocess

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class FrameAlignment:
    """Alignment of images in a camera's memory layout: every row starts at a multiple of `row_bytes`, and with planar
    channels every plane at a multiple of `plane_bytes`.
    """

    row_bytes: int
    plane_bytes: int


@dataclass(frozen=True)
class ImageFrame:
    """An image in a camera's memory layout: its pixel format, such as `RGB_PLANAR`, and its extents, unpadded."""

    pixel_format: str
    dims: tuple[int, ...]


FLOAT_MODES: Mapping[str, ScalarType] = {"f32": F32, "f16": F16, "bf16": BF16}


def mode_bits(mode: str) -> int:
    """The integer width of a mode, such as 8 for `int8-asym`; 0 for a float mode."""
    digits = mode.removesuffix("-asym").removeprefix("int")
    return int(digits) if mode.startswith("int") and digits.isdigit() else 0


@takes_british_arguments
@dataclass(frozen=True)
class ChipDescription:
    """Facts about a chip, without logic. The plugin cites their sources.

    `modes`: quantization modes by name. `quantized_element(tensor type, mode, divisor, value name)` gives the element
    type in which a calibrated value is stored. `symmetric_divisor` of signed activations is 128 unless the user asks
    for another. `suffix`: of the compiled file. `ddr_base`, `ddr_alignment` in bytes.
    Packed constants start at `ddr_base`. Activations follow them, or start at `activations_base` where they have a
    memory of their own. `boundary_bases` are memories for one network input or output each, inputs first. The remaining
    ones are placed consecutively from `boundary_rest` on, or with the activations where there is no such memory.
    `works_along_width`: a plane of many one-element rows is slower than one wide row, so compositions choose wide rows.
    `has_infinity`: the chip's floats represent infinities; without them, overflow saturates to the largest number.
    `least_divisor`: the smallest magnitude by which its floats divide, 0 where denormal numbers count.
    `frame_alignment`: of camera images, None where files cannot take them. `processor_hz`: of the runtime's functions.
    `support`: the generated file that lists the op forms compiled for the chip, if there is one.
    `cores` run commands side by side, each with its own engines; `tpuc.machine.cores` defines how.
    `keeps_state`: a loaded file keeps state between runs (`tpuc.ir.state`), in its constants, or in other memory if the
    file has an int32 input called `reset_input`, which is 1 in the first run and 0 in later ones.
    `families` names chips whose tables apply where this one has no cell; `lowering_families` is the subset whose
    lowerings apply.
    """

    name: str
    modes: tuple[str, ...]
    suffix: str
    lanes: int
    lmem_bytes: int
    ddr_base: int
    ddr_alignment: int
    quantized_element: Callable[[TensorType, str, int, str], ElementType]
    families: tuple[str, ...] = ()
    lowering_families: tuple[str, ...] = ()
    clock_hz: int = 1_000_000_000
    processor_hz: int = 1_000_000_000
    symmetric_divisor: int = 128
    activations_base: int | None = None
    boundary_bases: tuple[int, ...] = ()
    boundary_rest: int | None = None
    works_along_width: bool = False
    has_infinity: bool = True
    least_divisor: float = 0.0
    frame_alignment: FrameAlignment | None = None
    support: Path | None = None
    cores: int = 1
    keeps_state: bool = False
    reset_input: str = ""

    def quantize(self, type: TensorType, mode: str, name: str) -> TensorType:
        """The stored type of a calibrated value in an integer mode."""
        return type.with_element(self.quantized_element(type, mode, self.symmetric_divisor, name))

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners of the tables that apply to the chip: the chip, then its families."""
        return (self.name, *self.families)

    @property
    def lowering_owners(self) -> tuple[str, ...]:
        """The owners of the lowerings that apply to the chip."""
        return (*self.owners, *self.lowering_families)

    @property
    def compute_type(self) -> str:
        """The most precise float mode of the chip, used for compositions of several ops."""
        return self.float_mode or "f32"

    @property
    def float_mode(self) -> str | None:
        """The most precise float mode, None for an integer-only chip."""
        return next((mode for mode in ("f32", "bf16", "f16") if mode in self.modes), None)

    @property
    def integer_bits(self) -> tuple[int, ...]:
        """The integer widths of its modes, ascending; 8 where it states none."""
        return tuple(sorted({mode_bits(mode) for mode in self.modes} - {0})) or (8,)

    def quantized_mode_of(self, bits: int) -> str:
        """The mode for networks that are already quantized to `bits`: the narrowest integers that hold them, else the
        widest; with zero points where the chip supports them.
        """
        width = next((one for one in self.integer_bits if one >= bits), self.integer_bits[-1])
        return f"int{width}-asym" if f"int{width}-asym" in self.modes else f"int{width}"

    @property
    def quantized_mode(self) -> str:
        """The mode for networks that are already quantized to 8 bits."""
        return self.quantized_mode_of(8)

    quantise, quantised_mode, quantised_mode_of = quantize, quantized_mode, quantized_mode_of  # until version 0.3

    def check_states(self, module: Module) -> None:
        """Raise Unsupported for state that the chip does not keep."""
        if states_of(module) and not self.keeps_state:
            raise Unsupported(f"{module.name}: chip '{self.name}' keeps no states; leave out --state internal")

    def float_type(self, type: TensorType, mode: str) -> TensorType:
        """The stored type in a float mode; f32 in the integer modes."""
        return type.with_element(FLOAT_MODES.get(mode, F32))


class LmemModel(ABC):
    """Local memory: the size of a tensor in each layout, and where buffers may start. Bytes are per lane."""

    lanes: int
    lane_bytes: int
    alignment: int
    bank_bytes: int = 0
    """Size of a memory bank where bank conflicts cost cycles, else 0."""

    @abstractmethod
    def tensor_bytes(self, layout: str, shape: Shape4, item_bytes: int) -> int:
        """Bytes per lane of a tensor that starts at lane 0."""

    def part_offset(self, layout: str, shape: Shape4, item_bytes: int, start: Shape4, part: Shape4) -> int | None:
        """The offset of the `part` of a tensor that begins at `start`, in bytes within each lane.

        None when the part is not laid out like a tensor of its own extents: it begins in another lane or at an odd
        address, or its rows, channels or batches are further apart. Planes of `h * w` elements are assumed contiguous
        where their size allows it.
        """
        if part == shape:
            return 0
        _, c, h, w = shape
        plane = self.tensor_bytes(layout, (1, 1, h, w), item_bytes)
        own_plane = self.tensor_bytes(layout, (1, 1, part[2], part[3]), item_bytes)
        batch = self.tensor_bytes(layout, (1, c, h, w), item_bytes)
        own_batch = self.tensor_bytes(layout, (1, part[1], part[2], part[3]), item_bytes)
        if (
            start[1] % self.lanes
            or (part[0] > 1 and own_batch != batch)
            or (part[1] > self.lanes and own_plane != plane)
        ):
            return None
        if part[2:] != shape[2:] and ((part[3] != w and part[2] > 1) or plane - h * w * item_bytes >= self.alignment):
            return None
        row = (start[2] * w + start[3]) * item_bytes
        return None if row % self.alignment else start[0] * batch + start[1] // self.lanes * plane + row

    def part_strides(
        self, layout: str, shape: Shape4, item_bytes: int, start: Shape4, part: Shape4
    ) -> tuple[int, Shape4] | None:
        """Like `part_offset`, for instructions with arbitrary strides: byte offset and element strides.

        None when the part begins in another lane, or planes are not contiguous.
        """
        _, c, h, w = shape
        plane = self.tensor_bytes(layout, (1, 1, h, w), item_bytes)
        batch = self.tensor_bytes(layout, (1, c, h, w), item_bytes)
        if start[1] % self.lanes or plane - h * w * item_bytes >= self.alignment or plane % item_bytes:
            return None
        offset = start[0] * batch + start[1] // self.lanes * plane + (start[2] * w + start[3]) * item_bytes
        return offset, (batch // item_bytes, plane // item_bytes, w, 1)


class Assembler(Recorder):
    """Base of a chip's assembler. Kernels receive the chip's own subclass; the scheduler uses only these methods."""

    def load(self, target: LocalTensor, source: DdrTensor) -> None:
        """Copy part of a DDR tensor into LMEM (same extents)."""
        raise NotImplementedError

    def store(self, target: DdrTensor, source: LocalTensor) -> None:
        """Copy an LMEM tensor into part of a DDR tensor."""
        raise NotImplementedError

    def load_block(self, target: LocalBlock, address: int) -> None:
        """Copy `bytes_per_lane` bytes from DDR to each lane, spaced in DDR by the chip's `block_pitch`.

        `broadcast_block` copies the same bytes to every lane.
        """
        raise NotImplementedError

    def broadcast_block(self, target: LocalBlock, address: int) -> None:
        """Copy `bytes_per_lane` bytes from DDR to every lane."""
        raise NotImplementedError

    def move(self, target: DdrTensor, source: DdrTensor) -> None:
        """Copy within DDR, with strides on both sides."""
        raise NotImplementedError

    def move_rows(self, target: DdrTensor, source: DdrTensor, index: DdrTensor, scatters: bool) -> None:
        """Copy rows within DDR as described by `RowMove`; extents are (1, channels, rows, elements), and the index has
        one element per row.
        """
        raise NotImplementedError

    def fill(self, target: DdrTensor, value: float) -> None:
        """Write one stored value to every element of part of a DDR tensor."""
        raise NotImplementedError


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a compiled file, stored as `element` at DDR `address`.

    `rounds_evenly`: real input values are quantized as ONNX's QuantizeLinear does, half to even. `frame`: its bytes are
    images in a camera's memory layout.
    """

    name: str
    shape: tuple[int, ...]
    element: ElementType
    address: int
    rounds_evenly: bool = False
    frame: ImageFrame | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes in DDR."""
        return TensorType(self.shape, self.element).size_bytes


@dataclass(frozen=True)
class NetworkEntry:
    """A network in a compiled file for one set of input shapes. Several entries may have the same name."""

    name: str
    shapes: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        return f"{self.name} {' '.join('x'.join(map(str, shape)) for shape in self.shapes)}"


class LoadedModel(ABC):
    """A compiled file in the simulator, decoded once and run any number of times."""

    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    ddr_spaces: tuple[str, ...] = ("ddr",)
    """Names of the memory spaces of regions that are in DDR."""
    layers: Sequence[LayerCommands] = ()
    """Layers that the file associates with its commands; empty where it has none."""
    is_trusted: bool = False
    """The user vouches for code in the file. Irrelevant where a file runs only in the simulator."""
    inner_tensors: Sequence[TensorInfo] = ()
    """Named tensors in DDR other than inputs and outputs, in network order. Several may share an address in turn."""
    states: Sequence[State] = ()
    """Values that `run` keeps for the next run; they are neither `inputs` nor `outputs`."""

    reset_input: TensorInfo | None = None
    """`ChipDescription.reset_input`, if the file has it; `run` sets it."""

    def reset(self) -> None:
        """Clear all states to zero before the next run. Default: there are none."""
        return

    @abstractmethod
    def run(self, inputs: Mapping[str, Array], check: bool = True) -> dict[str, Array]:
        """Run once; return outputs by name, raw as stored. With `check`, raise first what `check()` finds."""

    def check(self) -> None:
        """Raise IllegalCommand for illegal fields and alignment, HazardError for conflicting commands without a wait
        between them. Needs no inputs and is done once. Default: no checks.
        """
        return

    @abstractmethod
    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        """A dense tensor from DDR, as the last run left it."""

    @abstractmethod
    def timeline(self, profile: str) -> Timeline:
        """The start and end of each command under a timing profile of the chip."""

    def timeline_if(self, profile: str, ddr_speed: float) -> Timeline:
        """The timeline with the profile's DDR bandwidth multiplied by `ddr_speed`."""
        raise Unsupported(
            f"profile '{profile}' of this chip does not separate DDR time from compute time; leave out --what-if"
        )

    def ddr_bytes(self, instruction: Instruction) -> tuple[int, int]:
        """Bytes that an instruction reads from and writes to DDR. Default: the extents of its regions."""
        read, written = (
            sum(region.end - region.start for region in regions if region.space in self.ddr_spaces)
            for regions in (instruction.reads(), instruction.writes())
        )
        return read, written

    @property
    def device_bytes(self) -> Mapping[str, int]:
        """Device memory that the chip's runtime allocates to run the file: bytes by purpose. Default: unknown."""
        return {}

    @property
    def host_calls(self) -> Sequence[HostCall]:
        """Functions of the runtime on the host processor; positions count all commands of the file. Default: none."""
        return ()

    def refused_by(self, runtime_version: str) -> str | None:
        """Why that version of the runtime rejects the file, in a sentence without a full stop; None if it accepts it.

        Raises UsageError for an invalid version.
        """
        raise UsageError("files of this chip have no runtime version; leave out --runtime-version.")

    @abstractmethod
    def disassemble(self) -> str:
        """Every command as text."""

    @property
    @abstractmethod
    def memory(self) -> Mapping[str, int]:
        """Bytes by purpose: `weights`, `activations`, `code`, `file`."""


@dataclass(frozen=True)
class HostCall:
    """A function of the chip's runtime that the host computes between two instructions, from DDR to DDR.

    `position`: the number of instructions recorded before it. It sees all their results, and later instructions see its
    own.
    """

    function: str
    arguments: Mapping[str, HostArgument]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    position: int


@dataclass(frozen=True)
class CompiledLayout:
    """What a container needs in addition to the instructions. Addresses and sizes in bytes.

    `weights` is the image of the constant memory from `weights_address`; the activations take `activations_bytes` from
    `activations_address`, inputs and outputs `boundary_bytes` of their own (0: they are among these). `host_calls` are
    in program order. `states` outlive a run and are empty for a chip that keeps none.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    weights: bytes
    weights_address: int
    activations_address: int
    activations_bytes: int
    boundary_address: int = 0
    boundary_bytes: int = 0
    build_time: str | None = None
    host_calls: tuple[HostCall, ...] = ()
    states: tuple[State, ...] = ()


@dataclass(frozen=True)
class BankConflict:
    """Two ranges of local memory, bytes `[start, end)` of each lane. An instruction takes `cycles` longer when both
    touch the same bank.
    """

    one: tuple[int, int]
    other: tuple[int, int]
    cycles: int


class Chip(ABC):
    """A chip plugin. `profiles` are the names of its timing models, the default first; `shared_profile` is for commands
    beside those of other cores. `profile_notes`: source and certainty of each in one sentence without the full stop.
    """

    api_version: ClassVar[int] = 1
    description: ChipDescription
    lmem: LmemModel
    profiles: tuple[str, ...] = ()
    profile_notes: Mapping[str, str] = MappingProxyType({})
    shared_profile: str = ""
    allows_trailer: ClassVar[bool] = False
    """Bytes may be appended to a compiled file: the vendor's readers stop at the end that the file states."""
    pipelines: ClassVar[Mapping[str, Sequence[str]]] = MappingProxyType({})
    """Stages that run other passes for this chip, unless the user replaced them."""

    @property
    def planned_profiles(self) -> tuple[str, ...]:
        """The timing models that plans are compared in, the default first. Each costs a search of its own, so leave out
        models that rarely disagree about plans.
        """
        return self.profiles

    def for_runtime(self, version: str) -> Chip:
        """The chip variant whose files run on that runtime version; raises UsageError where there is none."""
        raise UsageError(
            f"files of chip '{self.description.name}' have no runtime version; leave out --runtime-version."
        )

    @abstractmethod
    def assembler(self) -> Assembler:
        """A new, empty assembler."""

    def block_pitch(self, lanes: int, bytes_per_lane: int) -> int:
        """Distance in DDR, in bytes, between the parts of a packed block for consecutive lanes, as
        `Assembler.load_block` takes them. At least `bytes_per_lane`, which is the default.
        """
        return bytes_per_lane

    @abstractmethod
    def cycles(self, instruction: Instruction, profile: str) -> int:
        """Cycles of one instruction alone."""

    def bank_conflicts(self, instruction: Instruction) -> Sequence[BankConflict]:
        """Pairs of an instruction's operands in local memory that should lie in different banks. Default: none."""
        return ()

    @abstractmethod
    def write(self, module: Module, layout: CompiledLayout, recorder: Recorder) -> bytes:
        """The compiled file. Same input, same bytes."""

    @abstractmethod
    def load(self, data: bytes, source: str = "<bytes>") -> LoadedModel:
        """Load a compiled file into the simulator; raises CorruptFile."""

    def load_written(self, data: bytes, source: str, instructions: Sequence[Instruction]) -> LoadedModel:
        """Like `load`, for the file just written with these instructions. Default: they are decoded from the file."""
        return self.load(data, source)

    def networks(self, data: bytes, source: str = "<bytes>") -> Sequence[NetworkEntry]:
        """The networks in a compiled file; raises CorruptFile. Default: one."""
        return (NetworkEntry("", tuple(info.shape for info in self.load(data, source).inputs)),)

    def load_network(self, data: bytes, source: str, index: int) -> LoadedModel:
        """Like `load`, for the network at an index into `networks`."""
        assert not index, "a chip whose files hold several networks loads them by their places"
        return self.load(data, source)

    def combine(self, files: Sequence[bytes]) -> bytes:
        """One file with the networks of several files, in order; raises Unsupported, which is the default."""
        raise Unsupported(
            f"files for chip '{self.description.name}' hold one network each and cannot be combined; keep them separate"
        )

    def combine_parts(self, files: Iterable[bytes], rest: BinaryIO) -> bytes:
        """Like `combine` for different networks, one in memory at a time: returns the start, writes the `rest`."""
        return self.combine([*files])

    def extract(self, data: bytes) -> Sequence[tuple[str, bytes]]:
        """One file for each network in `networks`, with its name. Default: the file itself."""
        return [("", data)]

    def programs(
        self, model: str, loaded: LoadedModel, described: Mapping[str, Preprocess], labels: Sequence[str]
    ) -> Mapping[str, str]:
        """Programs for the chip's runtime that run the file `model`: source text by file name.

        `described` maps input names to their preprocessing; `labels` are the class names, if any. Same input, same
        text. Default: none.
        """
        return {}
