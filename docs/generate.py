"""Writes what is generated in this folder: `python docs/generate.py`.

- code blocks below `<!-- include: FILE -->`, `FILE::Class`, `FILE::function`, `FILE::NAME` or `FILE.toml::table`
- the tables below `<!-- pipelines -->` and, of error classes, `<!-- errors -->`
- the tables below `<!-- tpulang -->`, and what a script prints, below `<!-- output: FILE.py -->`
- the figures in README, figures.md and models.md, below `<!-- figures: short -->`, `all` and `models`
- `pictures/digits.svg`, from the example, and `pictures/rooms.svg`
- `cli.md`, from the commands themselves, and the JSON Schema of `tpuc.toml`
- the sections of `support.md`, from the tables of every bundled chip and of the ONNX front end
- the type stubs of the op packages `tpuc_ops.top` and `tpuc_ops.tpu`, from their files
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import runpy
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import click
import figures
import rooms
from error_table import error_table
from refusals import Refusals, refusals_of
from tpuc.api import CPU_FUNCTIONS, ChipDescription
from tpuc.registry import Offer, Registry
from tpuc.schedule import PIPELINES
from tpuc_driver.cli.aliases import ALIASES
from tpuc_driver.cli.command import global_options, shown_example
from tpuc_driver.cli.commands.matrix import (
    KERNELS,
    LOWERINGS,
    dialects,
    is_composed,
    kernel_rows,
    lowering_cell,
    lowering_rows,
    refused_forms,
    shown_cell,
)
from tpuc_driver.cli.foreign import scripts, told
from tpuc_driver.cli.summaries import BUILT_IN
from tpuc_driver.support import read_forms
from tpuc_importing.finding import functions_of
from tpuc_lang import language
from tpuc_onnx.control import CONTROL_FLOW
from tpuc_onnx.importers import TABLE as ONNX
from tpuc_onnx.importers.refused import REASONS
from tpuc_onnx.rewrites import REWRITES
from tpuc_onnx.translation import GLUE
from tpuc_ops import top

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
COMMAND = "python docs/generate.py"
WIDTH = 140
INCLUDE = re.compile(r"(<!-- include: (\S+) -->\n)(?:```\w+\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
CLI_HEAD = """
Results go to stdout, remarks to stderr. The exit code is 0 for success, 2 if the command line itself is wrong (an
unknown option or chip, a mode that the chip does not have), and 1 otherwise. `_` and `-` are interchangeable in names
of commands and options; options and choices ignore case. Lists may have spaces after commas. Set options in a
`tpuc.toml` in the current folder, in a table named after the command; its other keys are `with`, `prefer` and
`[pipelines]`. To complete commands and options in a shell, run `eval "$(_TPUC_COMPLETE=bash_source tpuc)"`
(`zsh_source`, `fish_source`).
"""
SUPPORT_HEAD = """
This page lists, for each bundled chip, the supported ops by mode, and then the limits, in the words of the errors they
cause. Every op is compiled in many forms for every chip and mode (`python docs/compiled_forms.py`). A filled cell names
the package that supports the op. `composed` marks ops that become several others the chip computes; `part` marks cells
with refused forms, which are listed below the table; `-` means not supported. For the packages you have installed, run
`tpuc matrix --chip NAME`.
"""
OPERATORS_HEAD = """
The front end imports these operators or rewrites them as others. All other operators of the standard are imported as
the function that ONNX defines for them, or folded if all operands are constants.
"""
ERROR_TABLE = re.compile(r"(<!-- errors -->\n)(?:\|.*\n)*")
PIPELINE_TABLE = re.compile(r"(<!-- pipelines -->\n)(?:\|.*\n)*")
FIGURES = re.compile(r"(<!-- figures: (short|all|models) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
OUTPUT = re.compile(r"(<!-- output: (\S+) -->\n)```text\n.*?^```\n", re.MULTILINE | re.DOTALL)
SCRIPT_TABLE = re.compile(r"(<!-- options: (\w+) -->\n)(?:\|.*\n)*", re.MULTILINE)
PICTURE = DOCS / "pictures" / "digits.svg"
SETTINGS = ROOT / "core" / "tpuc_driver" / "schemas" / "tpuc-toml.json"
ROOMS = DOCS / "pictures" / "rooms.svg"
TPULANG_TABLES = re.compile(r"(<!-- tpulang -->\n).*?(?=^#|\Z)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml", ".mlir": "mlir", ".cpp": "cpp"}


# Included code


def expanded(text: str) -> str:
    """A page with every included block as its file is now, and the pipelines as they are."""
    text = PIPELINE_TABLE.sub(lambda match: match.group(1) + _pipelines(), text)
    text = ERROR_TABLE.sub(lambda match: match.group(1) + error_table(), text)
    text = SCRIPT_TABLE.sub(lambda match: match.group(1) + _script_table(match.group(2)), text)
    text = TPULANG_TABLES.sub(lambda match: match.group(1) + _tpulang(), text)
    text = FIGURES.sub(lambda match: f"{match.group(1)}{_figures(match.group(2))}{match.group(3)}", text)
    text = OUTPUT.sub(lambda match: f"{match.group(1)}```text\n{_printed(match.group(2))}```\n", text)
    return INCLUDE.sub(lambda match: match.group(1) + _block(match.group(2)), text)


def _printed(script: str) -> str:
    """What a script of ours prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        runpy.run_path(str(ROOT / script), run_name="__main__")
    return out.getvalue()


def _figures(which: str) -> str:
    return "\n" + figures.lines(figures.SECTIONS[which]()) + "\n"


def _pipelines() -> str:
    rows = (f"| `{stage}` | {' '.join(f'`{one}`' for one in passes)} |\n" for stage, passes in PIPELINES.items())
    return "| stage | passes |\n|---|---|\n" + "".join(rows)


def _script_table(name: str) -> str:
    """Every option of one of TPU-MLIR's scripts, and what it is here."""
    (script,) = (one for one in scripts().values() if one.name == name)
    rows = (f"| `--{answer.option}` | {told(answer)} |\n" for answer in script.answers.values())
    return f"| `{name}.py` | `tpuc {script.command}` |\n|---|---|\n" + "".join(rows)


def _tpulang() -> str:
    """How many functions of the language are here, all of them by group, and why the others are not."""
    published = [group for group in language.groups() if group.is_published]
    here, refused = (
        sum(map(len, found)) for found in zip(*((one.here, one.refused) for one in published), strict=True)
    )
    lines = [f"{here} of the {here + refused} functions of the language are here.", ""]
    for group in language.groups():
        names = " ".join(f"`{name}`" for name in group.here)
        lines += _wrapped(f"- {group.name.replace('-', ' ')}: {names}", "  ")
    lines += ["", "Not supported, with the error that each gives:", ""]
    for name, reason in language.refusals().items():
        lines += _wrapped(f"- `{name}`: {reason}", "  ")
    return "\n".join(lines) + "\n"


def _block(target: str) -> str:
    name, _, symbol = target.partition("::")
    path = ROOT / name
    source = path.read_text(encoding="utf-8")
    if symbol:
        source = _toml_tables(source, symbol) if path.suffix == ".toml" else _definition(source, symbol)
    if not source:
        raise SystemExit(f"docs: {name} has no '{symbol}'; correct the include marker")
    return f"```{LANGUAGES[path.suffix]}\n{source.strip(chr(10))}\n```\n"


def _definition(source: str, symbol: str) -> str:
    """The lines of a class, function or module-level name, decorators included; `Class.method` goes inside."""
    body: Sequence[ast.stmt] = ast.parse(source).body
    found: ast.stmt | None = None
    for part in symbol.split("."):
        found = next((node for node in body if part in _names(node)), None)
        body = found.body if isinstance(found, ast.ClassDef) else ()
    if found is None:
        return ""
    decorators: Sequence[ast.expr] = getattr(found, "decorator_list", ())
    first = min([found.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(source.splitlines()[first - 1 : found.end_lineno])


def _names(node: ast.stmt) -> Sequence[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return (name,)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
        case _:
            return ()


def _toml_tables(source: str, prefix: str) -> str:
    """The tables whose name begins with `prefix`."""
    tables = re.findall(r"^\[[^\n]+\]\n(?:[^\[\n][^\n]*\n)*", source, re.MULTILINE)
    return "\n".join(table for table in tables if table[1:].replace('"', "").startswith(prefix))


# Type stubs


def stub(dialect: str) -> str:
    """What type checkers see of a package that imports its ops when they are used."""
    package = import_module(f"tpuc_ops.{dialect}")
    ops = [package.DIALECT.op(name) for name in package.DIALECT.names()]
    lines = [f"from {op.__module__} import {op.__name__} as {op.__name__}" for op in ops]
    head = [f"# generated: {COMMAND}", "from tpuc.api import Dialect as Dialect", ""]
    return "\n".join([*head, *sorted(lines, key=str.lower), "", "DIALECT: Dialect"]) + "\n"


def stubs() -> Mapping[Path, str]:
    """Both stubs by their paths."""
    return {ROOT / f"plugins/ops/tpuc_ops/{name}/__init__.pyi": stub(name) for name in ("top", "tpu")}


# Command line


def cli_page() -> str:
    """Every bundled command with its options."""
    lines = [f"<!-- generated: {COMMAND} -->", "", "# Command line", ""]
    lines += [
        *_wrapped(CLI_HEAD),
        "",
        "Options of every command:",
        "",
        *_parameter_table(global_options()),
    ]
    for name, command in sorted(_commands().items()):
        aliases = [f"`{alias}`" for alias, target in ALIASES.items() if target == name]
        lines += ["", f"## tpuc {name}", "", *_paragraphs(command.help or "")]
        if aliases:
            lines += ["", f"Aliases: {', '.join(sorted(aliases))}."]
        lines += [*_usage(name, command)]
    return "\n".join(lines) + "\n"


def settings_schema() -> str:
    """The JSON Schema of `tpuc.toml`: the options of every bundled command, and the passes of the stages."""
    names = {"type": ["array", "string"], "items": {"type": "string"}}
    common = {option.name for option in global_options()}
    tables = {
        name: {
            "type": "object",
            "properties": {
                option.lstrip("-"): {"description": parameter.help or ""}
                for parameter in command.params
                if isinstance(parameter, click.Option) and parameter.name not in common
                for option in parameter.opts
                if option.startswith("--")
            },
        }
        for name, command in sorted(_commands().items())
    }
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tpuc.toml",
        "description": "Options of commands, by tables named after them; `_` and `-` are the same in names.",
        "type": "object",
        "properties": {
            "with": names,
            "prefer": names,
            "pipelines": {"type": "object", "properties": dict.fromkeys(PIPELINES, names)},
            **tables,
        },
    }
    return json.dumps(whole, indent=1) + "\n"


def _commands() -> Mapping[str, click.Command]:
    """Built-in commands and those of bundled plugins."""
    found: dict[str, click.Command] = {name: import_module(module).command for name, module in BUILT_IN.items()}
    registry = Registry(offers=bundled_offers())
    return found | {name: registry.get("tpuc.commands", name) for name in registry.names("tpuc.commands")}


def _usage(name: str, command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group):
        yield from ("", "```sh", *_examples(command), "```")
        for inner, subcommand in sorted(command.commands.items()):
            yield from ("", f"### tpuc {name} {inner}", "", *_paragraphs(subcommand.help or ""))
            yield from _usage(f"{name} {inner}", subcommand)
        return
    common = {option.name for option in global_options()}
    own = [parameter for parameter in command.params if parameter.name not in common]
    arguments = "".join(f" {_metavar(item)}" for item in own if isinstance(item, click.Argument))
    yield from ("", "```sh", f"tpuc {name}{arguments} [OPTIONS]", *_examples(command), "```")
    options = [item for item in own if isinstance(item, click.Option)]
    if options:
        yield from ("", *_parameter_table(options))


def _examples(command: click.Command) -> Iterator[str]:
    chips = Registry(offers=bundled_offers()).names("tpuc.chips")
    yield from (shown_example(example, chips) for example in getattr(command, "examples", ()))


def _parameter_table(parameters: Sequence[click.Parameter]) -> Iterator[str]:
    yield from ("| option | default | |", "|---|---|---|")
    for option in parameters:
        assert isinstance(option, click.Option)
        value = "" if option.is_flag else f" {_metavar(option)}"
        names = ", ".join(option.opts)
        help_text = (option.help or "").replace("|", "\\|").replace("{presets}", "see [preprocessing](preprocess.md)")
        repeated = " May be repeated." if option.multiple else ""
        yield f"| `{names}{value}` | {_default(option)} | {help_text}{repeated} |"


def _metavar(parameter: click.Parameter) -> str:
    if parameter.metavar:
        return parameter.metavar
    if isinstance(parameter.type, click.Choice):
        return "\\|".join(str(choice) for choice in parameter.type.choices)
    if isinstance(parameter, click.Argument):
        return (parameter.name or "").upper()
    return "N" if isinstance(parameter.type, click.IntRange) else parameter.type.name.upper()


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    shown = isinstance(option.default, (str, int, float)) and not isinstance(option.default, bool)
    return f"`{option.default}`" if shown and option.default != "" else ""


def _paragraphs(text: str) -> Iterator[str]:
    for line in text.strip().splitlines():
        yield line.strip()


# Support


def bundled_offers() -> list[Offer]:
    """What pyproject.toml registers, whatever else is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        Offer(group, name, project["name"], project["version"], path)
        for group, entries in project["entry-points"].items()
        for name, path in entries.items()
    ]


def support_sections() -> Mapping[str, str]:
    """What the page says of every bundled chip, by its name."""
    registry = Registry(offers=bundled_offers())
    return {name: _support_section(registry, name) for name in registry.names("tpuc.chips")}


def support_page() -> str:
    """The whole page."""
    head = [
        f"<!-- generated: {COMMAND} -->",
        "",
        "# What runs where",
        "",
        *_wrapped(SUPPORT_HEAD),
        "",
    ]
    chips: dict[str, list[str]] = {}
    for name, section in support_sections().items():
        chips.setdefault(section, []).append(name)
    sections = [operators_section(), *(f"## {', '.join(names)}\n\n{section}" for section, names in chips.items())]
    return "\n".join(head) + "".join(f"\n{section}" for section in sections)


def operators_section() -> str:
    """The operators that the ONNX front end reads, by their domains."""
    known = {*ONNX.cells, *REWRITES, *functions_of(top.DIALECT, ONNX.owner), *GLUE, *CONTROL_FLOW} - {*REASONS}
    by_domain: dict[str, list[str]] = {}
    for key in sorted(known):
        domain, _, name = key.rpartition("::")
        by_domain.setdefault(domain, []).append(f"`{name}`")
    lines = ["## Operators of ONNX", "", *_wrapped(OPERATORS_HEAD), ""]
    for domain, names in by_domain.items():
        lines += _wrapped(f"- {domain or 'ONNX itself'}: {', '.join(names)}", indent="  ")
    return "\n".join(lines) + "\n"


def _support_section(registry: Registry, chip: str) -> str:
    description = registry.get("tpuc.chips", chip).description
    owners, modes = description.owners, description.modes
    counted = sum(read_forms(description.support).forms.values())
    source = f"Compiled in every mode: {counted} forms of ops." if counted else "The table shows the lowerings."
    lines = [f"Modes: {', '.join(modes)}. Compiled files: `{description.suffix}`. {source}", ""]
    missing: list[str] = []
    lines += [f"| op | {' | '.join(modes)} |", f"|---|{'---|' * len(modes)}"]
    for dialect in dialects(registry, LOWERINGS, description.lowering_owners):
        for op, row in lowering_rows(registry, description, dialect).items():
            if any(row.values()):
                cells = (shown_cell(description, op, mode, row[mode]) for mode in modes)
                lines.append(f"| `{op}` | {' | '.join(cells)} |")
            else:
                missing.append(f"`{op}`")
    if missing:
        lines += ["", *_wrapped(f"Not supported in any mode: {', '.join(missing)}.")]
    functions: dict[bool, list[str]] = {}
    for name in registry.names(CPU_FUNCTIONS):
        owner, _, op = name.partition(".")
        if owner in owners:
            functions.setdefault(registry.get(CPU_FUNCTIONS, name).is_usual, []).append(f"`top.{op}`")
    for is_usual, ops in sorted(functions.items()):
        when = "for forms that the table refuses:" if is_usual else "with `--cpu-ops`:"
        lines += ["", *_wrapped(f"Computed on the processor {when} {', '.join(sorted(ops))}.")]
    lines += _refused_forms(registry, description)
    lines += ["", "### Limits", "", "Lowerings:", ""]
    lines += _grouped(_lowering_limits(registry, description))
    lines += ["", "Kernels of the resulting ops:", ""]
    lines += _grouped(_kernel_limits(registry, owners))
    return "\n".join(lines) + "\n"


def _refused_forms(registry: Registry, description: ChipDescription) -> list[str]:
    """What was tried and does not compile, by its reason."""
    rows = {
        op: row
        for dialect in dialects(registry, LOWERINGS, description.lowering_owners)
        for op, row in lowering_rows(registry, description, dialect).items()
    }
    counted = sum(read_forms(description.support).forms.values())
    by_reason: dict[tuple[str, str], dict[str, None]] = {}
    for op, by_mode in refused_forms(description, rows).items():
        for mode, forms in by_mode.items():
            for form, reason in forms.items():
                by_reason.setdefault((f"`{op}` ({form.replace('_', ' ')})", reason), {})[mode] = None
    if not by_reason:
        return []
    listed: dict[str, list[str]] = {}
    for (form, reason), where in by_reason.items():
        modes = "" if tuple(where) == tuple(description.modes) else f" {' '.join(where)}"
        listed.setdefault(reason.replace("*", "\\*"), []).append(f"{form}{modes}")
    text = f"Of {counted} forms, these do not compile in the listed modes, or in any mode if none is listed:"
    lines = ["", "### Refused forms", "", *_wrapped(text), ""]
    items = (f"- {', '.join(forms)}: {reason}" for reason, forms in listed.items())
    return lines + [line for item in items for line in _wrapped(item, indent="  ")]


def _lowering_limits(registry: Registry, description: ChipDescription) -> Iterator[tuple[str, str]]:
    """Op with modes, and the sentences; nothing for an op without limits."""
    modes = description.modes
    for dialect in dialects(registry, LOWERINGS, description.lowering_owners):
        for op in lowering_rows(registry, description, dialect):
            by_text: dict[str, list[str]] = {}
            for mode in modes:
                known = registry.resolve_op(op)
                cell = lowering_cell(registry, description, op, known, mode)
                if cell is None and known is not None and is_composed(registry, description, known):
                    cell = registry.legalization(description, known)
                if cell is not None:
                    by_text.setdefault(_told(refusals_of(cell.value)), []).append(mode)
            yield from ((f"`{op}` {' '.join(where)}", text) for text, where in by_text.items() if text)


def _kernel_limits(registry: Registry, owners: Sequence[str]) -> Iterator[tuple[str, str]]:
    for dialect in dialects(registry, KERNELS, owners):
        for op in kernel_rows(registry, owners, dialect):
            cell = registry.find_cell(KERNELS, owners, dialect, op)
            yield f"`{op}`", "" if cell is None else _told(refusals_of(cell.value))


def _grouped(limits: Iterator[tuple[str, str]]) -> list[str]:
    """One item per text, with everything that it holds for."""
    groups: dict[str, list[str]] = {}
    for subject, text in limits:
        groups.setdefault(text or "none", []).append(subject)
    items = (f"- {', '.join(subjects)}: {text}" for text, subjects in groups.items())
    return [line for item in items for line in _wrapped(item, indent="  ")]


def _told(refusals: Refusals) -> str:
    rest = () if refusals.complete else ("and more, see its `refuse`",)
    return "; ".join((*refusals.sentences, *rest)).replace("*", "\\*")


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


# Pages


def pages() -> Mapping[Path, str]:
    """Every page as it should be."""
    found: dict[Path, str] = {DOCS / "cli.md": cli_page(), DOCS / "support.md": support_page()}
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))):
        if path not in found:
            text = path.read_text(encoding="utf-8")
            found[path] = expanded(text)
    return found


def main() -> None:
    """Write the pages and stubs that are not as they should be."""
    for path, text in {
        **pages(),
        **stubs(),
        SETTINGS: settings_schema(),
        PICTURE: figures.picture(),
        ROOMS: rooms.picture(),
    }.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            click.echo(f"{path.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
