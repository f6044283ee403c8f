"""What stages take and give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tpuc.api.chip import LoadedModel
from tpuc.api.planning import MemoryPlan
from tpuc.ir import Module
from tpuc.schedule.results import ConstantImage, ResultKey

from tpuc_driver.data import SampleSource
from tpuc_driver.session.artifacts import Description
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.reports import CompileReport

Shapes: TypeAlias = Sequence[Sequence[int]]


@dataclass
class SharedConstants:
    """What compilations of one network, for several shapes, have of constants: each adds its own."""

    image: ConstantImage = field(default_factory=ConstantImage)


@dataclass(frozen=True)
class Recipe:
    """What a build is told besides the module. `quantize_table` is a file, or modes by the names of ops.
    `after_lowering` may change the TPU module before memory is planned.
    """

    calibration_table: Any = None
    quantize_table: Path | Mapping[str, str] | None = None
    boundary: Boundary | None = None
    after_lowering: Callable[[Module], None] | None = None
    keep_in: Path | None = None
    constants: SharedConstants | None = None


class Calibrated(NamedTuple):
    """A table of ranges with `write(path)`, and the samples for its check: held out, or seen by tuning."""

    table: Any
    held_out: SampleSource | None
    seen: SampleSource | None = None


class Staged(NamedTuple):
    """A TPU module between two stages, the mode of the network, and what passes have left for later ones.

    The module belongs to the stage that gets it: the next one may change it.
    """

    module: Module
    mode: str
    results: Mapping[ResultKey[Any], Any]


class Built(NamedTuple):
    """The addressed TPU module, the bytes of the compiled file, and where everything lies in DDR."""

    module: Module
    data: bytes
    memory_plan: MemoryPlan | None


class Finished(NamedTuple):
    """What was built and checked, loaded in the simulator, what is to tell of it, and what the file says of itself."""

    built: Built
    loaded: LoadedModel
    report: CompileReport
    description: Description
