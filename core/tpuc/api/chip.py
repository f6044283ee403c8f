"""What a chip plugin offers to the compiler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tpuc.api.kernel import DdrTensor, HostArgument, LocalBlock, LocalTensor, Shape4
from tpuc.errors import Unsupported, UsageError
from tpuc.ir import BF16, F16, F32, ElementType, Module, ScalarType, TensorType
from tpuc.ir.state import State, states_of
from tpuc.machine import Instruction, Recorder, Timeline

if TYPE_CHECKING:
    import numpy.typing as npt

    from tpuc.api.planning import LayerCommands
    from tpuc.ir.preprocess import Preprocess

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class FrameAlignment:
    """How a camera's hardware lays out images: every row begins at a multiple of `row_bytes`, and where channels are
    planes, each of them at one of `plane_bytes`.
    """

    row_bytes: int
    plane_bytes: int


@dataclass(frozen=True)
class ImageFrame:
    """An image that lies as a camera's hardware lays it out: what its pixels are, as `RGB_PLANAR`, and its extents
    without the bytes between rows.
    """

    pixel_format: str
    dims: tuple[int, ...]


FLOAT_MODES: Mapping[str, ScalarType] = {"f32": F32, "f16": F16, "bf16": BF16}


def mode_bits(mode: str) -> int:
    """The width of the integers that a mode computes with, such as 8 of `int8-asym`; 0 for a float mode."""
    digits = mode.removesuffix("-asym").removeprefix("int")
    return int(digits) if mode.startswith("int") and digits.isdigit() else 0


@dataclass(frozen=True)
class ChipDescription:
    """Facts about a chip, no logic. Sources are cited in the plugin.

    `modes`: quantisation modes by name. `quantised_element(tensor type, mode, divisor, value name)` gives the element
    type that a calibrated value is stored as. `symmetric_divisor` of signed activations is the seed's 128 unless the
    user asks for another. `suffix`: of the compiled file. `ddr_base`, `ddr_alignment` in bytes.

    Packed constants begin at `ddr_base`; activations behind them, or at `activations_base` where they have a memory of
    their own. `boundary_bases` are memories for one network input or output each, inputs first; those that are left
    over lie one behind the other from `boundary_rest` on, or with the activations where there is no such memory.

    `works_along_width`: is a plane of many rows of one element slower than one wide row? Compositions lay rows so.

    `has_infinity`: do the chip's floats hold infinities? Where they do not, numbers beyond all others are the largest.

    `least_divisor`: by smaller numbers its floats do not divide; half of it is the smallest number that they hold.

    `frame_alignment`: of images as a camera leaves them, None where files cannot take such.

    `support`: the generated file of the forms of ops that were compiled for the chip, if there is one.

    `cores` run commands side by side, each with engines of its own; what waits then are is in `tpuc.machine.units`.
    `keeps_state`: does a loaded file keep what one run leaves for the next, as `tpuc.ir.state` says it?

    `families` names chips whose tables serve where this one has no cell, `lowering_families` those of which that holds
    for lowerings alone.
    """

    name: str
    modes: tuple[str, ...]
    suffix: str
    lanes: int
    lmem_bytes: int
    ddr_base: int
    ddr_alignment: int
    quantised_element: Callable[[TensorType, str, int, str], ElementType]
    families: tuple[str, ...] = ()
    lowering_families: tuple[str, ...] = ()
    clock_hz: int = 1_000_000_000
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

    def quantise(self, type: TensorType, mode: str, name: str) -> TensorType:
        """The stored type of a calibrated value in an integer mode."""
        return type.with_element(self.quantised_element(type, mode, self.symmetric_divisor, name))

    @property
    def owners(self) -> tuple[str, ...]:
        """Whose tables serve the chip: its own, then those of its families."""
        return (self.name, *self.families)

    @property
    def lowering_owners(self) -> tuple[str, ...]:
        """Whose lowerings serve the chip."""
        return (*self.owners, *self.lowering_families)

    @property
    def compute_type(self) -> str:
        """The float mode in which compositions of several ops are computed: the most exact one that the chip has."""
        return self.float_mode or "f32"

    @property
    def float_mode(self) -> str | None:
        """The most exact float mode, None for a chip that computes with integers alone."""
        return next((mode for mode in ("f32", "bf16", "f16") if mode in self.modes), None)

    @property
    def integer_bits(self) -> tuple[int, ...]:
        """The widths of integers that its modes compute with, ascending; 8 where it states none."""
        return tuple(sorted({mode_bits(mode) for mode in self.modes} - {0})) or (8,)

    def quantised_mode_of(self, bits: int) -> str:
        """The mode of networks that are quantised already to so many bits: of the narrowest integers that hold them,
        else of the widest; with zero points where the chip has it.
        """
        width = next((one for one in self.integer_bits if one >= bits), self.integer_bits[-1])
        return f"int{width}-asym" if f"int{width}-asym" in self.modes else f"int{width}"

    @property
    def quantised_mode(self) -> str:
        """As `quantised_mode_of`, of bytes."""
        return self.quantised_mode_of(8)

    def check_states(self, module: Module) -> None:
        """Raise Unsupported for state that the chip does not keep."""
        if states_of(module) and not self.keeps_state:
            raise Unsupported(
                f"{module.name}: chip '{self.name}' keeps nothing from one run to the next; compile the network "
                "without its states, and give the outputs in question as inputs again"
            )

    def float_type(self, type: TensorType, mode: str) -> TensorType:
        """The stored type in a float mode; f32 in the integer modes."""
        return type.with_element(FLOAT_MODES.get(mode, F32))


class LmemModel(ABC):
    """Local memory: how much a tensor takes in a layout, and where buffers may start. Bytes are per lane."""

    lanes: int
    lane_bytes: int
    alignment: int
    bank_bytes: int = 0
    """Size of a bank where it matters which banks an instruction reads and writes, else 0."""

    @abstractmethod
    def tensor_bytes(self, layout: str, shape: Shape4, item_bytes: int) -> int:
        """Bytes per lane of a tensor that starts at lane 0."""

    def part_offset(self, layout: str, shape: Shape4, item_bytes: int, start: Shape4, part: Shape4) -> int | None:
        """Where the `part` of a tensor that begins at `start` lies: bytes from the tensor's address within each lane.

        None when that part is not laid out as a tensor of its own extents would be: it begins in another lane, at an
        odd address, or its rows, channels or batches are further apart. Planes of `h * w` elements are taken to be
        contiguous where their size says so.
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
        """As `part_offset`, for instructions that take any strides: bytes, and the strides in elements.

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
    """Base of a chip's assembler. Kernels receive the chip's own subclass, the scheduler uses these four."""

    def load(self, target: LocalTensor, source: DdrTensor) -> None:
        """Copy a part of a DDR tensor into LMEM (same extents)."""
        raise NotImplementedError

    def store(self, target: DdrTensor, source: LocalTensor) -> None:
        """Copy an LMEM tensor into a part of a DDR tensor."""
        raise NotImplementedError

    def load_block(self, target: LocalBlock, address: int) -> None:
        """Copy `bytes_per_lane` bytes from DDR to each lane; they lie there as the chip's `block_pitch` says.

        `broadcast_block` is the one-lane form.
        """
        raise NotImplementedError

    def broadcast_block(self, target: LocalBlock, address: int) -> None:
        """Copy `bytes_per_lane` bytes from DDR to every lane."""
        raise NotImplementedError

    def move(self, target: DdrTensor, source: DdrTensor) -> None:
        """Copy within DDR, strided on both sides."""
        raise NotImplementedError

    def move_rows(self, target: DdrTensor, source: DdrTensor, index: DdrTensor, scatters: bool) -> None:
        """Copy rows within DDR as `RowMove` says; extents are (1, channels, rows, elements), the index has one element
        per row.
        """
        raise NotImplementedError

    def fill(self, target: DdrTensor, value: float) -> None:
        """Write one stored value to every element of a part of a DDR tensor."""
        raise NotImplementedError


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a compiled file: values are stored as `element` at DDR `address`.

    `rounds_evenly`: real values become integers of an input as ONNX's QuantizeLinear says it. `frame`: its bytes are
    those of images as a camera leaves them.
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
    """A network in a compiled file for one set of shapes of its inputs. Several entries may have one name."""

    name: str
    shapes: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        return f"{self.name} {' '.join('x'.join(map(str, shape)) for shape in self.shapes)}"


class LoadedModel(ABC):
    """A compiled file in the simulator, decoded once and run many times."""

    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    ddr_spaces: tuple[str, ...] = ("ddr",)
    """Names of the memory spaces of regions that are in DDR."""
    layers: Sequence[LayerCommands] = ()
    """What the file says of the layers that its commands compute; empty where it says nothing."""
    is_trusted: bool = False
    """Does the user vouch for code in the file? Of no account where nothing of a file runs outside the simulator."""
    inner_tensors: Sequence[TensorInfo] = ()
    """Tensors in DDR that the file names beside its inputs and outputs, in the order of the network. Several may lie at
    one place, one after the other.
    """
    states: Sequence[State] = ()
    """What `run` leaves for the next one; it is neither among `inputs` nor `outputs`."""

    def reset(self) -> None:
        """The next run is a first one: states are zeros. Default: there are none."""
        return

    @abstractmethod
    def run(self, inputs: Mapping[str, Array], check: bool = True) -> dict[str, Array]:
        """Outputs by name, raw as stored. `check`: what `check()` finds is raised first."""

    def check(self) -> None:
        """Raise IllegalCommand for illegal fields and alignment, HazardError unless waits order all that conflicts.

        Needs no inputs and is done once. Default: nothing is known to be wrong.
        """
        return

    @abstractmethod
    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        """A dense tensor from DDR as the last run left it."""

    @abstractmethod
    def timeline(self, profile: str) -> Timeline:
        """When each command runs, by a timing profile of the chip."""

    def timeline_if(self, profile: str, ddr_speed: float) -> Timeline:
        """The timeline if DDR moved `ddr_speed` times as many bytes per cycle as in the profile."""
        raise Unsupported(
            f"profile '{profile}' of this chip does not separate DDR time from compute time; leave out --what-if"
        )

    def ddr_bytes(self, instruction: Instruction) -> tuple[int, int]:
        """Bytes that an instruction reads from DDR and writes to it. Default: the extents of its regions."""
        read, written = (
            sum(region.end - region.start for region in regions if region.space in self.ddr_spaces)
            for regions in (instruction.reads(), instruction.writes())
        )
        return read, written

    @property
    def device_bytes(self) -> Mapping[str, int]:
        """What the chip's runtime allocates to run the file: bytes by purpose. Default: nothing is known of it."""
        return {}

    @property
    def host_calls(self) -> Sequence[HostCall]:
        """What the runtime computes on the processor; positions count all commands of the file. Default: nothing."""
        return ()

    def refused_by(self, runtime_version: str) -> str | None:
        """Why a runtime of that version does not take the file, in a sentence without a full stop; None: it does.

        Raises UsageError for what is no version.
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

    `position`: instructions recorded before it. It sees all their results, and what follows sees its own.
    """

    function: str
    arguments: Mapping[str, HostArgument]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    position: int


@dataclass(frozen=True)
class CompiledLayout:
    """What a container needs beside the instructions. Addresses and sizes in bytes.

    `weights` is the image of the constant memory from `weights_address`; the activations take `activations_bytes` from
    `activations_address`. `host_calls` are in program order. `states` outlive a run; a chip that keeps none gets none.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    weights: bytes
    weights_address: int
    activations_address: int
    activations_bytes: int
    build_time: str | None = None
    host_calls: tuple[HostCall, ...] = ()
    states: tuple[State, ...] = ()


@dataclass(frozen=True)
class BankConflict:
    """Two parts of local memory, bytes `[start, end)` of each lane: where they reach into one bank, an instruction
    takes `cycles` longer.
    """

    one: tuple[int, int]
    other: tuple[int, int]
    cycles: int


class Chip(ABC):
    """A chip plugin. `profiles` are the names of its timing models, the default first; `profile_notes` say of each
    where its figures are from and how well they are known, in one sentence without the full stop.
    """

    api_version: ClassVar[int] = 1
    description: ChipDescription
    lmem: LmemModel
    profiles: tuple[str, ...] = ()
    profile_notes: Mapping[str, str] = MappingProxyType({})
    allows_trailer: ClassVar[bool] = False
    """May bytes of ours follow a compiled file? The vendor's readers stop where the file says that it ends."""
    pipelines: ClassVar[Mapping[str, Sequence[str]]] = MappingProxyType({})
    """Stages that run by other passes for this chip, where the user has not replaced them."""

    @property
    def planned_profiles(self) -> tuple[str, ...]:
        """The timing models that a plan is compared in, the default profile first. Each costs a search of its own, so
        that models which hardly disagree about plans are better left out.
        """
        return self.profiles

    def for_runtime(self, version: str) -> Chip:
        """The chip whose files state that a runtime of this version runs them; raises UsageError where none does."""
        raise UsageError(
            f"files of chip '{self.description.name}' have no runtime version; leave out --runtime-version."
        )

    @abstractmethod
    def assembler(self) -> Assembler:
        """A new, empty assembler."""

    def block_pitch(self, lanes: int, bytes_per_lane: int) -> int:
        """Bytes from one lane's part of a packed block to the next one's in DDR, as `Assembler.load_block` takes them.
        At least `bytes_per_lane`, which is the default.
        """
        return bytes_per_lane

    @abstractmethod
    def cycles(self, instruction: Instruction, profile: str) -> int:
        """Cycles of one instruction alone."""

    def bank_conflicts(self, instruction: Instruction) -> Sequence[BankConflict]:
        """Which of its parts of local memory an instruction had better find in different banks. Default: none."""
        return ()

    @abstractmethod
    def write(self, module: Module, layout: CompiledLayout, recorder: Recorder) -> bytes:
        """The compiled file. Same input, same bytes."""

    @abstractmethod
    def load(self, data: bytes, source: str = "<bytes>") -> LoadedModel:
        """A compiled file in the simulator; raises CorruptFile."""

    def networks(self, data: bytes, source: str = "<bytes>") -> Sequence[NetworkEntry]:
        """The networks in a compiled file; raises CorruptFile. Default: one."""
        return (NetworkEntry("", tuple(info.shape for info in self.load(data, source).inputs)),)

    def load_network(self, data: bytes, source: str, index: int) -> LoadedModel:
        """As `load`, of the network at a place in `networks`."""
        assert not index, "a chip whose files hold several networks loads them by their places"
        return self.load(data, source)

    def combine(self, files: Sequence[bytes]) -> bytes:
        """One file with the networks of several, in their order; raises Unsupported, which is the default."""
        raise Unsupported(
            f"files for chip '{self.description.name}' hold one network each and cannot be combined; keep them separate"
        )

    def extract(self, data: bytes) -> Sequence[tuple[str, bytes]]:
        """A file for every network in `networks`, with its name. Default: the file itself."""
        return [("", data)]

    def programs(
        self, model: str, loaded: LoadedModel, described: Mapping[str, Preprocess], labels: Sequence[str]
    ) -> Mapping[str, str]:
        """Programs on the chip's runtime, filled in for the file `model`: texts by the names of their files.

        `described` says how pictures become inputs, by the names of these; `labels` are the names of classes, if there
        are some. Same input, same texts. Default: none.
        """
        return {}
