"""Core knows no plugin, a plugin knows the public interface only, and every file can be read in one sitting."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract import tree
from tests.contract.tree import (
    CORE,
    PLUGINS,
    ROOT,
    core_files,
    core_packages,
    entry_points,
    imports,
    offenders,
    parsed,
    plugin_files,
    plugin_packages,
    show,
)
from tests.families import each

LIBRARIES = {
    *(
        "tpuc_bm1684x",
        "tpuc_chip_parts",
        "tpuc_cv18",
        "tpuc_images",
        "tpuc_importing",
        "tpuc_ops",
        "tpuc_pages",
        "tpuc_profile",
    ),
    *("tpuc_eval", "tpuc_lower", "tpuc_optimize", "tpuc_prequantized", "tpuc_quantize", "tpuc_tflite"),
}
"""Of the plugins, those that other plugins are written with: TensorFlow's operators are read as TFLite's, metrics
derive from those of evaluation, and planning and quantization rest on lowering, accuracy analysis on quantization.
Which stage rests on which is in tests/contract/test_layers.py.
"""

TESTED_WITH = ("tpuc_driver.cli", "tpuc_testing")
"""What the tests of a package for plugin authors may import besides."""

TEMPLATES = PLUGINS / "tools" / "tpuc_new" / "packages"
"""Distributions of strangers, which serve chips and languages of others."""

CHIP_NAME = re.compile(r"bm1[0-9]{3}|cv1[0-9]{2}x|sg2[0-9]{3}", re.IGNORECASE)
LINES_ANYWHERE, LINES_OP_OR_PASS, LINES_LOWERING = 500, 150, 250


def all_files() -> list[Path]:
    return [*core_files(), *plugin_files()]


CORE_PACKAGES = ("tpuc_driver", "tpuc_testing")
"""Packages of `core/` beside `tpuc`; tests/contract/test_layers.py says who of them imports whom."""


def imported_plugins(path: Path) -> list[str]:
    """The plugins that a file imports."""
    return [name for name in imports(path) if name.startswith("tpuc_") and name.split(".")[0] not in CORE_PACKAGES]


def test_core_imports_no_plugin() -> None:
    assert offenders(core_files(), imported_plugins) == []


def named_chips(path: Path) -> list[str]:
    """The lines that name a chip."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [f"line {number}: {line.strip()}" for number, line in enumerate(lines, 1) if CHIP_NAME.search(line)]


def test_core_names_no_chip() -> None:
    files = sorted(path for path in CORE.rglob("*") if path.suffix in {".py", ".json", ".toml"})
    assert offenders(files, named_chips) == []


def private_imports(path: Path) -> list[str]:
    """Our modules beyond its own, the public interface and the libraries, which a plugin must not import."""
    package = path.relative_to(PLUGINS).parts[1]
    allowed = {package, *LIBRARIES}
    ours = [name for name in imports(path) if name.split(".")[0].startswith("tpuc")]
    if TEMPLATES in path.parents:
        ours = [name for name in ours if name.split(".")[0] in {"tpuc", *CORE_PACKAGES}]
    if path.parent.name == "tests":
        ours = [name for name in ours if not name.startswith(TESTED_WITH)]
    public = ("tpuc.api", "tpuc_driver.api")
    return [
        name
        for name in ours
        if name.split(".")[0] not in allowed and not any(f"{name}.".startswith(f"{page}.") for page in public)
    ]


def test_plugin_imports_the_public_interface_and_the_libraries_only() -> None:
    assert offenders(plugin_files(), private_imports) == [], "import these from tpuc.api or tpuc_driver.api"


def lacks_of_package(package: Path) -> list[str]:
    """What a package should have: a name of ours, a docstring of its own, types."""
    named = [] if package.name.startswith("tpuc_") else ["is not named tpuc_*"]
    return named + [f"has no {name}" for name in ("__init__.py", "py.typed") if not (package / name).is_file()]


def test_packages_are_named_tpuc_and_typed() -> None:
    assert offenders(plugin_packages(), lacks_of_package) == []


def test_core_is_typed() -> None:
    assert [show(package) for package in core_packages() if not (package / "py.typed").is_file()] == []


def lacks_of_head(path: Path) -> list[str]:
    """What the head of a module should say."""
    lacks = [] if ast.get_docstring(parsed(path)) else ["begin with one line on what lives here"]
    if len(parsed(path).body) > 1:
        imported = [node.names[0].name for node in parsed(path).body if isinstance(node, ast.ImportFrom)]
        if "annotations" not in imported[:1]:
            lacks.append("from __future__ import annotations comes first")
    return lacks


def test_modules_say_what_lives_in_them() -> None:
    assert offenders(all_files(), lacks_of_head) == []


PASSES = PLUGINS / "passes"


def pass_modules() -> set[str]:
    """The modules that entry points of passes name."""
    return {value.partition(":")[0] for value in entry_points()["tpuc.passes"].values()}


def line_limit(path: Path) -> int:
    """The most lines a file of this kind may have."""
    parts = path.relative_to(ROOT).parts
    if "lowerings" in parts:
        return LINES_LOWERING
    if parts[:3] == ("plugins", "ops", "tpuc_ops") and len(parts) == 5 and parts[3] in {"top", "tpu"}:
        return LINES_OP_OR_PASS  # plugins/ops/tpuc_ops/top/relu.py; quant/ holds arithmetic, no ops
    if (
        parts[:2] == ("plugins", "passes")
        and ".".join(path.with_suffix("").relative_to(PASSES).parts) in pass_modules()
    ):
        return LINES_OP_OR_PASS  # the files beside passes hold algorithms
    return LINES_ANYWHERE


def too_long(path: Path) -> list[str]:
    """Whether a file has more lines than one of its kind may have."""
    lines = len(path.read_text(encoding="utf-8").splitlines())
    return [f"{lines} lines: split it by subject"] if lines > line_limit(path) else []


def test_files_are_short_enough_to_read() -> None:
    others = [path for folder in ("tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    assert offenders([*all_files(), *others], too_long) == []


@each(
    ("path", "limit"),
    [
        ("plugins/ops/tpuc_ops/top/relu.py", 150),
        ("plugins/ops/tpuc_ops/quant/arithmetic.py", 500),
        ("plugins/passes/tpuc_optimize/fold_constants.py", 150),
        ("plugins/passes/tpuc_quantize/calibration/calibrate.py", 150),
        ("plugins/passes/tpuc_plan/greedy.py", 500),
        ("plugins/chips/tpuc_toy/lowerings/conv.py", 250),
        ("core/tpuc/registry.py", 500),
    ],
)
def test_limits_follow_the_kind_of_file(path: str, limit: int) -> None:
    assert line_limit(ROOT / path) == limit


HEAD = '"""Something."""\n\nfrom __future__ import annotations\n'


@each(
    ("rule", "place", "text", "found"),
    [
        (imported_plugins, "core/tpuc/one.py", HEAD + "import tpuc_ops.top\n", ["tpuc_ops.top"]),
        (imported_plugins, "core/tpuc/one.py", HEAD + 'x = import_module("tpuc_ops")\n', ["tpuc_ops"]),
        (named_chips, "core/tpuc/one.py", HEAD + "x = 'BM1684X'\n", ["line 4: x = 'BM1684X'"]),
        (named_chips, "core/tpuc/one.toml", "chip = 'cv183x'\n", ["line 1: chip = 'cv183x'"]),
        (private_imports, "plugins/chips/tpuc_one/chip.py", HEAD + "import tpuc.ir\nimport tpuc.api.x\n", ["tpuc.ir"]),
        (private_imports, "plugins/chips/tpuc_one/chip.py", HEAD + "import tpuc_two, tpuc_ops\n", ["tpuc_two"]),
        (lacks_of_head, "core/tpuc/one.py", "", ["begin with one line on what lives here"]),
        (lacks_of_head, "core/tpuc/one.py", '"""One."""\nx = 1\n', ["from __future__ import annotations comes first"]),
        (too_long, "core/tpuc/one.py", HEAD + "\n" * 498, ["501 lines: split it by subject"]),
        (too_long, "plugins/chips/tpuc_one/lowerings/x.py", "\n" * 251, ["251 lines: split it by subject"]),
        (too_long, "plugins/ops/tpuc_ops/top/x.py", "\n" * 151, ["151 lines: split it by subject"]),
    ],
)
def test_a_file_that_breaks_a_rule_is_found(
    rule: Callable[[Path], list[str]],
    place: str,
    text: str,
    found: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (tree, sys.modules[__name__]):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "PLUGINS", tmp_path / "plugins")
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (path.parent / "good.py").write_text(HEAD)
    assert offenders([path.parent / "good.py", path], rule) == [f"{place}: {one}" for one in found]


def test_a_package_that_is_named_wrongly_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    for name in ("tpuc_good", "bad"):
        (tmp_path / name).mkdir()
    for name in ("__init__.py", "py.typed"):
        (tmp_path / "tpuc_good" / name).touch()
    wrong = ["bad: is not named tpuc_*", "bad: has no __init__.py", "bad: has no py.typed"]
    assert offenders([tmp_path / "tpuc_good", tmp_path / "bad"], lacks_of_package) == wrong
