"""What a reading did not read: keys that it refuses, keys that it lists, and whose code a config is for."""

import dataclasses
from collections.abc import Iterator, Mapping

from posenc_models.config.accounts import AGREEING, LISTED, KeyAccount, account, fields_of_class, taken, words_in
from posenc_models.config.encodings import ENCODINGS
from posenc_models.config.encodings.diffusion import DIFFUSION
from posenc_models.config.encodings.parts import CLASS, ConfigPart
from posenc_models.config.encodings.rows import LENGTH, Row
from posenc_models.config.encodings.temperature import TEMPERATURES
from posenc_models.config.keys import Key
from posenc_models.config.rope.layouts import PAIRS, is_known
from posenc_models.config.rope.rotary import (
    CONTEXT_KEYS,
    EVIDENCE,
    HEAD_DIM_KEYS,
    HEADS_KEYS,
    LOCAL_THETA,
    OWN_THETA,
    PARTIAL_KEYS,
    TEXT_KEYS,
    THETA_KEYS,
    WIDTH_KEYS,
)
from posenc_models.config.rope.rotary_config import RotaryConfig
from posenc_models.config.settings import Json, Settings, short

NOT_READ = "not read"
"""The name in a manifest of the keys that nothing was read from, and that no name says to be about positions."""
REMOTE = "auto_map"
"""The key under which a config names code of its own."""
EMBEDDING = "position_embedding_type"
ROTARY = frozenset(
    (
        *EVIDENCE,
        *HEAD_DIM_KEYS,
        *WIDTH_KEYS,
        *HEADS_KEYS,
        *CONTEXT_KEYS,
        *TEXT_KEYS,
        "original_max_position_embeddings",
        "layer_rope_theta",
        "rope_scaling_layers",
        "partial_rotary_factors",
        "per_layer_config",
        "layer_types",
        "num_hidden_layers",
        "sliding_window",
        "sliding_window_pattern",
        "global_head_dim",
        "alibi",
    )
)
"""Keys that the reading of a rotary model takes, whatever its type."""


def check_rotary_keys(config: RotaryConfig, whole: Json, parameters: Mapping[str, object]) -> dict[str, str]:
    """Return the origin of what was not read of a rotary model's config.

    Raises ValueError, in one line, for keys that may change positions and were not read.
    """
    kind = config.model_type
    known = is_known(kind)
    read = ROTARY | set(taken(kind)) | {key for keys in OWN_THETA.get(kind, {}).values() for key in keys}
    if known:
        read -= _passed_over(config)
    else:
        read |= {*LOCAL_THETA, *LOCAL_THETA.values(), "freq_allocation"}
    agreeing = {**AGREEING, **_same_as(parameters), EMBEDDING: _types(kind, known), **_bases(config, parameters)}
    accounts = [account(config.text, read, is_known=known, agreeing=agreeing)]
    if config.text.path:
        outer = Settings({key: value for key, value in whole.items() if key not in TEXT_KEYS})
        kept = read | set(taken(str(whole.get("model_type"))))
        accounts.append(account(outer, kept, is_known=True, agreeing=agreeing))
    return _listed(accounts, kind)


def _bases(config: RotaryConfig, parameters: Mapping[str, object]) -> dict[str, tuple[object, ...]]:
    """Return the keys of bases that are not read, with the bases that the layers of this config have anyway."""
    of_class = config.text.absent.get("rope_parameters")
    settings = (config.rope.content, *(of_class.values() if isinstance(of_class, Mapping) else ()))
    own = (of_layer.get("rope_theta") for of_layer in settings if isinstance(of_layer, Mapping))
    bases = tuple(base for base in (parameters.get("rope_theta"), *own) if base is not None)
    return {key: bases for key in config.text.content if not {"theta", "base"}.isdisjoint(words_in(key))}


def _passed_over(config: RotaryConfig) -> set[str]:
    """Return the other names of base and share that the class of a model type does not take."""
    own: set[str] = set()
    for key in ("thetas", "shares"):
        names = config.text.absent.get(key)
        own |= set(names) if isinstance(names, list) else set()
    return {*THETA_KEYS, *PARTIAL_KEYS} - {"rope_theta", "partial_rotary_factor"} - own


def _types(model_type: str, known: bool) -> tuple[object, ...]:
    """Return the values of the key of an encoding's type that say of a rotary model what it is."""
    # files of ModernBERT and others have "absolute" from the classes that theirs were copied from
    return ("rope", "rotary", *(("absolute",) if known else ()), *(("rope_gptj",) if model_type in PAIRS else ()))


def _same_as(parameters: Mapping[str, object]) -> dict[str, tuple[object, ...]]:
    """Return the keys of remote code that may say what was read, with the values that do."""
    layout, head_dim = parameters.get("layout", "halves"), parameters.get("head_dim")
    is_pairs = layout == "interleaved"
    width = parameters.get("rotary_dim", head_dim)
    share = width / head_dim if isinstance(width, int) and isinstance(head_dim, int) and head_dim else 1
    turns = dict.fromkeys(("rope_interleave", "rope_interleaved", "rotary_interleaved", "rotary_emb_interleaved"))
    return {
        **dict.fromkeys(turns, (is_pairs,)),
        "rotary_dim": (width,),
        "rotary_emb_dim": (width,),
        "attn_rotary_emb": (width,),
        **dict.fromkeys(("rotary_emb_fraction", "rope_percent", *PARTIAL_KEYS[1:]), (share,)),
        "mrope_section": (list(sections) if isinstance(sections := parameters.get("sections"), tuple) else sections,),
        "freq_allocation": tuple(sections[:1]) if isinstance(sections, tuple) else (),
        "use_mrope": (parameters.get("sections") is not None,),
        "rope_3d": (parameters.get("sections") is not None,),
    }


def check_row_keys(part: ConfigPart, row: Row, whole: Json) -> dict[str, str]:
    """Return the origin of what was not read of the config of a type that is read by its table.

    Raises ValueError, in one line, for keys that may change positions and were not read, and where the config names
    code of its own: the table is of the library's code.
    """
    kind = part.model_type
    if kind in DIFFUSION:
        # what else its class takes is of another part: of pairs by several axes, of images, of text
        taken_by_class = (*keys_of(DIFFUSION[kind]), *fields_of_class(kind))
        return _listed([account(part.config, taken_by_class, is_known=True, agreeing={})], kind)
    own = {**(whole if not part.config.path else {}), **part.config.content}
    if own.get(REMOTE):
        raise ValueError(
            f"the config ({part.kind}) names code of its own ({REMOTE}), which is never run, and {part.kind} is read "
            "as the code of transformers has it: nothing says that the two are alike"
        )
    rows = (*ENCODINGS.get(kind, ()), *TEMPERATURES.get(kind, ()))
    fields = set(taken(kind))
    read = {LENGTH, *CONTEXT_KEYS, *keys_of(rows), *fields}
    if is_known(kind) or "rope_parameters" in fields:
        read |= ROTARY
    found = account(part.config, read, is_known=True, agreeing={EMBEDDING: ("absolute",)})
    return _listed([found], kind)


def keys_of(source: object) -> Iterator[str]:
    """Yield the first word of the path of each key that a row, a source or a condition reads."""
    if isinstance(source, Key):
        yield from (name.partition(".")[0] for name in (source.name, *source.others))
    inner: list[object] = []
    if dataclasses.is_dataclass(source):
        inner = [getattr(source, field.name) for field in dataclasses.fields(source)]
    elif isinstance(source, (tuple, list)):
        inner = list(source)
    elif isinstance(source, Mapping):
        inner = list(source.values())
    for one in inner:
        yield from keys_of(one)


def _listed(accounts: list[KeyAccount], kind: str) -> dict[str, str]:
    """Return the origin of keys that were not read; raise ValueError where one may change positions."""
    refused = {path: value for one in accounts for path, value in one.refused.items()}
    if refused:
        words = KeyAccount(refused, ()).words
        them = "it" if len(refused) == 1 else "them"
        whose = f"model_type {kind!r} is not known" if kind else "the config has no model_type"
        if is_known(kind) or kind in ENCODINGS:
            whose = f"what {CLASS if kind in DIFFUSION else 'model_type'} {kind!r} does with {them} is not known"
        raise ValueError(f"{words}: not read, and may change positions; {whose}")
    listed = [path for one in accounts for path in one.listed]
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return {NOT_READ: ", ".join(listed[:LISTED]) + more} if listed else {}


def whose_notes(model_type: str, content: Json) -> list[str]:
    """Return notes on whose code a rotary model's config is read for, where that is not plain."""
    if not is_known(model_type):
        whose = f"model_type {model_type!r} is not known" if model_type else "the config has no model_type"
        return [f"{whose}: what is read holds where its code does as the keys say, and nothing more"]
    if content.get(REMOTE):
        return [
            f"the config names code of its own ({REMOTE}), which is never run: what is read is what transformers does"
        ]
    return []


def check_whose(content: Json) -> None:
    """Raise ValueError for the config of a class of diffusers that is not known, whatever keys it has."""
    name = content.get(CLASS)
    if name and name not in DIFFUSION and not content.get("model_type"):
        raise ValueError(f"the config ({CLASS} {short(name)}) has no encoding that is known: this class is not read")
