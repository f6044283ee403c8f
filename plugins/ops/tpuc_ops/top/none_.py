"""An absent operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Absent, Node, Op

from tpuc_ops.arrays import Array


@dataclass(frozen=True)
class None_(Op, Absent):  # noqa: N801  # `None` is a reserved word
    """Placeholder for an absent optional operand; its result has type `none`."""

    name = "top.None"

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [np.zeros(0, np.float32)]
