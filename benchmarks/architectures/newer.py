"""Architectures of 2024 to 2026, by today's exporter where it can, and networks for time series and for key points."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.classification import ATTENTION, CONVOLUTION
from benchmarks.architectures.detection import DETECTION_FAMILY
from benchmarks.architectures.row import DYNAMO, LEGACY, Architecture, Input, image, mask, tokens
from benchmarks.architectures.text import BERT, DECODER, ENCODER, LLAMA

SERIES, POINTS, AUDIO_FAMILY = "time series", "key points", "audio"
VIT: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "image_size": 64,
    "patch_size": 16,
}
DETR: dict[str, Any] = {
    "d_model": 32,
    "encoder_hidden_dim": 32,
    "encoder_in_channels": [32, 48, 64],
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "decoder_layers": 2,
    "num_queries": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "decoder_in_channels": [32, 32, 32],
    "eval_size": None,
    "anchor_image_size": None,
    "backbone_config": {
        "model_type": "rt_detr_resnet",
        "embedding_size": 16,
        "hidden_sizes": [16, 32, 48, 64],
        "depths": [1, 1, 1, 1],
        "layer_type": "basic",
        "out_features": ["stage2", "stage3", "stage4"],
    },
}


def timm(name: str, family: str, side: int, model: str = "", **options: Any) -> Architecture:
    """A classifier of timm."""
    return Architecture(name, family, "timm", model or name, (image(side),), options, None, DYNAMO)


def transformers(
    name: str,
    family: str,
    function: str,
    *inputs: Input,
    keeps: tuple[int, ...] = (0,),
    exporters: tuple[str, ...] = DYNAMO,
    selects: bool = False,
    **options: Any,
) -> Architecture:
    """A network of transformers."""
    return Architecture(name, family, "transformers", function, inputs, options, keeps, exporters, selects)


def decoder(name: str, function: str, **options: Any) -> Architecture:
    """The whole prompt at once, without a cache."""
    return transformers(name, DECODER, function, tokens(), use_cache=False, **{**LLAMA, **options})


PIXELS = image(64, name="pixel_values")
NEWER: tuple[Architecture, ...] = (
    timm("fasternet_t0", CONVOLUTION, 64),
    timm("shvit_s1", ATTENTION, 224),
    timm("swiftformer_xs", ATTENTION, 64),
    timm("rdnet_tiny", CONVOLUTION, 64, num_init_features=32, growth_rates=(16, 24, 32), num_blocks_list=(1, 1, 1),
         is_downsample_block=(None, True, True), transition_compression_ratio=0.5, block_type=("Block",) * 3),
    timm("convnext_zepto_rms", CONVOLUTION, 64),
    timm("ghostnetv3_050", CONVOLUTION, 64),
    timm("mobilenetv4_conv_small_050", CONVOLUTION, 64),
    transformers("dinov3_vit", ATTENTION, "DINOv3ViTModel", PIXELS, **VIT),
    transformers("dinov2_registers", ATTENTION, "Dinov2WithRegistersModel", PIXELS, **VIT),
    transformers("ijepa", ATTENTION, "IJepaModel", PIXELS, **VIT),
    transformers("vitpose", POINTS, "VitPoseForPoseEstimation", PIXELS, num_labels=5, use_simple_decoder=True,
                 backbone_config={"model_type": "vitpose_backbone", "hidden_size": 48, "num_hidden_layers": 2,
                                  "num_attention_heads": 4, "image_size": [64, 64], "patch_size": [16, 16],
                                  "out_indices": [2]}),
    transformers("rt_detr_v2", DETECTION_FAMILY, "RTDetrV2ForObjectDetection", PIXELS, keeps=(0, 1),
                 exporters=LEGACY, selects=True, **DETR),
    transformers("d_fine", DETECTION_FAMILY, "DFineForObjectDetection", PIXELS, keeps=(0, 1),
                 exporters=LEGACY, selects=True, **DETR),
    transformers("modernbert_decoder", DECODER, "ModernBertDecoderForCausalLM", tokens(), use_cache=False, **BERT,
                 pad_token_id=0),
    transformers("roformer", ENCODER, "RoFormerModel", tokens(), mask(), **BERT),
    transformers("convbert", ENCODER, "ConvBertModel", tokens(), mask(), **{**BERT, "embedding_size": 32}),
    transformers("esm", ENCODER, "EsmModel", tokens(), mask(), **BERT, position_embedding_type="rotary", pad_token_id=1,
                 mask_token_id=4, token_dropout=False),
    decoder("qwen3_small", "Qwen3ForCausalLM", head_dim=16),
    decoder("gemma3_text", "Gemma3ForCausalLM", head_dim=16, sliding_window=8, query_pre_attn_scalar=16),
    decoder("phi3", "Phi3ForCausalLM", pad_token_id=0),
    decoder("smollm3", "SmolLM3ForCausalLM", pad_token_id=0, eos_token_id=1, bos_token_id=2),
    decoder("olmo2", "Olmo2ForCausalLM"),
    decoder("granite", "GraniteForCausalLM"),
    decoder("mistral", "MistralForCausalLM", head_dim=16, sliding_window=8),
    decoder("stablelm", "StableLmForCausalLM"),
    decoder("cohere", "CohereForCausalLM"),
    decoder("starcoder2", "Starcoder2ForCausalLM"),
    decoder("lfm2", "Lfm2ForCausalLM", layer_types=["conv", "full_attention"]),
    transformers("patchtst", SERIES, "PatchTSTForPrediction", Input("past_values", (1, 32, 3)), num_input_channels=3,
                 context_length=32, patch_length=8, patch_stride=8, d_model=32, num_hidden_layers=2,
                 num_attention_heads=4, ffn_dim=64, prediction_length=8),
    transformers("patchtsmixer", SERIES, "PatchTSMixerForPrediction", Input("past_values", (1, 32, 3)),
                 num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_layers=2,
                 prediction_length=8),
    transformers("data2vec_audio", AUDIO_FAMILY, "Data2VecAudioModel", Input("input_values", (1, 2000)),
                 hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
                 conv_dim=(16,) * 7, num_conv_pos_embeddings=4, conv_pos_kernel_size=3),
    transformers("speecht5_hifigan", AUDIO_FAMILY, "SpeechT5HifiGan", Input("spectrogram", (1, 16, 20)),
                 model_in_dim=20, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8]),
)  # fmt: skip
"""By family of the page, vision first."""
