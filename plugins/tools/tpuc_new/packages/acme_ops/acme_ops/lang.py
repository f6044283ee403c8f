"""The op as a function of TpuLang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuc_lang import LangFunction, Tensor, mul
from tpuc_lang.graph import make_one

from acme_ops.gelu7 import Gelu7


class Gelu7Function(LangFunction):
    """``tl.custom([x], "gelu7", ["float32"], params={"factor": 2.0})``: the function of ``factor * x``."""

    def build(self, tensors: Sequence[Tensor], params: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(tensors) != 1:
            raise ValueError(f"it takes one tensor, these are {len(tensors)}")
        return [make_one("gelu7", Gelu7(), [mul(tensors[0], float(params.get("factor", 1)))])]
