"""How wide a head is, and how much of it is rotated, under the keys that the model's class takes."""

from __future__ import annotations

from posenc.hf.config.config import ModelConfig
from posenc.hf.config.settings import Setting
from posenc.hf.rope.rotary import HEAD_DIM_KEYS, HEADS_KEYS, PARTIAL_KEYS, WIDTH_KEYS

SHARE = "partial_rotary_factor"
"""The share of a head that is rotated, as most configs call it."""


def head_dim_of(config: ModelConfig) -> Setting:
    """Return the features of a head; raise ValueError, in one line, where the config does not say."""
    setting = _wide(config) or config.text.first(*_keys(config)) or _shared(config)
    return Setting(setting.whole(), setting.path)


def _wide(config: ModelConfig) -> Setting | None:
    """Return the features of a head of full attention, where they are others."""
    if config.layer_type != "full_attention":
        return None
    wide, usual = config.text.nonempty("global_head_dim"), config.defaults.full_head_dim
    if wide is not None or usual is None or "per_layer_config" in config.text.content:
        return wide
    return config.default(usual)


def _keys(config: ModelConfig) -> tuple[str, ...]:
    """Return the keys of a head's features that the model's class takes, of an unknown one all."""
    taken = config.text.absent.get("widths")
    return tuple(key for key in HEAD_DIM_KEYS if not isinstance(taken, list) or key in taken)


def _shared(config: ModelConfig) -> Setting:
    """Return what each head has of the model's width."""
    text, share = config.text, config.defaults.heads_share
    width, heads = text.first(*WIDTH_KEYS), text.first(*HEADS_KEYS)
    if width is None or heads is None:
        missing = [text.path_of(key) for key in ("head_dim", "hidden_size" if width is None else HEADS_KEYS[0])]
        raise ValueError(f"the config has neither {missing[0]} nor {missing[1]}: give -p head_dim=VALUE")
    head_dim, rest = divmod(share * width.whole(), heads.whole())
    if rest:
        multiple = f"{width.path} ({width.value}) must be a multiple of {heads.path} ({heads.value})"
        raise ValueError(f"{multiple}: give -p head_dim")
    return Setting(head_dim, f"{'' if share == 1 else f'{share} x '}{width.path} / {heads.path}")


def rotary_dim_of(config: ModelConfig) -> Setting | None:
    """Return how many features of a head are rotated, where a config says that as a number."""
    text, widths = config.text, config.text.absent.get("widths")
    takes = not isinstance(widths, list) or "rotary_dim" in widths
    rotary_dim = text.nonempty("rotary_dim") if takes else None
    if rotary_dim is None and config.defaults.rotary_dim is not None:
        return config.default(config.defaults.rotary_dim)
    return None if rotary_dim is None else Setting(rotary_dim.whole(), rotary_dim.path)


def is_rotated_apart(config: ModelConfig) -> bool:
    """Return whether the features that are rotated are a width of their own."""
    return bool(config.text.at("qk_rope_head_dim").value) and "qk_rope_head_dim" in _keys(config)


def share_of(config: ModelConfig, is_scaled: bool, takes_share: bool) -> Setting | None:
    """Return the share of a head that is rotated; None where the model rotates heads whole, whatever is written.

    is_scaled: whether the rope type scales frequencies. takes_share: whether it takes the share as a parameter.
    Raises ValueError, in one line, for a share that the model's own module would not fit.
    """
    text, own = config.text, config.rope.first(*PARTIAL_KEYS)
    if not text.absent or takes_share:
        return own or text.first(*PARTIAL_KEYS)
    keys = text.absent.get("shares")
    if isinstance(keys, list):
        return own or text.first(*keys) or text.first(SHARE)
    if own is not None and is_scaled and own.number() != 1:
        raise ValueError(f"{own.path} is {own.value}, and heads of model_type {config.model_type} are rotated whole")
    return None
