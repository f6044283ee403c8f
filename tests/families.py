"""Families of cases that run in one test, where `pytest.mark.parametrize` makes a test of each case."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum
from typing import Any, TypeAlias

import pytest
from _pytest.mark import MarkDecorator, ParameterSet
from tpuc_testing.families import run_all

from tests.conftest import ASKED_CASES, PROOFS

Test: TypeAlias = Callable[..., None]
Family: TypeAlias = dict[str, tuple[Any, ...]]
"""The values of each case by its name."""
Ids: TypeAlias = Callable[[Any], object] | Iterable[str] | None
GROUPING = {"slow", "chip", "interop"}
"""Marks whose cases may share a test; others, such as `xfail`, say something about one case."""
NO_CASES = "a family without cases tests nothing; state at least one"


def each(names: str | tuple[str, ...], cases: Iterable[Any], ids: Ids = None) -> Any:
    """Run all cases in one test, which names every case that fails. The arguments are those of `parametrize`.

    Cases with marks (`slow`, `chip`) form a test for each set of marks. All cases of a test share its fixtures, but
    each has a `tmp_path`, `monkeypatch` and `capsys` of its own. `--case NAME` runs only the cases with that name.
    Without cases the test is skipped, which `--strict-skips` does not allow.
    """
    arguments = (names,) if isinstance(names, str) else names
    families: dict[str, Family] = {}
    marks: dict[str, list[MarkDecorator]] = {}
    listed = None if ids is None or callable(ids) else [*ids]
    for number, case in enumerate(cases):
        if not isinstance(case, ParameterSet):
            case = pytest.param(*([case] if isinstance(names, str) else case))
        decorators = [mark if isinstance(mark, MarkDecorator) else MarkDecorator(mark) for mark in case.marks]
        if unknown := {mark.name for mark in decorators} - GROUPING:
            raise TypeError(f"a family takes no mark {', '.join(sorted(unknown))}; give the case a test of its own")
        part = "-".join("-".join(map(str, [mark.name, *mark.args])) for mark in decorators)
        marks[part] = decorators
        family = families.setdefault(part, {})
        labels = (_label(*pair, number, ids) for pair in zip(arguments, case.values, strict=True))
        given = case.id if listed is None else listed[number]
        name = str(given) if given is not None else "-".join(labels)
        family[name if name not in family else f"{name}-{number}"] = tuple(case.values)
    if not families:  # such as one case for each chip where none is installed; strict runs take no such skip
        return pytest.mark.skip(reason=NO_CASES)

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
            with _own(kwargs) as fixtures:
                test(*args, **fixtures, **dict(zip(arguments, values, strict=True)))
                PROOFS.finish()

        checks = {name: functools.partial(check, values) for name, values in chosen.items() if _is_asked_for(name)}
        if not checks:
            pytest.skip("no case of this family is asked for")
        run_all(checks)

    if family is None:
        others.append(inspect.Parameter("family", inspect.Parameter.KEYWORD_ONLY))
    setattr(merged, "__signature__", signature.replace(parameters=others))  # noqa: B010  # pyright knows no such attribute
    return merged


@contextmanager
def _own(fixtures: Mapping[str, Any]) -> Generator[dict[str, Any]]:
    """The fixtures of one case: a folder and patches of its own, nothing printed before, no files of others."""
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / f"case-{sum(1 for _ in own['tmp_path'].iterdir())}"
        own["tmp_path"].mkdir()
    if "capsys" in own:
        own["capsys"].readouterr()
    with ExitStack() as stack:
        if "monkeypatch" in own:
            own["monkeypatch"] = stack.enter_context(own["monkeypatch"].context())
        stack.callback(PROOFS.forget)
        yield own


def _is_asked_for(name: str) -> bool:
    return not ASKED_CASES or any(part in name for part in ASKED_CASES)


def _label(argument: str, value: object, number: int, ids: Ids) -> str:
    """What `parametrize` would call the value."""
    if callable(ids) and (label := ids(value)) is not None:
        return str(label)
    if isinstance(value, (str, int, float, bool, Enum, type(None))):
        return str(value)
    return getattr(value, "__name__", None) or f"{argument}{number}"
