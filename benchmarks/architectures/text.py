"""Networks that read token numbers."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.row import BOTH, DYNAMO, Architecture, Input, mask, tokens, transformers

ENCODER, DECODER = "text encoder", "text decoder"
BERT: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
}
LLAMA: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
}
T5: dict[str, Any] = {"vocab_size": 300, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
CLIP: dict[str, Any] = {**BERT, "eos_token_id": 2, "projection_dim": 32}


def encoder(name: str, function: str, *inputs: Input, keeps: tuple[int, ...] = (0,), **options: Any) -> Architecture:
    """With token numbers and their mask."""
    return transformers(name, ENCODER, function, tokens(), mask(), *inputs, keeps=keeps, **options)


def decoder(name: str, function: str, *, exporters: tuple[str, ...] = DYNAMO, **options: Any) -> Architecture:
    """The whole prompt at once, without a cache. Most use an operator that the legacy exporter does not have."""
    return transformers(name, DECODER, function, tokens(), exporters=exporters, **{"use_cache": False, **options})


TEXT: tuple[Architecture, ...] = (
    encoder("bert", "BertModel", Input("token_type_ids", (1, 16), 2), keeps=(0, 1), **BERT),
    encoder("bert_classifier", "BertForSequenceClassification", **BERT),
    encoder("minilm", "BertModel", **{**BERT, "hidden_size": 48, "num_hidden_layers": 3}),
    encoder("distilbert", "DistilBertModel", vocab_size=300, dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    encoder("roberta", "RobertaModel", **BERT),
    encoder("xlm_roberta_ner", "XLMRobertaForTokenClassification", **BERT),
    encoder("albert", "AlbertModel", **{**BERT, "embedding_size": 32}),
    encoder("electra", "ElectraModel", **{**BERT, "embedding_size": 32}),
    encoder("mpnet", "MPNetModel", **BERT),
    encoder("mobilebert", "MobileBertModel", **{**BERT, "embedding_size": 32, "intra_bottleneck_size": 32}),
    encoder("deberta_v2", "DebertaV2Model", **BERT, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    encoder("squeezebert", "SqueezeBertModel", **{**BERT, "embedding_size": 64}),
    encoder("nomic_like_modernbert", "ModernBertModel", **BERT, pad_token_id=0, reference_compile=False),
    encoder("t5_encoder", "T5EncoderModel", **T5),
    encoder("clip_text", "CLIPTextModelWithProjection", **CLIP),
    encoder("siglip_text", "SiglipTextModel", **BERT),
    decoder("gpt2", "GPT2LMHeadModel", vocab_size=300, n_embd=64, n_layer=2, n_head=4, n_positions=64),
    decoder("opt", "OPTForCausalLM", exporters=BOTH, **BERT, ffn_dim=128, word_embed_proj_dim=64, pad_token_id=1),
    decoder("gpt_neox", "GPTNeoXForCausalLM", **BERT),
    decoder("llama", "LlamaForCausalLM", **LLAMA),
    decoder("qwen2", "Qwen2ForCausalLM", **LLAMA),
    decoder("qwen3", "Qwen3ForCausalLM", **LLAMA, head_dim=16),
    decoder("gemma2", "Gemma2ForCausalLM", **LLAMA, head_dim=16),
    decoder("phi", "PhiForCausalLM", **{**LLAMA, "num_key_value_heads": 4}),
    decoder("bloom", "BloomForCausalLM", exporters=BOTH, vocab_size=300, hidden_size=64, n_layer=2, n_head=4),
    transformers(
        "t5_decoder", DECODER, "T5ForConditionalGeneration", tokens(), tokens("decoder_input_ids", 8),
        use_cache=False, **T5,
    ),
    transformers("bart", DECODER, "BartModel", tokens(), tokens("decoder_input_ids", 8), use_cache=False,
                 vocab_size=300, d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                 decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=64),
)  # fmt: skip
"""Encoders first."""
