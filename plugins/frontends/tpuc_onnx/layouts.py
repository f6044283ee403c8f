"""Images whose channels are the last dimension, for operators that have them second."""

from __future__ import annotations

from tpuc_onnx.script import Script


def channels_first(script: Script, name: str, rank: int) -> str:
    """An operand with its channels moved to the second dimension."""
    return script("Transpose", name, perm=[0, rank - 1, *range(1, rank - 1)])


def channels_last(script: Script, name: str, rank: int, result: str = "") -> str:
    """A result with its channels moved to the end."""
    return script("Transpose", name, perm=[0, *range(2, rank), 1], result=result)
