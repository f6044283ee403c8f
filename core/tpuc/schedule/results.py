"""What passes leave for later passes and for the session: typed keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tpuc.api.planning import MemoryPlan
    from tpuc.ir import Module

T = TypeVar("T")


@dataclass(frozen=True)
class ResultKey(Generic[T]):
    """Names one thing that a pass leaves; T is its type. Two keys of one name are the same key."""

    name: str


@dataclass(frozen=True)
class ConstantImage:
    """Constants as they lie in memory from its base on, and where each begins, by the digest of its bytes."""

    data: bytes = b""
    places: Mapping[bytes, int] = field(default_factory=dict[bytes, int])


CALIBRATION_TABLE: ResultKey[Any] = ResultKey("calibration_table")
"""A table of ranges, or the path of one."""
QUANTISE_TABLE: ResultKey[Mapping[str, str]] = ResultKey("quantise_table")
"""Modes of single ops, by name."""
STORED_INPUTS: ResultKey[frozenset[int]] = ResultKey("stored_inputs")
"""Which network inputs may be given as they are stored, counted from 0; all where nothing is said."""
STORED_OUTPUTS: ResultKey[frozenset[int]] = ResultKey("stored_outputs")
"""Which network outputs come out as they are stored, counted from 0."""
POSTPROCESS: ResultKey[str] = ResultKey("postprocess")
"""The post-processing to put behind the network, as users write it."""
CONSTANTS: ResultKey[ConstantImage] = ResultKey("constants")
"""The constants of the compiled network, after those of other compilations whose result this was before."""
MEMORY_PLAN: ResultKey[MemoryPlan] = ResultKey("memory_plan")
"""Where everything lies in DDR."""
ARTIFACT: ResultKey[bytes] = ResultKey("artifact")
"""The compiled file."""
QUANTISE_SEARCH: ResultKey[Any] = ResultKey("quantise_search")
"""Which layers lose how much by being quantised, with `points` and `table_text(point)`."""
QUANTISED: ResultKey[Module] = ResultKey("quantised")
"""What a float module was lowered to, before `finalize`."""
SAMPLES: ResultKey[Sequence[Mapping[str, npt.NDArray[np.generic]]]] = ResultKey("samples")
"""Network inputs to run both modules on."""
COMPILE: ResultKey[Callable[[Module, Any, Mapping[str, str]], tuple[Module, int]]] = ResultKey("compile")
"""Compiles a TOP module with a calibration table and modes of single ops: the TPU module, and its cycles."""
LAYER_ERRORS: ResultKey[list[Any]] = ResultKey("layer_errors")
"""How far each layer is off, and why."""
