"""Chips that compute an op by calling a function on whole tensors: no local memory, no instructions, no tiles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from tpuc.api.chip import Assembler, Chip, CompiledLayout, TensorInfo
from tpuc.errors import Unsupported
from tpuc.ir import Module, Node, Op, TensorType
from tpuc.ir.state import State
from tpuc.machine import Instruction, Recorder

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

OpT = TypeVar("OpT", bound=Op)


@dataclass(frozen=True)
class TensorView:
    """A tensor in memory: its type and its strides in elements."""

    type: TensorType
    strides: tuple[int, ...]

    @property
    def dims(self) -> tuple[int, ...]:
        """Extents."""
        return self.type.dims


@dataclass(frozen=True)
class FunctionNode(Generic[OpT]):
    """A node with the memory layout of its tensors. `arrays` are the constant operands by position, None where an
    operand is computed; an absent operand has neither a view nor an array.
    """

    node: Node[OpT]
    operands: tuple[TensorView | None, ...]
    results: tuple[TensorView, ...]
    arrays: tuple[Array | None, ...]

    @property
    def op(self) -> OpT:
        """The op."""
        return self.node.op

    @property
    def result(self) -> TensorView:
        """The first result."""
        return self.results[0]

    def operand(self, index: int) -> TensorView:
        """An operand that must be present."""
        view = self.operands[index]
        assert view is not None, f"operand {index} of '{self.node.name}' is absent"
        return view

    def array(self, index: int) -> Array | None:
        """A constant operand, None where it is absent or computed."""
        return self.arrays[index] if index < len(self.arrays) else None


@dataclass(frozen=True)
class WorkingMemory:
    """A scratch buffer of an operator: elements of a type of the source language, planned with all other buffers."""

    name: str
    element: str
    size_bytes: int


@dataclass(frozen=True)
class Routine:
    """The function of a node: statements, packed constants, working memory, and the library parts it calls.

    Statements name operands `x0`, `x1`, ..., results `y0`, ..., constants `k0`, ... and working memory `s0`, ...
    """

    body: str
    constants: tuple[Array, ...] = ()
    scratch: tuple[WorkingMemory, ...] = ()
    library: tuple[str, ...] = ()


class FunctionKernel(Generic[OpT]):
    """Base of kernels that are functions on whole tensors. One instance serves all nodes: keep no state."""

    def refuse(self, node: Node[OpT]) -> str | None:
        """Why there is no function for the node, in a sentence without a full stop; None if there is one."""
        return None

    def is_alias(self, call: FunctionNode[OpT]) -> bool:
        """True when the result has the same bytes as the first operand, so that no call is needed."""
        return False

    def routine(self, call: FunctionNode[OpT]) -> Routine:
        """The function of a supported node."""
        raise NotImplementedError


@dataclass(frozen=True)
class FunctionCall:
    """One call: the function's name, and the parameter index of each operand, result, constant and scratch buffer; None
    for absent or constant operands.
    """

    function: str
    view: FunctionNode[Any]
    routine: Routine
    parameters: int
    operands: tuple[int | None, ...]
    results: tuple[int, ...]
    constants: tuple[int, ...]
    scratch: tuple[int, ...]


@dataclass(frozen=True)
class FunctionProgram:
    """A planned program: its calls in order, and its surrounding files, which are the same for every such chip.

    `identifier` names the network in the source language; `workspace_bytes` and `parameter_bytes` are totals over all
    pools. `states` are inputs and outputs that the program keeps between runs.
    """

    name: str
    identifier: str
    calls: tuple[FunctionCall, ...]
    files: Mapping[str, str]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    workspace_bytes: int
    parameter_bytes: int
    states: tuple[State, ...] = ()


class FunctionChip(Chip):
    """Base of chips whose kernels are functions. The compiled form is a source folder or an archive of it."""

    pipelines: ClassVar[Mapping[str, Sequence[str]]] = {"finalize": ("plan-functions",)}
    alignment: int = 16
    """Alignment of every buffer, in bytes."""
    keeps_integers: bool = False
    """Do inputs and outputs that are quantized integers in the network's file stay so, unless floats are asked for?"""
    layouts: tuple[str, ...] = ()
    """Frameworks whose tools take the folder if `for_layout` was told so."""

    def for_layout(self, layout: str) -> FunctionChip:
        """The chip that writes folders for one of its `layouts`."""
        raise NotImplementedError

    @abstractmethod
    def strides(self, type: TensorType, at_border: bool) -> tuple[int, ...]:
        """The memory layout of a tensor as one stride per dimension; `at_border`: the layout of network inputs and
        outputs.
        """

    @abstractmethod
    def write_program(self, program: FunctionProgram) -> bytes:
        """The compiled form as one archive. Same program, same bytes."""

    @abstractmethod
    def files(self, data: bytes) -> Mapping[str, bytes]:
        """The files of an archive by path."""

    @abstractmethod
    def archive(self, folder: Path) -> bytes:
        """The archive of a folder to which such files were written."""

    def assembler(self) -> Assembler:
        """See Chip."""
        raise Unsupported(f"chip '{self.description.name}' has no instructions; its programs are source")

    def cycles(self, instruction: Instruction, profile: str) -> int:
        """See Chip."""
        raise Unsupported(f"chip '{self.description.name}' has no timing model; measure the program on its target")

    def write(self, module: Module, layout: CompiledLayout, recorder: Recorder) -> bytes:
        """See Chip."""
        raise Unsupported(f"chip '{self.description.name}' has no instructions; its programs are source")
