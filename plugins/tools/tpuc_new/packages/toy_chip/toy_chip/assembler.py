"""What kernels and the scheduler write commands with. Nobody writes ids or waits: the recorder derives them."""

from __future__ import annotations

from tpuc.api import Assembler, DdrTensor, LocalBlock, LocalTensor

from toy_chip import isa
from toy_chip.operands import DType, Layout, Operand, Strided


class ToyAssembler(Assembler):
    """The transfers that the scheduler asks for; kernels record compute commands themselves."""

    def load(self, target: LocalTensor, source: DdrTensor) -> None:
        self.record(isa.Load(operand(target), strided(source)))

    def store(self, target: DdrTensor, source: LocalTensor) -> None:
        self.record(isa.Store(strided(target), operand(source)))

    def load_block(self, target: LocalBlock, address: int) -> None:
        self.record(isa.LoadBlock(target.address, target.bytes_per_lane, target.lanes, address))

    def broadcast_block(self, target: LocalBlock, address: int) -> None:
        self.record(isa.Broadcast(target.address, target.bytes_per_lane, address))

    def move(self, target: DdrTensor, source: DdrTensor) -> None:
        self.record(isa.Move(strided(target), strided(source)))

    def fill(self, target: DdrTensor, value: float) -> None:
        self.record(isa.FillDdr(strided(target), float(value)))


def operand(local: LocalTensor) -> Operand:
    """A tile's tensor as the commands name it."""
    return Operand(local.address, local.shape, DType.of(local.element), Layout[local.layout.upper()])


def strided(tensor: DdrTensor) -> Strided:
    """A part of a DDR tensor as the commands name it."""
    return Strided(tensor.address, tensor.shape, tensor.strides, DType.of(tensor.element))
