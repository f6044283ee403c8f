"""A short run over small networks; `python benchmarks/fuzz.py --count 20000` is the long one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.fuzz.harness import Child, Tally, fuzz, one_run
from tests.fuzz.mutate import damaged
from tests.fuzz.networks import networks

COUNT = 100


def test_damaged_networks_give_one_sentence() -> None:
    tally = Tally()
    assert [str(fault) for fault in fuzz(networks(), range(COUNT), tally)] == []
    assert tally.accepted + tally.refused == COUNT
    assert min(tally.accepted, tally.refused) > COUNT // 20  # both happen: the damage is neither nothing nor everything


def test_sound_networks_are_accepted(tmp_path: Path) -> None:
    child = Child()
    try:
        for name, files in networks().items():
            for suffix, content in files.items():
                (tmp_path / f"{name}{suffix}").write_bytes(content)
            first, *rest = (tmp_path / f"{name}{suffix}" for suffix in files)
            arguments = ["transform", "--model-name=net", f"--model-def={first}", f"--mlir={tmp_path / 'net.mlir'}"]
            assert child.run([*arguments, *(f"--model-data={path}" for path in rest)]) == ("ok", "")
    finally:
        child.stop()


def test_the_same_seed_is_the_same_damage() -> None:
    kinds: Counter[bool] = Counter()
    for name, files in networks().items():
        for seed in range(20):
            first = damaged(files, seed)
            assert first == damaged(files, seed), name
            kinds[first != files] += 1
    assert kinds[True] > 50


def test_faults_are_noticed(tmp_path: Path) -> None:
    child = Child()
    try:
        ended, said = child.run(["transform", "--model-name", "x"])
        assert (ended, said.startswith("tpuc: ")) == ("refused", True)
        (tmp_path / "output").mkdir()
        (tmp_path / "output" / "left.over").write_bytes(b"")
        broken = {".prototxt": b"no network at all"}
        ended, said = one_run(child, broken, 0, tmp_path)
        assert ended == "fault"
        assert said.startswith("refused, and yet there is left.over")
    finally:
        child.stop()
