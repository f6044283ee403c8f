"""`tpuc profile` on files of our own and of the vendor: text, JSON, trace, page, what if."""

from __future__ import annotations

import html
import html.parser
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tpuc.api import UsageError
from tpuc.registry import Registry
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_profile.command import read_what_if

from tests.families import each

ROOT = Path(__file__).resolve().parents[3]


CHIPS = (("bm1684x", "f32"), ("cv183x", "bf16"))


@pytest.fixture(scope="module", params=CHIPS, ids=lambda pair: pair[0])
def digits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network for a chip, its plan beside it."""
    folder = tmp_path_factory.mktemp("digits")
    chip, mode = request.param
    if not Registry().has("tpuc.chips", chip):
        pytest.skip(f"chip {chip} is not installed")
    network = ROOT / "examples" / "digits" / "digits.onnx"
    file = folder / f"digits{Registry().get('tpuc.chips', chip).description.suffix}"
    arguments = ["--chip", chip, "--quantize", mode, "--memory-plan", str(folder / "plan.json"), "-o", str(file)]
    assert main(["compile", str(network), *arguments]) == 0
    return file


def profile(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    capsys.readouterr()
    assert main(["profile", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_figures_of_digits(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = profile(capsys, digits, "--plan", digits.with_name("plan.json"))
    timeline = Session().open(digits)[1].timeline("vendor")
    assert values["cycles"] == timeline.cycles
    assert values["floor_bytes"]["inputs"] == 8 * 8 * 4
    assert values["floor_bytes"]["outputs"] == 10 * 4
    # Parameters of the network: 14,378 numbers; the rest is what the packing adds.
    item = 4 if digits.suffix == ".bmodel" else 2
    assert 14_378 * item <= values["floor_bytes"]["constants"] <= values["memory_bytes"]["weights"]
    assert values["ddr_bytes"]["read"] >= values["floor_bytes"]["constants"] + 64 * item
    assert values["lmem_bytes_per_lane"]["size"] == (256 if digits.suffix == ".bmodel" else 32) * 1024
    assert sum(layer["read_bytes"] for layer in values["layers"]) == values["ddr_bytes"]["read"]
    assert sum(layer["compute_cycles"] for layer in values["layers"]) == values["busy_cycles"]["compute"]
    # On one of the chips the softmax is a function of the runtime: what its program stores last are the scores.
    last = [layer["name"] for layer in values["layers"] if layer["commands"]][-1]
    assert last.startswith("probabilities" if digits.suffix == ".bmodel" else "scores")
    assert values["overlap_cycles"] <= min(values["busy_cycles"].values())


LAYERS = ["relu1", "relu2", "maxpool1", "relu3", "average", "flat", "scores", "probabilities"]


def test_every_layer_has_its_own_figures(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, trace, page = digits.with_name("plan.json"), tmp_path / "trace.json", tmp_path / "page.html"
    values = profile(capsys, digits, "--plan", plan, "--trace", trace, "--html", page)
    layers = {layer["name"]: layer for layer in values["layers"]}
    assert [name for name in layers if name in LAYERS] == LAYERS  # casts may stand between them
    total = {name: sum(layer[name] for layer in layers.values()) for name in ("compute_cycles", "dma_cycles")}
    assert total == {f"{name}_cycles": cycles for name, cycles in values["busy_cycles"].items()}
    for name in ("read", "written"):
        assert sum(layer[f"{name}_bytes"] for layer in layers.values()) == values["ddr_bytes"][name]
    pool = layers["maxpool1"]  # between two convolutions, in local memory all the time
    assert pool["op"] == "tpu.Pool2D"
    assert pool["compute_cycles"] > 0
    assert pool["read_bytes"] == pool["written_bytes"] == 0
    assert 0 < pool["lmem_bytes_per_lane"] <= values["lmem_bytes_per_lane"]["peak"]
    assert layers["flat"]["commands"] == 0
    begun = {event["name"]: event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "b"}
    assert set(begun) == {name for name, layer in layers.items() if layer["commands"]}
    assert begun["maxpool1"]["args"]["compute_cycles"] == pool["compute_cycles"]
    text = page.read_text()
    assert all(f" {name}</td><td>{layer['op']}</td>" in text for name, layer in layers.items())
    assert main(["profile", str(digits), "--plan", str(plan)]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} ({layer['op']})\n" in printed + "\n" for name, layer in layers.items())
    assert profile(capsys, digits)["layers"] == values["layers"]  # the file itself names them


def test_the_plan_of_another_file_is_refused(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(digits.with_name("plan.json").read_text())
    content["layers"] = content["layers"][:1]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(content))
    assert main(["profile", str(digits), "--plan", str(plan)]) == 2
    sentence = r"plan\.json is not the plan of .*: its layers have \d+ commands, the file has \d+; give "
    assert re.search(sentence + r"the plan of this file\.", capsys.readouterr().err.replace("\n", " "))


def test_people_get_the_same(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = profile(capsys, digits)
    assert main(["profile", str(digits), "--what-if", "ddr=2"]) == 0
    text = capsys.readouterr().out
    assert f"{values['cycles']:,} cycles" in text
    assert "times the floor of" in text
    assert re.search(r"^with DDR 2 times and clock 1 times as fast: [\d,]+ cycles", text, re.MULTILINE)


NOTES = {
    "bm1684x vendor": "the cost of each command in the vendor's kernel library, equal for all of 100,000 random "
    "commands; not measured on a board",
    "cv183x vendor": "rules of the vendor's open estimator, within 3 % of the figures that the vendor's compiler "
    "prints for its files; not measured on a board",
    "cv183x measured": "convolutions and transfers fitted to a public trace of ResNet-50 on a CV1835, the rest as in "
    "'vendor'; copies differ from 'vendor' by up to a factor of 1.8",
}


def test_it_is_said_how_well_the_figures_are_known(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chip, loaded = Session().open(digits)
    page = tmp_path / "page.html"
    totals = {name: loaded.timeline(name).cycles for name in chip.profiles}
    assert [*chip.profile_notes] == [*chip.profiles]
    for name in chip.profiles:
        note = NOTES[f"{chip.description.name} {name}"]
        values = profile(capsys, digits, "--profile", name, "--html", page)
        assert values["profile_note"] == note
        assert values["cycles_by_profile"] == totals
        assert values["cycles"] == totals[name]
        assert main(["profile", str(digits), "--profile", name]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[1] == f"profile '{name}': {note}"
        assert html.escape(lines[1]) in page.read_text()
        assert Session().profile(digits, profile=name).text().splitlines()[1] == lines[1]
        others = [line for line in lines if line.startswith("cycles by each profile: ")]
        if len(totals) == 1:
            assert not others
        else:
            rate = chip.description.clock_hz / 1000
            vendor, measured = (f"'{one}' {totals[one]:,} = {totals[one] / rate:.3f} ms" for one in totals)
            assert others == [lines[2]] == [f"cycles by each profile: {vendor}, {measured}"]
            assert html.escape(lines[2]) in page.read_text()


def test_a_compilation_says_which_profile_it_predicts_by(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chip, loaded = Session().open(digits)
    network, mode = ROOT / "examples" / "digits" / "digits.onnx", dict(CHIPS)[chip.description.name]
    arguments = ["--chip", chip.description.name, "--quantize", mode, "-o", str(tmp_path / digits.name)]
    assert main(["compile", str(network), *arguments]) == 0
    left_out = r"(?: \+ about [\d.]+ ms \(estimated\) for softmax on the processor)?"
    cycles = f"{loaded.timeline('vendor').cycles:,} cycles"
    sentence = rf"^predicted: {cycles} = [\d.]+ ms{left_out} \(timing profile 'vendor'\)$"
    assert re.search(sentence, capsys.readouterr().out, re.MULTILINE)


def test_what_if_moves_ddr_time_only(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = profile(capsys, digits)
    same, faster, slower = (
        profile(capsys, digits, "--what-if", text)["what_if"] for text in ("ddr=1", "ddr=1000", "ddr=0.5")
    )
    assert same["cycles"] == plain["cycles"]
    assert plain["busy_cycles"]["compute"] <= faster["cycles"] < plain["cycles"] < slower["cycles"]
    # Both twice as fast: the same cycles in half the time.
    both = profile(capsys, digits, "--what-if", "ddr=2,clock=2")["what_if"]
    assert both["cycles"] == plain["cycles"]
    assert both["milliseconds"] == pytest.approx(plain["milliseconds"] / 2, rel=1e-12)  # one division in floats


@each(
    ("text", "sentence"),
    [
        ("lmem=2", "--what-if: unknown factor 'lmem=2'; write ddr=X or clock=X."),
        ("ddr", "--what-if: unknown factor 'ddr'; write ddr=X or clock=X."),
        ("ddr=fast", "--what-if: ddr is a factor from 0.001 to 1000, not 'fast'."),
        ("clock=0", "--what-if: clock is a factor from 0.001 to 1000, not '0'."),
        ("ddr=1,ddr=2", "--what-if gives ddr twice; keep one."),
    ],
)
def test_what_if_that_means_nothing_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_what_if(text)
    assert str(caught.value) == sentence


def test_unknown_profiles_and_bad_plans_are_refused(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(digits), "--profile", "fast"]) == 2
    assert " has no timing profile 'fast'. Its profiles: vendor" in capsys.readouterr().err
    (tmp_path / "plan.json").write_text("{}")
    assert main(["profile", str(digits), "--plan", str(tmp_path / "plan.json")]) == 1
    assert "is not a memory plan: 'pools' is missing; make one with" in capsys.readouterr().err


def test_the_trace_is_what_perfetto_reads(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = profile(capsys, digits, "--trace", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    commands = [event for event in events if event["ph"] == "X"]
    assert len(commands) == sum(values["commands"].values())
    for engine in (0, 1):
        spans = [(event["ts"], event["ts"] + event["dur"]) for event in commands if event["tid"] == engine]
        assert all(after[0] >= before[1] - 1e-9 for before, after in pairwise(spans))  # floats: microseconds of cycles
    end = max(event["ts"] + event["dur"] for event in commands)
    assert end == pytest.approx(values["milliseconds"] * 1000, rel=1e-9)  # sums of floats
    begun = [event["id"] for event in events if event["ph"] == "b"]
    assert begun == sorted(begun)
    assert sorted(begun) == sorted(event["id"] for event in events if event["ph"] == "e")
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} == {"compute", "dma", "layers"}
    moved = [event["args"]["moved"] for event in events if event["ph"] == "C"]
    assert moved[-1] == sum(values["ddr_bytes"].values())


class Links(html.parser.HTMLParser):
    """Collects everything that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "data", "poster")]
        assert tag not in ("link", "iframe", "object", "embed", "img")


def test_the_page_needs_nothing_else(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    plan = digits.with_name("plan.json")
    profile(capsys, digits, "--html", page, "--plan", plan)
    text = page.read_text()
    links = Links()
    links.feed(text)
    assert links.found == []
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp", text)
    for buffer in json.loads(plan.read_text())["buffers"]:
        if buffer["pool"] == "activations":
            assert f"<td>{buffer['name']}</td>" in text


def test_names_in_the_page_stay_text(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tensor named like a field of the template once brought the data, and what stood in them, to life."""
    hostile = "@DATA@ @TITLE@ <img src=x onerror=boom()> </script><script>boom()</script>"
    plan = json.loads(digits.with_name("plan.json").read_text())
    for number, buffer in enumerate(plan["buffers"]):
        buffer["name"] = f"{hostile} {number}"
    plan_file, page = tmp_path / "plan.json", tmp_path / "page.html"
    plan_file.write_text(json.dumps(plan))
    profile(capsys, digits, "--html", page, "--plan", plan_file)
    text = page.read_text()
    assert text.count("<script") == 3
    assert "<img" not in text
    assert text.count('{"cycles": ') == 1
    assert f"<td>{html.escape(hostile)} " in text
    assert "script-src 'sha256-" in html.unescape(text)
    assert not re.search(r' on\w+="| style="', text)


@each(
    ("name", "constants", "inputs", "outputs"),
    [
        ("handmade_conv_int8.bmodel", 86_016, 16 * 12 * 14, 80 * 12 * 14),
        ("handmade_conv_int8.cvimodel", 2_520, 432, 2_880),
    ],
)
def test_a_file_of_the_vendor_moves_each_byte_once(
    name: str, constants: int, inputs: int, outputs: int, oracle_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not any(
        Path(name).suffix == Registry().get("tpuc.chips", chip).description.suffix
        for chip in Registry().names("tpuc.chips")
    ):
        pytest.skip("its chip is not installed")
    values = profile(capsys, oracle_dir / "samples" / name)
    assert values["floor_bytes"] == {"constants": constants, "inputs": inputs, "outputs": outputs}
    assert values["ddr_bytes"] == {"read": constants + inputs, "written": outputs}
    assert [layer["name"] for layer in values["layers"]] == ["y"]


def test_a_network_of_the_vendor_in_both_profiles(oracle_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = oracle_dir / "samples" / "net20_cv183x_int8.cvimodel"
    if not Registry().has("tpuc.chips", "cv183x"):
        pytest.skip("chip cv183x is not installed")
    for name in ("vendor", "measured"):
        values = profile(capsys, file, "--profile", name, "--what-if", "ddr=2")
        assert values["what_if"]["cycles"] < values["cycles"]
        # The file names its tensors; the processor computes one of them.
        assert [layer["name"] for layer in values["layers"]][:6] == [
            *("n_LeakyRelu", "o_Transpose", "q_Gemm", "q_Gemmy_Softmax_bf16", "y_Softmax", "y_Softmax_f32")
        ]
        assert sum(layer["written_bytes"] for layer in values["layers"]) == values["ddr_bytes"]["written"]


def test_plans_with_strange_values_are_refused(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = digits.with_name("plan.json").read_text("utf-8")
    strange = (-1e30, 1e400, -1, None, True, "x", [], {"a": 1}, 1 << 70, 3.5)
    wrong: list[str] = []
    for part, key in (("pools", "address"), ("buffers", "offset"), ("buffers", "first"), ("buffers", "size_bytes")):
        for value in strange:
            plan = json.loads(sound)
            plan[part][0][key] = value
            (tmp_path / "plan.json").write_text(json.dumps(plan), "utf-8")
            code = main(["profile", str(digits), "--plan", str(tmp_path / "plan.json")])
            if (key, value) == ("first", -1):
                assert code == 0
            elif (
                code != 1
                or "plan.json is not a memory plan: its JSON has another structure" not in capsys.readouterr().err
            ):
                wrong.append(f"{part} {key} {value}")
    assert wrong == []
