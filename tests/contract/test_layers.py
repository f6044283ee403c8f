"""The layers of the source tree: who may import whom, from the bottom up, and which files may import each other."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.contract.tree import CORE, PLUGINS, ROOT, core_packages, parsed, plugin_packages, show, statements
from tests.families import each

COMPILER = ("tpuc", "tpuc_ops", "tpuc_chip_parts")
LAYERS: Sequence[tuple[str, Sequence[str]]] = (
    ("core/tpuc", ()),
    ("core/tpuc_driver", ("tpuc",)),
    ("core/tpuc_testing", ("tpuc", "tpuc_driver")),
    ("plugins/passes/tpuc_optimize", COMPILER),
    ("plugins/passes/tpuc_lower", (*COMPILER, "tpuc_driver", "tpuc_optimize")),
    ("plugins/passes/tpuc_plan", (*COMPILER, "tpuc_driver", "tpuc_lower")),
    ("plugins/passes/tpuc_prequantized", (*COMPILER, "tpuc_lower", "tpuc_optimize")),
    ("plugins/passes/tpuc_quantize", (*COMPILER, "tpuc_driver", "tpuc_lower", "tpuc_optimize", "tpuc_prequantized")),
    (
        "plugins/passes/tpuc_accuracy",
        (*COMPILER, "tpuc_driver", "tpuc_lower", "tpuc_prequantized", "tpuc_quantize"),
    ),
)
"""Packages of `core/` and of the stages, and the ones of ours that each may import besides itself: the table in
docs/architecture.md. `tpuc_driver` is for commands, samples and formats of images.
"""

PAIRS = {
    ("tpuc.api.chip", "tpuc.api.kernel"),
    ("tpuc.ir.attributes", "tpuc.ir.types"),
    ("tpuc.ir.op", "tpuc.ir.operation"),
}
"""Files of the compiler that import each other because their classes are one idea: a chip and the kernels that it runs,
types and the attributes that types have, an op and the operation that has it.
"""

MOST_LINES = 11_500
"""Of `core/tpuc`: what is more than IR, registry, passes, interpreter, machine and contracts belongs elsewhere."""

MOST_FLOORS = 8
"""Of `core/tpuc`: rooms that stand on each other. A room is a folder, or a file beside them."""

LAZY = {"core/tpuc/__init__.py": {"tpuc_driver"}}
"""What a file imports for type checkers alone: `tpuc.load` and the classes behind it come from the driver when used."""


def modules_of(package: Path) -> dict[str, Path]:
    """The files of a package by the names of their modules."""
    found = {".".join(path.relative_to(package.parent).with_suffix("").parts): path for path in package.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in found.items()}


def imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Which of `modules` a file imports, late imports and those for type checkers included."""
    names: set[str] = set()
    for node in statements(parsed(path)):
        match node:
            case ast.ImportFrom(module=str(module), names=parts):
                names |= {full if (full := f"{module}.{part.name}") in modules else module for part in parts}
            case ast.Import(names=parts):
                names |= {part.name for part in parts}
            case _:
                pass
    return names & modules.keys()


def foreign_imports(package: Path) -> Iterator[tuple[Path, str]]:
    """The imports of other packages of ours: the file, and the package's name."""
    for path in sorted(package.rglob("*.py")):
        for node in statements(parsed(path)):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = [module] if module else [part.name for part in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                top = name.partition(".")[0]
                if top.startswith("tpuc") and top != package.name:
                    yield path, top


def circles(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Sets of modules that reach each other, sorted."""
    reached = {name: _reachable(name, graph) for name in graph}
    found = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in graph}
    return sorted(circle for circle in found if len(circle) > 1)


def _reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph[waiting.pop()] - seen:
            seen.add(name)
            waiting.append(name)
    return seen


@each(("folder", "allowed"), LAYERS, ids=[folder for folder, _ in LAYERS])
def test_a_layer_imports_only_the_ones_below(folder: str, allowed: Sequence[str]) -> None:
    wrong = [
        f"{show(path)}: {name}"
        for path, name in foreign_imports(ROOT / folder)
        if name not in allowed and name not in LAZY.get(show(path), ())
    ]
    assert wrong == []


def test_every_package_of_core_and_of_the_stages_has_its_layer() -> None:
    stages = [package for package in plugin_packages() if package.parent.name == "passes"]
    assert sorted(map(show, (*core_packages(), *stages))) == sorted(folder for folder, _ in LAYERS)


def rooms_of(modules: Mapping[str, Path], room_of: Callable[[str], str]) -> dict[str, set[str]]:
    """Which rooms import which. Pages of names, `__init__.py`, stand in no room: they show what is in one, and more."""
    inside = {name: path for name, path in modules.items() if path.name != "__init__.py"}
    rooms: dict[str, set[str]] = {room_of(name): set() for name in inside}
    for name, path in inside.items():
        rooms[room_of(name)] |= {room_of(other) for other in imported(path, inside)} - {room_of(name)}
    return rooms


def floors(rooms: Mapping[str, set[str]]) -> list[list[str]]:
    """The rooms from the ground up, each above all that it imports; these import one way."""
    found: list[list[str]] = []
    below: set[str] = set()
    while len(below) < len(rooms):
        found.append(sorted(room for room in rooms.keys() - below if rooms[room] <= below))
        below |= set(found[-1])
    return found


def test_rooms_of_the_stages_import_one_way() -> None:
    packages = (PLUGINS / "passes").iterdir()
    modules = {name: path for package in packages for name, path in modules_of(package).items()}
    assert circles(rooms_of(modules, lambda name: name.rpartition(".")[0])) == []


def test_rooms_of_the_compiler_stand_on_few_floors() -> None:
    rooms = rooms_of(modules_of(CORE / "tpuc"), lambda name: name.split(".")[1])
    assert circles(rooms) == []
    assert len(floors(rooms)) <= MOST_FLOORS, floors(rooms)


def test_imports_of_the_compiler_run_one_way() -> None:
    modules = modules_of(CORE / "tpuc")
    graph = {name: imported(path, modules) - {name} for name, path in modules.items()}
    assert circles(graph) == sorted(PAIRS)


@each("package", ["tpuc_driver", "tpuc_testing"])
def test_files_above_the_compiler_import_one_way(package: str) -> None:
    modules = modules_of(CORE / package)
    graph = {name: imported(path, modules) - {name} for name, path in modules.items()}
    assert circles(graph) == []


def test_stages_of_a_session_know_neither_each_other_nor_the_session() -> None:
    modules = modules_of(CORE / "tpuc_driver")
    session = "tpuc_driver.session.session"
    wrong = [
        f"{name} imports {other}"
        for name, path in modules.items()
        if name.startswith("tpuc_driver.session.") and name != session
        for other in imported(path, modules)
        if other == session or (".stages." in name and ".stages." in other)
    ]
    assert wrong == []


def test_the_compiler_stays_small() -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (CORE / "tpuc").rglob("*.py"))
    assert lines <= MOST_LINES


def test_floors_are_counted_from_the_ground() -> None:
    assert floors({"roof": {"walls", "ground"}, "walls": {"ground"}, "ground": set()}) == [
        ["ground"],
        ["walls"],
        ["roof"],
    ]


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str](), "e": {"e"}}
    assert circles(graph) == [("b", "c")]
