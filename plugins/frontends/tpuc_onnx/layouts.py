"""Convert images with channels last for operators with channels second."""

from __future__ import annotations

from tpuc_onnx.script import Script


def channels_first(script: Script, name: str, rank: int) -> str:
    """Move an operand's channels to the second dimension."""
    return script("Transpose", name, perm=[0, rank - 1, *range(1, rank - 1)])


def channels_last(script: Script, name: str, rank: int, result: str = "") -> str:
    """Move a result's channels to the end."""
    return script("Transpose", name, perm=[0, *range(2, rank), 1], result=result)
