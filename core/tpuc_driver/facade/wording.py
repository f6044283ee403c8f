"""Translate options in errors and remarks to Python.

All parts of the tool name an option in one form, `--name` or `--name VALUE`. The command line shows it unchanged; the
Python interface replaces it by the keyword argument, the key of `preprocess`, or the field of `boundary`. Commands in
backquotes stay commands.
"""

from __future__ import annotations

import re
from dataclasses import fields

from tpuc_driver.data.description import SAYINGS
from tpuc_driver.session.boundary import Boundary

RENAMED = {
    "calibration-method": "method",
    "calibration-table": "table",
    "data-list": "samples",
    "dataset": "samples",
    "dim": "dims",
    "fix-input": "fixed_inputs",
    "input": "inputs",
    "model-def": "network",
    "quantize": "mode",
}
"""Options with another name in Python than their own with underscores."""
METHODS = {"bundle": "bundle()"}
"""Options that are methods in Python."""
KEYWORDS = frozenset(
    {
        *(
            "accept_point_estimate",
            "batch",
            "bias_num",
            "chip",
            "cores",
            "cpu_ops",
            "force",
            "input_layout",
            "input_names",
        ),
        *("input_num", "input_shapes", "labels", "max_trials", "measure", "method", "min_accuracy", "min_agreement"),
        *(
            "model_data",
            "opt",
            "output_names",
            "planner",
            "post",
            "preprocess",
            "profile",
            "quantize_table",
            "random_weights",
        ),
        *("runtime_version", "test_input", "tolerance", "trust", *RENAMED.values()),
    }
)
"""Keyword arguments of the Python interface; a test compares them with its signatures."""
_BOUNDARY = frozenset(field.name for field in fields(Boundary))
_FLAGS = frozenset({"accept_point_estimate", "force", "random_weights", "trust"})
_NUMBERS = r"-?\d[\d.e+-]*(?:,-?\d[\d.e+-]*)*(?<![.,])"
_OPTION = re.compile(
    rf"`[^`]*`|(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])(?:[ =]({_NUMBERS}|[A-Z][A-Z_]+(?:=[A-Z0-9]+)?\b))?"
)
_TWICE = re.compile(rf"\b({'|'.join(sorted(set(RENAMED.values())))}),? (?:or|and) \1\b")
"""Two options that are the same argument."""


def for_python(text: str) -> str:
    """A message for users of the Python interface."""
    return _TWICE.sub(r"\1", _OPTION.sub(_said, text))


def _said(match: re.Match[str]) -> str:
    option, value = match.groups()
    if option is None:
        return match.group()
    name = RENAMED.get(option, option.replace("-", "_"))
    if value is not None and "," in value:
        value = f"({', '.join(value.split(','))})"
    if name in KEYWORDS:
        value = value or ("True" if name in _FLAGS else None)
        return name if value is None else f"{name}={value}"
    if option in METHODS:
        return METHODS[option]
    if name in SAYINGS or name in _BOUNDARY:
        place = f'preprocess["{name}"]' if name in SAYINGS else f"boundary.{name}"
        return place if value is None else f"{place} = {value}"
    return f"{match.group()} of the command line"
