"""Compiles every op in many forms for every bundled chip, and writes what came of it beside the chips.

python docs/compiled_forms.py [CHIP]...
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import click  # noqa: E402
from tpuc.registry import Registry  # noqa: E402

from tests.support_forms import compiled  # noqa: E402


def main() -> None:
    """Write the files of the chips that are named, or of all that have one."""
    registry = Registry()
    for chip in sys.argv[1:] or registry.names("tpuc.chips"):
        path: Path | None = registry.get("tpuc.chips", chip).description.support
        if path is not None:
            text = compiled(chip, registry).text()
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            click.echo(f"{path.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
