"""Emit the instructions of a planned function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from tpuc.api import Assembler, DdrTensor, HostCall, LocalBlock, Operation, TensorInfo, Value

from tpuc_plan.regions.planned import PlannedFunction
from tpuc_plan.regions.promises import check_step
from tpuc_plan.regions.region import AddressOf, Placed, record_moves, schedule_and_place, spread
from tpuc_plan.regions.schedule import Barrier, Item
from tpuc_plan.tasks.cores import runs_of
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.host import constant_element, constant_offsets
from tpuc_plan.tasks.steps import Addresses, BlockLoad, Step, Store, TensorLoad
from tpuc_plan.tasks.task import HostTask, MoveTask, Task


class Emitter:
    """Emits a planned function. Program order defines the semantics; the assembler derives the wait ids from it.

    `cycles`: timing that determines the order. `constants_of`: DDR address of an operation's packed constants.
    `is_test`: check that kernels stay within their local memory. `is_quick`: see `schedule_and_place`.
    """

    def __init__(
        self,
        cycles: Cycles,
        asm: Assembler,
        address_of: AddressOf,
        constants_of: Callable[[Operation], int],
        *,
        is_test: bool = False,
        is_quick: bool = False,
    ) -> None:
        self.chip = cycles.chip
        self.asm = asm
        self.address_of = address_of
        self.constants_of = constants_of
        self._cycles = cycles
        self._is_test = is_test
        self._is_quick = is_quick
        self.host_calls: list[HostCall] = []
        self.operations: list[Operation] = []
        """The operation that each instruction belongs to."""

    def run(self, planned: PlannedFunction) -> None:
        """Emit all regions of the function."""
        for tasks, routine in planned.regions():
            runs = [*runs_of(tasks)]
            if len(runs) > 1:
                self._run_cores(planned, runs)
            else:
                placed = self._placed(planned, tasks)
                self._emit_all(placed.order, placed.addresses)
            if routine is not None:
                self._call(routine)

    def _run_cores(self, planned: PlannedFunction, runs: Sequence[tuple[int, Sequence[Task]]]) -> None:
        """Emit the runs of several cores in order. The runs of each core are scheduled together, so that it loads what
        nobody writes, such as constants, before the barrier in front of the run that needs it.
        """
        stretches = [*accumulate(int(core == 0) for core, _ in runs)]
        shared = self.chip.shared_profile
        beside = self._cycles.by((shared,)) if shared else self._cycles
        pieces: dict[int, Iterator[tuple[Sequence[Item], Addresses]]] = {}
        for core in dict(runs):
            tasks: list[Task | Barrier] = []
            known = 0
            for (owner, own), stretch in zip(runs, stretches, strict=True):
                if owner == core:
                    earlier = [
                        task.operation
                        for (other, others), place in zip(runs, stretches, strict=True)
                        for task in others
                        if other != core and known <= place < stretch
                    ]
                    stored = tuple(value for operation in earlier for value in operation.results)
                    tasks += [Barrier(stored, beside if stretches.count(stretch) > 1 else self._cycles), *own]
                    known = stretch
            pieces[core] = _after_barriers(self._placed(planned, tasks))
        for core, _ in runs:
            self.asm.begin(core)
            self._emit_all(*next(pieces[core]))

    def _placed(self, planned: PlannedFunction, tasks: Sequence[Task | Barrier]) -> Placed:
        region = planned.region(tasks, self._cycles, self.address_of)
        return spread(schedule_and_place(region, self.chip, is_quick=self._is_quick), self.chip.lmem)

    def _emit_all(self, items: Iterable[Item], addresses: Addresses) -> None:
        for item in items:
            self._emit(item, addresses)
            self.operations += [_operation_of(item)] * (len(self.asm.instructions) - len(self.operations))

    def _emit(self, item: Item, addresses: Addresses) -> None:
        match item:
            case Step():
                placed, before = item.placed(addresses), len(self.asm.instructions)
                item.task.kernel.emit(item.task.node, placed, item.phase, self.asm)
                if self._is_test:
                    check_step(item, placed, self.asm.instructions[before:], self.chip.lmem)
            case TensorLoad():
                base = (
                    self.constants_of(item.task.operation) + item.constant
                    if item.value is None
                    else self.address_of(item.value)
                )
                self.asm.load(item.place.local(addresses), _at(base, item.source))
            case BlockLoad():
                block = item.block
                lanes = self.chip.lmem.lanes if block.broadcast else block.lanes
                local = LocalBlock(addresses[item.buffer], block.bytes_per_lane, lanes)
                address = self.constants_of(item.task.operation) + block.offset
                if block.broadcast:
                    self.asm.broadcast_block(local, address)
                else:
                    self.asm.load_block(local, address)
            case Store():
                self.asm.store(_at(self.address_of(item.value), item.target), item.place.local(addresses))
            case MoveTask():
                record_moves(item, self.asm, self.address_of)

    def _call(self, task: HostTask) -> None:
        node, operation = task.node, task.operation
        sources, targets = task.routine.shapes(node)
        order = task.routine.order or range(len(operation.operands))
        self.host_calls.append(
            HostCall(
                task.routine.function,
                task.routine.arguments(node),
                tuple(self._source(task, *one) for one in zip(order, sources, strict=False)),
                tuple(self._info(value, shape) for value, shape in zip(operation.results, targets, strict=False)),
                len(self.asm.instructions),
            )
        )

    def _source(self, task: HostTask, index: int, shape: tuple[int, ...]) -> TensorInfo:
        """Return an operand of a host function; constants are found among the operation's packed ones."""
        value, offset = task.operation.operands[index], dict(constant_offsets(task)).get(index)
        if offset is None:
            return self._info(value, shape)
        address = self.constants_of(task.operation) + offset
        return TensorInfo(value.name, shape, constant_element(task, index), address)

    def _info(self, value: Value, shape: tuple[int, ...]) -> TensorInfo:
        return TensorInfo(value.name, shape, value.tensor.element, self.address_of(value))


def _after_barriers(placed: Placed) -> Iterator[tuple[Sequence[Item], Addresses]]:
    """Yield the items after each barrier, and the addresses of all."""
    for start, end in pairwise([*placed.barriers, len(placed.order)]):
        yield placed.order[start:end], placed.addresses


def _operation_of(item: Item) -> Operation:
    """Return the operation an item belongs to: the reader of a load, the producer of a store."""
    if isinstance(item, Store):
        assert item.value.defining is not None
        return item.value.defining
    return item.operation if isinstance(item, MoveTask) else item.task.operation


def _at(base: int, tensor: DdrTensor) -> DdrTensor:
    return DdrTensor(base + tensor.address, tensor.shape, tensor.strides, tensor.element)
