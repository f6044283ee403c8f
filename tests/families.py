"""Families of cases that run in one test, where `pytest.mark.parametrize` makes a test of each case."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import pytest
from _pytest.mark import MarkDecorator, ParameterSet
from tpuc_testing.families import run_all

from tests.conftest import PROOFS

Test: TypeAlias = Callable[..., None]
Family: TypeAlias = dict[str, tuple[Any, ...]]
"""The values of each case by its name."""


def each(names: str | tuple[str, ...], cases: Iterable[Any], ids: Callable[[Any], str] | None = None) -> Any:
    """Run all cases in one test, which names every case that fails. The arguments are those of `parametrize`.

    Cases with marks (`slow`, `chip`) form a test for each set of marks. All cases of a test share its fixtures.
    """
    arguments = (names,) if isinstance(names, str) else names
    families: dict[str, Family] = {}
    marks: dict[str, list[MarkDecorator]] = {}
    for number, case in enumerate(cases):
        if not isinstance(case, ParameterSet):
            case = pytest.param(*([case] if isinstance(names, str) else case))
        decorators = [mark if isinstance(mark, MarkDecorator) else MarkDecorator(mark) for mark in case.marks]
        part = "-".join("-".join(map(str, [mark.name, *mark.args])) for mark in decorators)
        marks[part] = decorators
        family = families.setdefault(part, {})
        labels = (_label(*pair, number, ids) for pair in zip(arguments, case.values, strict=True))
        name = str(case.id) if case.id is not None else "-".join(labels)
        family[name if name not in family else f"{name}-{number}"] = tuple(case.values)
    if not families:
        raise ValueError("a family without cases tests nothing; state at least one")

    def decorate(test: Test) -> Any:
        if not any(marks.values()):
            return _merged(test, arguments, families[""])
        parts = [pytest.param(families[part], marks=marks[part], id=part or "plain") for part in families]
        return pytest.mark.parametrize("family", parts)(_merged(test, arguments))

    return decorate


def _merged(test: Test, arguments: tuple[str, ...], family: Family | None = None) -> Test:
    """A test with the other arguments of `test`, and the family itself where it is not given."""
    signature = inspect.signature(test)
    others = [one for name, one in signature.parameters.items() if name not in arguments]

    @functools.wraps(test)
    def merged(*args: Any, **kwargs: Any) -> None:
        chosen: Family = kwargs.pop("family") if family is None else family

        def check(values: tuple[Any, ...]) -> None:
            try:
                test(*args, **kwargs, **dict(zip(arguments, values, strict=True)))
                PROOFS.finish()
            finally:
                PROOFS.forget()

        checks: Mapping[str, Callable[[], None]] = {
            name: functools.partial(check, values) for name, values in chosen.items()
        }
        run_all(checks)

    if family is None:
        others.append(inspect.Parameter("family", inspect.Parameter.KEYWORD_ONLY))
    setattr(merged, "__signature__", signature.replace(parameters=others))  # noqa: B010  # pyright knows no such attribute
    return merged


def _label(argument: str, value: object, number: int, ids: Callable[[Any], str] | None) -> str:
    """What `parametrize` would call the value."""
    if ids is not None:
        return ids(value)
    if isinstance(value, (str, int, float, bool, type(None))):
        return str(value)
    return getattr(value, "__name__", None) or f"{argument}{number}"
