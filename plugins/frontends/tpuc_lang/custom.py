"""Functions of other packages, registered as classes in the entry-point group `tpuc.tpulang` under the name to call."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tpuc_lang.graph import DTYPES, LangError, Tensor, once

GROUP = "tpuc.tpulang"


class LangFunction(ABC):
    """A function that `custom` calls by its name."""

    api_version: ClassVar[int] = 1

    @abstractmethod
    def build(self, tensors: Sequence[Tensor], params: Mapping[str, Any]) -> Sequence[Tensor]:
        """Return the results, built with `tpuc_lang.graph.make` or with functions of the language.

        Raises ValueError or TypeError for invalid tensors or parameters.
        """


def custom(
    tensors_in: Sequence[Tensor],
    op_name: str,
    out_dtypes: Sequence[str],
    out_names: Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
) -> list[Tensor]:
    """Return the results of a function from another package."""
    where = f"custom '{op_name}'"
    unknown = [one for one in out_dtypes if one not in DTYPES]
    if unknown:
        raise LangError(f"{where}: dtype '{unknown[0]}' is not known; use one of {', '.join(DTYPES)}.")
    chosen = _function(op_name)
    results = list(once(where, lambda: chosen.build(tensors_in, params or {})))
    if len(results) != len(out_dtypes):
        raise LangError(f"{where}: it returns {len(results)} tensors; give one dtype for each.")
    for index, (result, dtype) in enumerate(zip(results, out_dtypes, strict=True)):
        result.dtype = dtype
        if out_names is not None and index < len(out_names):
            result.rename(out_names[index])
    return results


def _function(name: str) -> LangFunction:
    registry = _registry()
    known: list[str] = registry.names(GROUP) if GROUP in registry.groups else []
    if name not in known:
        offered = f"there are {', '.join(known)}" if known else "no installed package offers one"
        raise LangError(f"custom '{name}': there is no such function, {offered}; install the package that has it.")
    return registry.get(GROUP, name)()


@functools.cache
def _registry() -> Any:
    from tpuc.api import Registry

    return Registry()
