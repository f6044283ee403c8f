"""How ops are written: kinds of attributes beyond the usual ones, and what text lists beside an op's operands."""

from __future__ import annotations

from tpuc.ir.attributes import CodeKind, I32Array, IntKind, SingleKind, StringKind
from tpuc.ir.op import Slots

__all__ = ["CodeKind", "I32Array", "IntKind", "SingleKind", "Slots", "StringKind"]
