"""What transformers' own `generate` writes behind prompts with pictures or sounds, which a bundle's manifest has."""

import inspect
import json
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import transformers

from posenc.picture_places import SIGHT
from posenc.ports import Array
from posenc_export.bundle.manifest import Generation
from posenc_export.proof.generation import padded
from posenc_export.proof.loaded_model import LoadedModel
from posenc_export.proof.scenes import pictures_of


def pictures_for(model: LoadedModel, generation: Generation) -> dict[str, Array]:
    """The pictures of recorded prompts, as a processor would give them."""
    assert model.scene is not None
    return pictures_of(model.scene.tower.inputs, list(chain.from_iterable(generation.pictures)))


def own_tokens(folder: Path, model: LoadedModel, generation: Generation, count: int) -> list[list[int]]:
    """What `generate` of a folder's model writes behind recorded prompts, all in one batch padded on the left.

    An encoder reads them padded on the right.
    """
    assert model.scene is not None
    (name,) = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
    own: Any = getattr(transformers, name).from_pretrained(folder).eval()
    reads_all = own.config.is_encoder_decoder
    ids, mask = map(torch.from_numpy, padded(generation.prompts, left=not reads_all))
    pictures = {name: torch.from_numpy(array) for name, array in pictures_for(model, generation).items()}
    is_picture = ((ids == model.scene.places.token) & (mask == 1)).long() * (model.scene.places.sense is SIGHT)
    types = {"mm_token_type_ids": is_picture, "token_type_ids": is_picture * model.scene.places.types}
    takes = inspect.signature(own.forward).parameters
    if not pictures and inspect.signature(own.generate).parameters.keys() & {"pixel_values"}:
        # a picture without a place: BLIP-2's does not answer without one
        spare = pictures_of(model.scene.tower.inputs, [model.scene.picture(0, (1, 1, 1))])
        pictures = {name: torch.from_numpy(array) for name, array in spare.items()}
    given = {**pictures, **{name: one for name, one in types.items() if name in takes}}
    lengths = {"max_new_tokens": count, "min_new_tokens": count}
    own.generation_config.forced_eos_token_id = None  # BART's last token would be the end of a text
    with torch.no_grad():
        written = own.generate(
            input_ids=ids, attention_mask=mask, **given, **lengths, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    # behind an encoder a text begins with a token of its own
    rows: list[list[int]] = written[:, 1 if reads_all else ids.shape[1] :].tolist()
    return rows
