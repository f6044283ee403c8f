"""Plan a batch as its images one after the other, or on several cores, where that is faster than all of them at once.

The network of one image is planned, and its operations are repeated for every image: slices of the inputs and
concatenations of the outputs only share bytes, and packed constants of equal bytes exist once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
from tpuc.api import (
    CpuRoutine,
    Elementwise,
    IntegerAttr,
    Location,
    Module,
    NetworkInput,
    Node,
    Op,
    Operation,
    PassContext,
    TensorType,
    Unsupported,
    Value,
    numpy_dtype,
)
from tpuc.api.boundary import states_of
from tpuc_ops import tpu
from tpuc_ops.arrays import Array, stored
from tpuc_ops.shapes import is_absent
from tpuc_ops.traits import RowByRow

from tpuc_plan.module_planner import ModulePlanner
from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.cores import CORE
from tpuc_plan.tasks.plan import ConcatAlias, OpPlan, Plan, SliceView, TilePlan

_MOST_ELEMENTS = 1 << 22
"""Elements of an operation that is evaluated to find out whether it treats images apart."""
_WORTH = 1
"""Percent that images one after the other must save, as the program gets longer, unless all at once take longer than
runs of one image.
"""
_NEAR = 1e-2
"""Tolerance of that, a rounding to bf16: whatever depends on another random image is far away."""


def plan_by_images(planner: ModulePlanner, plan: Plan, context: PassContext) -> tuple[Module, Plan] | None:
    """Return the module with its images one after the other, or parts of the batch on each core, and its plan, if it is
    faster than `plan`; else None.
    """
    count, cores = batch_of(planner.module), planner.cores
    if count < 2 or plan.cycles is None or len(planner.chip.planned_profiles) > 1:
        return None
    if any(isinstance(kernel, CpuRoutine) for kernel in planner.kernels.values()):
        return None
    best, most = None, planner.cycles_of(plan) or plan.cycles
    for parts, on in dict.fromkeys(((count, 1), (count, cores), (cores, cores))):
        if count % parts or parts < 2:
            continue
        batch = Batch(planner.module, parts, on)
        try:
            found = _repeated(batch, planner, most, context) if batch.joined else None
        except Unsupported:  # the chip lacks kernels for what joins images
            continue
        if found is not None:
            best, most = found, found[1].cycles or most
    return best


def _repeated(batch: Batch, planner: ModulePlanner, most: int, context: PassContext) -> tuple[Module, Plan] | None:
    """Return the module with its images one after the other and its plan, if it takes less than `most` cycles."""
    plans: list[Plan] = []
    for module in (batch.single(), batch.rest()):
        own = ModulePlanner(module, context, planner.chip, planner.level).run()
        plans.append(own)
        if own.cycles is None or (batch.turns - 1) * (plans[0].cycles or 0) >= most:
            return None
    whole, repeated = batch.repeated(*plans)
    cycles = ModulePlanner(whole, context, planner.chip, planner.level).cycles_of(repeated)
    separately = batch.turns * (plans[0].cycles or 0) + (plans[1].cycles or 0)
    limit = most if most > separately else most * (100 - _WORTH) // 100
    return (whole, replace(repeated, cycles=cycles)) if cycles is not None and cycles < limit else None


def batch_of(module: Module) -> int:
    """Return the first extent of all inputs; 1 if they differ, or if states pass from run to run."""
    types = [value.type for value in module.main.inputs]
    counts = {type_.dims[0] if isinstance(type_, TensorType) and type_.shape else 1 for type_ in types}
    return counts.pop() if len(counts) == 1 and not states_of(module) else 1


class Batch:
    """The operations of a module by what they compute: single images (`apart`), all together (`late`), or neither.

    `joined`: the results for single images that the late operations read or that the module returns.

    Images lie one after the other in a value, along its first axis of more than one element. Each may have several
    elements there: rows of tokens, heads, windows, or the pictures of a video. Instead of single images, `count` may be
    parts of several, which as many `cores` compute.
    """

    def __init__(self, module: Module, count: int, cores: int = 1) -> None:
        self.module = module
        self.count = count
        self.cores = cores
        self.apart: dict[Operation, Op] = {}
        """With the op for one image."""
        self.late: dict[Operation, None] = {}
        for operation in module.main.operations[:-1]:
            makers = [operand.defining for operand in operation.operands]
            own = [maker in self.apart for maker in makers]  # holds a part for every image
            if not operation.operands:
                continue
            is_apart = any(own) and not any(maker in self.late for maker in makers) and not operation.regions
            is_apart = is_apart or _is_input(operation)
            op = _op_of_one(module, operation, own, count) if is_apart else None
            if op is None:
                self.late[operation] = None
            else:
                self.apart[operation] = op
        readers = [*self.late, module.main.terminator]
        read = dict.fromkeys(value for reader in readers for value in reader.operands)
        self.joined = [value for value in read if value.defining in self.apart and not _is_input(value.defining)]

    @property
    def turns(self) -> int:
        """How many images a core computes one after the other."""
        return -(-self.count // self.cores)

    def single(self) -> Module:
        """Return the module for one image, whose outputs are the joined values."""
        module, twins, values = self._clone()
        module.main.terminator.set_operands([values[value] for value in self.joined])
        for operation in reversed(self.late):
            twins[operation].erase()
        for argument in module.main.inputs:
            argument.type = _of_one(argument.type, self.count)
        for operation, op in self.apart.items():
            twins[operation].op = op
            for result in twins[operation].results:
                result.type = _of_one(result.type, self.count)
        module.main.update_type()
        return module

    def rest(self) -> Module:
        """Return the module of the late operations, whose inputs are the joined values that they read."""
        module, twins, values = self._clone()
        body = module.main.body
        outputs = [value for value in module.main.outputs if value not in {values[one] for one in self.joined}]
        module.main.terminator.set_operands(outputs)
        entry = next(one.op for one in self.apart if isinstance(one.op, NetworkInput))
        for value in self.joined:
            own = values[value]
            if own.uses:
                body.arguments.append(Value(own.type, body, len(body.arguments)))
                new = Operation(entry, (body.arguments[-1],), (own.type,), Location((own.name,)))
                own.replace_with(body.insert(0, new).result)
        for operation in reversed(self.apart):
            if not _is_input(operation):
                twins[operation].erase()
        module.main.update_type()
        return module

    def repeated(self, single: Plan, rest: Plan) -> tuple[Module, Plan]:
        """Return the module with every image after the other, then the late operations, and its plan."""
        module, twins, values = self._clone()
        main, one = module.main, self.single().main
        plans: dict[Operation, OpPlan] = {}
        own = dict(zip(one.operations, single.ops, strict=True))
        shared = [operation for operation in self.module.main.operations[:-1] if not self._moves(operation)]
        kept = [operation for operation in self.module.main.operations[:-1] if operation not in self.late]
        pairs = dict(zip(kept, one.operations[:-1], strict=True))
        copies: list[Operation] = []
        known: list[dict[Value, Value]] = []
        for image in range(self.count):
            known.append({})
            for operation, twin in pairs.items():
                if operation not in self.apart:
                    plans[twins[operation]] = own[twin]
                    known[image].update(zip(twin.results, twins[operation].results, strict=True))
                    continue
                copy, plans_of = _copy(image, twin, own[twin], known[image], twins[operation].results[0], len(kept))
                if self.cores > 1:
                    copy.extra_attributes[CORE] = IntegerAttr(image * self.cores // self.count)
                plans[copy] = plans_of
                copies.append(copy)
                known[image].update(zip(twin.results, copy.results, strict=True))
        aliases = AliasSets.of(one, single)
        taken = _shared(one.operations, single, aliases)
        joins: list[Operation] = []
        for value, part in zip(self.joined, one.outputs, strict=True):
            concat = tpu.Concat(axis=_axis_of(value.tensor))
            join = Operation(concat, [of[part] for of in known], (value.type,), Location((value.name,)))
            plans[join] = _join_plan(part, aliases.root(part), taken, self.count)
            values[value].replace_with(join.result)
            joins.append(join)
        late = [twins[operation] for operation in self.late]
        for operation in reversed(self.apart):
            if not _is_input(operation):
                twins[operation].erase()
        others = [one for one in self.module.main.operations if one not in self.apart or _is_input(one)]
        for operation, plan in zip(others, rest.ops[-len(others) :], strict=True):
            if operation in self.late:
                plans[twins[operation]] = plan
        terminator = main.terminator
        main.body.operations = []
        for operation in (*(twins[one] for one in shared), *copies, *joins, *late, terminator):
            main.body.append(operation)
        return module, Plan(tuple(plans.get(one) for one in main.operations))

    def _moves(self, operation: Operation) -> bool:
        return operation in self.late or (operation in self.apart and not _is_input(operation))

    def _clone(self) -> tuple[Module, dict[Operation, Operation], dict[Value, Value]]:
        """Return a copy of the module, and the copies of its operations and of their results."""
        copy = self.module.clone()
        twins = dict(zip(self.module.main.operations, copy.main.operations, strict=True))
        pairs = (zip(one.results, twin.results, strict=True) for one, twin in twins.items())
        return copy, twins, {value: twin for pair in pairs for value, twin in pair}


def _is_input(operation: Operation | None) -> bool:
    return operation is not None and isinstance(operation.op, NetworkInput)


def _copy(
    image: int, one: Operation, plan: OpPlan, known: dict[Value, Value], whole: Value, operations: int
) -> tuple[Operation, OpPlan]:
    """Return an operation for an image of the batch, and its plan. An input is a part of that of the batch, `whole`."""
    types = [result.type for result in one.results]
    location = Location(tuple(f"{name}_image{image}" for name in one.location.names))
    if _is_input(one):
        dims = one.result.tensor.dims
        zeros = (0,) * (len(dims) - 1)
        start, end = image * dims[0], (image + 1) * dims[0]
        op = tpu.Slice(offset=(start, *zeros), steps=(1,) * len(dims), ends=(end, *dims[1:]))
        return Operation(op, (whole,), types, location), SliceView(image * one.result.tensor.size_bytes)
    if isinstance(plan, TilePlan) and plan.stripes is not None:
        cascade = plan.stripes.cascade + image * operations
        plan = replace(plan, stripes=replace(plan.stripes, cascade=cascade))
    operands = [known[operand] for operand in one.operands]
    return Operation(one.op, operands, types, location, dict(one.extra_attributes)), plan


def _join_plan(part: Value, root: Value, taken: set[Value], count: int) -> OpPlan:
    """Return the plan of a concatenation of parts, which takes no time if they can lie in the result."""
    if root in taken or root.defining is None or _is_input(root.defining):
        return None
    taken.add(root)
    return ConcatAlias(tuple(image * part.tensor.size_bytes for image in range(count)))


def _shared(operations: Sequence[Operation], plan: Plan, aliases: AliasSets) -> set[Value]:
    """Return the roots that already share bytes with other values."""
    found: set[Value] = set()
    for operation, op_plan in zip(operations, plan.ops, strict=True):
        if isinstance(op_plan, (ConcatAlias, SliceView)):
            found.update(aliases.root(operand) for operand in operation.operands)
        if isinstance(op_plan, SliceView):
            found.add(operation.result)
    return found


def _axis_of(type_: TensorType) -> int:
    """Return the axis along which images lie one after the other: the first one of more than one element."""
    return next((axis for axis, extent in enumerate(type_.dims) if extent != 1), 0)


def _of_one(type_: Any, count: int) -> Any:
    axis, dims = _axis_of(type_), type_.dims
    return type_.with_shape((*dims[:axis], dims[axis] // count, *dims[axis + 1 :]))


def _op_of_one(module: Module, operation: Operation, own: Sequence[bool], count: int) -> Op | None:
    """Return the op that computes one image as the operation computes each of several; None if there is none. `own`:
    which operands hold a part for every image.
    """
    op, whole = operation.op, operation.node()
    parts = [type_ for type_, is_own in zip(whole.operand_types, own, strict=True) if is_own]
    if any(not type_.shape or type_.dims[_axis_of(type_)] % count for type_ in (*parts, *whole.result_types)):
        return None
    if isinstance(op, NetworkInput):
        return op if _axis_of(whole.result_type) == 0 else None
    if isinstance(op, RowByRow) and not any(map(_axis_of, (*parts, whole.result_type))):
        return op if own[0] and not any(own[1:]) else None
    if isinstance(op, Elementwise):
        return op if _fits(whole, own) else None
    if sum(type_.size for type_ in (*parts, *whole.result_types)) > _MOST_ELEMENTS * count:
        return None
    operands = [_of_one(x, count) if is_own else x for x, is_own in zip(whole.operand_types, own, strict=True)]
    results = tuple(_of_one(type_, count) for type_ in whole.result_types)
    one = replace(whole, operand_types=tuple(operands), result_types=results)
    random = np.random.default_rng(0)
    constants = [module.constant(operand) for operand in operation.operands]
    pairs = zip(whole.operand_types, constants, strict=True)
    arrays = [_random(type_, random) if known is None else known for type_, known in pairs]
    found = (replace(one, op=variant) for variant in _variants(op, (*whole.result_types, *parts), count))
    return next((node.op for node in found if _computes_alike(node, whole, own, arrays, count)), None)


def _fits(whole: Node, own: Sequence[bool]) -> bool:
    """True if an elementwise op has the images of its operands where the result has them, and repeats all others."""
    rank, axis = whole.result_type.rank, _axis_of(whole.result_type)
    for type_, is_own in zip(whole.operand_types, own, strict=True):
        place = axis - rank + type_.rank
        if is_own and (place != axis or _axis_of(type_) != axis):
            return False
        if not is_own and place >= 0 and type_.dims[place] != 1:
            return False
    return True


def _variants(op: Any, types: Sequence[TensorType], count: int) -> Iterator[Op]:
    """Yield the op, and the op whose stated extents are those of one image. `types`: those that have all images."""
    yield op
    changed: dict[str, Any] = {}
    for field in fields(op):
        value: Any = getattr(op, field.name)
        stated = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
        for type_ in types:
            axis = _axis_of(type_)
            if len(stated) == type_.rank and stated[axis] == type_.dims[axis]:
                changed[field.name] = (*stated[:axis], stated[axis] // count, *stated[axis + 1 :])
                break
    if changed:
        yield replace(op, **changed)


def _computes_alike(one: Node, whole: Node, own: Sequence[bool], arrays: Sequence[Array], count: int) -> bool:
    """True if an op gives the results for every image that the whole one gives."""
    try:
        inferred = one.op.infer(one.operand_types)
        if inferred is not None and [type_.dims for type_ in inferred] != [type_.dims for type_ in one.result_types]:
            return False
        with np.errstate(all="ignore"):
            wanted = whole.op.evaluate(whole, arrays)
            for image in range(count):
                some = [
                    _part(array, type_, image, count) if is_own else array
                    for array, type_, is_own in zip(arrays, whole.operand_types, own, strict=True)
                ]
                found = one.op.evaluate(one, some)
                for result, every, type_ in zip(found, wanted, whole.result_types, strict=True):
                    part = _part(every, type_, image, count)
                    pair = (np.asarray(array, np.float64) for array in (result, part))
                    if not np.allclose(*pair, rtol=_NEAR, atol=_NEAR, equal_nan=True):
                        return False
    except (ArithmeticError, AssertionError, LookupError, NotImplementedError, TypeError, ValueError):
        return False  # ops state what they need in many ways
    return True


def _part(array: Array, type_: TensorType, image: int, count: int) -> Array:
    """Return the part of an image."""
    axis = _axis_of(type_)
    extent = type_.dims[axis] // count
    return array[(slice(None),) * axis + (slice(image * extent, (image + 1) * extent),)]


def _random(type_: TensorType, random: np.random.Generator) -> Array:
    """Return random stored values; of an absent operand none."""
    if is_absent(type_):
        return np.zeros((0,), np.float32)
    if type_.storage.is_float:
        return stored(random.standard_normal(type_.dims), type_)
    limits = np.iinfo(numpy_dtype(type_.storage))
    low, high = max(int(limits.min), -1000), min(int(limits.max), 1000)
    return random.integers(low, high, type_.dims).astype(limits.dtype)


def adopt(module: Module, other: Module) -> None:
    """Give a module the function of another one."""
    owner, main = module, module.main
    while main not in owner.functions:
        owner = owner.modules[0]
    owner.functions[owner.functions.index(main)] = other.main
    other.main.update_type()
