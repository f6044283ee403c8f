"""Record the transfers that the scheduler requests; kernels record compute instructions themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpuc.api import BF16, Assembler, DdrTensor, Instruction, LocalBlock, LocalTensor, ScalarType

from tpuc_cv18.isa import Cv18Instruction, DType, Fill, Scalar, Target, TensorCopy, TransposeCW, natural_strides
from tpuc_cv18.lmem import WIDENED
from tpuc_cv18.operands import MAX_DMA_EXTENT, dtype_of, is_computable

_BYTES, _BYTE = DType.UINT8, ScalarType("ui8")


class Cv18Assembler(Assembler):
    """The assembler that kernels of this family receive.

    DMA commands have no stride for the last dimension: it must be dense in DDR or of extent 1. Only stores of bytes may
    have dense channels instead. Bytes held in local memory as bf16 (layout `WIDENED`) are converted when stored, half
    to even and saturating.
    """

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target

    def record(self, instruction: Instruction) -> None:
        assert isinstance(instruction, Cv18Instruction), "an instruction of another chip"
        super().record(instruction.on(self.target))

    def load(self, target: LocalTensor, source: DdrTensor) -> None:
        for one in _pieces(_bytes(source), self.target):
            self.record(
                TensorCopy(
                    source=one.ddr.address,
                    destination=target.address + one.offset,
                    shape=one.ddr.shape,
                    dtype=dtype_of(one.ddr.element),
                    source_strides=_steps(one.ddr),
                    destination_strides=one.local,
                )
            )

    def store(self, target: DdrTensor, source: LocalTensor) -> None:
        n, _, h, w = target.shape
        if w > 1 and target.strides[3] != 1:
            assert (h, target.strides[1]) == (1, 1), "only channels and columns can be exchanged"
            self.record(
                TransposeCW(
                    source=source.address,
                    destination=target.address,
                    shape=target.shape,
                    dtype=dtype_of(target.element),
                    source_strides=natural_strides(self.target, target.shape, 1)[:3],
                    destination_strides=(target.strides[0] if n > 1 else 0, target.strides[3], 0),
                )
            )
            return
        narrowed = target.element if source.layout == WIDENED else None
        if narrowed is None:
            pieces = _pieces(_bytes(target), self.target)
        else:
            pieces = _pieces(target, self.target, DType.BF16.bytes)
        for one in pieces:
            self.record(
                TensorCopy(
                    source=source.address + one.offset,
                    destination=one.ddr.address,
                    shape=one.ddr.shape,
                    dtype=dtype_of(one.ddr.element) if narrowed is None else DType.BF16,
                    destination_dtype=None if narrowed is None else dtype_of(narrowed),
                    source_strides=one.local,
                    destination_strides=_steps(one.ddr),
                )
            )

    def load_block(self, target: LocalBlock, address: int) -> None:
        self._block(target, address, target.bytes_per_lane)

    def broadcast_block(self, target: LocalBlock, address: int) -> None:
        self._block(target, address, 0)

    def _block(self, target: LocalBlock, address: int, step: int) -> None:
        size = target.bytes_per_lane
        self.record(
            TensorCopy(
                source=address,
                destination=target.address,
                shape=(1, target.lanes, 1, size),
                dtype=_BYTES,
                source_strides=(size, step, size),
                destination_strides=(size, size, size),
            )
        )

    def move(self, target: DdrTensor, source: DdrTensor) -> None:
        source, target = _bytes(source), _bytes(target)
        self.record(
            TensorCopy(
                source=source.address,
                destination=target.address,
                shape=source.shape,
                dtype=dtype_of(source.element),
                source_strides=_steps(source),
                destination_strides=_steps(target),
            )
        )

    def fill(self, target: DdrTensor, value: float) -> None:
        dtype = dtype_of(target.element)
        self.record(
            Fill(
                destination=target.address,
                shape=target.shape,
                dtype=dtype,
                value=Scalar.of(value, dtype).bits,
                strides=_steps(target),
            )
        )


def _bytes(tensor: DdrTensor) -> DdrTensor:
    """View a tensor as bytes with dense rows; DMA commands move the same bits for every element type.

    The vendor's estimator counts a wide element as one byte, so rows of wide types never merge into longer runs.
    """
    size = tensor.element.bits // 8
    n, c, h, w = tensor.shape
    sn, sc, sh, sw = tensor.strides
    assert sw == 1 or w == 1, "the last dimension must be dense"
    if size == 1 or w * size > MAX_DMA_EXTENT:
        return _words(tensor)
    return DdrTensor(tensor.address, (n, c, h, size * w), (size * sn, size * sc, size * sh, 1), _BYTE)


def _words(tensor: DdrTensor) -> DdrTensor:
    """View 32-bit elements as pairs of 16-bit elements, the widest that DMA commands support."""
    if is_computable(tensor.element):
        return tensor
    n, c, h, w = tensor.shape
    sn, sc, sh, _ = tensor.strides
    return DdrTensor(tensor.address, (n, c, h, 2 * w), (2 * sn, 2 * sc, 2 * sh, 1), BF16)


@dataclass(frozen=True)
class _Piece:
    """One transfer: the DDR side, the byte offset from the local tensor's address, and the local n, c, h strides
    in bytes.
    """

    ddr: DdrTensor
    offset: int
    local: tuple[int, int, int]


def _pieces(tensor: DdrTensor, chip: Target, local_bytes: int = 0) -> list[_Piece]:
    """Split a tensor into transfers. Dense planes become single rows, which transfer faster. When the row stride
    exceeds its field, rows take the place of the batch, with one command per batch. `local_bytes` is the element
    size in local memory where it differs from that in DDR.
    """
    n, c, h, w = tensor.shape
    sn, sc, sh, sw = tensor.strides
    size = tensor.element.bits // 8
    if (sh == w * sw or h == 1) and sw == 1 and h * w <= MAX_DMA_EXTENT:
        tensor = replace(tensor, shape=(n, c, 1, h * w), strides=(sn, sc, 0, 1))
    elif w == 1 and h <= MAX_DMA_EXTENT and sh == 1:
        tensor = replace(tensor, shape=(n, c, 1, h), strides=(sn, sc, 0, 1))
    local = natural_strides(chip, tensor.shape, local_bytes or size)[:3]
    if tensor.shape[2] == 1 or sh * size <= MAX_DMA_EXTENT:
        return [_Piece(tensor, 0, local)]
    return [
        _Piece(
            DdrTensor(tensor.address + batch * sn * size, (h, c, 1, w), (sh, sc, 0, 1), tensor.element),
            batch * local[0],
            (local[2], local[1], local[2]),
        )
        for batch in range(n)
    ]


def _steps(tensor: DdrTensor) -> tuple[int, int, int]:
    """N, C, H strides in bytes. Unused strides (extent 1) are set as if dense, so that adjacent runs merge."""
    size = tensor.element.bits // 8
    steps: list[int] = []
    dense = tensor.shape[3] * size
    for extent, step in zip(tensor.shape[2::-1], tensor.strides[2::-1], strict=True):
        steps.append(dense if extent == 1 else step * size)
        dense = steps[-1] * extent
    h, c, n = steps
    if tensor.shape[2] == 1:
        h = min(h, MAX_DMA_EXTENT)
    assert h <= MAX_DMA_EXTENT, f"row stride of {h} bytes"
    return (n, c, h)
