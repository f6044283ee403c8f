"""Determinants of small matrices by minors."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import ChipDescription, LoweringNode, Value
from tpuc_ops import top

from tpuc_legalize.composer import MOVES, Composed, Composer, Part
from tpuc_legalize.table import TABLE

_LARGEST = 5
"""The number of minors grows as a power of two."""


@TABLE.legalizes(top.Det)
class DetAny(Composed[top.Det]):
    """Laplace expansion along the first row; shared minors are computed once."""

    into = (*MOVES, top.Add, top.Mul, top.Sub)

    def fits(self, chip: ChipDescription) -> bool:
        """Differences of products cancel digits that narrow floats do not have."""
        return chip.compute_type == "f32"

    def refuse(self, node: LoweringNode) -> str | None:
        size = node.operand_types[0].dims[-1]
        return f"matrices of at most {_LARGEST} rows, these have {size}" if not 1 <= size <= _LARGEST else None

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        x = node.operands[0]
        size = x.tensor.dims[-1]
        flat = do.reshape(x, x.tensor.size // size**2, size**2)
        known: dict[tuple[int, ...], Value] = {}

        def element(row: int, column: int) -> Value:
            at, count = row * size + column, flat.tensor.dims[0]
            return do.slice(flat, (0, at), (count, at + 1))

        elements = [[element(row, column) for column in range(size)] for row in range(size)]

        def minor(columns: tuple[int, ...]) -> Value:
            """Of the last rows, as many as there are columns."""
            row = elements[size - len(columns)]
            if len(columns) == 1:
                return row[columns[0]]
            if columns not in known:
                total = None
                for index, column in enumerate(columns):
                    part = do(top.Mul(), row[column], minor((*columns[:index], *columns[index + 1 :])))
                    total = part if total is None else do(top.Sub() if index % 2 else top.Add(), total, part)
                assert total is not None
                known[columns] = total
            return known[columns]

        return [do.reshape(minor(tuple(range(size))), *node.result_type.dims, last=True)]
