"""What compilations of a chip gave: ops in many forms and every mode, kept in a generated file beside the chip."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuc.errors import visible

VERSION = 1
_SUBJECT = re.compile(r"^(node '[^']*': )?(\w+\.\w+( [\w-]+)? on \w+: )?")
_ADVICE = re.compile(
    r"(; c|\. C)hange the node(,? or choose another chip|, choose another mode for it, or another chip\.)$"
)
Refusals = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Sentences by mode, op and form."""


@dataclass(frozen=True)
class CompiledForms:
    """How many `forms` of each op were compiled in every mode, and which were `refused` why."""

    forms: Mapping[str, int] = field(default_factory=dict[str, int])
    refused: Refusals = field(default_factory=dict[str, Mapping[str, Mapping[str, str]]])

    def refusals(self, op: str, mode: str) -> Mapping[str, str]:
        """Sentences by the forms that do not compile."""
        return self.refused.get(mode, {}).get(op, {})

    def never_compiles(self, op: str, mode: str) -> bool:
        """Was the op tried, and did no form of it compile?"""
        return 0 < self.forms.get(op, 0) == len(self.refusals(op, mode))

    def text(self) -> str:
        """The file."""
        whole = {"version": VERSION, "forms": self.forms, "refused": self.refused}
        return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


@functools.cache
def read_forms(path: Path | None) -> CompiledForms:
    """Of a chip's file; nothing where there is none, or one of another version."""
    if path is None or not path.is_file():
        return CompiledForms()
    whole: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if whole["version"] != VERSION:
        return CompiledForms()
    return CompiledForms(whole["forms"], whole["refused"])


def refusal_of(error: Exception, node: str) -> str:
    """The reason of a refusal, without the node that was tried and without advice that fits every one."""
    text = visible(str(error)).replace(f"'{node}'", "the node").replace("node the node: ", "")
    return _ADVICE.sub("", _SUBJECT.sub("", text))
