"""Values that stages take and return."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tpuc.api.chip import LoadedModel
from tpuc.api.planning import MemoryPlan
from tpuc.ir import Module
from tpuc.machine import Instruction
from tpuc.schedule.results import ConstantImage, ResultKey

from tpuc_driver.data import SampleSource
from tpuc_driver.session.artifacts import Description
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.reports import CompileReport

Shapes: TypeAlias = Sequence[Sequence[int]]


@dataclass
class SharedConstants:
    """Constants shared by compilations of one network for several shapes, and plans by structure; each adds its own."""

    image: ConstantImage = field(default_factory=ConstantImage)
    plans: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])


@dataclass(frozen=True)
class Recipe:
    """Inputs of a build besides the module. `quantize_table` is a path, or a mapping of op names to modes.
    `after_lowering` may change the TPU module before memory is planned.
    """

    calibration_table: Any = None
    quantize_table: Path | Mapping[str, str] | None = None
    boundary: Boundary | None = None
    after_lowering: Callable[[Module], None] | None = None
    keep_in: Path | None = None
    constants: SharedConstants | None = None


class Calibrated(NamedTuple):
    """Calibration table with `write(path)`, and the samples to check it on: held out, or used by tuning."""

    table: Any
    held_out: SampleSource | None
    seen: SampleSource | None = None


class Staged(NamedTuple):
    """TPU module between two stages, the mode of the network, and the results that passes published.

    The module is passed on by ownership: the next stage may change it.
    """

    module: Module
    mode: str
    results: Mapping[ResultKey[Any], Any]


class Built(NamedTuple):
    """Addressed TPU module, bytes of the compiled file, and its DDR memory plan. `instructions` are those of the file
    after a quick plan, else None.
    """

    module: Module
    data: bytes
    memory_plan: MemoryPlan | None
    instructions: Sequence[Instruction] | None = None


class Finished(NamedTuple):
    """Built and checked network: loaded in the simulator, with its report and the metadata for its file."""

    built: Built
    loaded: LoadedModel
    report: CompileReport
    description: Description
