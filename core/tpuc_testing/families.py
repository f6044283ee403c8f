"""Families of checks in one test: every check runs, and all that fail are named at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class FamilyError(ExceptionGroup[Exception]):
    """The failed checks of a family, each with its own traceback."""


def run_all(checks: Mapping[str, Callable[[], None]]) -> None:
    """Run every check; raise a FamilyError that names all that fail. A check cannot skip itself."""
    import pytest  # notebooks make conformance classes without it

    if not checks:
        raise ValueError("a family without checks tests nothing; state at least one")
    failed: dict[str, Exception] = {}
    for name, check in checks.items():
        try:
            check()
        except pytest.fail.Exception as error:
            failed[name] = AssertionError(str(error)).with_traceback(error.__traceback__)
        except pytest.skip.Exception as error:
            failed[name] = AssertionError(f"skipped: {error}; give a check that may be skipped a test of its own")
        except Exception as error:  # noqa: BLE001  # named below, with all others
            failed[name] = error
    if failed:
        for name, error in failed.items():
            error.add_note(f"in {name}")
        raise FamilyError(f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}", [*failed.values()])
