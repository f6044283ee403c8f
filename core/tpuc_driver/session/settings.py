"""Settings of a session's steps, named like the command-line options."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypedDict, get_args, get_type_hints

from tpuc.api.frontend import WeightChoice
from tpuc.errors import UsageError

from tpuc_driver.api.board import Board
from tpuc_driver.data import Labels, SampleSet, SampleSource
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.reports import AccuracyReport
from tpuc_driver.session.values import SharedConstants


class NetworkSettings(TypedDict, total=False):
    """Settings to import a network file.

    `batch` becomes the leading dimension of every input; `preprocess` describes the preprocessing of images, `post` the
    post-processing appended to the network; `random_weights` draws random weights if the format stores them elsewhere.
    `input_names` turns computed tensors into inputs, `dims` sets symbolic dimensions, and `fixed_inputs` replaces
    inputs by constants. `keep_in` is a folder that receives the network as imported and simplified. `group_size`,
    `symmetric` and `head_bits` are for modes such as `w4f16`; `weights` is the choice that they make with the mode.
    """

    model_name: str
    model_data: Path | None
    input_shapes: Sequence[Sequence[int]]
    batch: int | None
    output_names: Sequence[str]
    preprocess: Mapping[str, Any] | None
    post: str | None
    random_weights: bool
    input_names: Sequence[str]
    dims: Mapping[str, int] | None
    fixed_inputs: Mapping[str, Any] | None
    keep_in: Path | None
    group_size: int | None
    symmetric: bool | None
    head_bits: int | None
    weights: WeightChoice | None


class SampleSettings(TypedDict, total=False):
    """Location of samples and how many to use (0: all of a data list, or the default number)."""

    dataset: Path | Sequence[SampleSet] | None
    data_list: Path | None
    input_num: int


class TestSettings(TypedDict, total=False):
    """Sample for comparing stages, and tolerances."""

    test_input: Sequence[Path]
    excepts: Sequence[str]
    tolerance: Sequence[float]


class TransformTestSettings(TestSettings, total=False):
    """Settings to compare a TOP module with another engine; `test_result` is an npz file that receives every value,
    `keep_in` a folder that receives the input as `NAME_in_f32.npz`.
    """

    batch: int | None
    model_data: Path | None
    input_names: Sequence[str]
    dims: Mapping[str, int] | None
    fixed_inputs: Mapping[str, Any] | None
    test_result: Path | None
    keep_in: Path | None


class CheckSettings(TypedDict, total=False):
    """`min_agreement` is the minimum share of equal predictions of each output for a quantized network."""

    min_agreement: float | None


class CalibrationSettings(SampleSettings, CheckSettings, total=False):
    """Settings to calibrate. `options` are further options of the pass `calibrate`, such as `tune_num`."""

    method: str
    histogram_bin_num: int
    options: Mapping[str, Any] | None


class DeploySettings(TestSettings, CheckSettings, total=False):
    """Settings to compile a TOP module.

    `calibration_table` is a table or its path, `quantize_table` a path or a mapping of op names to modes. `ranges` are
    known maximum magnitudes of values, used to remark what exceeds a float type. `keep_in` is a folder that receives
    the lowered module. On `check_samples` the compiled network is compared with the float one; `tuned` tells whether
    tuning of the table has used them. `accuracy` reports how the tables were found; `constants` are shared by several
    networks. The file records `labels`, the class names, and must fit the `board`.
    """

    calibration_table: Any
    quantize_table: Path | Mapping[str, str] | None
    test_reference: Path | None
    boundary: Boundary | None
    ranges: Mapping[str, float] | None
    keep_in: Path | None
    check_samples: SampleSource | None
    tuned: bool | None
    accuracy: AccuracyReport | None
    constants: SharedConstants | None
    labels: Labels | None
    board: Board | None


class CompileSettings(NetworkSettings, SampleSettings, TestSettings, CheckSettings, total=False):
    """Settings to compile a network file.

    `min_accuracy` searches for the cheapest network whose figure of `measure` is at least a number such as `0.99`, or a
    share of the float network's figure such as `99%`, compiling and measuring at most `max_trials` networks. The lower
    end of the figure's 95 % confidence interval on held-out samples must reach it, or with `accept_point_estimate` the
    figure itself. `force` calibrates on samples without content, too.
    """

    force: bool | None

    min_accuracy: str | None
    max_trials: int | None
    measure: str | None
    accept_point_estimate: bool | None

    calibration_table: Any
    quantize_table: Path | Mapping[str, str] | None
    calibration_method: str
    boundary: Boundary | None
    labels: Labels | None
    board: Board | None


_TAKEN: Mapping[Any, tuple[type, ...]] = {
    **{one: (one,) for one in (bool, str, Path, NoneType)},
    int: (int, Integral),
    float: (float, int, Real),
}
"""Types accepted for a declared type: NumPy numbers count as numbers."""


def check_settings(settings: Mapping[str, Any], group: type[Any]) -> None:
    """Raise UsageError for a setting that does not belong to a group, or of a wrong type; type checkers find both, but
    not every caller uses one.
    """
    for name in settings:
        if name not in group.__annotations__:
            close = get_close_matches(name, group.__annotations__, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise UsageError(f"no setting named '{name}'.{hint} Settings: {', '.join(sorted(group.__annotations__))}.")
    for name, hint in _plain_types(group).items():
        if name in settings and not isinstance(settings[name], hint):
            wanted = next(one.__name__ for one in hint if one is not NoneType)
            raise UsageError(f"{name} has the type {type(settings[name]).__name__}; give a {wanted}.")


@functools.cache
def _plain_types(group: type[Any]) -> Mapping[str, tuple[type, ...]]:
    """Return the accepted types of the settings that are numbers, strings, or paths."""
    found: dict[str, tuple[type, ...]] = {}
    for name, hint in get_type_hints(group).items():
        parts: tuple[Any, ...] = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if all(part in _TAKEN for part in parts):
            found[name] = tuple(dict.fromkeys(one for part in parts for one in _TAKEN[part]))
    return found


def chosen(settings: Mapping[str, Any], group: type[Any]) -> dict[str, Any]:
    """Return the settings that belong to a group."""
    return {name: value for name, value in settings.items() if name in group.__annotations__}
