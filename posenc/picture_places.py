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
        types: Whether `token_type_ids` tell the decoder these tokens, 1 for each. If not, a decoder that takes types is
            told which tokens are no prompt: 0 in the first call of a text, and 1 in the others.
    """

    image: int
    types: bool = False
