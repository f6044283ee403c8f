"""The text of ops: additional kinds of attributes, and absent operands that the text lists."""

from __future__ import annotations

from tpuc.ir.attributes import CodeKind, I32Array, IntKind, SingleKind, StringKind
from tpuc.ir.op import Slots

__all__ = ["CodeKind", "I32Array", "IntKind", "SingleKind", "Slots", "StringKind"]
