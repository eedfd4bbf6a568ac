"""What transformers' configuration classes take where a file says nothing: run by hand, not by pytest.

python runtime_tests/scripts/hf_class_defaults.py           prints the table
python runtime_tests/scripts/hf_class_defaults.py --write   puts it into models/posenc_models/config/class_defaults.json

Every class is asked: it is made with nothing, with one key at a time, and what its rope settings then are is noted.
"""

import argparse
import dataclasses
import importlib
import inspect
import json
import warnings
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from posenc_models.config.accounts import speaks_of_positions
from posenc_models.config.encodings.diffusion import DIFFUSION

FILE = Path(__file__).parents[2] / "models" / "posenc_models" / "config" / "class_defaults.json"
FIELDS_FILE = FILE.with_name("class_fields.json")
"""The names of all fields, those that speak of positions by type, what validation passes over, those of diffusers."""
WIDTHS = ("head_dim", "qk_rope_head_dim", "kv_channels", "attention_head_dim", "global_head_dim", "rotary_dim")
SIZES = ("hidden_size", "n_embd", "d_model", "num_attention_heads", "n_head", "n_heads", "encoder_num_attention_heads")
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "original_max_position_embeddings")
LAYERS = ("num_hidden_layers", "no_rope_layer_interval", "sliding_window", "rope_interleave", "use_mem_rope")
FIELDS = (*WIDTHS, *SIZES, *LENGTHS, *LAYERS, "position_embedding_type")
"""Fields of a class that a reading depends on."""
THETAS = ("rope_theta", "rotary_emb_base", "rotary_base")
SHARES = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percentage")
PERIODS = 12
"""The longest period that is looked for in the types of layers."""
ROPE = frozenset(("rope_parameters", "rope_scaling", "rope_theta", "rotary_dim"))
TEXTS = ("text_config", "language_config", "llm_config")
BARE = {"rope_type": "default"}
SHARE = {**BARE, "rope_theta": 1e4}
Entry = dict[str, Any]


def made(config_class: Any, **keys: Any) -> Any:
    """Return a configuration; None where its class refuses the keys."""
    try:
        return config_class(**keys)
    except Exception:
        return None


def text_of(config: Any) -> Any:
    """Return the configuration of a model's text: of what has none, itself."""
    return next((part for key in TEXTS if hasattr(part := getattr(config, key, None), "model_type")), config)


def fields_of(config_class: Any) -> Entry:
    """Return the fields of a class that are a number, a word or a bool by default."""
    defaults = {f.name: f.default for f in dataclasses.fields(config_class)}
    return {name: defaults[name] for name in FIELDS if isinstance(defaults.get(name), (int, float, str))}


def rope_of(config: Any) -> Entry:
    """Return the rope settings of a configuration; nothing where it has none."""
    rope = getattr(config, "rope_parameters", None)
    return dict(rope) if isinstance(rope, dict) else {}


def takes_rope(config: Any) -> bool:
    """Return whether a configuration has rope settings, or must be given them (an empty object)."""
    return isinstance(getattr(config, "rope_parameters", None), dict)


def by_layer(rope: Mapping[str, Any]) -> bool:
    """Return whether rope settings are by layer type."""
    return any(isinstance(value, dict) for value in rope.values())


def rope_defaults(config_class: Any, config: Any) -> Entry:
    """Return the rope settings that a file without them has, the base and the share that one with them has."""
    own, bare = rope_of(config), rope_of(made(config_class, rope_parameters=dict(BARE)))
    if by_layer(own):
        return {"rope_parameters": own}
    kept = {key: value for key, value in own.items() if key not in beside(config_class)}
    entry: Entry = {"rope_parameters": kept} if set(kept) - {"rope_type"} else {}
    values = {key: bare.get(key) or own.get(key) for key in ("rope_theta", "partial_rotary_factor")}
    return entry | {key: value for key, value in values.items() if value is not None}


def beside(config_class: Any) -> set[str]:
    """Return which rope settings a class takes from beside the rope settings, where there are none."""
    theta = any(rope_of(made(config_class, **{name: 12345.0})).get("rope_theta") == 12345.0 for name in THETAS)
    share = any(rope_of(made(config_class, **{name: 0.75})).get("partial_rotary_factor") == 0.75 for name in SHARES)
    return {key for key, is_taken in (("rope_theta", theta), ("partial_rotary_factor", share)) if is_taken}


def names(config_class: Any, key: str, candidates: tuple[str, ...]) -> list[str]:
    """Return the names under which a class takes a rope setting that stands beside its rope settings."""
    value = 12345.0 if key == "rope_theta" else 0.75
    configs = {name: made(config_class, rope_parameters=dict(BARE), **{name: value}) for name in candidates}
    return [name for name, config in configs.items() if rope_of(config).get(key) == value]


def layer_types(config_class: Any, **keys: Any) -> list[str]:
    """Return the types of 4 periods of layers; nothing where a class has none."""
    types = getattr(made(config_class, num_hidden_layers=4 * PERIODS, **keys), "layer_types", None)
    return types if isinstance(types, list) and len(types) == 4 * PERIODS else []


def layers_of(config_class: Any) -> Entry:
    """Return the period of a class's types of layers, and the key that says how long it is."""
    types = layer_types(config_class)
    if len(set(types)) < (1 if by_layer(rope_of(made(config_class))) else 2):
        return {}
    period = next((n for n in range(1, PERIODS) if types[n:] == types[:-n]), None)
    by_key = len(types) and layer_types(config_class, sliding_window_pattern=3) != types
    return {"layer_types": types[:period]} | ({"sliding_window_pattern": period} if by_key else {})


def width_keys(config_class: Any) -> list[str]:
    """Return the keys that change how many frequencies a model's rotary module has."""
    usual = frequencies(config_class)
    changed = {name: frequencies(config_class, **{name: 24}) for name in WIDTHS}
    # a class whose sections must fit the width refuses another width alone
    if all(count in (None, usual) for count in changed.values()):
        of_24 = {"rope_parameters": {**SHARE, "mrope_section": [4, 4, 4]}}
        changed = {name: frequencies(config_class, **{name: 24}, **of_24) for name in WIDTHS}
    return [name for name, count in changed.items() if count not in (None, usual)]


def frequencies(config_class: Any, **keys: Any) -> int | None:
    """Return how many frequencies a model's rotary module has; None where it cannot be made."""
    config = made(config_class, **keys)
    for kind in rotary_modules(config_class):
        try:
            buffers = dict(kind(config).named_buffers())
        except Exception:
            continue
        counts = [int(buffer.numel()) for name, buffer in buffers.items() if name.endswith("inv_freq")]
        if counts:
            return sum(counts)
    return None


def rotary_modules(config_class: Any) -> list[Any]:
    """Return the rotary modules of a class's code that are not those of its images or sound alone."""
    from torch import nn

    try:
        module = importlib.import_module(config_class.__module__.replace("configuration_", "modeling_"))
    except ImportError:
        return []
    kinds = {name: kind for name, kind in vars(module).items() if inspect.isclass(kind) and issubclass(kind, nn.Module)}
    others = [word for word in ("Vision", "Audio", "Axial", "2D") if word not in config_class.__name__]
    return [k for name, k in kinds.items() if "Rotary" in name and not any(word in name for word in others)]


def entry_of(config_class: Any) -> Entry | None:
    """Return what a class takes where a file says nothing; None of one that has nothing rotary."""
    config = made(config_class)
    text = text_of(config)
    if config is None or (text is config and not takes_rope(config)):
        return None
    if text is not config:
        return {"text": text.model_type} if takes_rope(text) else None
    entry = {**fields_of(config_class), **rope_defaults(config_class, config), **layers_of(config_class)}
    if rotary_modules(config_class):
        entry |= {"widths": width_keys(config_class)}
    if by_layer(rope_of(config)):
        return entry | ({"shares": ["partial_rotary_factor"]} if has_shares(config_class, rope_of(config)) else {})
    thetas, shares = names(config_class, "rope_theta", THETAS), names(config_class, "partial_rotary_factor", SHARES)
    whole, half = (frequencies(config_class, rope_parameters=SHARE | {"partial_rotary_factor": s}) for s in (1.0, 0.5))
    entry |= {} if thetas == ["rope_theta"] else {"thetas": thetas}
    return entry | ({"shares": shares} if half != whole else {})


def has_shares(config_class: Any, rope: Mapping[str, Any]) -> bool:
    """Return whether a class whose rope settings are by layer type rotates a share of a head, where they have one."""
    of_share = ({key: SHARE | {"partial_rotary_factor": share} for key in rope} for share in (1.0, 0.5))
    whole, half = (frequencies(config_class, rope_parameters=by_type) for by_type in of_share)
    return half != whole


def library() -> str:
    """Return whose classes are asked, as the table names it."""
    return f"transformers {version('transformers')}"


def model_types() -> list[str]:
    """Return every model type of transformers."""
    return list(importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES)


def table(model_types: Iterable[str]) -> dict[str, Entry]:
    """Return what the classes that have rope settings take where a file says nothing."""
    from transformers import CONFIG_MAPPING

    entries = {name: entry_of(CONFIG_MAPPING[name]) for name in model_types}
    return {name: entry for name, entry in sorted(entries.items()) if entry}


def fields_of_all(model_types: Collection[str]) -> dict[str, Any]:
    """Return the names of all classes' fields; by type those of positions, and keys that validation passes over."""
    from transformers import CONFIG_MAPPING

    names: set[str] = set()
    positions: dict[str, list[str]] = {}
    ignored: dict[str, list[str]] = {}
    for model_type in sorted(model_types):
        config_class = CONFIG_MAPPING[model_type]
        config = made(config_class)
        # a class may set more than its fields while it is made
        own = {field.name for field in dataclasses.fields(config_class)} | set(config.to_dict() if config else ())
        renamed = dict(getattr(config_class, "attribute_map", None) or {})
        names |= own | {*renamed, *renamed.values()}
        of_positions = sorted(name for name in {*own, *renamed} if speaks_of_positions(name))
        passed_over = sorted(getattr(config_class, "ignore_keys_at_rope_validation", None) or ())
        positions |= {model_type: of_positions} if of_positions else {}
        ignored |= {model_type: passed_over} if passed_over else {}
    still = sorted(set(model_types) - {name for name, keys in positions.items() if ROPE.intersection(keys)})
    tables = {"positions": positions, "ignored": ignored, "diffusers": fields_of_diffusers()}
    return {"fields": sorted(names), "without rope": still, **tables}


def fields_of_diffusers() -> dict[str, list[str]]:
    """Return the keys that each class of diffusers takes of which an encoding is read."""
    import diffusers

    kinds = {name: getattr(diffusers, name) for name, rows in DIFFUSION.items() if not all(row.lacks for row in rows)}
    return {name: list(inspect.signature(kind).parameters) for name, kind in kinds.items()}


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of all classes, those of an older or newer version among them."""
    tables = ("positions", "ignored", "diffusers")
    by_type = {key: dict(sorted({**old.get(key, {}), **new[key]}.items())) for key in tables}
    lists = {key: sorted({*old.get(key, ()), *new[key]}) for key in ("fields", "without rope")}
    return {**lists, **by_type}


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--write", action="store_true", help=f"put the table into models/posenc_models/config/{FILE.name}"
    )
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    # types that another version has stay: a newer one may have been asked before
    others = json.loads(FILE.read_text(encoding="utf-8"))["classes"]
    known = model_types()
    kept = {name: entry for name, entry in others.items() if name not in known}
    lines = [f"{json.dumps(n)}: {json.dumps(e)}" for n, e in sorted({**kept, **table(known)}.items())]
    text = f'{{\n"library": {json.dumps(library())},\n"classes": {{\n' + ",\n".join(lines) + "\n}\n}\n"
    if options.write:
        FILE.write_text(text, encoding="utf-8")
        old = json.loads(FIELDS_FILE.read_text(encoding="utf-8")) if FIELDS_FILE.exists() else {}
        fields = merged(old, fields_of_all(model_types()))
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items()]
        FIELDS_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
