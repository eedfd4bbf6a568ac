"""Folders that a page takes of its reader: `your-model` and `your-encoder`. Run in a process of its own.

`python reader_models.py NAME` writes the folder of this name into the current one.
"""

import json
import sys
from pathlib import Path
from typing import Any

PAIRS = {
    "how do I bake a loaf": "Bread needs flour, water and salt.",
    "when does the train go": "The train to Bern leaves every hour.",
    "where does the pet sleep": "Our cat lies on the red sofa.",
    "how long does it run without a cable": "The battery lasts for two days.",
}
STEPS = 40


def write_model(place: Path) -> None:
    """Write a small Llama, which stands for the reader's own model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 48,
        "max_position_embeddings": 4096,
    }
    heads: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    LlamaForCausalLM(LlamaConfig(**sizes, **heads, eos_token_id=None, bos_token_id=0)).save_pretrained(place)


def write_encoder(place: Path) -> None:
    """Write a folder as sentence-transformers does: a small BERT, trained to answer four questions, and a mean."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    torch.set_num_threads(1)
    words = sorted({word for pair in PAIRS.items() for text in pair for word in text.lower().strip(".").split()})
    known = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", ",", *words])}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, known[name]) for name in ("[CLS]", "[SEP]")]
    )
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    model = BertModel(BertConfig(vocab_size=len(known), max_position_embeddings=128, hidden_dropout_prob=0.0, **sizes))

    def vectors(texts: list[str]) -> torch.Tensor:
        encoded = tokenizer.encode_batch(texts)
        ids, mask = (torch.tensor([getattr(one, name) for one in encoded]) for name in ("ids", "attention_mask"))
        tokens = model(input_ids=ids, attention_mask=mask).last_hidden_state * mask[..., None]
        return torch.nn.functional.normalize(tokens.sum(1) / mask.sum(1, keepdim=True), dim=-1)

    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(STEPS):
        scores = vectors(list(PAIRS)) @ vectors(list(PAIRS.values())).T
        loss = torch.nn.functional.cross_entropy(10 * scores, torch.arange(len(PAIRS)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(place)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(place)
    lines = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(
            (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
        )
    ]
    said = {
        "modules.json": lines,
        "1_Pooling/config.json": {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": 128, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": {}, "similarity_fn_name": "cosine"},
    }
    for name, content in said.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(json.dumps(content), encoding="utf-8")


WRITERS = {"your-model": write_model, "your-encoder": write_encoder}

if __name__ == "__main__":
    WRITERS[sys.argv[1]](Path(sys.argv[1]))
