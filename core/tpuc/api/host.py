"""What plugins may use to run networks on the host: samples and the interpreter. Imports numpy."""

from __future__ import annotations

from tpuc.data import Preprocess, SampleInput, SampleReader, SampleSource, inputs_of, open_samples, preprocess_of
from tpuc.interpreter import ABSENT_SLOT, Interpreter, Plan, Step, make_plan
from tpuc.interpreter.interpreter import Array
from tpuc.npz import read_npz, write_npz
from tpuc.similarity import cosine, decibels, euclidean, finite_pair, sqnr_db
from tpuc.work import (
    Job,
    Pool,
    PortableModule,
    give_back_memory,
    one_blas_thread,
    open_pool,
    shares,
    small_units_of,
    units_of,
)

__all__ = [
    "ABSENT_SLOT",
    "Array",
    "Interpreter",
    "Job",
    "Plan",
    "Pool",
    "PortableModule",
    "Preprocess",
    "SampleInput",
    "SampleReader",
    "SampleSource",
    "Step",
    "cosine",
    "decibels",
    "euclidean",
    "finite_pair",
    "give_back_memory",
    "inputs_of",
    "make_plan",
    "one_blas_thread",
    "open_pool",
    "open_samples",
    "preprocess_of",
    "read_npz",
    "shares",
    "small_units_of",
    "sqnr_db",
    "units_of",
    "write_npz",
]
