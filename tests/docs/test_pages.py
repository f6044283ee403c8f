"""The pages in docs/ are what the code says, lead to each other, and leave no kind of plugin out."""

from __future__ import annotations

import importlib.util
import pkgutil
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tpuc.registry import Registry

from tests.contract.test_layers import COMPILER, LAYERS
from tests.families import each

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
HOWTOS = sorted(path for path in (DOCS / "howto").glob("*.md") if path.name != "README.md")
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
ENTRY_POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
WIDTH = 140
OUT_OF_DATE = "out of date: run `python docs/generate.py` and read the difference"

each_page = each("page", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())


@pytest.fixture(scope="module")
def generate() -> Any:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose(path: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", text(path), flags=re.MULTILINE | re.DOTALL)


# What is generated


@each_page
def test_included_code_is_that_of_the_files(page: Path, generate: Any) -> None:
    assert text(page) == generate.expanded(text(page)), OUT_OF_DATE


@pytest.mark.chip("bm1684x")
def test_the_figures_and_the_output_in_readme_are_current(generate: Any) -> None:
    readme = text(ROOT / "README.md")
    assert readme == generate.expanded(readme), OUT_OF_DATE
    assert "198/200" in readme


@pytest.mark.chip("bm1684x")
def test_the_picture_is_current(generate: Any) -> None:
    assert text(generate.PICTURE) == generate.figures.picture(), OUT_OF_DATE


def test_the_picture_of_the_rooms_is_current_and_shows_folders(generate: Any) -> None:
    rooms = generate.rooms
    assert text(generate.ROOMS) == rooms.picture(), OUT_OF_DATE
    boxes = [*rooms.STAGES, *(box for floor in rooms.FLOORS for box in floor), rooms.TOOLS, rooms.ACCURACY]
    folders = [f"{box.folder}/{room}" for box in boxes for room in box.rooms]
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_figures_are_those_of_the_committed_results(generate: Any) -> None:
    figures = generate.figures
    assert set(figures.SHORT) <= set(figures.ACCURACY) <= set(figures.cycles())
    assert set(figures.ACCURACY.values()) == set(figures.FLOORS) == set(figures.ROWS)
    ours, theirs = figures.pairs("bm1684x int8")["resnet50"]
    assert f"| resnet50 | {ours:,} | {theirs:,} | {ours / theirs:.2f} |" in text(DOCS / "figures.md")
    assert figures.cycles()["resnet50"]["bm1684x int8"]["cycles"] == ours


@each("page", HOWTOS, ids=lambda path: path.stem)
def test_code_of_a_howto_comes_from_tested_files(page: Path) -> None:
    included = re.findall(r"<!-- include: (\S+?)(?:::\S+)? -->\n```", text(page))
    assert included or "```" not in text(page)
    assert len(re.findall(r"^```(?:python|mlir)", text(page), re.MULTILINE)) <= len(included)
    assert all(path.startswith(("tests/", "plugins/tools/tpuc_new/packages/")) for path in included)


def test_the_stubs_of_the_op_packages_are_current(generate: Any) -> None:
    for path, stub in generate.stubs().items():
        assert text(path) == stub, OUT_OF_DATE


@pytest.mark.chip("bm1684x")
def test_the_command_line_page_is_current(generate: Any) -> None:
    assert text(DOCS / "cli.md") == generate.cli_page(), OUT_OF_DATE


def test_the_support_of_every_chip_is_current(generate: Any) -> None:
    page, sections = text(DOCS / "support.md"), generate.support_sections()
    assert sections.keys() == ENTRY_POINTS.get("tpuc.chips", {}).keys()
    assert [chip for chip, section in sections.items() if section not in page] == [], OUT_OF_DATE


def test_the_operators_of_onnx_are_current(generate: Any) -> None:
    assert generate.operators_section() in text(DOCS / "support.md"), OUT_OF_DATE


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "plugins/tools/tpuc_new/packages/acme_tools/acme_tools/checksum.py::CHECKSUM",
            "```python\nCHECKSUM = Checksum()\n```\n",
        ),
        (
            "plugins/tools/tpuc_new/packages/acme_tools/pyproject.toml::project.entry-points.tpuc.calibrators",
            '```toml\n[project.entry-points."tpuc.calibrators"]\ntrimmed = "acme_tools.trimmed:Trimmed"\n```\n',
        ),
    ],
)
def test_a_marker_becomes_the_code_that_it_names(target: str, expected: str, generate: Any) -> None:
    marker = f"<!-- include: {target} -->\n"
    once = generate.expanded(f"a\n\n{marker}\nb\n")
    assert once == f"a\n\n{marker}{expected}\nb\n"
    assert generate.expanded(once) == once


def test_a_marker_that_names_nothing_is_a_sentence(generate: Any) -> None:
    marker = "<!-- include: plugins/tools/tpuc_new/packages/acme_tools/acme_tools/checksum.py::Nothing -->\n"
    with pytest.raises(SystemExit, match=r"checksum\.py has no 'Nothing'; correct the include marker"):
        generate.expanded(marker)


# What is written


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_links_within_the_documentation_resolve(page: Path) -> None:
    for file, anchor in LINK.findall(prose(page)):
        target = (page.parent / file).resolve() if file else page
        if target.is_relative_to(DOCS):
            assert target.exists(), file
            assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


def test_every_page_is_reached_from_the_first() -> None:
    seen, waiting = set[Path](), [DOCS / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            linked = [(page.parent / file).resolve() for file, _ in LINK.findall(prose(page)) if file]
            waiting += [path for path in linked if path.suffix == ".md" and path.is_relative_to(DOCS)]
    assert [path for path in PAGES if path not in seen] == []


@each_page
def test_lines_fit_a_window(page: Path) -> None:
    assert [line for line in text(page).splitlines() if len(line) > WIDTH and not line.startswith("| ")] == []


def test_the_architecture_fits_a_page_and_has_the_layers_that_are_tested() -> None:
    page = text(DOCS / "architecture.md")
    assert len(page.splitlines()) <= 90
    rows = re.findall(r"^\| `((?:core|plugins)/\S+)` \| (.*?) \|", page, re.MULTILINE)
    short = {"COMPILER": COMPILER}
    shown = [
        (folder, [one for name in re.findall(r"`(\w+)`", row) for one in short.get(name, (name,))])
        for folder, row in rows
    ]
    assert shown == [(folder, list(allowed)) for folder, allowed in LAYERS]


def test_the_page_of_plugins_names_every_group_and_what_its_objects_are() -> None:
    page = text(DOCS / "internals" / "plugins.md")
    registry = Registry()
    assert [name for name in registry.groups if f"`{name}`" not in page] == []
    groups = [registry.group(name) for name in registry.groups if name != "tpuc.commands"]
    bases = [group.base.partition(":")[2] for group in groups if group.base]
    assert [base for base in bases if f"`{base}`" not in page] == []


def test_every_bundled_group_has_a_howto() -> None:
    howtos = "".join(map(text, HOWTOS))
    assert [group for group in ENTRY_POINTS if group not in howtos] == []


def test_every_path_to_find_the_way_by_exists() -> None:
    paths = re.findall(
        r"`((?:core|plugins|tests|benchmarks|docs)/[\w./-]*|pyproject\.toml)`", text(DOCS / "find-your-way.md")
    )
    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_names_of_python_on_the_pages_exist() -> None:
    groups = {*ENTRY_POINTS, *Registry().groups}
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
    names = {name for file in files for name in re.findall(r"`(tpuc(?:_\w+)?(?:\.\w+)+)`", text(file))}
    wanted = {name for name in names - groups if not name.endswith(".toml")}
    assert [name for name in sorted(wanted) if not leads_to_something(name)] == []
    assert not leads_to_something("tpuc.api.Nothing")


def leads_to_something(name: str) -> bool:
    """Is it a module, or what a module has?"""
    try:
        return pkgutil.resolve_name(name) is not None
    except (ImportError, AttributeError):
        return False
