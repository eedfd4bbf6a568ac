"""Whether a model takes what its task gives it, and answers what its task asks: tried before anything is exported.

Which class a folder is of, a stranger's config says. What a class takes, its `forward` says in part; the rest is seen
in a small call. What does not fit becomes one line about the class: no shape of a call that nobody made.
"""

from __future__ import annotations

import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

SPOKEN = (ValueError, AssertionError, NotImplementedError, ImportError)
"""Errors whose words are for people; those of others speak of the insides of a call."""
CHOICES = re.compile(
    r"labels?|.*_labels|return_.*|output_.*|use_cache|.*inputs_embeds|past_key_values|cache_position|.*head_mask"
    r"|position_ids|token_type_ids|logits_to_keep|interpolate_pos_encoding|kwargs|args|self|bool_masked_pos|langs"
)
"""Arguments that no model lacks."""
OWN = re.compile(
    r"(start|end)_positions|next_sentence_label|future_values|target_values|encoder_.*|decoder_.*|mm_encoder_outputs"
    r"|cross_attn.*|mems|use_mems|cache.*|lengths|input_mask|perm_mask|target_mapping|mask_time_indices|noise"
    r"|num_hashes|deprecated_arguments|position_bias"
)
"""Arguments that are for training, for other parts of a model, or another way to give what a task gives."""
TOKENS, OTHERS = 8, 2
"""Sizes of a small call: tokens of a model without a cache, and everything else."""
OF_SOUNDS = ("a token of it is {} codes of a sound", "one")
SEVERAL = (
    ("pixel_values", "num_frames", "it takes videos of {} frames", "one image"),
    ("token_type_ids", "type_vocab_sizes", "a token of it has {} types", "one"),
    *(("input_ids", "num_codebooks", *OF_SOUNDS), ("decoder_input_ids", "num_codebooks", *OF_SOUNDS)),
    ("decoder_input_ids", "num_channels", *OF_SOUNDS),
)
"""Inputs that some models take several of in the place of one: with the key of their config that says how many."""
OF_AXES = re.compile(r"shape|dimension|unpack")
"""What libraries say of a tensor that has too few axes."""
NO_KEY = re.compile(r"'\w*Config' object has no attribute '(\w+)'")
"""What Python says where code reads a key that a config has not."""
LENGTH = re.compile(r"\bseq\b")
"""What the text of a port has whose tensors grow with a text."""
PORT = re.compile(r"(\w+)\[(.*)\](.*)")


def check_takes(model: Any, given: Iterable[str], task: str, chosen: bool, of: str = "") -> None:
    """Raise ValueError, in one line, where a model does not take its main input, or needs another that it is not given.

    Args:
        model: of which `forward` is looked at.
        given: the names of what its task gives it, the main one first.
        task: the task's name.
        chosen: whether somebody chose the task, and not the config.
        of: the class that the model is the encoder of; "" where it is no part.
    """
    names = list(given)
    every = inspect.signature(model.forward).parameters
    takes = {name: one for name, one in every.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
    title, it = of or type(model).__name__, "its encoder" if of else "it"
    if names[0] not in takes:
        inputs = _listed([name for name in takes if not CHOICES.fullmatch(name)] or list(every))
        if chosen:
            raise ValueError(f"{title} takes {inputs}, not {names[0]}: it is no model for {task}")
        raise ValueError(f"{title} is not exported: {it} takes {inputs}, and for {task} --model gives {names[0]}")
    if missing := [name for name, one in takes.items() if one.default is one.empty and name not in names]:
        raise ValueError(
            f"{title} is not exported: {it} does not answer without {_listed(missing)}, and for {task} --model gives "
            f"{_listed(names)}"
        )


def notes_of_inputs(model: Any, given: Iterable[str]) -> list[str]:
    """Return a line on inputs that a model can take, and the graph cannot: without them it may answer otherwise."""
    config = model.config

    def may_matter(name: str) -> bool:
        if name == "langs":  # XLM has a vector for each language, if it has several
            return bool(getattr(config, "use_lang_emb", False)) and getattr(config, "n_langs", 1) > 1
        if name == "pixel_values" and getattr(config, "visual_embed", None) is False:
            return False  # a LayoutLMv3 that has no part for pixels
        return not CHOICES.fullmatch(name) and not OWN.fullmatch(name)

    taken = set(given)
    others = [name for name in inspect.signature(model.forward).parameters if name not in taken and may_matter(name)]
    return [f"the model answers without {_listed(others)}, which the graph does not take"] if others else []


def check_answers(
    model: Any, call: Callable[..., Any], ports: Mapping[str, str], wanted: Iterable[str], cached: bool
) -> Any:
    """Return the answer of a small call; raise ValueError, in one line, where it fails, or lacks what is wanted of it.

    Args:
        model: by whose class the line speaks.
        call: takes tensors, one for each port, and returns an output with names.
        ports: the rest of the text of each port, by its name.
        wanted: the attributes that its output must have.
        cached: whether keys and values go in.
    """
    import torch

    def answered(tokens: int) -> Any:
        """Return the output of a call of so many tokens."""
        with torch.no_grad():
            return call(*(_tensor(text, tokens) for text in ports.values()))

    try:
        output = answered(OTHERS if cached else TOKENS)
    except Exception as error:  # a model of a stranger's config raises what comes
        raise ValueError(failure_line(model, error, list(ports), cached)) from error
    least = OTHERS if cached or not any(LENGTH.search(text) for text in ports.values()) else _least(answered)
    if least > OTHERS:
        raise ValueError(
            f"{type(model).__name__} is not exported: it takes texts of {least} tokens and more, and --model writes "
            "models that take any"
        )
    lacking = [name for name in wanted if not isinstance(getattr(output, name, None), torch.Tensor)]
    if lacking:
        if getattr(model.config, "loss", None) == "nll":
            raise ValueError(
                f"{type(model).__name__} is not exported: it answers the parameters of a distribution (loss nll in "
                "config.json), and --model writes numbers (mse)"
            )
        has = [name for name, value in getattr(output, "items", dict)() if isinstance(value, torch.Tensor)]
        answers = f"it answers {_listed(has)}" if has else "its answer has no named tensors"
        raise ValueError(f"{type(model).__name__} is not exported: {answers}, and not {_listed(lacking)}")
    return output


def failure_line(model: Any, error: Exception, given: Sequence[str], cached: bool) -> str:
    """Return a line on a model that fails on what it is given; cached: whether its call is one of many, by a cache."""
    takes = inspect.signature(model.forward).parameters
    others = [name for name in takes if not CHOICES.fullmatch(name) and name not in given]
    plain = [name for name in given if not name.startswith("past_key_values.")]
    if missed := _missed(error, others):
        return (
            f"{type(model).__name__} is not exported: it does not answer without {_listed(missed)}, and --model gives "
            f"{_listed(plain)}"
        )
    if several := _several(model, error, plain):
        return f"{type(model).__name__} is not exported: {several}"
    if no_key := NO_KEY.search(str(error)):
        return f"{type(model).__name__} is not exported: its code reads {no_key[1]}, which its config does not say"
    cache = " and a cache" * (len(plain) < len(given))
    more = f"; it takes {_listed(others)}, too" * (bool(others) and not cached)
    return (
        f"{type(model).__name__} is not exported: a call with {_listed(plain)}{cache} fails in its code "
        f"({_reason(error)}){more}{_advice(error)}"
    )


def _several(model: Any, error: Exception, given: Sequence[str]) -> str:
    """Return, in words, what a model takes several of where one is given; "" where its config says no such thing."""
    if _is_spoken(error) or not OF_AXES.search(str(error)):
        return ""
    config = model.config
    for name, key, words, given_here in SEVERAL:
        said = getattr(config if name == "pixel_values" else config.get_text_config(decoder=True), key, None)
        number = len(said) if isinstance(said, list | tuple) else said
        if name in given and isinstance(number, int) and number > 1:
            return f"{words.format(number)} ({key} in config.json), and --model gives {given_here}"
    return ""


def _least(answered: Callable[[int], Any]) -> int:
    """Return the least number of tokens, from that of a small call on, from which on a model answers."""
    for tokens in range(OTHERS, TOKENS):
        try:
            answered(tokens)
        except Exception:  # whatever the model raises of a text that is too short
            continue
        return tokens
    return TOKENS


def _missed(error: Exception, others: Sequence[str]) -> list[str]:
    """Return which inputs that were not given a model's code reads where it fails for want of a value.

    That is the innermost line of the model's code: what it names, and has as None, it needs.
    """
    frames = [pair for pair in traceback.walk_tb(error.__traceback__) if _is_of_models(pair[0].f_code.co_filename)]
    if "NoneType" not in str(error) or not frames:
        return []
    frame, number = frames[-1]
    words = re.findall(r"\w+", linecache.getline(frame.f_code.co_filename, number))
    return [name for name in others if name in words and frame.f_locals.get(name, "") is None]


def _reason(error: Exception) -> str:
    """Return an error in words: what it says, where that is for people, or else where it was raised, and no more."""
    if _is_spoken(error):
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((one for one in reversed(frames) if _is_of_models(one.filename)), frames[-1])
    return f"{Path(frame.filename).name}, line {frame.lineno}"


def _is_spoken(error: Exception) -> bool:
    """Return whether what an error says is for people."""
    return isinstance(error, SPOKEN) and bool(str(error).strip()) and "to unpack" not in str(error)


def _is_of_models(file: str) -> bool:
    return Path(file).parts[-4:-2] == ("transformers", "models")


def _advice(error: Exception) -> str:
    keys = {
        "padding token": "pad_token_id",
        "set_default_language()": "default_language",
        # words are held against the token that ends a text
        "eq() received an invalid combination of arguments - got (NoneType)": "eos_token_id",
    }
    return "".join(f"; give {key} in config.json" for words, key in keys.items() if words in str(error))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - 4
    return ", ".join(names[:4]) + f" and {more} more" * (more > 0)


def axes_in(text: str) -> list[str]:
    """Return the axes that the text of a port has."""
    parts = PORT.fullmatch(text)
    assert parts is not None
    return [axis.strip() for axis in parts[2].split(",")]


def _tensor(text: str, tokens: int) -> Tensor:
    """Return a small tensor of a port."""
    import torch

    parts = PORT.fullmatch(text)
    assert parts is not None
    dtype, _, carries = parts.groups()
    shape = [_size(axis, tokens) for axis in axes_in(text)]
    bound = re.search(r"< (\d+)", carries)
    value = 1 if "mask" in carries or (bound is not None and int(bound[1]) > 1) else 0
    return torch.full(shape, value, dtype=getattr(torch, dtype))


def _size(axis: str, tokens: int) -> int:
    if axis.isdecimal():
        return int(axis)
    least = re.search(r">= (\d+)", axis)
    names = re.findall(r"\w+", axis.partition(":")[0].partition(" ")[0])
    size = sum(tokens if name == "seq" else OTHERS for name in names)
    step = re.search(r"% (\d+)", axis)
    return max(size, int(least[1]) if least else 0, int(step[1]) if step else 0)
