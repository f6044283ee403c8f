"""The table of error classes, from the classes themselves."""

from __future__ import annotations

import inspect

from tpuc import errors, files, warned
from tpuc.errors import TpucError
from tpuc.warned import TpucWarning
from tpuc_driver.facade import Remark


def error_table() -> str:
    """Every class of errors and warnings, with the first sentence of its docstring."""
    classes = (*vars(errors).values(), *vars(files).values(), *vars(warned).values(), Remark)
    kinds = [one for one in classes if isinstance(one, type) and issubclass(one, (TpucError, TpucWarning))]
    rows = (
        f"| `{kind.__name__}` | `{kind.__base__.__name__}` | {_summary(kind)} |\n"
        for kind in dict.fromkeys(kinds)
        if kind.__base__ is not None
    )
    return "| class | is a | raised for |\n|---|---|---|\n" + "".join(rows)


def _summary(kind: type) -> str:
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())
