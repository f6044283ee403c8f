"""A family runs every case in one test and names all that fail, or it would hide what single tests show."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tpuc_testing.families import FamilyError, run_all

from tests.conftest import ALLOWED_SKIPS, PROOFS
from tests.families import NO_CASES, each


def test_every_case_that_fails_is_named_with_its_own_error() -> None:
    ran: list[int] = []

    @each("number", [1, 2, 3, 4])
    def family(number: int) -> None:
        ran.append(number)
        if number == 3:
            with pytest.raises(ValueError, match="none"):
                pass  # what raises nothing ends in an exception of pytest
        assert number != 2, "two"

    with pytest.raises(FamilyError, match=r"^2 of 4 checks failed: 2, 3( \(|$)") as raised:
        family()
    assert ran == [1, 2, 3, 4]
    assert [(type(error), error.__notes__) for error in raised.value.exceptions] == [
        (AssertionError, ["in 2"]),
        (AssertionError, ["in 3"]),
    ]
    assert str(raised.value.exceptions[0]).startswith("two")


def test_a_case_may_not_skip_itself_or_the_others() -> None:
    with pytest.raises(FamilyError, match=r"^1 of 2 checks failed: a( \(|$)") as raised:
        run_all({"a": lambda: pytest.skip("today"), "b": lambda: None})
    assert str(raised.value.exceptions[0]) == "skipped: today; give a check that may be skipped a test of its own"


def test_a_family_has_cases() -> None:
    @each("number", [])
    def family(number: int) -> None:
        raise AssertionError

    (skip,) = family.pytestmark
    assert (skip.name, skip.kwargs) == ("skip", {"reason": NO_CASES})
    allowed = tomllib.loads(ALLOWED_SKIPS.read_text("utf-8"))["skip"]
    assert not any(re.fullmatch(entry["reason"], NO_CASES) for entry in allowed)
    with pytest.raises(ValueError, match=r"^a family without checks tests nothing; state at least one$"):
        run_all({})


def test_cases_with_equal_names_are_all_run() -> None:
    @each(("left", "right"), [(1, str), (1, str), ("1", str)])
    def family(left: Any, right: Any) -> None:
        raise AssertionError

    with pytest.raises(FamilyError, match=r"^3 of 3 checks failed: 1-str, 1-str-1, 1-str-2( \(|$)"):
        family()


def test_files_of_a_case_are_proved_before_the_next() -> None:
    """A hazard is a failure of the case that made the file."""

    def refuse(data: bytes, source: str) -> None:
        raise AssertionError("hazard")

    @each("name", ["good", "bad", "last"])
    def family(name: str) -> None:
        if name == "bad":
            chip: Any = SimpleNamespace(load=refuse, description=SimpleNamespace(name="chip"))
            PROOFS._open[b"digest"] = chip, b""  # pyright: ignore[reportPrivateUsage]

    with pytest.raises(FamilyError, match=r"^1 of 3 checks failed: bad( \(|$)"):
        family()


@pytest.mark.parametrize("outer", ["x", "y"])
@each(("name", "value"), [("a", 1), pytest.param("b", 2, id="named"), pytest.param("c", 3, marks=pytest.mark.slow)])
def test_marks_fixtures_and_other_parameters_stay(
    name: str, value: int, tmp_path: Path, outer: str, request: pytest.FixtureRequest
) -> None:
    assert tmp_path.is_dir()
    assert outer in ("x", "y")
    assert (name, value) in (("a", 1), ("b", 2), ("c", 3))
    assert (request.node.get_closest_marker("slow") is not None) == (name == "c")
    assert (
        request.node.name
        == f"test_marks_fixtures_and_other_parameters_stay[{'slow' if name == 'c' else 'plain'}-{outer}]"
    )


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """What is printed before a family and between its cases is no business of a case."""
    print("before")  # noqa: T201
    yield
    assert os.environ.get("FAMILY") is None


@pytest.mark.usefixtures("printed")
@each("value", [1, 2])
def test_cases_have_folders_patches_and_output_of_their_own(
    value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "FAMILY" not in os.environ
    monkeypatch.setenv("FAMILY", "set")
    assert capsys.readouterr().out == ""
    print("left")  # noqa: T201
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "file").touch()


def test_marks_of_one_case_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^a family takes no mark xfail; give the case a test of its own$"):
        each("value", [pytest.param(1, marks=pytest.mark.xfail)])


def test_single_cases_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    @each("name", ["add_far", "add", "mul"])
    def family(name: str) -> None:
        ran.append(name)

    monkeypatch.setattr("tests.families.ASKED_CASES", ["add"])
    family()
    assert ran == ["add_far", "add"]
    monkeypatch.setattr("tests.families.ASKED_CASES", ["div"])
    with pytest.raises(pytest.skip.Exception, match=r"^no case of this family is asked for$"):
        family()


class TestMethods:
    @each("value", [1, 2])
    def test_methods_are_families_too(self, value: int) -> None:
        assert isinstance(self, TestMethods)
        assert value in (1, 2)
