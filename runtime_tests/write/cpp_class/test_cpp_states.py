"""The C++ decoder of layers that remember states: it writes what `generate` of transformers does, whatever fails."""

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from helpers.cpp_scenes import Conversation, bundle_in_cpp, folder_of, programs, rows_of
from helpers.embedded import run
from helpers.shared import Once
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation
from posenc_export.write.cpp.decoders import decoder_ports
from posenc_export.write.inputs.ports import parse_ports

KINDS = ("lfm2", "mamba2", "qwen3_next", "mamba")
"""States of convolutions beside keys and values, of Mamba-2 alone, of the delta rule beside both, of Mamba."""
COUNT = 24
"""Tokens that are written."""


def own_tokens(once: Once, kind: str, prompt: list[int]) -> list[int]:
    """What `generate` of a model's class in transformers writes behind a prompt."""
    folder = folder_of(once, kind)
    (name,) = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
    own: Any = getattr(transformers, name).from_pretrained(folder).eval()
    ids = torch.tensor([prompt])
    lengths = {"max_new_tokens": COUNT, "min_new_tokens": COUNT, "eos_token_id": None, "pad_token_id": 0}
    with torch.no_grad():
        written = own.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, **lengths)
    tokens: list[int] = written[0, len(prompt) :].tolist()
    return tokens


def generations(once: Once, kind: str) -> tuple[Generation, ...]:
    return Bundle.open(bundle_in_cpp(once, kind)).manifest.generations


def begun(once: Once, kind: str, place: Path) -> Conversation:
    return Conversation(programs(once, kind) / "scenes", bundle_in_cpp(once, kind), place)


def test_a_decoder_knows_which_of_its_ports_are_states() -> None:
    inputs = parse_ports(
        (
            "input_ids: int64[batch, seq]",
            "past_key_values.0.conv_state: float32[batch, 4, 3]",
            "past_key_values.1.key: float32[batch, 1, past, 4]",
            "past_key_values.2.recurrent_state: float32[batch, 4, 3, 5]",
        )
    )
    outputs = parse_ports(
        (
            "logits: float32[batch, seq, 4]",
            "present.2.recurrent_state: float32[batch, 4, 3, 5]",
            "present.1.key: float32[batch, 1, past+seq, 4]",
            "present.0.conv_state: float32[batch, 4, 3]",
        )
    )
    ports = "DecoderPorts{{0, -1, -1, 0, {{{{2, 2}}}}, {}, -1, -1, {{}}, {{{{1, 3}}, {{3, 1}}}}}}"
    assert decoder_ports(inputs, outputs) == ports.format("false")
    in_place = {"present.1.key": "past_key_values.1.key"}
    assert decoder_ports(inputs, outputs, in_place) == ports.format("true")


@pytest.mark.exhaustive  # programs are built with sanitizers
@pytest.mark.parametrize("kind", KINDS)
def test_tokens_behind_states_are_those_of_generate(once: Once, kind: str, tmp_path: Path) -> None:
    """Prompts alone, in parts of any size; a padded batch; a second turn; a copy."""
    recorded = generations(once, kind)
    talk = begun(once, kind, tmp_path)
    said: list[tuple[int, list[list[int]]]] = []
    for one in recorded:
        for part in (1, 2, 512):
            talk.say("text")
            talk.say("part", part)
            talk.say("batch", *map(len, one.prompts), ":", *chain.from_iterable(one.prompts))
            said.append((talk.say("write", COUNT), [list(row[:COUNT]) for row in one.tokens]))
    first, second = (list(one.prompts[0]) for one in recorded[:2])
    for one in recorded[:-1]:
        assert own_tokens(once, kind, list(one.prompts[0])) == list(one.tokens[0][:COUNT])
    answer = own_tokens(once, kind, first)[:6]
    talk.say("text")
    talk.say("part 2")
    talk.say("prefill", *first)
    talk.say("write", len(answer))
    talk.say("prefill", *second)
    talk.say("keep")
    own = [own_tokens(once, kind, first + answer + second)]
    said.append((talk.say("write", COUNT), own))
    talk.say("back")
    said.append((talk.say("write", COUNT), own))
    answers = talk.answers()
    assert [(line, rows_of(answers[line], len(tokens))) for line, tokens in said] == said
    done = run(programs(once, kind) / "generation", talk.bundle / "model.onnx")
    assert (done.stderr, done.stdout.endswith(" tokens, 0 differ\n")) == ("", True), done.stdout + done.stderr
    assert len(set(chain.from_iterable(recorded[-1].tokens))) > 10, "they depend on what was read"


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["lfm2", "mamba2"])
def test_states_go_back_to_the_beginning_alone(once: Once, kind: str, tmp_path: Path) -> None:
    """What is refused leaves them as they were."""
    (one, *_) = generations(once, kind)
    talk = begun(once, kind, tmp_path)
    talk.say("text")
    talk.say("prefill", *one.prompts[0])
    before = talk.say("say")
    into = talk.say("rewind 3")
    wrong = [talk.say("prefill 1 2 999999"), talk.say("step 999999"), talk.say("step 1 2")]
    after = talk.say("say")
    tokens = [talk.say("write", COUNT)]
    talk.say("rewind 0")
    talk.say("prefill", *one.prompts[0])
    tokens.append(talk.say("write", COUNT))
    talk.say("clear")
    talk.say("batch 2 3 :", *range(5))
    talk.say("clear")
    talk.say("prefill", *one.prompts[0])
    tokens.append(talk.say("write", COUNT))
    answers = talk.answers()
    assert answers[into] == (
        "this model has states of all tokens that were read, and none of the first 3 tokens alone: rewind to 0, or go "
        "on with a copy that was made there"
    )
    assert all(answers[line] != "fine" for line in wrong)
    assert answers[after] == answers[before]
    assert {tuple(map(int, answers[line].split())) for line in tokens} == {one.tokens[0][:COUNT]}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["lfm2", "mamba2"])
def test_whatever_fails_the_next_answer_is_right(once: Once, kind: str) -> None:
    """Every allocation that can fail, also in a later part of a prompt: states are those of before."""
    bundle, (one, *_) = bundle_in_cpp(once, kind), generations(once, kind)
    done = run(programs(once, kind) / "scene_failures", bundle, "-", *one.prompts[0])
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    counts = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert list(counts) == ["an allocation fails", "all allocations fail from one on"], done.stdout
    assert all(count.endswith(", 0 wrong") and int(count.split(",")[0]) > 50 for count in counts.values()), done.stdout
