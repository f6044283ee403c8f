"""Random transfers of matrices and of plain runs of elements."""

from __future__ import annotations

from tpuc_bm1684x import isa
from tpuc_bm1684x.isa import DType
from tpuc_bm1684x.isa.geometry import DDR_BASE

from tests.chips.bm1684x.draw import FLOATS, INTEGERS, RESULT, A, Case, Draw, Place

TYPES = (*INTEGERS, *FLOATS)
FAR = DDR_BASE + 0x20000


def matrix(draw: Draw) -> Case:
    """Matrices into lanes, also transposed, and out of them; the last lane may have fewer columns than the others."""
    dtype: DType = draw.pick(*TYPES)
    transpose = draw.number(0, 3) == 0
    loads = transpose or bool(draw.number(0, 2))
    rows, columns = draw.number(1, 20), draw.number(1, 90)
    across = rows if transpose else columns
    width = draw.number(1, 12)
    pieces = -(-across // width)
    plane = -(-width // dtype.vector) * dtype.vector
    lane = draw.number(0, 20)
    steps = (-(-(lane + pieces) // 64) * plane, plane)
    local_rows = columns if transpose else rows
    place = isa.lmem(isa.lane_address(lane, RESULT if loads else A))
    local = Place(place, (local_rows, pieces, 1, width), (*steps, width, 1), dtype)
    step = columns + draw.number(0, 9)
    flat = Place(DDR_BASE if loads else FAR, (1, 1, rows, columns), (rows * step, rows * step, step, 1), dtype)
    source, target = (flat, local) if loads else (local, flat)
    instruction = isa.MatrixCopy(
        source=source.address,
        destination=target.address,
        rows=rows,
        columns=columns,
        row_stride=step,
        width=width,
        pieces=pieces,
        local_strides=steps,
        dtype=dtype,
        transpose=transpose,
    )
    return Case(instruction, [(one, draw.values(dtype, one.shape)) for one in (source, target)], target)


def linear(draw: Draw) -> Case:
    """Consecutive elements between two places in DDR or in one lane."""
    dtype: DType = draw.pick(*TYPES)
    count = draw.number(1, 500)
    shape, steps = (1, 1, 1, count), (count, count, count, 1)
    source, target = (
        Place(draw.pick(far, isa.lmem(isa.lane_address(draw.number(0, 20), near))), shape, steps, dtype)
        for far, near in ((DDR_BASE, A), (FAR, RESULT))
    )
    instruction = isa.LinearCopy(source=source.address, destination=target.address, count=count, dtype=dtype)
    return Case(instruction, [(source, draw.values(dtype, shape))], target)
