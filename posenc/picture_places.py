"""Where pictures stand in a prompt: the tokens whose embeddings are those that a tower makes.

Pictures are images, or spectra of sounds. Here and not beside the models, since the export writes it into a bundle, and
programs read it there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Sense:
    """What a model has a tower for.

    Args:
        modality: As transformers names what belongs to it: `get_image_features`, `image_token_id`.
        picture: What one is called.
        argument: What several are called, and the argument that takes them.
        file: What the tower's file is called by transformers.js, without its ending.
        parts: The keys of configs, one of which is that of the tower.
    """

    modality: Literal["image", "audio"]
    picture: str
    argument: str
    file: str
    parts: tuple[str, ...]

    @property
    def method(self) -> str:
        """The method of transformers that makes embeddings."""
        return f"get_{self.modality}_features"

    @property
    def key(self) -> str:
        """The key of a config that says which token is a place."""
        return f"{self.modality}_token_id"

    @property
    def features(self) -> str:
        """What the tower gives, by the name of transformers.js."""
        return f"{self.modality}_features"

    @property
    def rows(self) -> str:
        """What the rows of these are called, as many as prompts have places."""
        return f"{self.modality}_tokens"


SIGHT = Sense("image", "picture", "images", "vision_encoder", ("vision_config",))
HEARING = Sense("audio", "sound", "sounds", "audio_encoder", ("audio_config", "encoder_config"))
SENSES = {sense.modality: sense for sense in (SIGHT, HEARING)}


@dataclass(frozen=True, kw_only=True)
class PicturePlaces:
    """Which tokens of a prompt are places of pictures.

    Args:
        token: The id of such a token.
        types: Whether `token_type_ids` tell the decoder these tokens, 1 for each. If not, a decoder that takes types is
            told which tokens are no prompt: 0 in the first call of a text, and 1 in the others.
        sense: What the pictures are of.
    """

    token: int
    types: bool = False
    sense: Sense = SIGHT
