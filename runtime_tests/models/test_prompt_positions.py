"""Positions of prompts with images and videos in them are those of each model's own code, in NumPy and in a graph."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from helpers.prompt_graphs import OTHERS, TYPES, config_of, feeds_of, many, types_with_own_function, written
from helpers.shared import one_of_each
from posenc_models.vision import GridRule, Prompts, grid_positions, own_positions, rule_of, with_fault
from posenc_models.vision.modules import GridPositions
from posenc_models.vision.rules import types_of

RULE = GridRule(image=1001, video=1002, merge=2, per_second=4)
FAULTS = {
    0: "places? of an image in a row, and no grid is left for them",
    1: "image_grid_thw has [1-5] more images? than places",
    2: "in a row, and the next grid has",
}


def in_numpy(rule: GridRule, prompts: Prompts) -> tuple[np.ndarray, np.ndarray]:
    """Return what the function in NumPy gives."""
    given = {name: value for name, value in vars(prompts).items() if name != "input_ids"}
    return grid_positions(rule, prompts.input_ids, **given)


def eager(rule: GridRule, prompts: Prompts) -> list[np.ndarray]:
    """Return what the module gives."""
    with torch.no_grad():
        return [one.numpy() for one in GridPositions(rule)(*map(torch.tensor, feeds_of(rule, prompts).values()))]


def test_every_model_with_a_function_of_its_own_is_known() -> None:
    known = {name.removesuffix("_thinker") for name in (*TYPES, *OTHERS)}
    assert types_with_own_function() == known


@pytest.mark.parametrize("model_type", TYPES)
def test_function_and_module_count_as_the_model_does(model_type: str) -> None:
    rule, own = rule_of(config_of(model_type), asked=5)
    pictures = 0
    for prompts in many(rule, 40):
        expected = own(rule, prompts)
        for found in (in_numpy(rule, prompts), eager(rule, prompts)):
            for one, other in zip(found, expected, strict=True):
                assert one.dtype == other.dtype == np.int64
                np.testing.assert_array_equal(one, other)
        pictures += int((types_of(rule, prompts) > 0).sum())
    assert pictures > 400


@pytest.mark.parametrize(("model_type", "why"), OTHERS.items())
def test_another_rule_is_refused_in_a_line(model_type: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"counts positions by a rule of its own, which is not exported: .*{why}"):
        rule_of(config_of(model_type))


@pytest.mark.parametrize("model_type", one_of_each(list(TYPES), lambda _: ""))
def test_the_graph_counts_as_the_model_does(tmp_path: Path, model_type: str) -> None:
    rule, own = rule_of(config_of(model_type), asked=5)
    session = onnxruntime.InferenceSession(written(rule, tmp_path))
    for prompts in many(rule, 100):
        for found, expected in zip(session.run(None, feeds_of(rule, prompts)), own(rule, prompts), strict=True):
            np.testing.assert_array_equal(found, expected)
    # the text before a call may have images, too
    for prompts in many(rule, 50, past=9, seed=1):
        for found, expected in zip(session.run(None, feeds_of(rule, prompts)), in_numpy(rule, prompts), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl", "glm4v", "ernie4_5_vl_moe"])
def test_a_text_goes_on_where_the_model_goes_on(model_type: str) -> None:
    rule, own = rule_of(config_of(model_type), asked=5)
    model = own.call.__self__
    for prompts in many(rule, 20, seed=2):
        model.rope_deltas = torch.tensor(in_numpy(rule, prompts)[1])
        batch, past = prompts.attention_mask.shape
        mask = np.concatenate([prompts.attention_mask, np.ones((batch, 3), np.int64)], 1)
        expected = model.compute_3d_position_ids(
            input_ids=None,
            inputs_embeds=torch.zeros(batch, past + 3, 1),
            image_grid_thw=None,
            video_grid_thw=None,
            attention_mask=torch.tensor(mask),
            past_key_values=SimpleNamespace(get_seq_length=lambda past=past: past),
        )
        text = np.full((batch, 3), 5)
        positions, deltas = grid_positions(rule, text, attention_mask=mask, past_rope_deltas=model.rope_deltas.numpy())
        np.testing.assert_array_equal(positions, expected[..., -3:].numpy())
        np.testing.assert_array_equal(deltas, model.rope_deltas.numpy())


def test_the_types_of_tokens_are_those_of_the_processors() -> None:
    from transformers import ProcessorMixin
    from transformers.models.glm4v.processing_glm4v import Glm4vProcessor

    makers: dict[str, Any] = {
        "qwen2_vl": ProcessorMixin.create_mm_token_type_ids,
        "glm4v": Glm4vProcessor.create_mm_token_type_ids,
    }
    for model_type, maker in makers.items():
        rule, _ = rule_of(config_of(model_type), asked=5)
        said = SimpleNamespace(
            image_token_id=rule.image,
            image_token_ids=[rule.image],
            video_token_ids=[rule.video],
            audio_token_ids=[],
            video_start_id=rule.video_start,
            video_end_id=rule.video_end,
        )
        for prompts in many(rule, 20):
            types = types_of(rule, prompts)
            for row, ids, mask in zip(types, prompts.input_ids, prompts.attention_mask.astype(bool), strict=True):
                assert maker(said, [ids[mask].tolist()]) == [row[mask].tolist()]


@pytest.mark.parametrize("fault", FAULTS)
def test_grids_that_do_not_fit_are_refused(fault: int) -> None:
    wrong = [with_fault(prompts, RULE, fault) for prompts in many(RULE, 30) if prompts.image_grid_thw.any()]
    assert len(wrong) > 10
    for prompts in wrong:
        with pytest.raises(ValueError, match=FAULTS[fault]):
            in_numpy(RULE, prompts)
        with pytest.raises(IndexError, match="grids do not fit input_ids: expected a grid for each row of places"):
            eager(RULE, prompts)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"image_grid_thw": [[1, 2]]}, r"image_grid_thw must be \(images, 3\).*got \[\[1, 2\]\]"),
        ({"image_grid_thw": [[1, 2, -2]]}, r"image_grid_thw must be \(images, 3\)"),
        ({"attention_mask": [[1, 1]]}, r"attention_mask must be \(1, 3 or more\), got \(1, 2\)"),
        ({"video_grid_thw": [[1, 2, 2]], "second_per_grid_ts": [1.0, 2.0]}, r"second_per_grid_ts must be \(1,\)"),
    ],
)
def test_wrong_arrays_are_refused_in_a_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        grid_positions(RULE, [[5, 5, 5]], **given)


def test_rows_of_zeros_are_no_images() -> None:
    ids, grid = [[5, 1001, 1001, 5]], [1, 2, 4]
    expected = grid_positions(RULE, ids, image_grid_thw=[grid])
    for grids in ([grid, [0, 0, 0]], [[0, 0, 0], grid]):
        for found, one in zip(grid_positions(RULE, ids, image_grid_thw=grids), expected, strict=True):
            np.testing.assert_array_equal(found, one)


def test_a_config_of_text_alone_has_no_such_function() -> None:
    from transformers import LlamaConfig

    assert own_positions(LlamaConfig()) is None
    with pytest.raises(ValueError, match="LlamaConfig: no class of its model has get_rope_index"):
        rule_of(LlamaConfig())
