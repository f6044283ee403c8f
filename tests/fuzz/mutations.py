"""Runs damaged files of every format through the commands that read them, and notes what they should not lead to."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.fuzz import formats
from tests.fuzz.harness import Child
from tests.fuzz.mutate import Random, damaged
from tests.fuzz.networks import networks

SEED = 20261123
RUNS_PER_CHILD = 400
HANG_SECONDS = 60.0
LONGEST = 500
"""Characters of a refusal."""
Damage = Callable[[bytes, Random], bytes]
CHIPS = (("bm1684x", ".bmodel"), ("cv183x", ".cvimodel"), ("c", ".tar"))
BROKEN = ("internal", "hang", "left behind", "long", "memory")


@dataclass(frozen=True)
class Format:
    """Which of the sound files are damaged, how, and the commands that read them."""

    files: Sequence[str]
    damage: Damage
    commands: Sequence[str]
    """`{file}` is the damaged file; all others are sound."""


@dataclass
class Tally:
    """How the runs of each format ended."""

    ends: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])

    def count(self, name: str, end: str) -> None:
        """One more."""
        self.ends.setdefault(name, Counter())[end] += 1

    def lines(self) -> Iterator[str]:
        """A table."""
        yield f"{'format':20}{'runs':>7}  accepted  refused  internal  hangs  left  long  memory"
        for name, ends in self.ends.items():
            figures = [ends[end] for end in ("accepted", "refused", *BROKEN)]
            widths = (10, 9, 10, 7, 6, 6, 8)
            row = "".join(f"{figure:>{width}}" for figure, width in zip(figures, widths, strict=True))
            yield f"{name:20}{sum(figures):>7}{row}"


@dataclass(frozen=True)
class Fault:
    """What a damaged file led to that it should not."""

    format: str
    seed: int
    command: str
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.format} seed {self.seed}: {self.kind}: tpuc {self.command}: {self.what}"


ARRAYS = (
    *("run --model n.onnx --input {file}", "run --model n_bm1684x.bmodel --input {file} -o o.npz"),
    *("run --model n_cv183x.cvimodel --input {file} -o o.npz", "npz statistic {file}", "npz dump {file}"),
    *("npz compare {file} in.npz", "npz compare in.npz {file}", "npz check-nan-inf {file}", "npz to-dat {file} o.dat"),
    *("npz fp32-to-bf16 {file} o.npz", "calibrate n.mlir --dataset {file} -o o_table"),
    *("compare n.mlir n_bm1684x_int8_sym_tpu.mlir --input {file}", "npz to-npy {file} x -o o.npy"),
    "deploy --mlir n.mlir --chip bm1684x --quantize f32 --test-input {file} -o o.bmodel",
)
MODULES = (
    *("run --model {file} --input in.npz -o o.npz", "opt {file} --pass canonicalize -o o.mlir"),
    *("opt {file} --pass fold-constants --pass count-flops", "compare n.mlir {file} --input in.npz"),
    *("visual --f32-mlir n.mlir --quant-mlir {file} --input in.npz -o o.html", "plan {file}"),
    *(
        f"deploy --mlir {{file}} --chip {chip} --quantize {mode} --calibration-table n_table -o o{suffix}"
        for chip, mode, suffix in (
            *(("bm1684x", "int8", ".bmodel"), ("bm1684x", "f32", ".bmodel"), ("cv183x", "int8", ".cvimodel")),
            *(("cv183x", "bf16", ".cvimodel"), ("bm1684x", "f16", ".bmodel"), ("bm1684x", "int8-asym", ".bmodel")),
            *(("c", "f32", ".tar"), ("c", "int8", ".tar")),
        )
    ),
)
COMPILED = (
    *("run --model {file} --input in.npz -o o.npz", "run --model {file} --input in.npz --dump-all-tensors"),
    *("disasm {file} -o o.txt", "profile {file}", "profile {file} --html o.html --trace o.json"),
)
ARCHIVES = (
    *("run --model {file} --input in.npz -o o.npz", "disasm {file} -o o.txt"),
    "run --model {file} --input in.npz -o o.npz --trust",
    "run --model {file} --input in.npz --dump-all-tensors --trust",
)


GENERATE = "generate --prompt w5 --max-tokens 2 --tokenizer lm"
STATES = ("h=h2", "d=d2", "h=d2", "h=h", "=", "h=", "=h2", "x=out", "h=h2=h2", "h", "é=\x1b", "h2=h")
LAYOUTS = ("", "", " --layout zephyr", " --layout arduino", " --layout esp-idf")


def formats_of() -> Mapping[str, Format]:
    """The formats whose sound files `prepare` makes."""
    lowered = [f"n_{chip}_int8_sym_{stage}.mlir" for chip in ("bm1684x", "cv183x") for stage in ("tpu", "final")]
    table = "deploy --mlir n.mlir --chip {chip} --quantize int8 --calibration-table {table} -o o{suffix}"
    calibrated = [table.format(chip=chip, suffix=suffix, table="{file}") for chip, suffix in CHIPS]
    mixed = [table.format(chip="bm1684x", suffix=".bmodel", table="n_table") + " --quantize-table {file}"]
    weights = [name.replace(".mlir", "_weight.npz") for name in ("n.mlir", *lowered)]
    return {
        "module": Format(["n.mlir", "n.mlir", *lowered], formats.damaged_module, MODULES),
        "arrays": Format(["in.npz"], formats.damaged_arrays, ARRAYS),
        "weights": Format(weights, formats.damaged_arrays, MODULES),
        "calibration table": Format(["n_table"], formats.damaged_table, calibrated),
        "statistics": Format(
            ["n_table.npz"],
            formats.damaged_arrays,
            ["calibrate n.mlir --dataset cal --resume {file} -o o_table --tune-num 2 --bias-num 2"],
        ),
        "quantize table": Format(["n_qtable"], formats.damaged_table, mixed),
        "settings": Format(
            ["tpuc.toml"], formats.damaged_settings, ["run", "compile n.onnx", "opt n.mlir", "npz statistic in.npz"]
        ),
        "bmodel": Format(["n_bm1684x.bmodel"], formats.damaged_binary, COMPILED),
        "memory plan": Format(
            ["n_plan.json"],
            formats.damaged_plan,
            [f"profile n_bm1684x.bmodel --plan {{file}}{more}" for more in ("", " --html o.html --trace o.json")],
        ),
        "cvimodel": Format(["n_cv183x.cvimodel"], formats.damaged_binary, COMPILED),
        "archive": Format(["n_c.tar"], formats.damaged_archive, ARCHIVES),
        "language model": Format(
            [f"lm/{name}" for name in ("config.json", "model.safetensors", "model.safetensors")],
            formats.damaged_checkpoint,
            [
                "compile lm --chip bm1684x --quantize f16 --dim seq=4 -o o.bmodel",
                "check lm --chip bm1684x",
                "transform --model-name n --model-def lm --mlir o.mlir",
            ],
        ),
        "tokenizer": Format(
            [f"lm/{name}" for name in ("tokenizer.json", "tokenizer_config.json", "config.json")],
            formats.damaged_checkpoint,
            [f"{GENERATE} n_lm.bmodel --chat", f"{GENERATE} n_lm.bmodel"],
        ),
        "language program": Format(["n_lm.bmodel"], formats.damaged_binary, [f"{GENERATE} {{file}}"]),
    }


SETTINGS = """[run]
model = "n.onnx"
input = "in.npz"
mean = [0.0, 1.0, 2.0]
[compile]
chip = "bm1684x"
model = "o.bmodel"
opt = 2
batch = 1
tolerance = [0.5, 0.5]
input-shapes = "[[1,3,8,8]]"
[opt]
pass = ["canonicalize"]
[pipelines]
lower = ["convert-top-to-tpu"]
"""


def prepare(folder: Path) -> None:
    """Sound files of every format, of one small network."""
    from tpuc_driver.cli import main

    from tests.fuzz.material import network, sample

    (folder / "n.onnx").write_bytes(network())
    (folder / "cal").mkdir()
    for number in range(3):
        np.savez(folder / "cal" / f"{number}.npz", x=sample(number))
    np.savez(folder / "in.npz", x=sample(9))
    (folder / "n_qtable").write_text("# op_name quantize_mode\nr1 F32\np1 F32\n")
    (folder / "tpuc.toml").write_text(SETTINGS)
    at = {name: str(folder / name) for name in ("n.onnx", "n.mlir", "cal", "n_table")}
    steps = [["transform", "--model-name=n", f"--model-def={at['n.onnx']}", f"--mlir={at['n.mlir']}"]]
    steps += [
        ["calibrate", at["n.mlir"], f"--dataset={at['cal']}", "-o", at["n_table"], "--tune-num=2", "--bias-num=2"]
    ]
    for chip, suffix in CHIPS:
        output = str(folder / f"n_{chip}{suffix}")
        plan = [f"--memory-plan={folder / 'n_plan.json'}"] if chip == "bm1684x" else []
        options = ["--quantize=int8", f"--calibration-table={at['n_table']}", f"--work-dir={folder}"]
        steps += [["deploy", f"--mlir={at['n.mlir']}", f"--chip={chip}", *options, *plan, "-o", output]]
    prepare_language_model(folder / "lm")
    small = ["--chip=bm1684x", "--quantize=f16", "--dim=seq=4"]
    steps += [["compile", str(folder / "lm"), *small, "-o", str(folder / "n_lm.bmodel")]]
    for step in steps:
        if main(step) != 0:
            raise AssertionError(f"tpuc {' '.join(step)} failed")


def prepare_language_model(folder: Path) -> None:
    """The smallest decoder that there can be, with a tokenizer and a chat template."""
    from tests.frontends.llm.models import write_model
    from tests.frontends.llm.test_generate import TEMPLATE, write_tokenizer

    sizes = {"hidden_size": 8, "intermediate_size": 8, "head_dim": 4, "num_attention_heads": 2}
    write_model(folder, "llama", num_hidden_layers=1, num_key_value_heads=1, max_position_embeddings=16, **sizes)
    write_tokenizer(folder, chat_template=TEMPLATE, bos_token="<s>", add_bos_token=True)


class Runs:
    """Damaged files one after another, each in a fresh folder with links to the sound ones."""

    def __init__(self, sound: Path, place: Path, child: Callable[[], Child] = lambda: Child(HANG_SECONDS)) -> None:
        self._sound, self._place, self._start = sound, place, child
        self.child = child()

    def close(self) -> None:
        """End the process."""
        self.child.stop()

    def one(self, name: str, seed: int) -> tuple[str, str, str]:
        """The command, how it ended (`accepted`, `refused` or one of BROKEN), and what was said."""
        if self.child.runs >= RUNS_PER_CHILD:
            self._again()
        folder, command = self.write(name, seed)
        before = _listing(folder)
        ended, said = self.child.run(command.split(), folder)
        left = sorted(_listing(folder) - before)
        end = {"ok": "accepted", "refused": "refused", "hang": "hang"}.get(ended, "internal")
        if ended in ("hang", "crash"):
            self._again()
        if ended == "refused" and "not enough memory" in said:
            return command, "memory", said
        if ended == "refused" and left:
            return command, "left behind", f"{', '.join(left)}: {said}"
        if ended == "refused" and (len(said) > LONGEST or not said.isprintable()):
            return command, "long", said
        return command, end, said

    def write(self, name: str, seed: int) -> tuple[Path, str]:
        """The folder of a run, and its command."""
        random = np.random.default_rng([SEED, seed, *name.encode()])
        self._restore()
        if name == "network":
            return self._place, self._write_network(random, seed)
        form = formats_of()[name]
        file = formats.choose(form.files, random)
        target = self._place / file
        if target.parent != self._place:
            target.parent.unlink()
            target.parent.mkdir()
            for path in (self._sound / file).parent.iterdir():
                (target.parent / path.name).symlink_to(path)
        target.unlink(missing_ok=True)
        target.write_bytes(form.damage((self._sound / file).read_bytes(), random))
        shown = file.replace("_weight.npz", ".mlir") if name == "weights" else file
        return self._place, formats.choose(form.commands, random).replace("{file}", shown)

    def _restore(self) -> None:
        """The folder as it is before a run, with as few changes as that takes."""
        sound = {path.name: path for path in self._sound.iterdir() if path.name != "tpuc.toml"}
        self._place.mkdir(exist_ok=True)
        for path in self._place.iterdir():
            if path.is_symlink() and path.name in sound:
                del sound[path.name]
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        for name, path in sound.items():
            (self._place / name).symlink_to(path)

    def _write_network(self, random: Random, seed: int) -> str:
        known = networks()
        chosen = formats.choose(sorted(known), random)
        files = known[chosen]
        names = [f"m{suffix}" for suffix in files]
        for name, content in zip(names, damaged(files, seed).values(), strict=True):
            (self._place / name).write_bytes(content)
        data = "".join(f" --model-data {name}" for name in names[1:])
        chip, mode, suffix = formats.choose(
            (
                *(("bm1684x", "f32", ".bmodel"), ("bm1684x", "f16", ".bmodel")),
                *(("cv183x", "bf16", ".cvimodel"), ("c", "f32", ".tar")),
            ),
            random,
        )
        if chosen == "stated":
            mode = "int8"  # what it states itself
        if random.random() < 0.5:
            return f"transform --model-name n --model-def {names[0]}{data} --mlir o.mlir"
        more = formats.choose(LAYOUTS, random) if chip == "c" else ""
        if more:
            suffix = ""
        if chosen == "streamed":
            pairs = {str(formats.choose(STATES, random)) for _ in range(2)}
            more += " --state internal" + "".join(f" --state-pair {pair}" for pair in sorted(pairs))
        return f"compile {names[0]}{data} --chip {chip} --quantize {mode}{more} -o o{suffix}"

    def _again(self) -> None:
        self.child.stop()
        self.child = self._start()


def run_all(runs: Runs, seeds: range, tally: Tally, names: Sequence[str] = ()) -> Iterator[Fault]:
    """Every fault that the seeds lead to; each seed damages one format, all in turn."""
    every = list(names) or ["network", *formats_of()]
    for seed in seeds:
        name = every[seed % len(every)]
        command, end, said = runs.one(name, seed)
        tally.count(name, end)
        if end in BROKEN:
            yield Fault(name, seed, command, end, said)


def _listing(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
