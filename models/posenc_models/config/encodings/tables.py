"""Model types with a learned table of positions."""

from collections.abc import Mapping
from dataclasses import replace

from posenc_models.config.encodings.rows import LENGTH, If, Row, alike, hidden
from posenc_models.config.keys import Fixed, Key, KeyOrigin, Made, minus, plus

BERT = "embeddings.position_embeddings.weight"
CLIP = "text_model.embeddings.position_embedding.weight|embeddings.position_embedding.weight"
PARTS = {part: f"{part}.embed_positions.weight" for part in ("encoder", "decoder")}
LAYOUT = tuple(f"embeddings.{name}position_embeddings.weight" for name in ("", "x_", "y_", "x_", "y_", "h_", "w_"))
"""Tables of a token's position, of the left, upper, right and lower side of its box, of the box's height and width."""
BOXES = "its boxes, or its paths of tags, have tables of their own beside that of tokens"
# OPTLearnedPositionalEmbedding, BartLearnedPositionalEmbedding: self.offset = 2
TWO = Fixed(2)


def table(width: KeyOrigin, length: KeyOrigin, *names: str, part: str = "", when: tuple[If, ...] = ()) -> Row:
    """Return a learned table of positions from 0 on."""
    return Row("learned", {"d_model": width}, part, when, length=length, tables=names)


def _sines_at_first(key: str, width: Key, name: str) -> tuple[Row, Row]:
    """Return a table, and where `key` is true one that holds sines and cosines before training."""
    row, sines = table(width, Key(LENGTH, 512), name), Key(key, False)
    # create_sinusoidal_embeddings writes them by turns
    computed = replace(row, scheme="sinusoidal", trained="learned", when=(If(sines, (True,)),))
    return replace(row, when=(If(sines, (False,)),)), computed


def _tapas() -> tuple[Row, Row]:
    """Return TAPAS's table, which is that of BERT only where positions do not begin again in each cell."""
    begins_again = Key("reset_position_index_per_cell", True)
    lacks = "its positions begin again in each cell of a table (reset_position_index_per_cell), and no scheme counts so"
    return (
        replace(_usual(768, 1024, BERT), when=(If(begins_again, (False,)),)),
        Row("", when=(If(begins_again, (True,)),), lacks=lacks),
    )


def _usual(width: int, length: int, name: str) -> Row:
    """Return a table under the usual keys of width and length."""
    return table(hidden(width), Key(LENGTH, length), name)


def _counted(width: int, length: KeyOrigin, name: str, before: KeyOrigin) -> Row:
    """Return a table whose positions are counted from the mask, behind the rows before the first."""
    return replace(table(hidden(width), length, name), positions="mask", before=before)


def _roberta(width: int, rows: int, name: str = BERT, padding: int = 1) -> Row:
    """Return a table behind the row for padding and those before it: create_position_ids_from_input_ids."""
    before = plus(Key("pad_token_id", padding, least=0), 1)
    return _counted(width, minus(Key(LENGTH, rows), before), name, before)


def _with(row: Row, lacks: str) -> tuple[Row, Row]:
    """Return the table of a token's place in the text, beside an encoding that is not read."""
    return replace(row, part="text"), Row("", part="layout", lacks=lacks)


def _buckets() -> tuple[Row, Row]:
    """Return MPNet's bias of distances, whose buckets are 32 in compute_position_bias, whatever the config says."""
    buckets = Key("relative_attention_num_buckets", 32)
    parameters = {"heads": Key("num_attention_heads", 12), "num_buckets": buckets, "bidirectional": True}
    lacks = "relative_attention_num_buckets is not 32, which transformers takes"
    usual = Made("{} is 32", lambda count: count == 32, (buckets,))
    return (
        Row("t5_bias", parameters, "relative", (If(usual, (True,)),), tables=("relative_attention_bias.weight",)),
        Row("", part="relative", when=(If(usual, (False,)),), lacks=lacks),
    )


def _prophets() -> tuple[Row, ...]:
    """Return ProphetNet's tables, of encoder and decoder, behind the row for padding; no mask reaches them."""
    before = plus(Key("pad_token_id", 0, least=0), 1)
    sides = {side: f"{side}.position_embeddings.weight" for side in PARTS}
    rows = {side: table(hidden(1024), minus(Key(LENGTH, 512), before), name) for side, name in sides.items()}
    return tuple(replace(row, part=side, before=before) for side, row in rows.items())


def _explicit(width: int, length: Key, *names: str) -> Row:
    """Return a table whose positions are an input of the model."""
    return replace(table(hidden(width), length, *names), positions="explicit")


def _sides(width: int, encoder: Key, decoder: Key, before: Fixed | None = None) -> tuple[Row, ...]:
    """Return an encoder's and a decoder's table, from position 0 on, or behind rows before it."""
    lengths = {"encoder": encoder, "decoder": decoder}
    rows = [table(Key("d_model", width), length, PARTS[part], part=part) for part, length in lengths.items()]
    return tuple(rows if before is None else (replace(row, before=before) for row in rows))


def _alike_sides(width: int, length: int, before: Fixed | None = None) -> tuple[Row, ...]:
    return _sides(width, Key(LENGTH, length), Key(LENGTH, length), before)


TABLES: Mapping[str, tuple[Row, ...]] = {
    **alike("bert ernie bros splinter squeezebert roc_bert visual_bert lxmert fnet dpr tvp", _usual(768, 512, BERT)),
    **alike("blip_text_model chinese_clip_text_model align_text_model flava_text_model", _usual(768, 512, BERT)),
    **alike("mobilebert", _usual(512, 512, BERT)),
    **alike("bert-generation megatron-bert", _usual(1024, 512, BERT)),
    **alike("big_bird", _usual(768, 4096, BERT)),
    "tapas": _tapas(),
    "git": (_usual(768, 1024, BERT),),
    **alike("clip_text_model clipseg_text_model metaclip_2_text_model xclip_text_model", _usual(512, 77, CLIP)),
    **alike("siglip_text_model siglip2_text_model", _usual(768, 64, CLIP)),
    **alike("owlvit_text_model owlv2_text_model", _usual(512, 16, CLIP)),
    **alike("groupvit_text_model", _usual(256, 77, CLIP)),
    # the words' width, before a projection to the layers' width
    **alike("electra albert", table(Key("embedding_size", 128), Key(LENGTH, 512), BERT)),
    **alike("convbert", table(Key("embedding_size", 768), Key(LENGTH, 512), BERT)),
    **alike("rembert", table(Key("input_embedding_size", 256), Key(LENGTH, 512), BERT)),
    **alike(
        "xlm flaubert", *_sines_at_first("sinusoidal_embeddings", Key("emb_dim", 2048), "position_embeddings.weight")
    ),
    **alike("gpt2 gpt-sw3 gpt_bigcode", table(Key("n_embd", 768), Key("n_positions", 1024), "wpe.weight")),
    **alike("imagegpt", table(Key("n_embd", 512), Key("n_positions", 1024), "wpe.weight")),
    **alike("openai-gpt", table(Key("n_embd", 768), Key("n_positions", 512), "positions_embed.weight")),
    **alike("gpt_neo", _usual(2048, 2048, "wpe.weight")),
    **alike(
        "roberta xlm-roberta camembert data2vec-text roberta-prelayernorm longformer xmod ibert luke",
        _roberta(768, 512),
    ),
    **alike("clap_text_model bridgetower_text_model", _roberta(768, 514)),
    **alike("altclip_text_model", _roberta(1024, 514)),
    **alike("xlm-roberta-xl", _roberta(2560, 514)),
    **alike("bart mbart mvp", *_alike_sides(1024, 1024, TWO)),
    "plbart": _alike_sides(768, 1024, TWO),
    "distilbert": _sines_at_first("sinusoidal_pos_embds", Key("dim", 768), BERT),
    "opt": (_counted(768, Key(LENGTH, 2048), "embed_positions.weight", TWO),),
    "biogpt": (replace(_usual(1024, 1024, "embed_positions.weight"), before=TWO),),
    # the timestep of an episode is an input, and one for a state, an action and a return
    "decision_transformer": (_explicit(128, Key("max_ep_len", 4096), "embed_timestep.weight"),),
    "blenderbot": _alike_sides(2560, 128),
    "blenderbot-small": _alike_sides(512, 512),
    "bigbird_pegasus": _alike_sides(1024, 4096),
    "led": _sides(1024, Key("max_encoder_position_embeddings", 16384), Key("max_decoder_position_embeddings", 1024)),
    "nystromformer": (replace(_usual(768, 510, BERT), before=TWO),),
    "yoso": (replace(_usual(768, 4096, BERT), before=TWO),),
    "mra": (replace(_usual(768, 512, BERT), before=TWO),),
    "vilt": (replace(_usual(768, 40, "text_embeddings.position_embeddings.weight"), part="text"),),
    "canine": (_usual(768, 16384, "char_position_embeddings.weight"),),
    "clvp_decoder": (_usual(1024, 608, "position_embeds_layer.weight"),),
    "aimv2_text_model": (_usual(768, 77, CLIP),),
    "instructblip_qformer": (_usual(768, 512, BERT),),
    "prophetnet": _prophets(),
    "mpnet": (replace(_roberta(768, 512), part="absolute"), *_buckets()),
    **alike("lilt markuplm", *_with(_roberta(768, 512, BERT, 0), BOXES)),
    "layoutlmv3": _with(_roberta(768, 512), BOXES),
    "layoutlm": (_explicit(768, Key(LENGTH, 512), *LAYOUT),),
}
