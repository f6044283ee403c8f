"""Pack the constants of a task into the bytes that its tiles load."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import BrokenPromise, PackedConstant, RowMove, Tile
from tpuc_ops.arrays import Array

from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.task import MoveTask, TileTask

_MOVED_ALIGNMENT = 64
"""Bytes; moves of 4-byte elements need at least 4."""


@dataclass(frozen=True)
class Block:
    """One block of packed bytes: `bytes_per_lane` for each lane, every `pitch` bytes from `offset` on (one lane if it
    is broadcast). `places`: offset and bytes of each constant within a lane.
    """

    group: int
    key: tuple[tuple[int, int], ...]
    tile: Tile
    offset: int
    lanes: int
    bytes_per_lane: int
    pitch: int
    broadcast: bool
    places: dict[str, tuple[int, int]]

    @property
    def stored_bytes(self) -> int:
        """Bytes from the first to the last one, inclusive."""
        return (self.lanes - 1) * self.pitch + self.bytes_per_lane


def blocks_of(task: TileTask) -> dict[tuple[int, tuple[tuple[int, int], ...]], Block]:
    """Return every distinct block of a task by (group, key), in the order of first use."""
    alignment = task.chip.lmem.alignment
    at = 0
    blocks: dict[tuple[int, tuple[tuple[int, int], ...]], Block] = {}
    for group_index, group, tile in _block_tiles(task):
        key = task.constant_key(group, tile)
        if (group_index, key) in blocks:
            continue
        size, places = task.group_layout(group, tile)
        broadcast = group[0].broadcast
        lanes = 1 if broadcast else task.group_lanes(group, tile)
        at = align(at, alignment)
        pitch = size if broadcast else task.chip.block_pitch(lanes, size)
        block = blocks[group_index, key] = Block(group_index, key, tile, at, lanes, size, pitch, broadcast, places)
        at += block.stored_bytes
    return blocks


def _block_tiles(task: TileTask) -> Iterator[tuple[int, Sequence[PackedConstant], Tile]]:
    groups = task.constant_groups
    if groups:
        for tile in task.tiles:
            for index, group in enumerate(groups):
                yield index, group, tile


def constant_tensors(task: TileTask) -> dict[int, int]:
    """Return, for each constant operand that tiles load in parts, the offset of its dense bytes in the packed ones."""
    alignment = task.chip.lmem.alignment
    at = _end_of(blocks_of(task))
    offsets: dict[int, int] = {}
    for index, (operand, view) in enumerate(zip(task.operation.operands, task.space.operands, strict=True)):
        if view is not None and operand.is_constant:
            offsets[index] = align(at, alignment)
            at = offsets[index] + operand.tensor.size_bytes
    return offsets


def _end_of(blocks: Mapping[Any, Block]) -> int:
    return max((block.offset + block.stored_bytes for block in blocks.values()), default=0)


def digest_of(packed: Array) -> bytes:
    """Return a hash that is equal for equal packed constants."""
    return hashlib.blake2b(np.ascontiguousarray(packed).data, digest_size=16).digest()


def pack_task(task: TileTask, arrays: Sequence[Array | None]) -> Array:
    """Return the packed bytes (uint8) of a task: its blocks, then its constant tensors; empty if it has neither. Raises
    BrokenPromise if the kernel's `pack` and `constant_shape` disagree.
    """
    blocks, tensors = blocks_of(task), constant_tensors(task)
    ends = [_end_of(blocks), *(at + task.node.operand_types[index].size_bytes for index, at in tensors.items())]
    packed = np.zeros(max(ends), np.uint8)
    for index, at in tensors.items():
        array = arrays[index]
        assert array is not None
        packed[at : at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for block in blocks.values():
        lanes = np.zeros((block.lanes, block.pitch), np.uint8)
        for constant in task.constant_groups[block.group]:
            offset, count = block.places[constant.name]
            data = task.kernel.pack(task.node, constant.name, block.tile, arrays)
            expected = task.kernel.constant_shape(task.node, constant.name, block.tile)
            if data.shape != expected or data.dtype != np.uint8:
                raise BrokenPromise(
                    f"kernel of {task.node.op.name}: constant '{constant.name}' packs to {data.dtype} {data.shape}, "
                    f"its constant_shape says uint8 {expected}; make `pack` and `constant_shape` agree",
                    task.kernel,
                )
            lanes[: data.shape[0], offset : offset + count] = data
        packed[block.offset : block.offset + block.stored_bytes] = lanes.reshape(-1)[: block.stored_bytes]
    return packed


def move_constants(task: MoveTask) -> dict[int, int]:
    """Return, for each constant operand that moves read, the offset of its dense bytes in the packed ones."""
    operands = task.operation.operands
    read = {move.operand for move in task.moves if move.fill is None}
    read |= {move.index for move in task.moves if isinstance(move, RowMove)}
    at, offsets = 0, dict[int, int]()
    for index in sorted(read):
        if operands[index].is_constant:
            offsets[index] = at
            at += align(operands[index].tensor.size_bytes, _MOVED_ALIGNMENT)
    return offsets


def pack_moves(task: MoveTask, arrays: Sequence[Array | None]) -> Array:
    """Return the packed bytes (uint8) of the constants that a task moves or uses as indices."""
    offsets = move_constants(task)
    ends = [at + task.node.operand_types[index].size_bytes for index, at in offsets.items()]
    packed = np.zeros(max(ends, default=0), np.uint8)
    for index, at in offsets.items():
        array = arrays[index]
        assert array is not None
        packed[at : at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return packed
