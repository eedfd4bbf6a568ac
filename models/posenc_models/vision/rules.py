"""Which rule counts the positions of a model: its config says the ids, its own code is asked for the rest."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from posenc.grid_rule import GridRule
from posenc.ports import Integers
from posenc_models.vision.prompts import Prompts, Sizes, random_prompts
from posenc_models.vision.reference import grid_positions, kinds_of

ASKED = 40
"""Prompts at random in which a rule must give what the model's own code gives."""
EDGES = ("start", "end")
"""Of the ids around pictures."""
METHOD = "get_rope_index"
"""What transformers calls the function of a model that counts its positions."""


@dataclass(frozen=True)
class OwnPositions:
    """The function of a model's own class that counts its positions; the model itself is not made.

    Args:
        owner: The class, by its name.
        call: The bound function, of an object that has the config and nothing else.
    """

    owner: str
    call: Any

    @property
    def words(self) -> str:
        """What it is called."""
        return f"{self.owner}.{METHOD}"

    @classmethod
    def of(cls, architecture: type, config: Any) -> OwnPositions | None:
        """Return that of a class of transformers, or of a class beside it which it is made of; None where none is."""
        from torch import nn

        beside = vars(sys.modules[architecture.__module__]).values()
        owner = _owner((architecture, *beside))
        if owner is None:
            return None
        bare: Any = object.__new__(owner)
        nn.Module.__init__(bare)
        bare.config = config
        # thinkers of several models keep it beside their config
        bare.spatial_merge_size = getattr(config.vision_config, "spatial_merge_size", None)
        return cls(owner.__name__, getattr(bare, METHOD))

    def __call__(self, rule: GridRule, prompts: Prompts) -> tuple[Integers, Integers]:
        """Return the model's positions (3, batch, seq) and deltas (batch, 1) of prompts; it raises what it likes."""
        import inspect

        import torch

        given = {
            "input_ids": prompts.input_ids,
            "attention_mask": prompts.attention_mask,
            "image_grid_thw": prompts.image_grid_thw,
            "video_grid_thw": prompts.video_grid_thw,
            "second_per_grid_ts": prompts.second_per_grid_ts,
            "second_per_grids": prompts.second_per_grid_ts,
            "mm_token_type_ids": types_of(rule, prompts),
        }
        takes = inspect.signature(self.call).parameters
        positions, deltas = self.call(**{name: torch.tensor(one) for name, one in given.items() if name in takes})
        return positions.numpy(), deltas.numpy()


def types_of(rule: GridRule, prompts: Prompts) -> Integers:
    """Return what processors call the types of tokens, (batch, seq); tokens of padding are not counted."""
    types = np.zeros_like(prompts.input_ids)
    for row, ids, mask in zip(types, prompts.input_ids, prompts.attention_mask.astype(bool), strict=True):
        row[mask] = kinds_of(rule, ids[mask])
    return types


def own_positions(config: Any) -> OwnPositions | None:
    """Return the function that counts the positions of a config's model; None where its class has none."""
    import transformers

    for name in getattr(config, "architectures", None) or ():
        if (architecture := getattr(transformers, name, None)) is not None:
            return OwnPositions.of(architecture, config)
    kind = type(config).__module__.replace("configuration_", "modeling_")
    owner = _owner(vars(importlib.import_module(kind)).values())
    return None if owner is None else OwnPositions.of(owner, config)


def _owner(objects: Iterable[object]) -> type | None:
    """Return the first class among some objects that counts positions; None where there is none."""
    return next((one for one in objects if isinstance(one, type) and hasattr(one, METHOD)), None)


def rule_of(config: Any, asked: int = ASKED) -> tuple[GridRule, OwnPositions]:
    """Return how a model counts the positions of images and videos, and its own function, which says the same.

    Args:
        config: That of transformers, with its `vision_config`.
        asked: In how many prompts at random the two are compared.

    Raises ValueError, in one line, where the model has no such function, or where no rule gives what it gives.
    """
    own = own_positions(config)
    if own is None:
        raise ValueError(
            f"{type(config).__name__}: no class of its model has {METHOD}, which counts positions of images"
        )
    why = "its config says no image_token_id"
    for rule in _candidates(config):
        why = _difference(rule, own, asked)
        if not why:
            return rule, own
    raise ValueError(f"{own.words} counts positions by a rule of its own, which is not exported: {why}")


def _candidates(config: Any) -> Iterator[GridRule]:
    """Yield the rules that a config leaves open: what is asked of the model's code stands in no key."""
    vision = config.vision_config
    image, video = (getattr(config, f"{name}_token_id", None) for name in ("image", "video"))
    if image is None:
        return
    per_second = getattr(vision, "tokens_per_second", None)
    of_thinker = getattr(config, "position_id_per_seconds", None)
    edges = [
        getattr(config, f"vision_{edge}_token_id", getattr(config, f"image_{edge}_token_id", None)) for edge in EDGES
    ]
    for by_frame, thinks in product((False, True), (False, True) if of_thinker else (False,)):
        # a video whose frames are pictures of their own may have the ids of images, between two ids of its own
        start = getattr(config, "video_start_token_id", None) if by_frame else None
        yield GridRule(
            image=image,
            video=None if start is not None else video,
            video_start=start,
            video_end=None if start is None else config.video_end_token_id,
            merge=vision.spatial_merge_size,
            time_merge=getattr(vision, "temporal_merge_size", None) or 1,
            by_frame=by_frame,
            per_second=of_thinker if thinks else per_second,
            seconds_first=thinks,
            image_step=of_thinker if thinks and of_thinker else 1,
            behind_time=thinks,
            padding=1 if thinks else 0,
            start=edges[0],
            end_id=edges[1],
        )


def _difference(rule: GridRule, own: OwnPositions, asked: int) -> str:
    """Return how a rule and a model's own function differ, in a few words; nothing where they agree in all prompts."""
    rng = np.random.default_rng(54)
    for _ in range(asked):
        sizes = Sizes(*(int(rng.integers(low, high)) for low, high in ((1, 4), (8, 70), (0, 4), (0, 4))))
        prompts = random_prompts(rule, sizes, rng)
        ours = grid_positions(
            rule,
            prompts.input_ids,
            attention_mask=prompts.attention_mask,
            image_grid_thw=prompts.image_grid_thw,
            video_grid_thw=prompts.video_grid_thw,
            second_per_grid_ts=prompts.second_per_grid_ts,
        )
        try:
            theirs = own(rule, prompts)
        except Exception as error:  # a rule of another model may well raise
            return (
                f"it fails on a prompt that the rule takes ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
            )
        if theirs[0].dtype != np.int64:
            return f"its positions are {theirs[0].dtype}, fractions where a time step of a video is no whole one"
        for name, one, other in zip(("positions", "rope_deltas"), ours, theirs, strict=True):
            if one.shape != other.shape or (one != other).any():
                return f"{name} of a prompt with {sizes.images} images and {sizes.videos} videos are others"
    return ""
