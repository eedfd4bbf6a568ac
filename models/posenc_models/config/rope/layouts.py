"""Which features of a head are a pair, by model type: most configs do not say it, and halves are never guessed.

Every type of transformers 5.23 and 5.24 that has rope settings is here, as its own code does it:
`scripts/hf_survey.py` of the tests asks each. Models of several parts have the types of their parts.
"""

from collections.abc import Mapping

from posenc_models.config.accounts import has_no_rope


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PAIRS = _names("""
axk2 bailing_hybrid blt blt_global_transformer blt_local_decoder blt_local_encoder blt_patcher codegen cohere cohere2
cohere2_moe deepseek_v2 deepseek_v32 deepseek_v4 dots3_note_text ernie4_5 ernie4_5_moe ernie4_5_moe_vl ernie4_5_vl
ernie4_5_vl_moe_text glm glm4 glm4v_text glm_moe_dsa glm_ocr_text gptj hy_v4_vl_text helium llama4_text longcat_flash
mistral_large4_text mistral_params moonshine moonshine_streaming openai_privacy_filter pe_audio_encoder
pe_audio_video_encoder pe_video_encoder
""")
"""Types that rotate features 2 i and 2 i + 1 together."""

HALVES = _names("""
EvollaModel afmoe apertus apertus1p5_text arcee aria_text bamba beam bitnet chameleon cohere_compass_text
cosmos3_edge_text csm csm_depth_decoder_model cwm dbrx deepseek_ocr2_encoder deepseek_ocr2_text dia_decoder
dia_encoder diffllama diffusion_gemma_text doge dory dots1 dots3_note_audio_encoder embedding_gemma2_text
emu3_text_model esm esmc eurobert evolla exaone exaone4 exaone_moe falcon falcon_h1 flex_olmo flint gemma gemma2
gemma3_text gemma3n_text gemma4_text gemma4_unified_text glm4_moe glm4v_moe_text glm_image_text glmasr_encoder
gpt_neox gpt_neox_japanese gpt_oss gradium_phonon_tts granite granite4_vision_text granite_docling_text granite_swa
granitemoe granitemoe_swa granitemoehybrid granitemoeshared gte higgs_audio_v2 hrm_text hunyuan_v1_dense
hunyuan_v1_moe hunyuan_vl_text hy_v3 hy_v4 hyperclovax idefics internlm2 internlm3 iquestcoder jais2 jetmoe
jina_embeddings_v3 kolibri1 kyutai_speech_to_text laguna lara_mini lasr_encoder lfm2 lfm2_moe lfm3 llama mellum mimi
mimi_decoder mimi_encoder mimo_v2_flash minicpm3 minimax minimax_m2 minimax_m3_vl_text ministral ministral3 mistral
mixtral mllama_text_model modernbert modernbert-decoder molmo2_text moshi muse_glimmer_assistant muse_glimmer_text
muse_spark_text nanochat nemotron nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp
nemotron3_diarization_audio nomic_bert olmo olmo2 olmo3 olmo_hybrid olmoe paddleocr_vl_text persimmon phi phi3
phi4_multimodal phimoe pocket_tts pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder
pocket_tts_audio_tokenizer_encoder qwen2 qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_vl_text qwen2_moe qwen2_vl_text
qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_omni_moe_talker_code_predictor
qwen3_omni_moe_talker_text qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text qwen4_exp_text recurrent_gemma
sarvam_moe seed_oss smollm3 solar_open stablelm starcoder2 step3p5 t5_gemma_module t5gemma2_decoder t5gemma2_text
timesfm2_5 ultrabert unlimited_ocr_text vaultgemma voxtral_realtime_encoder voxtral_realtime_text zamba2 zaya
""")
"""Types that rotate features i and i + half together."""

SWITCHED = _names("axk1 deepseek_v3 glm4_moe_lite mistral4 sarvam_mla youtu")
"""Types whose configs have `rope_interleave`, true by default: neighbouring features, or where false halves."""

_REFUSED = {
    "it rotates each head by the head's number, not by a position": "neucodec xcodec2",
    "it rotates the first head alone": "qwen2_5_omni_dit",
    "no layer of it has a rotary encoding": "kimi_linear glm5_next glm5_next_text nemotron_h",
}
REFUSED: Mapping[str, str] = {name: why for why, names in _REFUSED.items() for name in names.split()}
"""Types whose rotary encoding none of the schemes has, with the reason."""


def is_known(name: str) -> bool:
    """Return whether a model type is one whose own code was asked how it rotates."""
    return name in HALVES | PAIRS | SWITCHED


def check_refused(name: str, whole: str) -> None:
    """Raise ValueError for a model type, of the part that is read or of the model, that no scheme is like."""
    reason = REFUSED.get(name) or REFUSED.get(whole)
    if reason is not None:
        raise ValueError(f"the config (model_type {name!r}) cannot be read: {reason}")


def check_known(name: str, is_chosen: bool) -> None:
    """Raise ValueError for an unknown model type whose pairs nobody says.

    Args:
        name: the type of the part that is read.
        is_chosen: whether the user says which features are a pair.
    """
    if not is_known(name) and has_no_rope(name):
        raise ValueError(
            f"model_type {name!r} of transformers has no rope settings: nothing says that its code rotates"
        )
    if not is_known(name) and not is_chosen:
        whose = f"model_type {name!r} is not known" if name else "the config has no model_type"
        raise ValueError(f"{whose}, and so neither which features of a head are a pair nor what else its code does")
