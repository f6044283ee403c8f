"""Fuse relus into the ops that feed them, and turn clips into relus."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import FusesRelu, Location, Operation, Pattern, Rewriter
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import Names, behind_moves, bypass

LARGEST = float(np.finfo(np.float32).max)


class ClipToRelu(Pattern):
    """A clip from zero up is a relu; a clip between the largest numbers is the identity."""

    matches = (top.Clip,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        clip: top.Clip = operation.op  # pyright: ignore[reportAssignmentType]  # `matches` says so
        if clip.min <= -LARGEST and clip.max >= LARGEST:
            return bypass(operation, rewriter)
        if clip.min != 0 or clip.max <= 0:
            return False
        rewriter.change(operation, top.Relu(relu_limit=clip.max if clip.max < LARGEST else -1.0))
        return True


@dataclass(frozen=True)
class ReluIntoProducer(Pattern):
    """The producer computes the relu, too, and takes its name; of two relus the lower limit stays. Convolutions and
    matrix products may be reshaped and permuted in between.
    """

    names: Names
    matches = (top.Relu,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        producer, moves = behind_moves(operation)
        if producer is None or len(producer.results) > 1:
            return False
        relu: top.Relu = operation.op  # pyright: ignore[reportAssignmentType]  # `matches` says so
        before: Any = producer.op
        if moves and (not isinstance(before, (top.Conv, top.MatMul)) or moves[0].result.type != operation.result.type):
            return False
        if isinstance(before, top.Relu):
            fused = top.Relu(lower_limit(before.relu_limit, relu.relu_limit))
        elif isinstance(before, FusesRelu):
            fused = with_relu(before, relu.relu_limit)
        else:
            return False
        result_type, location = operation.result.type, operation.location
        rewriter.replace(operation, operation.operands[0])
        name = location.names[0]
        for move in moves:
            rewriter.change(move, move.op, location)
            location = Location((self.names.new(f"{name}_product"),))
        if not moves:
            producer.result.type = result_type
        rewriter.change(producer, fused, location)
        return True


def lower_limit(first: float, second: float) -> float:
    """The limit of both relus together; -1 means none."""
    limits = [limit for limit in (first, second) if limit > 0]
    return min(limits, default=-1.0)


def with_relu(op: Any, limit: float) -> Any:
    """The same op followed by a relu."""
    return dataclasses.replace(op, do_relu=True, relu_limit=lower_limit(op.relu_limit if op.do_relu else -1.0, limit))
