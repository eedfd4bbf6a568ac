"""Model types of text and speech with sines and cosines, and speech models' relative positions."""

from collections.abc import Mapping
from dataclasses import replace

from posenc_models.config.encodings.rows import LENGTH, If, Row, alike, hidden
from posenc_models.config.encodings.tables import PARTS, table
from posenc_models.config.keys import Fixed, Key, KeyOrigin, Made, plus, quotient

CONVOLUTION = "its positions come from a convolution over the features, and no scheme is one"
MARIAN = {"d_model": Key("d_model", 1024), "layout": "halves"}
HALF = {**MARIAN, "spacing": "half"}


def fairseq(width: KeyOrigin, length: KeyOrigin, *, part: str = "", padding: int = 1) -> Row:
    """Return fairseq's sines and cosines, which count positions from the mask and have a row of zeros for padding."""
    # Speech2TextSinusoidalPositionalEmbedding: cumsum(mask) * mask + padding_idx, so that the first is padding_idx + 1
    pad = Key("pad_token_id", padding, least=0)
    parameters = {"d_model": width, "layout": "halves", "spacing": "half", "padding_row": pad}
    before = plus(pad, 1)
    return Row("sinusoidal", parameters, part, positions="mask", length=length, before=before, shifted=False)


def _whisper(width: KeyOrigin, part: str = "") -> Row:
    """Return the encoder's sines and cosines of whisper's `sinusoids`: frequencies up to 1 / 10000 itself."""
    parameters = {"d_model": width, "layout": "halves", "spacing": "half"}
    return Row("sinusoidal", parameters, part, length=Key("max_source_positions", 1500))


def _scaled(length: Key, kind: str, side: str) -> Row:
    """Return sines and cosines times a learned scale (SpeechT5ScaledPositionalEncoding)."""
    name = f"{side}.prenet.encode_positions.alpha|{kind}_{side}_prenet.encode_positions.alpha"
    return Row("sinusoidal", {"d_model": hidden(768)}, f"{kind}-{side}", length=length, tables=(name,))


def _query_minus_key() -> Row:
    """Return the rows of SpeechT5RelativePositionalEncoding, which clamps query - key to -max..max - 1."""
    farthest, heads = Key("encoder_max_relative_position", 160), Key("encoder_attention_heads", 12)
    head = quotient(hidden(768), heads)
    parameters = {"left": plus(farthest, -1), "right": farthest, "head_dim": head, "distance": "query_minus_key"}
    return Row("clipped_relative", parameters, "encoder", tables=("embed_positions.pe_k.weight",))


def _speecht5() -> tuple[Row, ...]:
    """Return the rows of SpeechT5's encoder, and the tables of its four prenets."""
    speech, text = Key("max_speech_positions", 4000), Key("max_text_positions", 450)
    return (
        _query_minus_key(),
        fairseq(hidden(768), speech, part="speech-encoder"),
        _scaled(text, "text", "encoder"),
        _scaled(speech, "speech", "decoder"),
        fairseq(hidden(768), text, part="text-decoder"),
    )


def _conformer(
    kind: str, *, width: int, heads: int, heads_key: str = "num_attention_heads", part: str = ""
) -> tuple[Row, ...]:
    """Return the encodings that wav2vec2-bert and its kin choose from; wav2vec2-conformer has the first two alone."""
    # Wav2Vec2ConformerEncoder: "relative", "rotary", or nothing
    type_ = Key("position_embeddings_type", kind)
    head = quotient(hidden(width), Key(heads_key, heads))
    rope = {"head_dim": head, "rope_theta": Key("rotary_embedding_base", 10000.0)}
    left, right = Key("left_max_position_embeddings", 64), Key("right_max_position_embeddings", 8)
    clipped, name = {"left": left, "right": right, "head_dim": head}, "self_attn.distance_embedding.weight"
    return (
        Row("conformer_relative", {"d_model": hidden(width)}, part, (If(type_, ("relative",)),)),
        Row("rope", rope, part, (If(type_, ("rotary",)),)),
        Row("clipped_relative", clipped, part, (If(type_, ("relative_key",)),), tables=(name,)),
    )


def _seamless(kind: str, length: int) -> tuple[Row, ...]:
    """Return the encodings of SeamlessM4T's speech encoder, and of text, where encoder and decoder are alike."""
    speech = _conformer(kind, width=1024, heads=16, heads_key="speech_encoder_attention_heads", part="speech")
    # the first version chooses between relative and rotary, the second has clipped distances
    of_kind = speech[2:] if kind == "relative_key" else speech[:2]
    return (*of_kind, fairseq(hidden(1024), Key(LENGTH, length), part="text", padding=0))


def _vits() -> tuple[Row, Row]:
    """Return the rows of VITS's keys and of its values: VitsAttention pads them with zeros beyond its window."""
    window, head = Key("window_size", 4), quotient(hidden(192), Key("num_attention_heads", 2))
    parameters = {"left": window, "right": window, "head_dim": head, "beyond": "zero"}
    of_values = {**parameters, "output": "values"}
    return (
        Row("clipped_relative", parameters, "keys", tables=("layers.*.attention.emb_rel_k",)),
        Row("clipped_relative", of_values, "values", tables=("layers.*.attention.emb_rel_v",)),
    )


def _chunks(width: int, prefix: str) -> dict[str, KeyOrigin]:
    """Return the width, the chunk and its context in Gemma's audio."""
    chunk, left = Key(f"{prefix}attention_chunk_size", 12), Key(f"{prefix}attention_context_left", 13)
    right = Key(f"{prefix}attention_context_right", 0, least=0)
    # max_backward = attention_context_left - 1: the frame itself is among the left ones
    return {"d_model": hidden(width), "past": plus(left, -1), "future": right, "chunk": chunk}


def _gemma4() -> Row:
    """Return Gemma4AudioRelPositionalEncoding's rows, for distances up to half of chunk and context."""
    sources = _chunks(1024, "")
    context = tuple(sources[name] for name in ("chunk", "past", "future"))
    half = Made("({} + {} + {}) / 2", lambda *sizes: sum(sizes) // 2, context)
    return Row("conformer_relative", {**sources, "past": half, "future": 0, "style": "chunk"})


def _trocr() -> tuple[Row, Row]:
    """Return TrOCR's learned table, which has two rows before the first position, or its sines and cosines."""
    width, length, learned = Key("d_model", 1024), Key(LENGTH, 512), Key("use_learned_position_embeddings", True)
    # TrOCRLearnedPositionalEmbedding: self.offset = 2
    rows = table(width, length, PARTS["decoder"], when=(If(learned, (True,)),))
    return replace(rows, before=Fixed(2)), replace(fairseq(width, length), when=(If(learned, (False,)),))


def _xglm() -> Row:
    """Return fairseq's rows from the third on; `generate` counts positions without padding."""
    return replace(fairseq(Key("d_model", 1024), Key(LENGTH, 2048)), before=Fixed(2))


def _xlnet() -> tuple[Row, ...]:
    """Return the rows of XLNetModel.relative_positional_encoding."""
    backwards = Key("bi_data", False)
    # relative_positional_encoding: if self.clamp_len > 0
    farthest = Made("{}", lambda clamp: clamp if clamp > 0 else None, (Key("clamp_len", -1, least=-1),))
    attention = Key("attn_type", "bi")
    parameters = {"d_model": Key("d_model", 1024), "attention": attention, "clamp_len": farthest}
    return (
        Row("transformer_xl", parameters, when=(If(backwards, (False,)),)),
        Row("", when=(If(backwards, (True,)),), lacks="bi_data is true: half of a batch counts backwards"),
    )


def _roformer() -> tuple[Row, Row]:
    """Return RoFormer's rotation, by a table of sines and cosines; a config may have values rotated, too."""
    head, values = quotient(hidden(768), Key("num_attention_heads", 12)), Key("rotary_value", False)
    parameters = {"head_dim": head, "rope_theta": 10000.0, "layout": "interleaved"}
    return (
        Row("rope", parameters, when=(If(values, (False,)),), length=Key(LENGTH, 1536)),
        Row("", when=(If(values, (True,)),), lacks="rotary_value is true: values are rotated, too"),
    )


WAVES: Mapping[str, tuple[Row, ...]] = {
    **alike("marian pegasus", Row("sinusoidal", MARIAN, length=Key(LENGTH, 1024))),
    **alike("m2m_100 nllb-moe fsmt", fairseq(Key("d_model", 1024), Key(LENGTH, 1024))),
    "kosmos_2_text_model": (fairseq(Key("embed_dim", 2048), Key(LENGTH, 2048)),),
    "speech_to_text": (
        fairseq(Key("d_model", 256), Key("max_source_positions", 6000), part="encoder"),
        fairseq(Key("d_model", 256), Key("max_target_positions", 1024), part="decoder"),
    ),
    "speecht5": _speecht5(),
    "whisper": (
        _whisper(Key("d_model", 384), "encoder"),
        table(Key("d_model", 384), Key("max_target_positions", 448), PARTS["decoder"], part="decoder"),
    ),
    "qwen2_audio_encoder": (_whisper(Key("d_model", 1280)),),  # Qwen2AudioEncoder
    **alike("audioflamingo3_encoder voxtral_encoder", _whisper(hidden(1280))),
    "wav2vec2-conformer": _conformer("relative", width=768, heads=12)[:2],
    "wav2vec2-bert": _conformer("relative_key", width=1024, heads=16),
    "parakeet_encoder": (Row("conformer_relative", {"d_model": hidden(1024)}),),  # ParakeetEncoderRelPositionalEncoding
    "fastspeech2_conformer": (Row("conformer_relative", {"d_model": hidden(384)}),),
    "seamless_m4t": _seamless("relative", 1024),
    "seamless_m4t_v2": _seamless("relative_key", 4096),
    "vits": _vits(),
    "gemma3n_audio": (Row("conformer_relative", {**_chunks(1536, "conf_"), "style": "chunk"}),),
    "gemma4_audio": (_gemma4(),),
    "pegasus_x": (Row("sinusoidal", HALF, length=Key(LENGTH, 16384)),),
    "kosmos_2_5_text_model": (fairseq(Key("embed_dim", 1536), Key(LENGTH, 4096)),),
    "tipsv2_text_model": (Row("sinusoidal", {**HALF, "d_model": hidden(768)}, length=Key(LENGTH, 64)),),
    "roformer": _roformer(),
    "xglm": (_xglm(),),
    "trocr": _trocr(),
    "xlnet": _xlnet(),
    **alike("wav2vec2 hubert wavlm data2vec-audio sew sew-d unispeech unispeech-sat", Row("", lacks=CONVOLUTION)),
}
