"""Front ends: translate foreign network files into TOP modules, op by op, through tables of importers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from tpuc.errors import Unsupported
from tpuc.ir import Module, Op, TensorType, Value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class ForeignNode:
    """One node of the foreign graph, with plain Python attribute values.

    `inputs` and `outputs` are tensor names; an absent optional input is the empty string.
    """

    op_type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    domain: str = ""
    version: int = 1
    source: str = ""  # the file, for error sentences


class ImportBuilder(Protocol):
    """The interface that an importer function builds with."""

    def value(self, name: str) -> Value:
        """The value of a foreign tensor; constants become weights. The empty name gives a `none` value."""
        ...

    def constant(self, name: str) -> Array | None:
        """The array of a foreign constant (folded ones included), None when it is computed at run time."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """The static shape of a foreign tensor."""
        ...

    def weight(self, name: str, array: Array) -> Value:
        """Add a weight; the name is made unique."""
        ...

    def none(self) -> Value:
        """The value of an absent operand."""
        ...

    def build(
        self, op: Op, operands: Sequence[Value], name: str, result_types: Sequence[TensorType] | None = None
    ) -> Value:
        """Append an op; `name` is the foreign output tensor's name. Result types are inferred when not given."""
        ...

    def refuse(self, node: ForeignNode, reason: str) -> Exception:
        """The error to raise for a node that cannot be imported: it names file, node and op."""
        ...


@dataclass(frozen=True)
class WeightChoice:
    """How matrices are stored as small integers, with activations in the floats of `mode`.

    Integers of `bits`, 5 to 7 of them on average, share scales in groups of `group`, 0 for whole rows. `head_bits` is
    for the matrix before the logits of a language model, 16 for floats; None chooses. `text` is to be predicted well.
    """

    bits: int
    mode: str
    group: int = 64
    symmetric: bool = False
    head_bits: int | None = None
    text: Path | None = None


@dataclass(frozen=True)
class ImportOptions:
    """Options of the user for importing a network file.

    `input_shapes` in input order (empty: as in the file); `output_names` cut the graph; `preprocess` are attributes of
    every network input (mean, scale, pixel_format, ...). `batch` replaces the leading extent of every input, and a
    front end updates constants that state the old one, such as target shapes; None: as in the file. `random_weights`: a
    front end whose format keeps weights elsewhere draws them from a fixed seed. `input_names` turn computed tensors
    into inputs; `dims` sets open dimensions by symbol; `fixed_inputs` turns inputs into constants: arrays, or text as
    for --fix-input. `weights` is for front ends that store matrices as integers.
    """

    model_name: str = ""
    model_data: Path | None = None
    input_shapes: tuple[tuple[int, ...], ...] = ()
    output_names: tuple[str, ...] = ()
    preprocess: Mapping[str, Any] = field(default_factory=dict[str, Any])
    batch: int | None = None
    random_weights: bool = False
    input_names: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    fixed_inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    weights: WeightChoice | None = None

    @property
    def specializes(self) -> bool:
        """The options change the network: they cut it at the front or fix inputs."""
        return bool(self.input_names or self.fixed_inputs)


@dataclass(frozen=True)
class NetworkPart:
    """One of the networks that a model consists of; the file calls it by the name of its module.

    `input_types` and `output_types` are stored types by position: `f32`, `f16`, `bf16`, `i32`, `mode` for the floats of
    the compilation's mode, or empty for what the chip chooses. Parts of one `group` keep their constants together.
    `in_f32`: all ops compute in f32, whatever the compilation's mode.
    """

    module: Module
    input_types: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()
    group: str = ""
    in_f32: bool = False


class Frontend(ABC):
    """A reader of one foreign format."""

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    folder_file: ClassVar[str] = ""
    """A folder that contains this file is a network, read from the file."""
    others: ClassVar[Mapping[str, str]] = {}
    """Advice for files of the same framework that this front end does not read, by suffix."""
    specializes_by: ClassVar[frozenset[str]] = frozenset()
    """The fields among input_names, dims, fixed_inputs and weights that it supports; the others are refused."""

    @abstractmethod
    def read(self, path: Path, options: ImportOptions, registry: Any) -> Module:
        """Read a TOP module with weights. Raises InvalidModel or Unsupported with a sentence."""

    def parts(self, path: Path, options: ImportOptions, registry: Any) -> Iterable[NetworkPart]:
        """Read a model that compiles to several networks of one file, in their order; those of a group follow each
        other. Empty where `read` returns the network to compile. Raises like `read`.
        """
        return ()

    def companions(self, path: Path) -> Mapping[str, Path | bytes]:
        """Return files that programs need beside a compiled model of several networks, by their names in the folder
        `config` beside it.
        """
        return {}

    def simplified(self, path: Path, options: ImportOptions) -> Mapping[str, bytes]:
        """The simplified network in its own format, before translation: files by name suffix (`_opt.onnx`). Empty where
        the format has no such form.
        """
        return {}


class HostEngine(ABC):
    """Another engine that runs a foreign format on the host: the reference for an imported network."""

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    def input_types(self, path: Path) -> Mapping[str, np.dtype[Any]]:
        """The types of the arrays that `run` takes, by the names of inputs; those left out take what TOP takes."""
        return {}

    @abstractmethod
    def run(self, path: Path, inputs: Mapping[str, Array], model_data: Path | None = None) -> dict[str, Array]:
        """Every tensor by its foreign name, outputs last; `model_data` is the separate weight file, if any. Raises
        Unsupported when the engine is not installed or cannot run the network.
        """

    def run_as(self, path: Path, inputs: Mapping[str, Array], options: ImportOptions) -> dict[str, Array]:
        """Like `run`, after specializing the network by the options: cut at the front, or with inputs fixed."""
        if options.specializes:
            raise Unsupported(
                f"{path}: {self.name} runs networks as they are in the file. Leave out --test-input, or --input-names "
                "and --fix-input."
            )
        return self.run(path, inputs, options.model_data)
