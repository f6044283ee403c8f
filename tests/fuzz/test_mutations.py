"""A short run over all formats; `python benchmarks/mutations.py --count 20000` is the long one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.families import each
from tests.fuzz.child import verdict
from tests.fuzz.mutations import BROKEN, Runs, Tally, formats_of, prepare, run_all

COUNT = 75

pytestmark = [pytest.mark.chip("bm1684x"), pytest.mark.chip("cv183x")]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    prepare(folder)
    return folder


@pytest.fixture
def runs(sound: Path, tmp_path: Path) -> Iterator[Runs]:
    one = Runs(sound, tmp_path / "run")
    yield one
    one.close()


def test_damaged_files_of_every_format_give_one_sentence(runs: Runs) -> None:
    tally = Tally()
    assert [str(fault) for fault in run_all(runs, range(COUNT), tally)] == []
    assert sum(sum(ends.values()) for ends in tally.ends.values()) == COUNT
    assert sorted(tally.ends) == sorted(["network", *formats_of()])
    for name, ends in tally.ends.items():
        assert ends["refused"], name  # the damage is more than nothing
        assert not any(ends[end] for end in BROKEN), name
    assert sum(ends["accepted"] for ends in tally.ends.values()) > COUNT // 20  # and less than everything


def test_the_same_seed_is_the_same_damage_and_command(runs: Runs, tmp_path: Path) -> None:
    for name in ("network", *formats_of()):
        found: list[object] = []
        for _ in range(2):
            folder, command = runs.write(name, 7)
            found.append((command, {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}))
        assert found[0] == found[1], name


def test_sound_files_are_accepted(runs: Runs, sound: Path) -> None:
    for name, form in formats_of().items():
        for command in form.commands:
            shown = form.files[0].replace("_weight.npz", ".mlir") if name == "weights" else form.files[0]
            folder, _ = runs.write(name, 0)
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            for path in sound.iterdir():
                (folder / path.name).symlink_to(path)
            if name != "settings":
                (folder / "tpuc.toml").unlink()
            ended = runs.child.run(command.replace("{file}", shown).split(), folder)
            assert ended[0] == "ok", (command, ended)


@each(
    ("code", "said", "ended"),
    [
        (0, "", "ok"),
        (1, "1 compared, 1 failed\n", "ok"),
        (1, "tpuc: n.mlir: no. Go.\n", "refused"),
        (2, "Traceback (most recent call last):\n\ntpuc: no. Go.\n", "refused"),
        (1, "tpuc: internal error: KeyError: 'x'; run again\n", "fault"),
        (1, "Traceback (most recent call last):\nKeyError\n", "fault"),
        (-1, "SystemExit: 3", "fault"),
        (130, "tpuc: interrupted\n", "fault"),
    ],
)
def test_verdicts(code: int, said: str, ended: str) -> None:
    assert verdict(code, said)[0] == ended


def test_what_is_left_behind_and_what_is_too_long_is_noticed(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(arguments: list[str], folder: Path) -> tuple[str, str]:
        (folder / "o.part").touch()
        return "refused", "tpuc: no."

    monkeypatch.setattr(runs.child, "run", leave)
    assert runs.one("module", 0)[1:] == ("left behind", "o.part: tpuc: no.")
    for said in ("x" * 501, "two\nlines"):
        monkeypatch.setattr(runs.child, "run", lambda *_, said=said: ("refused", said))
        assert runs.one("module", 0)[1:] == ("long", said)
