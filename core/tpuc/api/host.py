"""What plugins may use to run networks on the host: samples, the interpreter and sessions. Imports numpy."""

from __future__ import annotations

from tpuc.data import (
    FRACTION_BITS,
    LOW_STEPS,
    VIDEO_FORMATS,
    Preprocess,
    Preset,
    Reader,
    SampleInput,
    SampleReader,
    SampleSet,
    SampleSource,
    arranged,
    centre_crop,
    check_described,
    fit,
    inputs_of,
    open_samples,
    preprocess_of,
    rounds_evenly,
    video_terms,
)
from tpuc.interpreter import ABSENT_SLOT, Interpreter, Plan, Step, make_plan
from tpuc.interpreter.interpreter import Array
from tpuc.npz import read_npz, write_npz
from tpuc.registry import Registry
from tpuc.session.compare import real_values, types_of
from tpuc.session.factors import state_factors, stated_factors
from tpuc.session.reports import AccuracyReport, OutputCheck, SelfCheck
from tpuc.session.running import Runner, module_runner, pair_inputs, paired_inputs, samples_in
from tpuc.session.session import Session
from tpuc.similarity import cosine, decibels, euclidean, finite_pair, sqnr_db
from tpuc.work import (
    Job,
    Pool,
    PortableModule,
    Sealed,
    give_back_memory,
    one_blas_thread,
    open_pool,
    shares,
    small_units_of,
    units_of,
)

__all__ = [
    "ABSENT_SLOT",
    "FRACTION_BITS",
    "LOW_STEPS",
    "VIDEO_FORMATS",
    "AccuracyReport",
    "Array",
    "Interpreter",
    "Job",
    "OutputCheck",
    "Plan",
    "Pool",
    "PortableModule",
    "Preprocess",
    "Preset",
    "Reader",
    "Registry",
    "Runner",
    "SampleInput",
    "SampleReader",
    "SampleSet",
    "SampleSource",
    "Sealed",
    "SelfCheck",
    "Session",
    "Step",
    "arranged",
    "centre_crop",
    "check_described",
    "cosine",
    "decibels",
    "euclidean",
    "finite_pair",
    "fit",
    "give_back_memory",
    "inputs_of",
    "make_plan",
    "module_runner",
    "one_blas_thread",
    "open_pool",
    "open_samples",
    "pair_inputs",
    "paired_inputs",
    "preprocess_of",
    "read_npz",
    "real_values",
    "rounds_evenly",
    "samples_in",
    "shares",
    "small_units_of",
    "sqnr_db",
    "state_factors",
    "stated_factors",
    "types_of",
    "units_of",
    "video_terms",
    "write_npz",
]
