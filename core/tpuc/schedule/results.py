"""Results of passes for later passes and the session, by typed keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tpuc.api.planning import MemoryPlan
    from tpuc.ir import Module
    from tpuc.machine import Instruction

T = TypeVar("T")


@dataclass(frozen=True)
class ResultKey(Generic[T]):
    """The key of a result of type T. Two keys with the same name are equal."""

    name: str


@dataclass(frozen=True)
class ConstantImage:
    """The image of the constants in memory from its base, and the start of each by the digest of its bytes."""

    data: bytes = b""
    places: Mapping[bytes, int] = field(default_factory=dict[bytes, int])


CALIBRATION_TABLE: ResultKey[Any] = ResultKey("calibration_table")
"""A calibration table, or the path of one."""
QUANTIZE_TABLE: ResultKey[Mapping[str, str]] = ResultKey("quantize_table")
"""The modes of single ops, by name."""
STORED_INPUTS: ResultKey[frozenset[int]] = ResultKey("stored_inputs")
"""Indices of network inputs that accept stored values; all by default."""
STORED_OUTPUTS: ResultKey[frozenset[int]] = ResultKey("stored_outputs")
"""Indices of network outputs that return stored values."""
POSTPROCESS: ResultKey[str] = ResultKey("postprocess")
"""The post-processing to append to the network, in the user's syntax."""
CONSTANTS: ResultKey[ConstantImage] = ResultKey("constants")
"""The constants of the compiled network, following those of earlier compilations under this key."""
MEMORY_PLAN: ResultKey[MemoryPlan] = ResultKey("memory_plan")
"""The DDR memory plan."""
ARTIFACT: ResultKey[bytes] = ResultKey("artifact")
"""The compiled file."""
RECORDED: ResultKey[tuple[bytes, Sequence[Instruction]]] = ResultKey("recorded")
"""The file as the chip wrote it, and its instructions. Only quick plans leave it: instructions take much memory."""
QUANTIZE_SEARCH: ResultKey[Any] = ResultKey("quantize_search")
"""The loss of each layer by quantization, with `points` and `table_text(point)`."""
QUANTIZED: ResultKey[Module] = ResultKey("quantized")
"""The lowered module, before `finalize`."""
SAMPLES: ResultKey[Sequence[Mapping[str, npt.NDArray[np.generic]]]] = ResultKey("samples")
"""Network inputs on which both modules run."""
COMPILE: ResultKey[Callable[[Module, Any, Mapping[str, str]], tuple[Module, int]]] = ResultKey("compile")
"""Compiles a TOP module with a calibration table and modes of single ops; returns the TPU module and its cycles."""
LAYER_ERRORS: ResultKey[list[Any]] = ResultKey("layer_errors")
"""The error of each layer, and its cause."""
