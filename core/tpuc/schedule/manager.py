"""The pass manager: runs stages, verifies between them, and reports events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from tpuc.errors import InvalidModel, UsageError, VerifyError
from tpuc.files import write_atomic
from tpuc.ir.dtypes import shown
from tpuc.ir.types import DYNAMIC, ShapeNotStatic, TensorType
from tpuc.registry.registry import unknown
from tpuc.schedule.options import build_object, parse_pass_text
from tpuc.schedule.passes import Pass, PassContext
from tpuc.schedule.pipelines import PIPELINES, Pipelines

if TYPE_CHECKING:
    from pathlib import Path

    from tpuc.ir import Module

ALL = "all"


@dataclass(frozen=True)
class PassTiming:
    """One executed pass: its stage, wall seconds, and whether it changed anything."""

    stage: str
    name: str
    seconds: float
    changed: bool


@dataclass
class Report:
    """The executed passes, in order. Times are for people and never go into an artifact."""

    passes: list[PassTiming] = field(default_factory=list[PassTiming])

    @property
    def changed(self) -> bool:
        """True if any pass changed the module."""
        return any(timing.changed for timing in self.passes)

    def seconds(self, stage: str) -> float:
        """Wall time of a stage."""
        return sum(timing.seconds for timing in self.passes if timing.stage == stage)


class PassManager:
    """Runs passes by name in one context.

    A stage is verified once, at its end; with `verify_each` after every pass. `dump_after` names passes (or `all`)
    after which the module is written into the context's `work_dir` as `NN_<pass>.mlir`.
    """

    def __init__(
        self,
        context: PassContext,
        *,
        pipelines: Pipelines = PIPELINES,
        verify_each: bool = False,
        dump_after: Sequence[str] = (),
    ) -> None:
        if dump_after and context.work_dir is None:
            raise UsageError("--dump-after needs a folder to write to; give one with --work-dir DIR.")
        for name in dump_after:
            if name != ALL and not context.registry.has("tpuc.passes", name):
                raise unknown("pass", name, context.registry.names("tpuc.passes"))
        self.context = context
        self.pipelines = pipelines
        self.report = Report()
        self._verify_each = verify_each
        self._dump_after = frozenset(dump_after)

    def run_pipeline(self, stage: str, module: Module) -> bool:
        """Run a named pipeline; returns True if anything changed."""
        if stage not in self.pipelines:
            raise unknown("pipeline", stage, list(self.pipelines))
        passes = self.pipelines[stage]
        if self.context.chip is not None and passes == PIPELINES.get(stage):
            passes = self.context.chip.pipelines.get(stage, passes)
        return self.run(module, passes, stage)

    def run(self, module: Module, passes: Sequence[str | Pass], stage: str = "") -> bool:
        """Run passes, given as texts or objects, and verify at the end; returns True if anything changed."""
        built = [self.build(item) if isinstance(item, str) else item for item in passes]
        changed = False
        for item in built:
            changed |= self._run_one(item, module, stage)
        if not self._verify_each:
            self._verify(module, f"pipeline '{stage}'" if stage else "the last pass")
        return changed

    def build(self, text: str) -> Pass:
        """The pass object of a text such as `fuse-relu{keep-limit}`."""
        parsed = parse_pass_text(text)
        definition: type[Pass] = self.context.registry.get("tpuc.passes", parsed.name)
        return build_object("pass", definition, parsed)

    def _run_one(self, item: Pass, module: Module, stage: str) -> bool:
        events = self.context.registry.hooks.hook
        events.pass_started(name=item.name, module=module)
        start = perf_counter()
        try:
            changed = item.run(module, self.context)
        except ShapeNotStatic as error:
            raise _without_shape(item, module) or error from error
        seconds = perf_counter() - start
        self.report.passes.append(PassTiming(stage, item.name, seconds, changed))
        events.pass_finished(name=item.name, module=module, changed=changed, seconds=seconds)
        self.context.log(f"{item.name}: {'changed' if changed else 'no change'}, {seconds * 1000:.1f} ms")
        if item.name in self._dump_after or ALL in self._dump_after:
            self._dump(item, module)
        if self._verify_each or self._is_foreign(item):
            self._verify(module, f"pass '{item.name}'", item)
        return changed

    def _is_foreign(self, item: Pass) -> bool:
        """True for a pass of another package, which is verified immediately."""
        registry = self.context.registry
        return registry.has("tpuc.passes", item.name) and not registry.offer("tpuc.passes", item.name).is_ours

    def _dump(self, item: Pass, module: Module) -> None:
        from tpuc.ir.text import print_module

        assert self.context.work_dir is not None
        self.context.work_dir.mkdir(parents=True, exist_ok=True)
        path: Path = self.context.work_dir / f"{len(self.report.passes):02d}_{item.name}.mlir"
        write_atomic(path, print_module(module))
        self.context.registry.hooks.hook.module_dumped(path=path, module=module)

    def _verify(self, module: Module, what: str, culprit: Pass | None = None) -> None:
        try:
            module.verify()
        except VerifyError as error:
            said = f"after {what}: {error}"
            raise VerifyError(said).blaming(culprit, f"{what} breaks the module: {error}") from error


def _without_shape(item: Pass, module: Module) -> InvalidModel | None:
    """The error about the first value without a static shape, None when there is none."""
    for operation in module.walk():
        for value in operation.results:
            shape = value.type.shape if isinstance(value.type, TensorType) else ()
            if shape is None or DYNAMIC in shape:
                return InvalidModel(
                    f"op '{operation.name}' ({operation.op.name}): its result has the shape {shown(shape)}, and pass "
                    f"'{item.name}' needs static shapes. Write the module with its shapes, as `tpuc transform` does."
                )
    return None
