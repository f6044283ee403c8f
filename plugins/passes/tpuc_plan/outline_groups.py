"""Outline ops that share local memory as layer groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpuc.api import (
    Absent,
    Builder,
    Constant,
    Location,
    Module,
    Operation,
    Pass,
    PassContext,
    RunsInPlace,
    UsageError,
    Value,
)
from tpuc_lower.target.kernels import chip_of, runs_on_chip
from tpuc_ops import tpu

from tpuc_plan.ddr.lifetimes import address_of
from tpuc_plan.regions.outline import Outline
from tpuc_plan.regions.planned import PlannedFunction
from tpuc_plan.regions.region import Placed, schedule_and_place, spread
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.plan import Alias, Plan
from tpuc_plan.tasks.steps import Step, Steps


@dataclass(frozen=True)
class OutlineGroups(Pass):
    """Put maximal runs of operations that pass values through local memory into a `tpu.Group`, in TPU-MLIR's form:
    `tpu.Load` and `tpu.Store` at the border to DDR, `ginfo = #tpu.lg<...>` with addresses in local memory, and
    `flow` with the program order. The result is for reading; code is generated from the module before this pass.
    """

    name = "outline-groups"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError if the module has no addresses. A module with groups stays unchanged."""
        chip = chip_of(context, self.name)
        function = module.main
        if any(isinstance(operation.op, RunsInPlace) for operation in function.operations):
            return False
        if "module.neuron_addr" not in module.attributes:
            raise UsageError("the module has no addresses: run the pass assign-addresses before outline-groups")
        plan, planned = Plan.of(module), PlannedFunction.of(context, module)
        groups = list(_groups(planned, Cycles(chip, plan.order_profiles), module))
        if not groups:
            return False
        ops = dict(zip(function.operations, plan.ops, strict=True))
        for group in groups:
            outline = Outline(group.operations, group.first, group.placed, ops, planned.aliases)
            _outline(module, group.operations, outline)
        for operation in reversed(list(function.operations)):  # views of which only copies are read now
            if isinstance(ops.get(operation), Alias) and not any(result.uses for result in operation.results):
                operation.erase()
        return True


@dataclass(frozen=True)
class _Group:
    """The operations of a block from the first to the last one with a step, and the placed region that contains
    them.
    """

    operations: tuple[Operation, ...]
    first: dict[Operation, Step]
    placed: Placed


def _groups(planned: PlannedFunction, cycles: Cycles, module: Module) -> Iterator[_Group]:
    function = module.main
    for tasks, _ in planned.regions():
        region = planned.region(tasks, cycles, address_of)
        spans = _connected(region.steps)
        placed = spread(schedule_and_place(region, planned.chip), planned.chip.lmem) if spans else None
        for begin, end in spans:
            first: dict[Operation, Step] = {}
            for step in region.steps.steps[begin : end + 1]:
                first.setdefault(step.task.operation, step)
            ends = [function.body.position(operation) for operation in first]
            between = function.operations[ends[0] : ends[-1] + 1]
            assert placed is not None
            yield _Group(tuple(operation for operation in between if runs_on_chip(operation)), first, placed)


def _connected(steps: Steps) -> list[tuple[int, int]]:
    """Return the first and last step of every group of at least two tasks that share a buffer."""
    begins, ends = dict[Operation, int](), dict[Operation, int]()
    for index, step in enumerate(steps.steps):
        begins.setdefault(step.task.operation, index)
        ends[step.task.operation] = index
    spans: list[tuple[int, int]] = []
    for buffer in sorted(steps.buffers, key=lambda buffer: buffer.first):
        start, stop = (steps.steps[index].task.operation for index in (buffer.first, buffer.last))
        if start is stop:
            continue
        begin, end = begins[start], ends[stop]
        if spans and begin <= spans[-1][1]:
            begin, end = spans[-1][0], max(end, spans.pop()[1])
        spans.append((begin, end))
    return spans


def _outline(module: Module, operations: Sequence[Operation], outline: Outline) -> None:
    """Move operations into a group that is inserted after the last of them."""
    body = module.main.body
    live_out, results = outline.run()
    names = [value.name for value in live_out]
    op = tpu.Group(flow=outline.flow())
    outline.block.append(Operation(tpu.Yield(), results, (), Location(tuple(names))))
    inside = dict.fromkeys(outline.block.operations)
    read = [value for operation in inside for value in operation.operands if value.defining not in inside]
    inputs = [value for value in dict.fromkeys(read) if not _is_constant(value)]
    following = body.operations[body.position(operations[-1]) + 1]
    group = Builder(module, before=following).enclose(op, outline.block, inputs, [v.type for v in results], names)
    members = dict.fromkeys(operations)
    for value, result in zip(live_out, group.results, strict=True):
        for user, index in list(value.uses):
            if user not in members:
                user.set_operand(index, result)
    for operation in reversed(operations):
        operation.erase()


def _is_constant(value: Value) -> bool:
    return value.defining is not None and isinstance(value.defining.op, (Absent, Constant))
