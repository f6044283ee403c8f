"""Turns planned tasks into instructions: steps, their order, their places in local memory, and what they record."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Assembler, DdrTensor, HostCall, LocalBlock, Operation, TensorInfo, Value

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.places import Places
from tpuc_passes.planning.program import AddressOf, build_stretch, order_and_place, record_moves
from tpuc_passes.planning.schedule import Item
from tpuc_passes.planning.steps import BlockLoad, Step, Store, TensorLoad
from tpuc_passes.planning.task import HostTask, MoveTask, Task


class Emitter:
    """Emits all tasks. Program order is the order of meaning; the assembler derives the wait ids from it. `cycles`: by
    which the order is chosen.
    """

    def __init__(self, cycles: Cycles, asm: Assembler, address_of: AddressOf, places: Places) -> None:
        self.chip = cycles.chip
        self.asm = asm
        self.address_of = address_of
        self._places = places
        self._cycles = cycles
        self._coefficients: dict[int, int] = {}
        self.host_calls: list[HostCall] = []
        self.makers: list[Operation] = []
        """For which operation each instruction is."""

    def run(self, tasks: Sequence[tuple[Task, int]]) -> None:
        """Emit everything. Each task comes with the DDR address of its packed constants."""
        stretch: list[tuple[Task, int]] = []
        for task, coefficients in tasks:
            if isinstance(task, HostTask):
                self._emit_stretch(stretch)
                self._call(task)
                stretch = []
            else:
                stretch.append((task, coefficients))
        self._emit_stretch(stretch)

    def _emit_stretch(self, tasks: Sequence[tuple[Task, int]]) -> None:
        """Tasks that no host function interrupts."""
        self._coefficients.update((id(task), coefficients) for task, coefficients in tasks)
        stretch = build_stretch([task for task, _ in tasks], self._cycles, self._places, self.address_of)
        order, _ = order_and_place(stretch, self.chip)
        for item in order:
            self._emit(item)
            self.makers += [_maker(item)] * (len(self.asm.instructions) - len(self.makers))

    def _emit(self, item: Item) -> None:
        match item:
            case Step():
                item.task.kernel.emit(item.task.node, item.placed(), item.phase, self.asm)
            case TensorLoad():
                base = (
                    self._coefficients[id(item.task)] + item.constant
                    if item.value is None
                    else self.address_of(item.value)
                )
                self.asm.load(item.place.local(), _at(base, item.source))
            case BlockLoad():
                block = item.block
                lanes = self.chip.lmem.lanes if block.broadcast else block.lanes
                local = LocalBlock(item.buffer.address, block.bytes_per_lane, lanes)
                address = self._coefficients[id(item.task)] + block.offset
                if block.broadcast:
                    self.asm.broadcast_block(local, address)
                else:
                    self.asm.load_block(local, address)
            case Store():
                self.asm.store(_at(self.address_of(item.value), item.target), item.place.local())
            case MoveTask():
                record_moves(item, self.asm, self.address_of)

    def _call(self, task: HostTask) -> None:
        node, operation = task.node, task.operation
        sources, targets = task.routine.shapes(node)
        self.host_calls.append(
            HostCall(
                task.routine.function,
                task.routine.arguments(node),
                tuple(self._info(value, shape) for value, shape in zip(operation.operands, sources, strict=True)),
                tuple(self._info(value, shape) for value, shape in zip(operation.results, targets, strict=True)),
                len(self.asm.instructions),
            )
        )

    def _info(self, value: Value, shape: tuple[int, ...]) -> TensorInfo:
        return TensorInfo(value.name, shape, value.tensor.element, self.address_of(value))


def _maker(item: Item) -> Operation:
    """The operation that an item serves: loads the one that reads, stores the one that has computed."""
    if isinstance(item, Store):
        assert item.value.defining is not None
        return item.value.defining
    return item.operation if isinstance(item, MoveTask) else item.task.operation


def _at(base: int, tensor: DdrTensor) -> DdrTensor:
    return DdrTensor(base + tensor.address, tensor.shape, tensor.strides, tensor.element)
