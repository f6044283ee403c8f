"""Rearrangements of lowered values: ops that move every element once, so that casts may come before them."""

from __future__ import annotations

from tpuc.api import Operation, TensorType, Value
from tpuc_ops import tpu


def unmoved(value: Value) -> Value:
    """The value before reshapes, permutations, and cuts that are all put together again."""
    while (move := value.defining) is not None:
        if isinstance(move.op, tpu.Reshape | tpu.Permute) or (isinstance(move.op, tpu.Slice) and _is_split(move)):
            value = move.operands[0]
        elif isinstance(move.op, tpu.Concat) and (source := _put_together(move)) is not None:
            value = source
        else:
            break
    return value


def _is_split(cut: Operation) -> bool:
    """True if the readers of the whole are cuts that take each of its elements once."""
    source, sizes = cut.operands[0], 0
    for user, _ in source.uses:
        if not isinstance(user.op, tpu.Slice):
            return False
        sizes += user.result.tensor.size
    return sizes == source.tensor.size and all(step == 1 for step in getattr(cut.op, "steps", ()))


def _put_together(concat: Operation) -> Value | None:
    """The value whose cuts a concatenation joins, each of its elements once; None for other concatenations."""
    if not isinstance(concat.op, tpu.Concat) or concat.op.do_relu or concat.op.multipliers:
        return None
    cuts = [value.defining for value in concat.operands if isinstance(value.type, TensorType)]
    if any(cut is None or not isinstance(cut.op, tpu.Slice) or not _is_split(cut) for cut in cuts):
        return None
    sources = {cut.operands[0] for cut in cuts if cut is not None}
    source = next(iter(sources))
    return source if len(sources) == 1 and source.tensor.size == concat.result.tensor.size else None
