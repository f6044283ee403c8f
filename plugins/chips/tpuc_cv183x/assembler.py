"""Appends CV183x instructions: transfers for the scheduler; kernels record compute instructions themselves."""

from __future__ import annotations

from dataclasses import replace

from tpuc.api import BF16, Assembler, DdrTensor, LocalBlock, LocalTensor, ScalarType

from tpuc_cv183x.isa import DType, Fill, Scalar, TensorCopy, TransposeCW, natural_strides
from tpuc_cv183x.operands import MAX_DMA_EXTENT, dtype_of, is_computable

_BYTES, _BYTE = DType.UINT8, ScalarType("ui8")


class Cv183xAssembler(Assembler):
    """The assembler that kernels receive.

    The last dimension has no stride in DMA commands: it is dense in DDR, or of extent 1. Stores of bytes may have
    channels dense instead.
    """

    def load(self, target: LocalTensor, source: DdrTensor) -> None:
        for one in _pieces(_bytes(source), dense_planes=True):
            self._load(target, one)

    def _load(self, target: LocalTensor, source: DdrTensor) -> None:
        dtype = dtype_of(source.element)
        self.record(
            TensorCopy(
                source=source.address,
                destination=target.address,
                shape=source.shape,
                dtype=dtype,
                source_strides=_steps(source),
                destination_strides=natural_strides(source.shape, dtype.bytes)[:3],
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
                    source_strides=natural_strides(target.shape, 1)[:3],
                    destination_strides=(target.strides[0] if n > 1 else 0, target.strides[3], 0),
                )
            )
            return
        for one in _pieces(_bytes(target), dense_planes=True):
            dtype = dtype_of(one.element)
            self.record(
                TensorCopy(
                    source=source.address,
                    destination=one.address,
                    shape=one.shape,
                    dtype=dtype,
                    source_strides=natural_strides(one.shape, dtype.bytes)[:3],
                    destination_strides=_steps(one),
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
    """Elements as bytes of dense rows: whatever the type, DMA commands move the same bits.

    The vendor's estimator counts elements of wider types as if they were bytes, and such rows never join.
    """
    size = tensor.element.bits // 8
    n, c, h, w = tensor.shape
    sn, sc, sh, sw = tensor.strides
    assert sw == 1 or w == 1, "the last dimension must be dense"
    if size == 1 or w * size > MAX_DMA_EXTENT:
        return _words(tensor)
    return DdrTensor(tensor.address, (n, c, h, size * w), (size * sn, size * sc, size * sh, 1), _BYTE)


def _words(tensor: DdrTensor) -> DdrTensor:
    """Elements of 32 bits as pairs of 16 bits: DMA commands know no wider ones."""
    if is_computable(tensor.element):
        return tensor
    n, c, h, w = tensor.shape
    sn, sc, sh, sw = tensor.strides
    return DdrTensor(tensor.address, (n, c, h, 2 * w), (2 * sn, 2 * sc, 2 * sh, 1), BF16)


def _pieces(tensor: DdrTensor, *, dense_planes: bool) -> list[DdrTensor]:
    """A tensor whose planes are dense as one with single rows, which go faster; the whole where steps fit their fields.

    `dense_planes`: the other side is dense anyway.
    """
    n, c, h, w = tensor.shape
    sn, sc, sh, sw = tensor.strides
    if dense_planes and (sh == w * sw or h == 1) and sw == 1 and h * w <= MAX_DMA_EXTENT:
        return [replace(tensor, shape=(n, c, 1, h * w), strides=(sn, sc, 0, 1))]
    if w == 1 and h <= MAX_DMA_EXTENT and sh == 1:
        return [replace(tensor, shape=(n, c, 1, h), strides=(sn, sc, 0, 1))]
    assert sw == 1 or w == 1, "the last dimension must be dense"
    return [tensor]


def _steps(tensor: DdrTensor) -> tuple[int, int, int]:
    """N, C, H strides in bytes. Those of single elements are never used, and as if dense: so neighbours join."""
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
