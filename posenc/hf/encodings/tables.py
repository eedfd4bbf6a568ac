"""Model types with a learned table of positions."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.hf.config.keys import Fixed, Key, Source, minus, plus
from posenc.hf.encodings.rows import LENGTH, If, Row, hidden

BERT = "embeddings.position_embeddings.weight"
CLIP = "text_model.embeddings.position_embedding.weight|embeddings.position_embedding.weight"
PARTS = {part: f"{part}.embed_positions.weight" for part in ("encoder", "decoder")}
LAYOUT = tuple(f"embeddings.{name}position_embeddings.weight" for name in ("", "x_", "y_", "x_", "y_", "h_", "w_"))
"""Of a token's position, of the left, upper, right and lower sides of its box, of the height and the width of that."""

FROM_ZERO = (
    (768, 512, BERT, "bert ernie bros splinter squeezebert roc_bert visual_bert lxmert fnet dpr tvp"),
    (768, 512, BERT, "blip_text_model chinese_clip_text_model align_text_model flava_text_model"),
    (512, 512, BERT, "mobilebert"),
    (1024, 512, BERT, "bert-generation megatron-bert"),
    (768, 4096, BERT, "big_bird"),
    (768, 1024, BERT, "tapas git"),
    (512, 77, CLIP, "clip_text_model clipseg_text_model metaclip_2_text_model xclip_text_model"),
    (768, 64, CLIP, "siglip_text_model siglip2_text_model"),
    (512, 16, CLIP, "owlvit_text_model owlv2_text_model"),
    (256, 77, CLIP, "groupvit_text_model"),
)
"""Width, positions and the name of the table of model types with the usual keys."""
OTHER_KEYS = (
    (Key("embedding_size", 128), Key(LENGTH, 512), BERT, "electra albert"),
    (Key("embedding_size", 768), Key(LENGTH, 512), BERT, "convbert"),
    (Key("input_embedding_size", 256), Key(LENGTH, 512), BERT, "rembert"),
    (Key("emb_dim", 2048), Key(LENGTH, 512), "position_embeddings.weight", "xlm flaubert"),
    (Key("n_embd", 768), Key("n_positions", 1024), "wpe.weight", "gpt2 gpt-sw3 gpt_bigcode"),
    (Key("n_embd", 512), Key("n_positions", 1024), "wpe.weight", "imagegpt"),
    (Key("n_embd", 768), Key("n_positions", 512), "positions_embed.weight", "openai-gpt"),
    (Key("hidden_size", 2048), Key(LENGTH, 2048), "wpe.weight", "gpt_neo"),
)
FROM_PADDING = (
    (768, 512, "roberta xlm-roberta camembert data2vec-text roberta-prelayernorm longformer xmod ibert luke"),
    (768, 514, "clap_text_model bridgetower_text_model"),
    (1024, 514, "altclip_text_model"),
    (2560, 514, "xlm-roberta-xl"),
)
"""Width and rows of model types that count positions from the mask, after a row for padding and those before it."""
SEQUENCES = (
    (1024, 1024, "bart mbart mvp"),
    (768, 1024, "plbart"),
)
"""Width and positions of encoders and decoders whose tables have two rows more than that, before them."""


def table(width: Source, length: Source, *names: str, part: str = "", when: tuple[If, ...] = ()) -> Row:
    """Return a learned table of positions from 0 on."""
    return Row("learned", {"d_model": width}, part, when, length=length, tables=names)


def _counted(width: Source, length: Source, name: str, before: Source) -> Row:
    return Row("learned", {"d_model": width}, positions="mask", length=length, before=before, tables=(name,))


def _roberta(width: int, rows: int) -> Row:
    before = plus(Key("pad_token_id", 1, least=0), 1)
    return _counted(hidden(width), minus(Key(LENGTH, rows), before), BERT, before)


def _bart(width: int, length: int, part: str) -> Row:
    parameters = {"d_model": Key("d_model", width)}
    return Row("learned", parameters, part, length=Key(LENGTH, length), before=Fixed(2), tables=(PARTS[part],))


def _two(width: int, encoder: Key, decoder: Key) -> tuple[Row, Row]:
    """Return an encoder's and a decoder's table, from position 0 on."""
    return (
        table(Key("d_model", width), encoder, PARTS["encoder"], part="encoder"),
        table(Key("d_model", width), decoder, PARTS["decoder"], part="decoder"),
    )


TABLES: Mapping[str, tuple[Row, ...]] = {
    **{
        model_type: (table(hidden(width), Key(LENGTH, length), name),)
        for width, length, name, names in FROM_ZERO
        for model_type in names.split()
    },
    **{
        model_type: (table(width, length, name),)
        for width, length, name, names in OTHER_KEYS
        for model_type in names.split()
    },
    **{model_type: (_roberta(width, rows),) for width, rows, names in FROM_PADDING for model_type in names.split()},
    **{
        model_type: (_bart(width, length, "encoder"), _bart(width, length, "decoder"))
        for width, length, names in SEQUENCES
        for model_type in names.split()
    },
    "distilbert": (table(Key("dim", 768), Key(LENGTH, 512), BERT),),
    "opt": (_counted(hidden(768), Key(LENGTH, 2048), "embed_positions.weight", Fixed(2)),),
    "biogpt": (
        Row(
            "learned",
            {"d_model": hidden(1024)},
            length=Key(LENGTH, 1024),
            before=Fixed(2),
            tables=("embed_positions.weight",),
        ),
    ),
    "decision_transformer": (
        Row(
            "learned",
            {"d_model": hidden(128)},
            positions="explicit",
            length=Key("max_ep_len", 4096),
            tables=("embed_timestep.weight",),
        ),
    ),
    "blenderbot": _two(2560, Key(LENGTH, 128), Key(LENGTH, 128)),
    "blenderbot-small": _two(512, Key(LENGTH, 512), Key(LENGTH, 512)),
    "bigbird_pegasus": _two(1024, Key(LENGTH, 4096), Key(LENGTH, 4096)),
    "led": _two(1024, Key("max_encoder_position_embeddings", 16384), Key("max_decoder_position_embeddings", 1024)),
    "layoutlm": (
        Row("learned", {"d_model": hidden(768)}, positions="explicit", length=Key(LENGTH, 512), tables=LAYOUT),
    ),
}
