"""What whole models are exported for: tasks, with the names that runtimes have for what goes in and comes out.

The names are those of optimum and transformers.js, whose files ONNX Runtime's users load: `input_ids`,
`attention_mask`, `position_ids` and `past_key_values.N.key` become `logits` and `present.N.key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TEXT = {
    "input_ids": "int64[batch_size, seq] < {vocab_size}",
    "attention_mask": "int64[batch_size, seq] mask",
    "token_type_ids": "int64[batch_size, seq] < {type_vocab_size}",
}
DECODER = {
    "input_ids": "int64[batch_size, seq] < {vocab_size}",
    "attention_mask": "int64[batch_size, past+seq] mask",
    "position_ids": "int64[batch_size, seq] positions",
}
IMAGES = {"pixel_values": "float32[batch_size, {num_channels}, {height}, {width}]"}
LOGITS = {"logits": "logits"}
HIDDEN = {"last_hidden_state": "last_hidden_state"}
KEY_VALUES = ("past_key_values.{layer}.{part}", "present.{layer}.{part}")
"""The names of a layer's keys and values: those that go in, and those that come out."""


@dataclass(frozen=True)
class Task:
    """What a whole model is exported for.

    Args:
        name: as Hugging Face's hub has it.
        auto: the class of transformers that loads such a model.
        ends: how the names of such architectures end.
        inputs: what goes in, by its name: the rest of a port's text, with what the config says in braces. What a
            model's `forward` does not take is left out.
        outputs: what comes out: its name in the file, and the attribute of the model's output.
        cache: whether keys and values of earlier tokens go in, and those of all tokens come out.
    """

    name: str
    auto: str
    ends: tuple[str, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str] = field(default_factory=lambda: LOGITS)
    cache: bool = False


TASKS = {
    task.name: task
    for task in (
        Task("text-generation", "AutoModelForCausalLM", ("ForCausalLM", "LMHeadModel"), DECODER, LOGITS, cache=True),
        Task("fill-mask", "AutoModelForMaskedLM", ("ForMaskedLM",), TEXT),
        Task("text-classification", "AutoModelForSequenceClassification", ("ForSequenceClassification",), TEXT),
        Task("token-classification", "AutoModelForTokenClassification", ("ForTokenClassification",), TEXT),
        Task(
            "question-answering",
            "AutoModelForQuestionAnswering",
            ("ForQuestionAnswering", "ForQuestionAnsweringSimple"),
            TEXT,
            {"start_logits": "start_logits", "end_logits": "end_logits"},
        ),
        Task("image-classification", "AutoModelForImageClassification", ("ForImageClassification",), IMAGES),
        Task("image-feature-extraction", "AutoModel", ("Model",), IMAGES, HIDDEN),
        Task("feature-extraction", "AutoModel", ("Model",), TEXT, HIDDEN),
    )
}
"""The tasks by their names. Of two with one ending, the config says which: whether it has images, and no words."""
