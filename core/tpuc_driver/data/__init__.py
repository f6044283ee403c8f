"""Sample data: read folders, lists, npz files, and files with a reader as inputs of a network."""

from __future__ import annotations

from tpuc_driver.data.alternatives import Alternative, alternatives, one_of
from tpuc_driver.data.content import Distinct, digests, distinct
from tpuc_driver.data.description import Preset, check_channels, check_described, described
from tpuc_driver.data.findings import Findings, contradicted, ends_of, examined, ill_fitting
from tpuc_driver.data.fingerprints import CALIBRATED_ON, fingerprint, fingerprints, without_seen
from tpuc_driver.data.frames import FrameReader, with_pictures
from tpuc_driver.data.input_statistics import InputStatistics, sample_statistics
from tpuc_driver.data.inputs import INPUT_LAYOUT, inputs_of, quantizer
from tpuc_driver.data.labels import Labels, labels_named, lines_of
from tpuc_driver.data.layout import ArrayLayout, layout_of
from tpuc_driver.data.preprocess import Reader, center_crop, from_pixels
from tpuc_driver.data.sample_input import SampleInput
from tpuc_driver.data.samples import (
    ARRAYS,
    SampleReader,
    SampleSource,
    arranged,
    array_shapes,
    as_type,
    count_in,
    fit,
    is_picture,
    open_samples,
    rows_in,
)
from tpuc_driver.data.sensor import LOW_BITS, SENSOR_FORMATS, SENSOR_VALUES, channels_of_mosaics
from tpuc_driver.data.sets import SampleSet, sets_of
from tpuc_driver.data.stored import quantize
from tpuc_driver.data.video import (
    FRACTION_BITS,
    LOW_STEPS,
    VIDEO_FORMATS,
    Term,
    VideoFormat,
    rgb_of_frames,
    video_terms,
)

__all__ = [
    "ARRAYS",
    "CALIBRATED_ON",
    "FRACTION_BITS",
    "INPUT_LAYOUT",
    "LOW_BITS",
    "LOW_STEPS",
    "SENSOR_FORMATS",
    "SENSOR_VALUES",
    "VIDEO_FORMATS",
    "Alternative",
    "ArrayLayout",
    "Distinct",
    "Findings",
    "FrameReader",
    "InputStatistics",
    "Labels",
    "Preset",
    "Reader",
    "SampleInput",
    "SampleReader",
    "SampleSet",
    "SampleSource",
    "Term",
    "VideoFormat",
    "alternatives",
    "arranged",
    "array_shapes",
    "as_type",
    "center_crop",
    "channels_of_mosaics",
    "check_channels",
    "check_described",
    "contradicted",
    "count_in",
    "described",
    "digests",
    "distinct",
    "ends_of",
    "examined",
    "fingerprint",
    "fingerprints",
    "fit",
    "from_pixels",
    "ill_fitting",
    "inputs_of",
    "is_picture",
    "labels_named",
    "layout_of",
    "lines_of",
    "one_of",
    "open_samples",
    "quantize",
    "quantizer",
    "rgb_of_frames",
    "rows_in",
    "sample_statistics",
    "sets_of",
    "video_terms",
    "with_pictures",
    "without_seen",
]
