"""A tokenizer whose tokens are bytes, with the files that every loader reads."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

END, PAD = 256, 257
VOCABULARY: Mapping[str, Any] = {"vocab_size": 260, "eos_token_id": END, "pad_token_id": PAD}
"""Every byte is a token; four more are special."""


def save_tokenizer(folder: Path) -> None:
    """Write a tokenizer's files into a model's folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>", "<pad>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")
    fast.save_pretrained(folder)
    # transformers 5 writes the name of a class that 4 lacks; folders of the hub have this one
    path = folder / "tokenizer_config.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**said, "tokenizer_class": "PreTrainedTokenizerFast"}), encoding="utf-8")
