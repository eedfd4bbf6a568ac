"""What lies beside a model's weights and goes with the model: its config, tokenizer, templates and preprocessor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

CONFIG, GENERATION = "config.json", "generation_config.json"
PATTERNS = (
    *(CONFIG, GENERATION),
    *("tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "chat_template*", "*.tiktoken", "tekken.json"),
    *("additional_chat_templates/*.jinja", "*preprocessor_config.json", "processor_config.json"),
    *("*vocab*.json", "vocab*.txt", "merges.txt", "bpe.codes", "byte_maps.json", "normalizer.json", "emoji.json"),
    *("*.tokenizer", "*.spm", "dict.txt", "word_pronunciation.json", "word_shape.json", "audio_tokenizer_config.json"),
    *("tokenizer.model", "tiktoken.model", "spiece.model", "spm*.model", "sentencepiece*.model"),
)
"""Names of such files, by which transformers and other programs look for them; none of weights, and none of code."""
USUAL = re.compile(r"\w[\w.+-]*(/\w[\w.+-]*)?")
"""What is in such a name: a copy that somebody called `tokenizer (1).json` is none."""


def companions(folder: Path) -> Mapping[str, Path]:
    """Return the files of a model's folder that go with the model, by their paths in it, with slashes.

    A link is followed: folders of Hugging Face's cache are made of links.

    Raises ValueError, in one line, for a file that is there and cannot be read.
    """
    found = {path.relative_to(folder).as_posix(): path for pattern in PATTERNS for path in folder.glob(pattern)}
    named = {name: found[name] for name in sorted(found) if USUAL.fullmatch(name) and not found[name].is_dir()}
    for path in named.values():
        try:
            path.open("rb").close()
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    return named
