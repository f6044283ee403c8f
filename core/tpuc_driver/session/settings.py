"""Settings of the steps of a session, named like the options of the command line."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypedDict, get_args, get_type_hints

from tpuc.errors import UsageError

from tpuc_driver.api.board import Board
from tpuc_driver.data import Labels, SampleSet, SampleSource
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.reports import AccuracyReport
from tpuc_driver.session.values import SharedConstants


class NetworkSettings(TypedDict, total=False):
    """About a network file.

    `batch` becomes the leading extent of every input; `preprocess` says how images become inputs, `post` which
    post-processing is put behind the network; `random_weights` draws weights where the format keeps them elsewhere.
    `input_names` make computed tensors the inputs, `dims` are extents of open dimensions by their symbols, and
    `fixed_inputs` the values of inputs that become constants. `keep_in` is a folder that receives the network as it was
    read and simplified.
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


class SampleSettings(TypedDict, total=False):
    """Where samples are, and how many of them are taken (0: all of a data list, or the usual number)."""

    dataset: Path | Sequence[SampleSet] | None
    data_list: Path | None
    input_num: int


class TestSettings(TypedDict, total=False):
    """A sample on which stages are compared, and how far they may differ."""

    test_input: Sequence[Path]
    excepts: Sequence[str]
    tolerance: Sequence[float]


class TransformTestSettings(TestSettings, total=False):
    """Comparison of a TOP module with another engine; `test_result` is an npz that receives every value, `keep_in` a
    folder that receives the input as `NAME_in_f32.npz`.
    """

    batch: int | None
    model_data: Path | None
    input_names: Sequence[str]
    dims: Mapping[str, int] | None
    fixed_inputs: Mapping[str, Any] | None
    test_result: Path | None
    keep_in: Path | None


class CheckSettings(TypedDict, total=False):
    """`min_agreement`: the least share of decisions, of each output, that a quantised network has to keep."""

    min_agreement: float | None


class CalibrationSettings(SampleSettings, CheckSettings, total=False):
    """How ranges are found. `options` are further options of the pass `calibrate`, such as `tune_num`."""

    method: str
    histogram_bin_num: int
    options: Mapping[str, Any] | None


class DeploySettings(TestSettings, CheckSettings, total=False):
    """From a TOP module to a compiled file.

    `calibration_table` is a table or its path, `quantize_table` a path or modes by the names of ops. `ranges` are the
    largest magnitudes of values, where they are known: a remark says what is too large for a float type. `keep_in` is a
    folder that receives the lowered module. On `check_samples` the compiled network is compared with the float one;
    `tuned`: has tuning of the table seen them?
    `accuracy` tells how the tables were found, `constants` are those that several networks share. The file keeps
    `labels`, the names of classes. It must fit on the `board`.
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
    """From a network file to a compiled file.

    With `min_accuracy` the cheapest network is searched that has at least this figure by `measure`, as `0.99`, or so
    much of the float network's, as `99%`; `max_trials` are compiled and measured for it at most. The lower end of the
    figure's 95 % interval on held-out samples counts, or with `accept_point_estimate` the figure itself.
    """

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
"""What is taken for a setting of a type: the numbers of numpy are numbers too."""


def check_settings(settings: Mapping[str, Any], group: type[Any]) -> None:
    """Raise UsageError for a setting that is none of a group: type checkers find it, and others should hear of it."""
    for name in settings:
        if name not in group.__annotations__:
            close = get_close_matches(name, group.__annotations__, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise UsageError(f"no setting named '{name}'.{hint} There are {', '.join(sorted(group.__annotations__))}.")
    for name, hint in _plain_types(group).items():
        if name in settings and not isinstance(settings[name], hint):
            wanted = next(one.__name__ for one in hint if one is not NoneType)
            raise UsageError(f"{name} has the type {type(settings[name]).__name__}; give a {wanted}.")


@functools.cache
def _plain_types(group: type[Any]) -> Mapping[str, tuple[type, ...]]:
    """The types of those settings that are numbers, words or paths."""
    found: dict[str, tuple[type, ...]] = {}
    for name, hint in get_type_hints(group).items():
        parts: tuple[Any, ...] = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if all(part in _TAKEN for part in parts):
            found[name] = tuple(dict.fromkeys(one for part in parts for one in _TAKEN[part]))
    return found


def chosen(settings: Mapping[str, Any], group: type[Any]) -> dict[str, Any]:
    """Those of the settings that belong to a group."""
    return {name: value for name, value in settings.items() if name in group.__annotations__}
