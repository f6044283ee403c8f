"""Sample data: folders, lists, npz and what readers read as inputs of a network."""

from __future__ import annotations

from tpuc.data.description import Preset, check_channels, check_described, described
from tpuc.data.frames import FrameReader, with_pictures
from tpuc.data.fused import (
    FusedPostprocess,
    fused_postprocess,
    is_postprocess,
    mark_as_postprocess,
    network_alone,
    state_fused_postprocess,
)
from tpuc.data.inputs import INPUT_LAYOUT, inputs_of, preprocess_from, preprocess_of, quantiser, rounds_evenly
from tpuc.data.labels import Labels, labels_named, lines_of
from tpuc.data.layout import ArrayLayout, layout_of
from tpuc.data.preprocess import Preprocess, Reader, centre_crop
from tpuc.data.samples import (
    ARRAYS,
    SampleInput,
    SampleReader,
    SampleSource,
    arranged,
    array_shapes,
    as_type,
    fit,
    is_picture,
    open_samples,
    rows_in,
)
from tpuc.data.sensor import LOW_BITS, SENSOR_FORMATS, SENSOR_VALUES, channels_of_mosaics
from tpuc.data.sets import SampleSet, sets_of
from tpuc.data.stored import quantise
from tpuc.data.video import FRACTION_BITS, LOW_STEPS, VIDEO_FORMATS, Term, VideoFormat, rgb_of_frames, video_terms

__all__ = [
    "ARRAYS",
    "FRACTION_BITS",
    "INPUT_LAYOUT",
    "LOW_BITS",
    "LOW_STEPS",
    "SENSOR_FORMATS",
    "SENSOR_VALUES",
    "VIDEO_FORMATS",
    "ArrayLayout",
    "FrameReader",
    "FusedPostprocess",
    "Labels",
    "Preprocess",
    "Preset",
    "Reader",
    "SampleInput",
    "SampleReader",
    "SampleSet",
    "SampleSource",
    "Term",
    "VideoFormat",
    "arranged",
    "array_shapes",
    "as_type",
    "centre_crop",
    "channels_of_mosaics",
    "check_channels",
    "check_described",
    "described",
    "fit",
    "fused_postprocess",
    "inputs_of",
    "is_picture",
    "is_postprocess",
    "labels_named",
    "layout_of",
    "lines_of",
    "mark_as_postprocess",
    "network_alone",
    "open_samples",
    "preprocess_from",
    "preprocess_of",
    "quantise",
    "quantiser",
    "rgb_of_frames",
    "rounds_evenly",
    "rows_in",
    "sets_of",
    "state_fused_postprocess",
    "video_terms",
    "with_pictures",
]
