"""Post-processing inside a network, recorded in the module and the compiled file so that nobody has to name it
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuc.ir.attributes import BoolAttr, StringAttr
from tpuc.ir.rewriter import remove_dead
from tpuc.ir.types import TensorType

if TYPE_CHECKING:
    from tpuc.ir import Module, Operation

_APPENDED = "postprocess"
_MADE_BY, _READ_BY = "module.postprocess", "module.outputs_read_by"


@dataclass(frozen=True)
class FusedPostprocess:
    """`made_by` is the post-processing added to the network, `read_by` the one that decodes its outputs. Both use the
    user's syntax, `NAME{option=value}`.
    """

    made_by: str
    read_by: str


def fused_postprocess(module: Module) -> FusedPostprocess | None:
    """The post-processing inside a module, None where there is none."""
    texts = [module.attributes.get(name) for name in (_MADE_BY, _READ_BY)]
    found = [text.value for text in texts if isinstance(text, StringAttr)]
    return FusedPostprocess(*found) if len(found) == len(texts) else None


def state_fused_postprocess(module: Module, fused: FusedPostprocess) -> None:
    """Record the post-processing inside a module."""
    module.attributes |= {_MADE_BY: StringAttr(fused.made_by), _READ_BY: StringAttr(fused.read_by)}


def mark_as_postprocess(operation: Operation) -> None:
    """Mark an operation as post-processing: it computes in floats without calibration, and the processor may compute it
    where the chip cannot, whatever `--cpu-ops` says.
    """
    operation.extra_attributes[_APPENDED] = BoolAttr(True)


def is_postprocess(operation: Operation) -> bool:
    """True if an operation belongs to the post-processing."""
    return _APPENDED in operation.extra_attributes


def network_alone(module: Module) -> Module:
    """The module without its post-processing; the module itself where there is none."""
    if fused_postprocess(module) is None:
        return module
    alone = module.clone()
    behind = [operation for operation in alone.main.operations if is_postprocess(operation)]
    read = [value for operation in behind for value in operation.operands if value.defining is not None]
    computed = [value for value in read if isinstance(value.type, TensorType) and not value.is_constant]
    own = [value for value in (*computed, *alone.main.outputs) if value.defining not in behind]
    alone.main.terminator.set_operands(list(dict.fromkeys(own)))
    alone.main.update_type()
    del alone.attributes[_MADE_BY], alone.attributes[_READ_BY]
    remove_dead(alone)
    return alone
