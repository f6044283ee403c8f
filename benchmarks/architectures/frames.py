"""Compile a trained file and run it, frame by frame where it has states, beside ONNX Runtime or LiteRT."""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import tpuc
from tpuc_driver.session.compare import NEAR_ZERO, meanings

from benchmarks.architectures.measure import Result, compared, failure, limit_seconds
from benchmarks.architectures.trained import Given, Trained

CALIBRATION_FRAMES, CALIBRATION_FROM = 16, 1000
"""How many samples int8 is calibrated on, and the first one; 0 to 99 are compared."""
Arrays = dict[str, np.ndarray]
Engine = Callable[[Arrays], Arrays]
NEAR = (2**-8, 1e-2)
"""An absolute difference and a share: what may lie between elements where a mask or score is close to zero everywhere,
as on pictures that show nothing that the network knows.
"""


def measure(
    file: Path, row: Trained, steps: Sequence[str], memory: int, seconds_limit: int
) -> Iterator[tuple[str, Result]]:
    """The results of the steps: `import`, or a chip and a mode."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    limit_seconds(seconds_limit)
    wanted = over_frames(row, reference(file, row), row.states, {})
    try:
        network = tpuc.load(file, **row.options)
    except Exception as error:  # noqa: BLE001  # any failure is a result
        yield "import", failure(error)
        return
    states = {**row.states, **kept_states(network, row.inputs)}
    first = {name: np.zeros(network.inputs[name], np.float32) for name in states.keys() - row.states.keys()}
    for step in steps:
        limit_seconds(seconds_limit)
        chip, _, mode = step.partition(" ")
        if step == "import":
            yield step, _beside(row, _meant_by(network), states, first, wanted, "f32")
            continue
        chosen = network
        if mode == "int8" and not row.is_integer:
            try:
                chosen = network.quantize(_calibration(row, network, states, first), tune_num=0, bias_num=0)
            except Exception as error:  # noqa: BLE001  # any failure is a result
                yield step, failure(error)
                continue
        result = _on_chip(row, chosen, chip, mode, states, first, wanted)
        if result["result"] == "wrong" and mode == "f16":
            other = _on_chip(row, network, chip, "f32", states, first, wanted)
            if other["result"] == "equal":
                result = {**other, "option": "--quantize f32", "why": result["why"]}
        yield step, result


def _calibration(row: Trained, network: tpuc.Network, states: Mapping[str, str], first: Arrays) -> Arrays:
    """Inputs of frames far behind the compared ones, with the states that the float network has there."""
    fed: list[Arrays] = []

    def run(sample: Arrays) -> Arrays:
        fed.append(_channels_first(row, sample))
        return network.run(fed[-1])

    over_frames(replace(row, frames=CALIBRATION_FRAMES), run, states, first, CALIBRATION_FROM)
    return {name: np.stack([sample[name] for sample in fed]) for name in fed[0]}


def _meant_by(network: tpuc.Network) -> Engine:
    """The network on the host, with real numbers where integers stand for them."""
    return lambda sample: meanings(network.module, network.run(sample))


def _on_chip(
    row: Trained,
    network: tpuc.Network | tpuc.QuantizedNetwork,
    chip: str,
    mode: str,
    states: Mapping[str, str],
    first: Arrays,
    wanted: Arrays,
) -> Result:
    start = time.process_time()
    try:
        made = network.compile(chip) if isinstance(network, tpuc.QuantizedNetwork) else network.compile(chip, mode=mode)
    except Exception as error:  # noqa: BLE001  # any failure is a result
        return failure(error)
    told: Result = {"seconds": round(time.process_time() - start, 2)}
    if made.report is not None:
        told |= {"cycles": made.report.cycles}
        if made.report.host_functions:
            told |= {"host": sorted({time.function for time in made.report.host_functions})}
    return {**_beside(row, made.run, states, first, wanted, mode), **told}


def _beside(row: Trained, run: Engine, states: Mapping[str, str], first: Arrays, wanted: Arrays, mode: str) -> Result:
    """Compared with the engine of the file's format."""

    def ours() -> Arrays:
        found = over_frames(row, lambda sample: run(_channels_first(row, sample)), states, first)
        return {name: _as_stored(array, wanted.get(name)) for name, array in found.items()}

    return compared(ours, wanted, mode, NEAR_ZERO if mode == "f32" else NEAR)


def _channels_first(row: Trained, sample: Arrays) -> Arrays:
    """Pictures as compiled networks take them."""
    last = {one.name for one in row.inputs if one.kind == "picture" and one.shape[-1] == 3}
    return {name: array.transpose(0, 3, 1, 2) if name in last else array for name, array in sample.items()}


def _as_stored(array: np.ndarray, wanted: np.ndarray | None) -> np.ndarray:
    """Frames of pictures with channels last, as the file has them."""
    moved = array.transpose(0, 1, 3, 4, 2) if array.ndim == 5 else array
    return moved if wanted is not None and moved.shape == wanted.shape else array


def kept_states(network: tpuc.Network, inputs: Sequence[Given]) -> dict[str, str]:
    """The inputs that a network has for the states of its file, with the outputs that they take."""
    given = {one.name for one in inputs}
    return {name: f"{name}_next" for name in network.inputs if name not in given and f"{name}_next" in network.outputs}


def over_frames(
    row: Trained, run: Engine, states: Mapping[str, str], first: Mapping[str, np.ndarray], start: int = 0
) -> Arrays:
    """Every output over all frames; a state takes what the run before gave, and `first` in the first one."""
    held = dict(first)
    found: dict[str, list[np.ndarray]] = {}
    for frame in range(start, start + row.frames):
        sample = {one.name: one.array(frame) for one in row.inputs}
        outputs = run({**sample, **held})
        held = {entry: np.asarray(outputs[name]) for entry, name in states.items()}
        for name, array in outputs.items():
            found.setdefault(name, []).append(np.asarray(array))
    return {name: np.stack(arrays) for name, arrays in found.items()}


def reference(file: Path, row: Trained) -> Engine:
    """The engine of the file's format, with states that it keeps itself."""
    return _litert(file) if file.suffix == ".tflite" else _onnx(file, row)


def _onnx(file: Path, row: Trained) -> Engine:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
    fixed = {name: np.array(int(value), np.int64) for name, value in row.options.get("fixed_inputs", {}).items()}
    names = [one.name for one in session.get_outputs()]
    return lambda sample: dict(zip(names, session.run(None, {**sample, **fixed}), strict=True))


def _litert(file: Path) -> Engine:
    from ai_edge_litert.interpreter import Interpreter  # its import takes a second

    interpreter = Interpreter(str(file), num_threads=1)
    interpreter.allocate_tensors()
    entries = {one["name"]: one["index"] for one in interpreter.get_input_details()}
    exits = {one["name"]: (one["index"], one["quantization"]) for one in interpreter.get_output_details()}

    def run(sample: Arrays) -> Arrays:
        for name, array in sample.items():
            interpreter.set_tensor(entries[name], array)
        interpreter.invoke()
        return {name: _meant(interpreter.get_tensor(index), *scale) for name, (index, scale) in exits.items()}

    return run


def _meant(array: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """The real numbers, where integers stand for them."""
    return (array.astype(np.float64) - zero) * scale if scale else array
