"""Networks for sound: recognizers, separators, vocoders."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.row import DYNAMO, Architecture, Input, drawn, tokens, transformers

AUDIO_FAMILY = "audio"
WAVE = Input("input_values", (1, 1600))
WAV2VEC: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "conv_dim": [16, 16, 16],
    "conv_stride": [5, 4, 2],
    "conv_kernel": [10, 8, 4],
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 3,
}
WHISPER: dict[str, Any] = {
    "vocab_size": 300,
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "num_mel_bins": 16,
    "max_source_positions": 50,
    "max_target_positions": 32,
    "pad_token_id": 0,
}

AUDIO: tuple[Architecture, ...] = (
    transformers("wav2vec2", AUDIO_FAMILY, "Wav2Vec2ForCTC", WAVE, **WAV2VEC),
    transformers("hubert", AUDIO_FAMILY, "HubertModel", WAVE, **WAV2VEC),
    transformers("wavlm", AUDIO_FAMILY, "WavLMModel", WAVE, **WAV2VEC),
    transformers("whisper_encoder", AUDIO_FAMILY, "WhisperEncoder", Input("input_features", (1, 16, 100)), **WHISPER),
    transformers(
        "whisper_decoder", AUDIO_FAMILY, "WhisperDecoder", tokens("input_ids", 8),
        Input("encoder_hidden_states", (1, 50, 48)), exporters=DYNAMO, use_cache=False, **WHISPER,
    ),
    transformers(
        "moonshine_encoder", AUDIO_FAMILY, "MoonshineEncoder", Input("input_values", (1, 4000)), exporters=DYNAMO,
        vocab_size=300,
        hidden_size=48, intermediate_size=96, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2,
        encoder_num_attention_heads=4, decoder_num_attention_heads=4,
    ),
    transformers(
        "audio_spectrogram_transformer", AUDIO_FAMILY, "ASTForAudioClassification",
        Input("input_values", (1, 64, 32)), hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=96, max_length=64, num_mel_bins=32,
    ),
    transformers(
        "encodec_decoder", AUDIO_FAMILY, "EncodecDecoder", Input("hidden_states", (1, 32, 20)), hidden_size=32,
        num_filters=8, upsampling_ratios=[4, 2], num_lstm_layers=1,
    ),
    transformers("hifigan", AUDIO_FAMILY, "SpeechT5HifiGan", Input("spectrogram", (1, 20, 16)), keeps=(),
                 model_in_dim=16, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8]),
    drawn("conv_tasnet", AUDIO_FAMILY, "ConvTasNet", Input("mixture", (1, 1, 1600))),
    drawn("ds_cnn", AUDIO_FAMILY, "DSCNN", Input("mfcc", (1, 1, 49, 10))),
    drawn("crn_denoiser", AUDIO_FAMILY, "ConvRecurrent", Input("spectrum", (1, 2, 20, 33))),
    drawn("tcn", AUDIO_FAMILY, "TCN", Input("features", (1, 16, 64))),
    drawn("deepspeech", AUDIO_FAMILY, "DeepSpeech", Input("features", (1, 1, 32, 40))),
    drawn("conformer", AUDIO_FAMILY, "Conformer", Input("features", (1, 40, 32))),
    drawn("ecapa_tdnn", AUDIO_FAMILY, "EcapaTDNN", Input("features", (1, 24, 60))),
    drawn("autoencoder", AUDIO_FAMILY, "AutoEncoder", Input("features", (1, 640))),
)  # fmt: skip
"""Recognizers first."""
