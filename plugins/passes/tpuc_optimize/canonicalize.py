"""Simplify TOP; remaining values keep their names."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext, Pattern, apply_patterns, drop_unused_weights, remove_dead
from tpuc_ops import top

from tpuc_optimize.canonicalization.affine import AffineIntoProduct, BatchNormToScale, NeutralNumber
from tpuc_optimize.canonicalization.common import FloatOnly, Names
from tpuc_optimize.canonicalization.concat import PermuteBeforeConcat
from tpuc_optimize.canonicalization.guarded_softmax import GuardedSoftmax, HiddenRow
from tpuc_optimize.canonicalization.hidden_channels import MaskOutOfProduct
from tpuc_optimize.canonicalization.normalizations import (
    AffineIntoNorm,
    ExponentialsToSoftmax,
    MeanOfSquares,
    SumToMean,
    ToLayerNorm,
    ToRMSNorm,
)
from tpuc_optimize.canonicalization.patches import PatchesIntoChannels
from tpuc_optimize.canonicalization.pooling import MaximumBeforeFunction, SingleWindowStride
from tpuc_optimize.canonicalization.products import NeutralProduct, ProductIntoProduct, UnreadChannels
from tpuc_optimize.canonicalization.recognition import GatedProducts, HardSigmoidFromRelu
from tpuc_optimize.canonicalization.relu import ClipToRelu, ReluIntoProducer
from tpuc_optimize.canonicalization.shape import MergePermutes, MergeReshapes, TileBeforeBroadcast
from tpuc_optimize.canonicalization.space_to_depth import SpaceToDepthIntoConv
from tpuc_optimize.canonicalization.window import PadBeforeConv, PadIntoConv, ReduceToPool


@dataclass(frozen=True)
class Canonicalize(Pass):
    """Recognize activations, normalizations and softmax composed of simpler ops; fuse relus; fold BatchNorm, scales and
    summands into convolutions and products, products of channels into preceding ones where that costs less, and pads
    into convolutions; remove unread channels; fold space to depth into convolutions; merge reshapes and
    permutations; leave repetitions to ops that broadcast; remove dead ops.

    An op that absorbs the next one takes its name, because it now computes that value.
    """

    name = "canonicalize"

    def run(self, module: Module, context: PassContext) -> bool:
        names = Names(module)
        patterns = [
            MergeReshapes(),
            MergePermutes(),
            TileBeforeBroadcast(),
            PermuteBeforeConcat(names),
            SingleWindowStride(),
            PadIntoConv(names),
            *map(FloatOnly, self._arithmetic(names)),
        ]
        changed = remove_dead(module)
        # First: later patterns take these apart differently.
        changed |= apply_patterns(
            module, [*map(FloatOnly, self._known(names))], constant=top.Weight(), absent=top.None_()
        )
        while apply_patterns(module, patterns, constant=top.Weight(), absent=top.None_()):
            changed = True  # an op that died last may have kept another one from being fused
        drop_unused_weights(module)
        for function in module.functions:
            function.update_type()
        return changed

    @staticmethod
    def _arithmetic(names: Names) -> list[Pattern]:
        """The patterns that change the arithmetic."""
        return [
            PadBeforeConv(names),
            MaximumBeforeFunction(names),
            ReduceToPool(names),
            *Canonicalize._known(names),
            BatchNormToScale(names),
            MaskOutOfProduct(names),
            AffineIntoProduct(names),
            SpaceToDepthIntoConv(names),
            PatchesIntoChannels(names),
            UnreadChannels(names),
            ProductIntoProduct(names),
            NeutralProduct(),
            ClipToRelu(),
            ReluIntoProducer(names),
        ]

    @staticmethod
    def _known(names: Names) -> list[Pattern]:
        """The recognized functions."""
        return [
            NeutralNumber(),
            GuardedSoftmax(names),
            HiddenRow(),
            GatedProducts(names),
            HardSigmoidFromRelu(),
            SumToMean(),
            MeanOfSquares(names),
            ToLayerNorm(names),
            ToRMSNorm(names),
            AffineIntoNorm(names),
            ExponentialsToSoftmax(),
        ]
