"""Unified memory planning in five steps: constants, analysis, buffer list, algorithm, rewrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpuc.api import (
    BufferInfo,
    Constant,
    InvalidModel,
    MemoryPlan,
    Module,
    NetworkInput,
    Operation,
    PlannedPool,
    Planner,
    PoolAllocation,
    PoolInfo,
    ShapeOnly,
    StringAttr,
    TensorType,
    TpucError,
)

from tpuc_plan.planners.arena import Lived, buffer_list, make_plan
from tpuc_plan.usmp.pools import PARAMETER, WORKSPACE, Pools

DEFAULT_POOLS = Pools((PoolInfo("workspace", None, 16),), (PoolInfo("parameters", None, 16),))
"""One unlimited workspace pool and one unlimited parameter pool, if the user names none."""


@dataclass(frozen=True)
class ProgramTensor:
    """A value of the program. `data` makes it a constant; `size_bytes` None means known only at run time.

    `removed_pools`: pools that a scheduling decision ruled out for it.
    """

    name: str
    size_bytes: int | None
    data: bytes | None = None
    removed_pools: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """One operator call: reads `inputs`, writes `outputs`, uses `scratch` while it runs, on `target`."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch: tuple[str, ...] = ()
    target: str = "c"

    @property
    def tensors(self) -> tuple[str, ...]:
        """All tensors that the call accesses."""
        return (*self.inputs, *self.outputs, *self.scratch)


@dataclass(frozen=True)
class Program:
    """Calls in order. The caller provides the memory of network inputs and outputs. `alignment`: of buffers, in
    bytes.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, ProgramTensor]
    calls: tuple[Call, ...]
    alignment: int = 1

    def tensor(self, name: str) -> ProgramTensor:
        """Return the tensor of this name; raises InvalidModel if it has no description."""
        if name not in self.tensors:
            raise InvalidModel(f"program '{self.name}' uses tensor '{name}' without its size; describe it")
        return self.tensors[name]


@dataclass(frozen=True)
class BufferUse:
    """Result of the analysis of a buffer: its kind, its live range in calls, and the targets that access it."""

    tensor: ProgramTensor
    kind: str
    first: int
    last: int
    targets: tuple[str, ...]


@dataclass(frozen=True)
class PlacedProgram:
    """A program after planning. Tensors in `places` need no allocation at run time."""

    program: Program
    pools: Pools
    places: Mapping[str, PoolAllocation]
    workspace: MemoryPlan
    parameter: MemoryPlan


def lower_constants(module: Module, targets: Sequence[str]) -> Program:
    """Step 1: turn a module's operations into calls, and its constants into tensors with data.

    An operation runs on the first of `targets`, unless its attribute `target` names another one.
    """
    function = module.main
    tensors: dict[str, ProgramTensor] = {}
    calls: list[Call] = []
    inputs: list[str] = []
    same: dict[str, str] = {}  # reshapes: the result is the operand's memory
    final = {value.name for value in function.outputs}
    for operation in function.operations:
        if isinstance(operation.op, ShapeOnly) and operation.results and operation.result.name not in final:
            source = operation.operands[0].name
            same[operation.result.name] = same.get(source, source)
            continue
        outputs = [value for value in operation.results if isinstance(value.type, TensorType)]
        for value in outputs:
            data: bytes | None = None
            if isinstance(operation.op, Constant):
                data = module.weights[value.name].tobytes()
            tensors[value.name] = ProgramTensor(
                value.name, value.tensor.size_bytes if data is None else len(data), data
            )
        if isinstance(operation.op, NetworkInput):
            inputs += [value.name for value in outputs]
        elif outputs and not isinstance(operation.op, Constant):
            calls.append(_call(operation, [value.name for value in outputs], targets, same))
    return Program(module.name, tuple(inputs), tuple(v.name for v in function.outputs), tensors, tuple(calls))


def _call(operation: Operation, outputs: Sequence[str], targets: Sequence[str], same: Mapping[str, str]) -> Call:
    names = [value.name for value in operation.operands if isinstance(value.type, TensorType)]
    read = dict.fromkeys(same.get(name, name) for name in names)
    chosen = operation.extra_attributes.get("target")
    target = chosen.value if isinstance(chosen, StringAttr) else targets[0] if targets else "c"
    return Call(operation.name, tuple(read), tuple(outputs), (), target)


def analyze(program: Program) -> dict[str, BufferUse]:
    """Step 2: return every buffer between and inside operators, with its live range and the targets that access it."""
    uses: dict[str, BufferUse] = {}
    outside = {*program.inputs, *program.outputs}
    for point, call in enumerate(program.calls):
        for name in call.tensors:
            tensor = program.tensor(name)
            if name in outside or tensor.size_bytes is None:
                continue
            known = uses.get(name)
            if known is None:
                kind = WORKSPACE if tensor.data is None else PARAMETER
                uses[name] = BufferUse(tensor, kind, point, point, (call.target,))
            else:
                targets = tuple(dict.fromkeys((*known.targets, call.target)))
                uses[name] = BufferUse(tensor, known.kind, known.first, point, targets)
    return uses


def buffer_array(
    uses: Mapping[str, BufferUse], pools: Pools, kind: str, alignment: int = 1
) -> tuple[list[BufferInfo], list[Lived]]:
    """Step 3: return the buffers of one kind with conflicts and candidate pools, filtered by the targets' access.

    Constants exist all the time, so all of them conflict. Raises TpucError if no pool admits a buffer.
    """
    lived: list[Lived] = []
    end = max((use.last for use in uses.values()), default=0)
    for name, use in uses.items():
        if use.kind != kind:
            continue
        candidates = pools.candidates(kind, use.targets, use.tensor.removed_pools)
        if not candidates:
            raise TpucError(
                f"buffer '{name}' of {use.tensor.size_bytes} bytes is used on {', '.join(use.targets)}, but no {kind} "
                f"pool admits {'all of them' if len(use.targets) > 1 else 'it'}; add the target to a pool"
            )
        first, last = (use.first, use.last) if kind == WORKSPACE else (0, end)
        lived.append(Lived(name, use.tensor.size_bytes or 0, first, last, candidates))
    return buffer_list(lived, alignment), lived


def rewrite(program: Program, pools: Pools, workspace: MemoryPlan, parameter: MemoryPlan) -> PlacedProgram:
    """Step 5: return the program with a pool and an offset for every planned buffer."""
    places = {b.name: PoolAllocation(b.pool, b.offset) for plan in (workspace, parameter) for b in plan.buffers}
    return PlacedProgram(program, pools, places, workspace, parameter)


def plan_program(program: Program, pools: Pools, planner: Planner) -> PlacedProgram:
    """Run steps 2 to 5; step 4, placement by a planner, is `make_plan`."""
    pools = Pools(pools.workspace or DEFAULT_POOLS.workspace, pools.parameter or DEFAULT_POOLS.parameter)
    uses = analyze(program)
    plans: list[MemoryPlan] = []
    for kind, members in ((WORKSPACE, pools.workspace), (PARAMETER, pools.parameter)):
        buffers, lived = buffer_array(uses, pools, kind, program.alignment)
        plans.append(make_plan(planner, buffers, members, lived))
    return rewrite(program, pools, plans[0], plans[1])


def shared_pools(plans: Sequence[MemoryPlan]) -> tuple[PlannedPool, ...]:
    """Return the workspace pools of programs that never run at once: the largest of each name."""
    pools: dict[str, PlannedPool] = {}
    for pool in (pool for plan in plans for pool in plan.pools):
        known = pools.get(pool.name)
        if known is None or pool.peak_bytes > known.peak_bytes:
            pools[pool.name] = pool
    return tuple(pools.values())
