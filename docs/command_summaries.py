"""Write `summaries.py` of tpuc_driver.cli, the help summaries of all commands: `python docs/command_summaries.py`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import click
from tpuc.files import write_atomic
from tpuc.registry import Registry
from tpuc_driver.cli import commands

TARGET = Path(__file__).resolve().parents[1] / "core" / "tpuc_driver" / "cli" / "summaries.py"
OURS = "tpuc"

ORDER = ("Compile", "Step by step", "Run and measure", "Accuracy", "Look inside", "Installation")
"""Sections of `tpuc --help`; every bundled command names one."""

HEADER = '''"""Summaries of bundled commands: `python docs/command_summaries.py` writes them."""

from __future__ import annotations

'''


def built_in() -> dict[str, click.Command]:
    """The built-in commands by module."""
    modules = sorted(f"{commands.__name__}.{module.name}" for module in iter_modules(commands.__path__))
    return {module: import_module(module).command for module in modules}


def bundled() -> dict[str, click.Command]:
    """The commands of plugins in our own distribution, by name."""
    registry = Registry()
    ours = [offer for offer in registry.offers if offer.group == "tpuc.commands" and offer.package == OURS]
    return {offer.name: registry.get(offer.group, offer.name) for offer in ours}


def render() -> str:
    """The text that `summaries.py` should have."""
    core = {command.name or "": (module, command) for module, command in built_in().items()}
    both = {name: command for name, (_, command) in core.items()} | bundled()
    places = "".join(f'    "{name}": "{module}",\n' for name, (module, _) in sorted(core.items()))
    lines = "".join(f'    "{name}": "{command.get_short_help_str(90)}",\n' for name, command in sorted(both.items()))
    return f"{HEADER}BUILT_IN = {{\n{places}}}\n\nSUMMARIES = {{\n{lines}}}\n\nSECTIONS = {{\n{_sections(both)}}}\n"


def _sections(commands: dict[str, click.Command]) -> str:
    named: dict[str, list[str]] = {section: [] for section in ORDER}
    for name, command in sorted(commands.items()):
        named[getattr(command, "section", "")].append(name)
    rows = ((section, ", ".join(f'"{name}"' for name in names)) for section, names in named.items())
    return "".join(f'    "{section}": [{names}],\n' for section, names in rows)


if __name__ == "__main__":
    write_atomic(TARGET, render())
