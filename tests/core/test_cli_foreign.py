"""Command lines of TPU-MLIR: every option of its scripts is understood, or refused with what to do instead."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import click
import pytest
from tpuc.errors import UsageError
from tpuc.registry import Registry
from tpuc_driver.cli import main
from tpuc_driver.cli.foreign import Answer, Script, scripts, told, translated
from tpuc_driver.cli.summaries import BUILT_IN
from tpuc_driver.cli.text import option_name

from tests.families import each


def command(script: Script) -> click.Command:
    if script.command not in BUILT_IN:
        return Registry().get("tpuc.commands", script.command)
    found: Any = import_module(BUILT_IN[script.command]).command
    return found


def known(script: Script) -> set[str]:
    return {option_name(name.removeprefix("--")) for one in command(script).params for name in one.opts}


EVERY = [(script, answer) for script in scripts().values() for answer in script.answers.values()]


def problem(script: Script, answer: Answer) -> str:
    """What is wrong with an answer, empty for nothing."""
    ours = known(script)
    named = [answer.renamed, *(word for word in answer.means if word.startswith("-")), *answer.drops]
    missing = [name for name in named if name and option_name(name.removeprefix("--")) not in ours]
    if missing:
        return f"the command has no {missing}"
    if answer.is_alike != (option_name(answer.option) in ours):
        return "it is spelled alike and yet answered" if answer.is_alike is False else "nothing is said of it"
    return "" if told(answer) else "the documentation says nothing of it"


def test_every_option_is_answered() -> None:
    found = [
        f"{script.name} --{answer.option}: {text}" for script, answer in EVERY if (text := problem(script, answer))
    ]
    assert found == []
    assert len(EVERY) > 150


def test_every_refusal_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """With the option, the script and the way out, as the file says it."""
    for script, answer in EVERY:
        if not answer.refused:
            continue
        words = [f"--{answer.option}", "no such value"] if answer.only else [f"--{answer.option}"]
        assert main([f"{script.name}.py", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        given, why = f"tpuc: {' '.join(words)}: ", f": {answer.refused}."
        has = f"TPU-MLIR's {script.name} accepts it, tpuc {script.command} does not"
        if taken := " or ".join(filter(None, answer.only)):
            has = f"tpuc {script.command} takes only {taken} for this option of TPU-MLIR's {script.name}"
        assert line == f"{given}{has}{why}"


@each(
    ("command", "typed", "ours"),
    [
        ("deploy", "--processor cv181x --Skip_Validation --model m", "--chip cv181x --model m"),
        ("deploy", "--processor=cv181x --num_core 1 --debug", "--chip cv181x --cores 1 --work-dir ."),
        ("deploy", "--skip_validation --test_input a.npz --tolerance=0.9,0.8 --opt 2", "--opt 2"),
        ("deploy", "--test_input a.npz --num-core=1 --compare_all", "--test_input a.npz --cores 1"),
        ("deploy", "--addr_mode basic --log_level 1 --correctness 0.99,0.9", ""),
        ("transform", "--input_types float32,int32 --debug --mlir m", "--mlir m"),
        ("transform", "--add_postprocess YOLOv5", "--post yolov5"),
        ("calibrate", "--cali_method use_mse --processor bm1684x m.mlir", "--method mse m.mlir"),
        ("calibrate", "--cali_method kl --search False --we --bc --bc_inference_num 30", "--method kld --bias-num 30"),
        ("calibrate", "--calibration_table t --debug_cmd use_max --debug_log", "-o t --method max -v"),
        (
            "qtable",
            "m.mlir --processor bm1684x --fp_type BF16 --quantize_table q",
            "m.mlir --chip bm1684x --float-mode bf16 -o q",
        ),
        ("run", "--out_fixed_not_theirs --model m", "--out_fixed_not_theirs --model m"),
        ("matrix", "--processor x", "--processor x"),
    ],
)
def test_options_become_ours(command: str, typed: str, ours: str) -> None:
    found = next((script for script in scripts().values() if script.command == command), None)
    spelled = known(found) if found is not None else set[str]()
    assert translated(command, spelled, typed.split()) == ours.split()


def test_values_that_have_no_equal() -> None:
    sentence = (
        "--cali_method percentile: tpuc calibrate does not have this value; choose "
        "one of mse, max, kl, percentile9999, aciq_laplace, aciq_gauss, use_mse, use_max, use_kl, use_percentile9999."
    )
    with pytest.raises(UsageError, match=re.escape(sentence)):
        translated("calibrate", {"method"}, ["--cali_method", "percentile"])
