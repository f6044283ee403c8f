"""Split the error of a layer into its causes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from tpuc.api import Operation
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import finite_pair
from tpuc_ops.factorization import dot, energy
from tpuc_ops.quantized import Product
from tpuc_quantize.metrics.agreement import Agreement

from tpuc_accuracy.analysis.lowered_subgraph import Subgraph

CAUSES = ("weight rounding", "activation clipping", "activation rounding", "requantization")
REMEDIES = {
    "weight rounding": "correct its bias (calibrate with --bias-num), or equalize it with `--pass equalize-weights`",
    "activation clipping": "raise its thresholds: calibrate with more samples, --headroom 1.6 or --method max",
    "activation rounding": "flatten its channels with `--pass migrate-outliers`, or lower thresholds (--method mse)",
    "requantization": "keep it in float: list it in --quantize-table (`tpuc qtable` finds such ops)",
}
_NARROW = "it is computed in {}: f16 or f32 is more exact, if the chip has them (--quantize-table, `tpuc qtable`)"


@dataclass
class LayerError:
    """Sums over samples for one layer. `parts` are the energies of the causes and `cross` that of their products, so
    that ``sum(parts) + cross == local``, the error that the layer adds on exact operands. `noise` also includes the
    error of its operands.
    """

    name: str
    op: str
    signal: float = 0.0
    noise: float = 0.0
    products: float = 0.0
    got: float = 0.0
    middle: float = 0.0
    local: float = 0.0
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))
    is_split: bool = False
    kept: Agreement | None = None
    """The share of agreeing predictions in a part of the network's outputs."""
    narrow_float: str = ""
    """`f16` or `bf16`, where the layer is computed in it."""

    @property
    def cross(self) -> float:
        """The energy of products of causes, negative where they cancel."""
        return self.local - sum(self.parts.values())

    @property
    def cosine(self) -> float:
        """Cosine similarity of the value in both networks, over all samples."""
        if math.isinf(self.noise):
            return 0.0
        norm = float(np.sqrt(self.signal * self.got))
        return self.products / norm if norm else float(self.signal == self.got)

    @property
    def euclidean(self) -> float:
        """``1 - ||x - y|| / ||(x + y) / 2||`` over all samples."""
        if math.isinf(self.noise):
            return -math.inf
        return 1.0 - float(np.sqrt(self.noise / self.middle)) if self.middle else float(not self.noise)

    @property
    def cause(self) -> str:
        """The largest part."""
        return max(self.parts, key=lambda name: self.parts[name])

    @property
    def remedy(self) -> str:
        """The remedy for the largest part; empty where the layer adds no error."""
        if not self.is_split or not self.local:
            return ""
        return _NARROW.format(self.narrow_float) if self.narrow_float else REMEDIES[self.cause]

    def see(self, reference: Array, got: Array) -> None:
        """Add the value in the float and in the quantized network, for one sample. NaN, and an infinity on one side
        only, make the noise infinite.
        """
        pair = finite_pair(got, reference)
        if pair is None:
            self.noise = math.inf
            return
        b, a = pair
        self.signal += dot(a, a)
        self.got += dot(b, b)
        self.products += dot(a, b)
        self.noise += energy(a - b)
        self.middle += energy(a + b) / 4

    def split(self, operation: Operation, subgraph: Subgraph, operands: list[Array], reference: Array) -> None:
        """Add one sample's parts: starting from exact operands, enable one cause after the other. Values clipped by the
        result's own grid count as clipping, too.
        """
        names = [operand.name for operand in operation.operands]
        grids = [subgraph.grid(name) if name in subgraph.entries else None for name in names]
        exact: Mapping[str, Array] = {name: operands[names.index(name)] for name in subgraph.entries}
        filtered = list(operands)
        filters = subgraph.filters() if isinstance(operation.op, Product) else None
        if filters is not None and filters[0].shape == operands[1].shape:
            filtered[1] = filters[0]
            if filters[1] is not None:
                filtered[2] = filters[1].reshape(operands[2].shape if operands[2].size else (-1,))
        clipped = [x if grid is None else grid.clip(x) for x, grid in zip(filtered, grids, strict=True)]
        rounded = [x if grid is None else grid.round(x) for x, grid in zip(filtered, grids, strict=True)]
        node, op = operation.node(), operation.op
        weights, clipping, rounding, rest = CAUSES
        stages = [
            (cause, np.asarray(op.evaluate(node, one)[0]))
            for cause, one in ((weights, filtered), (clipping, clipped), (rounding, rounded))
        ]
        if subgraph.result_grid is not None:
            stages.append((clipping, subgraph.result_grid.clip(stages[-1][1])))
        stages.append((rest, subgraph.run(exact).reshape(reference.shape)))
        before = reference
        for cause, after in stages:
            self.parts[cause] += _energy(after, before)
            before = after
        self.local += _energy(before, reference)
        self.is_split, self.narrow_float = True, subgraph.narrow_float


def _energy(a: Array, b: Array) -> float:
    return energy(a.astype(np.float64) - b)
