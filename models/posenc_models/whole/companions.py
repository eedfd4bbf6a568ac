"""What lies beside a model's weights and goes with the model: its config, tokenizer, templates and preprocessor."""

from __future__ import annotations

import os
import re
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


def companion_names(folder: Path) -> list[str]:
    """Return the paths in a model's folder of the files that go with the model, with slashes."""
    found = {path.relative_to(folder).as_posix(): path for pattern in PATTERNS for path in folder.glob(pattern)}
    # glob leaves out a link to nothing where its pattern is a name
    found |= {name: folder / name for name in PATTERNS if os.path.lexists(folder / name)}
    return [name for name in sorted(found) if USUAL.fullmatch(name) and not found[name].is_dir()]
