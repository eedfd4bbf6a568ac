"""How wide a head is, and how much of it is rotated, under the keys that the model's class takes.

`class_defaults.json` lists these keys: "widths" for the sizes of a head, "shares" for the rotated share of it.
"""

from posenc_models.config.rope.rotary import HEAD_DIM_KEYS, HEADS_KEYS, PARTIAL_KEYS, WIDTH_KEYS
from posenc_models.config.rope.rotary_config import RotaryConfig
from posenc_models.config.settings import Setting

SHARE = "partial_rotary_factor"
"""The share of a head that is rotated, as most configs call it."""


def head_dim_of(config: RotaryConfig) -> Setting:
    """Return the features of a head; raise ValueError, in one line, where the config does not say."""
    setting = _full_attention(config) or config.text.first(*_keys(config)) or _shared(config)
    return Setting(setting.whole(), setting.path)


def _full_attention(config: RotaryConfig) -> Setting | None:
    """Return the features of a head of full attention, where these heads have a width of their own."""
    if config.layer_type != "full_attention":
        return None
    # Gemma 4: heads of full attention have `global_head_dim` features, those of sliding layers `head_dim`
    wide, usual = config.text.nonempty("global_head_dim"), config.defaults.full_head_dim
    if wide is not None or usual is None or "per_layer_config" in config.text.content:
        return wide
    return config.default(usual)


def _keys(config: RotaryConfig) -> tuple[str, ...]:
    """Return the keys of a head's features that the model's class takes; all of them for an unknown class."""
    taken = config.text.absent.get("widths")
    return tuple(key for key in HEAD_DIM_KEYS if not isinstance(taken, list) or key in taken)


def _shared(config: RotaryConfig) -> Setting:
    """Return the model's width divided by its heads."""
    text, share = config.text, config.defaults.heads_share
    width, heads = text.first(*WIDTH_KEYS), text.first(*HEADS_KEYS)
    if width is None or heads is None:
        missing = [text.path_of(key) for key in ("head_dim", "hidden_size" if width is None else HEADS_KEYS[0])]
        raise ValueError(f"the config has neither {missing[0]} nor {missing[1]}: give -p head_dim=VALUE")
    # Zamba2's attention reads the hidden state beside the embeddings: its heads share 2 x hidden_size
    head_dim, remainder = divmod(share * width.whole(), heads.whole())
    if remainder:
        multiple = f"{width.path} ({width.value}) must be a multiple of {heads.path} ({heads.value})"
        raise ValueError(f"{multiple}: give -p head_dim")
    return Setting(head_dim, f"{'' if share == 1 else f'{share} x '}{width.path} / {heads.path}")


def rotary_dim_of(config: RotaryConfig) -> Setting | None:
    """Return how many features of a head are rotated, where a config says that as a number."""
    text, widths = config.text, config.text.absent.get("widths")
    takes = not isinstance(widths, list) or "rotary_dim" in widths
    rotary_dim = text.nonempty("rotary_dim") if takes else None
    # MiniMax-M2's class makes a share of the number, where no share is written
    if rotary_dim is not None and isinstance(widths, list) and _written_share(config) is not None:
        return None
    if rotary_dim is None and config.defaults.rotary_dim is not None:
        return config.default(config.defaults.rotary_dim)
    return None if rotary_dim is None else Setting(rotary_dim.whole(), rotary_dim.path)


def _written_share(config: RotaryConfig) -> Setting | None:
    """Return the share of a head that is rotated, where a config says it and the model's class takes one."""
    if not isinstance(config.text.absent.get("shares"), list):
        return None
    return config.rope.first(*PARTIAL_KEYS) or config.text.first(SHARE)


def is_rotated_apart(config: RotaryConfig) -> bool:
    """Return whether the rotated features are a width of their own, as in DeepSeek's latent attention."""
    return bool(config.text.at("qk_rope_head_dim").value) and "qk_rope_head_dim" in _keys(config)


def share_of(config: RotaryConfig, is_scaled: bool, takes_share: bool) -> Setting | None:
    """Return the share of a head that is rotated; None where the model rotates heads whole, whatever is written.

    Args:
        config: the config.
        is_scaled: whether the rope type scales frequencies.
        takes_share: whether the rope type takes the share as a parameter.

    Raises ValueError, in one line, for a share that the model's own module would not fit.
    """
    text, own = config.text, config.rope.first(*PARTIAL_KEYS)
    if not text.absent or takes_share:
        return own or text.first(*PARTIAL_KEYS)
    keys = text.absent.get("shares")
    if isinstance(keys, list):
        return own or text.first(*keys) or text.first(SHARE)
    # the class ignores a share, but transformers' functions for scaled rope types would multiply the width by it
    if own is not None and is_scaled and own.number() != 1:
        raise ValueError(f"{own.path} is {own.value}, and heads of model_type {config.model_type} are rotated whole")
    return None
