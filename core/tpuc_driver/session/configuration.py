"""Configuration of a session: registry, chip, mode, options, and receivers of progress and remarks."""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from tpuc.api.chip import FLOAT_MODES, Chip
from tpuc.api.function import FunctionChip
from tpuc.errors import UsageError
from tpuc.files import file_stem, weights_beside
from tpuc.ir import Module
from tpuc.ir.attributes import StringAttr
from tpuc.ir.text import read_module, write_module
from tpuc.ir.text.files import WEIGHT_FILE, weight_file_of
from tpuc.registry import Registry
from tpuc.registry.cpu_functions import check_cpu_ops
from tpuc.schedule import PIPELINES, PassContext, PassManager, Pipelines
from tpuc.schedule.results import ResultKey

from tpuc_driver.data import INPUT_LAYOUT
from tpuc_driver.progress import Display
from tpuc_driver.session.modes import check_mode, is_quantized, stored_bits

Progress: TypeAlias = Callable[[Iterable[Any], str, "int | None"], Iterable[Any]]


def silent(_: str) -> None:
    """Discard a log line or remark."""


def unseen(items: Iterable[Any], _label: str, _total: int | None = None) -> Iterable[Any]:
    """Return the items without a progress bar."""
    return items


STAGES: Mapping[str, str] = {
    "import": "importing",
    "optimize": "optimizing",
    "calibrate": "calibrating",
    "lower": "lowering",
    "finalize": "planning",
    "generate": "generating code",
    "verify": "verifying",
    "self-check": "checking predictions",
}
"""Stages of a run in order, with what to display for each."""


class Clock:
    """Measure the seconds that each stage takes; a display shows the current stage and the expected number of
    stages.
    """

    def __init__(self, display: Display | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._display = display
        self._expected: tuple[str, ...] = ()
        self._reached = 0

    def expect(self, *stages: str) -> None:
        """Set the stages that the run will have."""
        self._expected, self._reached = stages, 0

    @contextmanager
    def timed(self, stage: str) -> Generator[None]:
        """Add the time of the block to a stage."""
        start = time.perf_counter()
        with contextlib.nullcontext() if self._display is None else self._display.step(self._told(stage)):
            yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def _told(self, stage: str) -> str:
        """Return text such as `step 3 of 7: calibrating`; the number never falls if a stage runs again."""
        if stage in self._expected:
            self._reached = max(self._reached, self._expected.index(stage) + 1)
        where = f"step {self._reached} of {len(self._expected)}: " if self._reached else ""
        return f"{where}{STAGES.get(stage, stage)}"


def chosen_chip(
    registry: Registry,
    name: str,
    mode: str | None,
    *,
    runtime_version: str | None = None,
    symmetric_divisor: int | None = None,
    cpu_ops: Sequence[str] = (),
    cores: int = 1,
    layout: str | None = None,
) -> Chip:
    """Return an installed chip, for a runtime version, a folder layout, and a divisor of signed symmetric scales where
    they are given.

    Raises UsageError for a mode, CPU op, core, or layout that the chip does not have.
    """
    chip: Chip = registry.get("tpuc.chips", name)
    if layout is not None:
        chip = _laid_out(chip, layout)
    if runtime_version is not None:
        chip = chip.for_runtime(runtime_version)
    if symmetric_divisor is not None:
        chip = copy.copy(chip)
        chip.description = replace(chip.description, symmetric_divisor=symmetric_divisor)
    check_mode(chip, mode)
    check_cpu_ops(registry, chip.description, cpu_ops)
    if cores > chip.description.cores:
        has = f"has {chip.description.cores} cores" if chip.description.cores > 1 else "has one core"
        raise UsageError(f"chip '{name}' {has}, not {cores}; lower --cores or leave it out.")
    return chip


def _laid_out(chip: Chip, layout: str) -> Chip:
    name = chip.description.name
    if not isinstance(chip, FunctionChip) or not chip.layouts:
        raise UsageError(f"chip '{name}' does not write folders for firmware frameworks; leave out --layout.")
    if layout not in chip.layouts:
        raise UsageError(f"chip '{name}' has no layout '{layout}'; choose one of {', '.join(chip.layouts)}.")
    return chip.for_layout(layout)


@dataclass(frozen=True)
class Configuration:
    """Configuration shared by all stages of a session; `Session` documents the fields."""

    registry: Registry
    optional_chip: Chip | None = None
    """None if no chip is needed; `chip` then raises."""
    mode: str | None = None
    weight_bits: int = 0
    """Bits of matrices that are stored as integers although the mode computes in floats; 0 for none."""
    work_dir: Path | None = None
    planner: str | None = None
    opt: int | None = None
    cores: int = 1
    cpu_ops: tuple[str, ...] = ()
    input_layout: str | None = None
    trust: bool = False
    targets: tuple[str, ...] = ()
    pools: Mapping[str, str] = field(default_factory=dict[str, str])
    pipelines: Pipelines = field(default_factory=lambda: PIPELINES)
    progress: Progress = unseen
    log: Callable[[str], None] = silent
    remark: Callable[[str], None] = silent
    clock: Clock = field(default_factory=Clock)

    @property
    def chip(self) -> Chip:
        """The chip; raises UsageError if none was chosen."""
        if self.optional_chip is None:
            raise UsageError("no chip is chosen; add --chip NAME")
        return self.optional_chip

    # Modes

    def mode_for(self, module: Module) -> str:
        """Return the mode to compile a TOP module in: the requested one, else the chip's most exact float mode.

        Empty if none was requested and the network is already quantized; lowering then finds its integer mode. Raises
        UsageError for a chip without float modes.
        """
        if self.mode is not None:
            return self.mode
        if is_quantized(module):
            return ""
        description = self.chip.description
        if description.float_mode is None:
            raise UsageError(
                f"chip '{description.name}' computes with integers only, and {module.name} is not quantized; choose a "
                f"mode with --quantize: {', '.join(description.modes)}."
            )
        return description.float_mode

    def mode_used(self, module: Module) -> str:
        """Return the mode that a TOP module is lowered in; an already quantized network keeps its integers.

        If a float mode was requested, a network with values wider than the chip's integers is lowered in that mode.
        """
        asked, description, bits = self.mode_for(module), self.chip.description, stored_bits(module)
        holds = bits <= description.integer_bits[-1]
        return description.quantized_mode_of(bits) if bits and (holds or asked not in FLOAT_MODES) else asked

    # Passes

    def context(self, results: dict[ResultKey[Any], Any] | None = None, mode: str | None = None) -> PassContext:
        """Create the context for passes; `mode` applies if the session has none."""
        options: dict[str, Any] = {"quantize": self.mode or mode or "", "planner": self.planner, "opt": self.opt}
        options |= {"target": self.targets, "pools": self.pools, "cpu_ops": self.cpu_ops, "cores": self.cores}
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is not None:
            options["build_time"] = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(epoch)))
        return PassContext(
            self.registry,
            self.optional_chip,
            options,
            self.work_dir,
            {} if results is None else results,
            self.log,
            self.progress,
            self.remark,
        )

    def manager(self, context: PassContext) -> PassManager:
        """Create a manager with the session's pipelines."""
        return PassManager(context, pipelines=self.pipelines)

    # Modules in files

    def load(self, path: Path) -> Module:
        """Load a `.mlir` file with its weights."""
        return self.laid_out(read_module(path, self.registry.resolve_op))

    def laid_out(self, module: Module) -> Module:
        """Record the chosen layout of input arrays in a module, and return the module."""
        if self.input_layout:
            module.attributes[INPUT_LAYOUT] = StringAttr(self.input_layout)
        return module

    def save(self, module: Module, path: Path, weights: str | None = None) -> None:
        """Write a `.mlir` file, and its weights to a file beside it, named `weights` if given."""
        if module.weights.missing is None:
            module.attributes[WEIGHT_FILE] = StringAttr(weights or weights_beside(path))
        write_module(path, module)
        self.registry.hooks.hook.module_dumped(path=path, module=module)

    def keep(self, module: Module, suffix: str, folder: Path | None = None) -> None:
        """Save an intermediate module in `work_dir` if set, else in `folder` if given."""
        self._keep(module, suffix, folder, None)

    def keep_origin(self, module: Module, folder: Path | None) -> None:
        """Like `keep`, for the module as imported: its weights go to the file that its front end names."""
        self._keep(module, "_origin", folder, weight_file_of(module))

    def _keep(self, module: Module, suffix: str, folder: Path | None, weights: str | None) -> None:
        folder = self.work_dir or folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.save(module, folder / f"{file_stem(module.name)}{suffix}.mlir", weights)
