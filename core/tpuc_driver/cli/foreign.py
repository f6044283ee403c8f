"""Translate options of TPU-MLIR's scripts, or reject them with a way out."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.errors import UsageError

from tpuc_driver.cli.text import option_name


@dataclass(frozen=True)
class Answer:
    """The translation of one of their options; `tpu_mlir.toml` documents the fields."""

    option: str
    renamed: str = ""
    values: Mapping[str, str] | None = None
    means: tuple[str, ...] = ()
    done: str = ""
    only: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    refused: str = ""
    has_value: bool = False

    @property
    def is_alike(self) -> bool:
        """True if we have an option with the same name."""
        return not (self.renamed or self.means or self.done or self.only or self.drops or self.refused)


@dataclass(frozen=True)
class Script:
    """One of their scripts."""

    name: str
    command: str
    answers: Mapping[str, Answer]
    """By normalized option name: lower case, with dashes."""


@functools.cache
def scripts() -> Mapping[str, Script]:
    """Their scripts by our equivalent command."""
    import tomllib  # late: most command lines need none of it
    from importlib import resources

    text = resources.files("tpuc_driver.cli").joinpath("tpu_mlir.toml").read_text("utf-8")
    found = [_script(name, entry) for name, entry in tomllib.loads(text).items()]
    return {script.command: script for script in found}


def _script(name: str, entry: Mapping[str, Any]) -> Script:
    answers = [_answer(option, fields) for option, fields in entry["options"].items()]
    return Script(name, entry["command"], {option_name(answer.option): answer for answer in answers})


def _answer(option: str, fields: Mapping[str, Any]) -> Answer:
    values: Mapping[str, str] | None = fields.get("values")
    return Answer(
        option,
        fields.get("is", ""),
        values,
        tuple(fields.get("means", ())),
        fields.get("done", ""),
        tuple(fields.get("only", ())),
        tuple(fields.get("drops", ())),
        fields.get("refused", ""),
        bool(fields.get("value")),
    )


def translated(command: str, known: Collection[str], words: Sequence[str]) -> list[str]:
    """The words of a command line with translated options; raises UsageError for options without an equivalent."""
    if all(not word.startswith("--") or _name(word) in known for word in words):
        return [*words]
    script = scripts().get(command)
    if script is None:
        return [*words]
    result: list[str] = []
    dropped: set[str] = set()
    rest = iter(words)
    for word in rest:
        answer = script.answers.get(_name(word)) if word.startswith("--") else None
        if answer is None or answer.is_alike or _name(word) in known:
            result.append(word)
            continue
        dropped.update(answer.drops)
        result += _ours(answer, script, word, rest)
    return _without(result, dropped)


def _name(word: str) -> str:
    return option_name(word.partition("=")[0].removeprefix("--"))


def _ours(answer: Answer, script: Script, word: str, rest: Iterator[str]) -> list[str]:
    """The replacement of an option and its value."""
    if answer.refused and not answer.only:
        raise _refusal(answer, script, "")
    value = ""
    if answer.has_value or answer.renamed or answer.only:
        _, sign, value = word.partition("=")
        value = value if sign else next(rest, "")
    if answer.only and value not in answer.only:
        raise _refusal(answer, script, value)
    if not answer.renamed:
        return [*answer.means]
    if answer.values is None:
        return [answer.renamed, value]
    ours = answer.values.get(value.lower())
    if ours is None:
        raise UsageError(
            f"--{answer.option} {value}: tpuc {script.command} does not have this value; choose one of "
            f"{', '.join(answer.values)}."
        )
    return [answer.renamed, ours]


def _refusal(answer: Answer, script: Script, value: str) -> UsageError:
    given = f"--{answer.option} {value}".rstrip()
    if taken := " or ".join(filter(None, answer.only)):
        return UsageError(
            f"{given}: tpuc {script.command} takes only {taken} for this option of TPU-MLIR's {script.name}: "
            f"{answer.refused}."
        )
    return UsageError(
        f"{given}: TPU-MLIR's {script.name} accepts it, tpuc {script.command} does not: {answer.refused}."
    )


def _without(words: Sequence[str], dropped: Collection[str]) -> list[str]:
    """The words without some options and their values."""
    names = {_name(option) for option in dropped}
    result: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and _name(word) in names:
            if "=" not in word:
                next(rest, None)
            continue
        result.append(word)
    return result


def told(answer: Answer) -> str:
    """The description of an option for the documentation."""
    ours = f"`{answer.renamed}`" if answer.renamed else " ".join(f"`{word}`" for word in answer.means)
    if answer.is_alike:
        return f"`--{option_name(answer.option)}`"
    if answer.values is not None:
        ours += f": {', '.join(f'`{theirs}`' for theirs in answer.values)}"
    taken = " and ".join(f"`{value}`" for value in answer.only if value and not answer.renamed)
    parts = [ours, f"taken; {answer.done}" if answer.done else "", f"{taken} taken" if taken else ""]
    if answer.refused:
        parts.append(f"{'other values ' if answer.only else ''}refused: {answer.refused}")
    return "; ".join(part for part in parts if part)
