"""Files without a test of a name are not imported to look for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.name_index import NameIndex, stamp, words


def test_words_of_an_expression() -> None:
    assert words("") == []
    assert words("Conv") == ["conv"]
    assert words("conv and (int8 or f16)") == ["conv", "int8", "f16"]
    assert words("conv and not int8") == []


def test_helpers_and_names_of_modules_change_the_stamp(tmp_path: Path) -> None:
    for name in ("core/one.py", "tests/helper.py", "tests/test_one.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    first = stamp(tmp_path)
    for name in ("core/one.py", "tests/test_one.py"):
        (tmp_path / name).write_text("x = 1")
    assert stamp(tmp_path) == first
    (tmp_path / "tests/helper.py").write_text("x = 1")
    second = stamp(tmp_path)
    assert second != first
    (tmp_path / "core/two.py").write_text("")
    assert stamp(tmp_path) != second


class Cache:
    """What pytest's cache keeps between runs."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def get(self, key: str, default: Any) -> Any:
        return self.kept.get(key, default)

    def set(self, key: str, value: Any) -> None:
        self.kept[key] = value


def index(cache: Cache, expression: str) -> NameIndex:
    config: Any = SimpleNamespace(cache=cache, getoption=lambda _: expression)
    return NameIndex(config)


def item(path: Path, *names: str) -> Any:
    nodes = [SimpleNamespace(name=name) for name in (path.name, *names)]
    return SimpleNamespace(path=path, listchain=lambda: nodes, listextrakeywords=list, iter_markers=list)


def test_a_file_is_imported_again_when_it_has_changed(tmp_path: Path) -> None:
    files = [tmp_path / "test_one.py", tmp_path / "test_two.py"]
    for path in files:
        path.write_text("")

    def left_out(expression: str) -> list[str]:
        found = index(cache, expression)
        return [path.name for path in files if found.pytest_ignore_collect(path)]

    cache = Cache()
    assert left_out("conv") == []
    index(cache, "conv").pytest_collection_modifyitems([item(files[0], "test_a[Conv]"), item(files[1], "test_b[pool]")])
    assert left_out("conv") == ["test_two.py"]
    assert left_out("pool or test_one") == left_out("not conv") == left_out("") == []
    files[1].write_text("x = 1")
    assert left_out("conv") == []
    cache.kept = {key: {**value, "stamp": "of another tree"} for key, value in cache.kept.items()}
    assert left_out("pool") == []
