"""The distributions in this folder: used without installing them, or built and installed into clean environments."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from tpuc_testing.packages import offers_of

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
TEMPLATES = ROOT / "plugins" / "tools" / "tpuc_new" / "packages"
"""Those that `tpuc new` writes the first files of a plugin from."""
TOY_CHIP = TEMPLATES / "toy_chip"
ACME_OPS = TEMPLATES / "acme_ops"
ACME_TOOLS = TEMPLATES / "acme_tools"
BROKEN_PLUGIN = FOLDER / "broken_plugin"
DUP_CHIP = FOLDER / "dup_chip"


def chips_with_acme_cells() -> list[str]:
    """The chips that acme-ops serves: the toy chip and, as long as it is bundled, bm1684x."""
    bundled = [offer.name for offer in offers_of(ROOT) if offer.group == "tpuc.chips"]
    return ["toy", *(name for name in bundled if name == "bm1684x")]


def build_wheel(folder: Path, target: Path) -> Path:
    """The wheel of a distribution, built in this process without network."""
    return Path(next(WheelBuilder(str(folder)).build(directory=str(target), versions=["standard"])))


class Environment:
    """A clean virtual environment. Only what tpuc declares as its dependencies is in it, linked from this one: nothing
    is downloaded, and a dependency that was forgotten is missed.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.scripts = folder / ("Scripts" if os.name == "nt" else "bin")
        done = self.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        site = Path(done.stdout.strip())
        for name in sorted(_dependencies("tpuc")):
            _link(importlib.metadata.distribution(name), site)

    def run(
        self, *command: str, folder: Path | None = None, path: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its programs; `path` is one more folder to import from."""
        variables: Mapping[str, str] = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        if path is not None:
            variables = {**variables, "PYTHONPATH": str(path)}
        program = str(self.scripts / command[0])
        return subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, check=False, cwd=folder, env=dict(variables)
        )

    def install(self, *wheels: Path, target: Path | None = None) -> None:
        """Install wheels with pip, which finds every dependency here or fails; into another folder with `target`."""
        where = ["--no-deps", "--target", str(target)] if target is not None else []
        done = self.run("python", "-m", "pip", "install", "--quiet", "--no-index", *where, *map(str, wheels))
        assert done.returncode == 0, done.stderr


def _dependencies(name: str) -> set[str]:
    """Every distribution that one needs, without extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for text in importlib.metadata.requires(waiting.pop()) or ():
            requirement = Requirement(text)
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if wanted and requirement.name not in found:
                found.add(requirement.name)
                waiting.append(requirement.name)
    return found


def _link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    for top in sorted(set(_top_level(distribution))):
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(distribution.locate_file(top))))


def _top_level(distribution: importlib.metadata.Distribution) -> Iterator[str]:
    for file in distribution.files or ():
        if file.parts[0] not in ("..", "__pycache__"):
            yield file.parts[0]
