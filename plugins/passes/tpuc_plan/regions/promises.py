"""Check in tests of kernels that the instructions of a tile stay within their local memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tpuc.api import BrokenPromise, Instruction, LmemModel, LocalBlock, LocalTensor, PlacedTile, Region

from tpuc_plan.tasks.steps import Step

LOCAL = "lmem"
"""Name of the address space of local memory in instruction regions."""


def check_step(step: Step, placed: PlacedTile, instructions: Sequence[Instruction], lmem: LmemModel) -> None:
    """Raise BrokenPromise if an instruction reads or writes local memory outside of the tile's buffers."""
    working = [_block(block) for block in placed.scratch.values()]
    written = [*(_tensor(result, lmem) for result in placed.results), *working]
    given = [_tensor(operand, lmem) for operand in placed.operands if operand is not None]
    read = [*written, *given, *(_block(block) for block in placed.constants.values())]
    for instruction in instructions:
        for regions, areas, verb in ((instruction.writes(), written, "writes"), (instruction.reads(), read, "reads")):
            for region in regions:
                if region.space == LOCAL and not _inside(region, areas):
                    raise BrokenPromise(_said(step, region, verb, instruction, placed), step.task.kernel)


def _said(step: Step, region: Region, verb: str, instruction: Instruction, placed: PlacedTile) -> str:
    node, module = step.task.node, type(step.task.kernel).__module__
    sizes = ", ".join(f"'{name}' of {block.bytes_per_lane} bytes" for name, block in placed.scratch.items())
    return (
        f"{module}: kernel of {node.op.name} '{node.name}': {instruction.mnemonic()} {verb} bytes {region.start} to "
        f"{region.end} of local memory, which are not all in its tile's buffers (scratch: {sizes or 'none'}); make "
        f"`scratch` larger, or correct the instruction or its `{verb}`"
    )


def _block(block: LocalBlock) -> tuple[int, int]:
    return block.address, block.address + block.bytes_per_lane


def _tensor(tensor: LocalTensor, lmem: LmemModel) -> tuple[int, int]:
    """Return the bytes of a tensor. One with its own strides is part of a larger tensor; it extends to the end of the
    lane.
    """
    if tensor.strides is not None:
        return tensor.address, lmem.lane_bytes
    return tensor.address, tensor.address + lmem.tensor_bytes(tensor.layout, tensor.shape, tensor.element.bits // 8)


def _inside(region: Region, areas: Sequence[tuple[int, int]]) -> bool:
    return any(start <= region.start and region.end <= end for start, end in _joined(areas))


def _joined(areas: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge adjacent and overlapping areas, in ascending order."""
    first, last = -1, -1
    for start, end in sorted(areas):
        if start > last:
            if last > first:
                yield first, last
            first, last = start, end
        last = max(last, end)
    yield first, last
