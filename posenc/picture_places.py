"""Where pictures stand in a prompt: the tokens whose embeddings are those that a tower makes.

Here and not beside the models, since the export writes it into a bundle, and programs read it there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PicturePlaces:
    """Which tokens of a prompt are places of pictures.

    Args:
        image: The id of such a token.
        types: Whether the decoder is told them by `token_type_ids`, 1 for each, and 0 for every other token.
    """

    image: int
    types: bool = False
