"""The places that vision towers give their own module of angles: rows before columns, from 0 on, in blocks or not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from helpers.hf.asked import built_in, modes_of, question_of
from helpers.shared import one_of_each
from posenc_models import read_config
from posenc_models.config.encodings.grids import GRIDS
from posenc_models.config.encodings.towers import BLOCKS, TOWERS

pytest.importorskip("transformers")
HEIGHT, WIDTH = 4, 6
# the others take places of their caller, keep a table of them, or make them of an image's sizes
COUNTED = (
    *("pixtral", "inkling2_vision", "kimi_k25_vision", "minimax_m3_vl_vision", "muse_glimmer_vision"),
    *("muse_spark_vision", "step3p5_vision"),
)


class Reached(BaseException):
    """Ends a forward where the places are known."""


def inputs_of(config: object) -> Iterator[tuple[torch.Tensor, dict[str, torch.Tensor]]]:
    """Yield empty patches in each way in which towers take them, with the sides of the grid."""
    patch, frames = int(config.patch_size), int(getattr(config, "temporal_patch_size", 2))  # type: ignore[attr-defined]
    channels, places, block = 3, HEIGHT * WIDTH, 2
    image = torch.zeros(1, channels, HEIGHT * patch, WIDTH * patch)
    shapes = [
        (places, channels * patch**2),
        (places, channels * frames * patch**2),
        (places, channels, patch, patch),
        (1, places, channels, patch, patch),
    ]
    grid = {"grid_thw": torch.tensor([[1, HEIGHT, WIDTH]])}
    yield image, {}
    for shape in shapes:
        yield torch.zeros(shape), grid
        yield torch.zeros(shape), {**grid, "merge_sizes": torch.tensor([block])}
    of_blocks = {"image_grid_thw": torch.tensor([[1, HEIGHT // block, WIDTH // block]])}
    yield torch.zeros(places // block**2, block * patch, block * patch, channels), of_blocks


def places_of(name: str) -> list[list[int]]:
    """Return the places that a tower gives its module of angles for a grid."""
    from posenc_models.asking.angles import ANGLES, path_of
    from posenc_models.asking.built import built

    content = {"model_type": name}
    reading = read_config(dict(content))
    question = question_of(content, "", reading, built_in(reading, modes_of(reading.scheme)))
    made = built(question, lambda made: bool(made.paths(ANGLES)))
    path = path_of(made)
    seen: list[torch.Tensor] = []

    def stop(_: object, inputs: tuple[torch.Tensor, ...], __: object) -> None:
        seen.append(inputs[1])
        raise Reached

    made.model.get_submodule(path).register_forward_pre_hook(stop, with_kwargs=True)
    owner = made.model.get_submodule(path.rpartition(".")[0])
    for patches, more in inputs_of(made.config):
        # a tower takes one of these ways, and raises what it likes for the others
        with contextlib.suppress(Exception, Reached), torch.no_grad():
            owner(patches, **more)
    places: list[list[int]] = seen[0].tolist()
    return places


@pytest.mark.parametrize("name", one_of_each([pytest.param(name) for name in TOWERS], lambda param: "tower"))
def test_a_tower_has_rows_before_columns_from_0_on(name: str) -> None:
    places = places_of(name)
    by_row = [[row, column] for row in range(HEIGHT) for column in range(WIDTH)]
    assert sorted(places) == by_row
    # the note on blocks stands where the tower's order is another
    assert (places != by_row) == (TOWERS[name][0].differs == BLOCKS)


@pytest.mark.parametrize("name", one_of_each([pytest.param(name) for name in COUNTED], lambda param: "tower"))
def test_a_tower_counts_as_it_is_asked(name: str) -> None:
    from posenc_models.asking.angles import COUNTING, Counting

    places = places_of(name)
    counting, axes = COUNTING.get(name, Counting()), len(places[0])
    by_row = [[row, column] for row in range(HEIGHT) for column in range(WIDTH)]
    ours = [[0, *place] if axes == 3 else place for place in by_row]
    theirs = [[place[axis] + counting.first for axis in counting.order or range(axes)] for place in ours]
    patches = [place for place in places if not counting.first or min(place)]  # a class token is at (0, 0)
    assert sorted(patches) == sorted(theirs)
    assert (patches != theirs) == ("come in blocks" in GRIDS[name][0].differs)
    assert (len(places) > len(patches)) == ("class token" in GRIDS[name][0].differs)


def test_the_images_of_gemma_4_come_with_columns_first() -> None:
    from posenc_models.asking.angles import COUNTING

    pytest.importorskip("PIL")
    of_pil = pytest.importorskip("transformers.models.gemma4.image_processing_pil_gemma4")
    images = of_pil.Gemma4ImageProcessorPil()(np.zeros((96, 480, 3), np.uint8), return_tensors="np")
    places = images["image_position_ids"][0]
    places = places[places.min(-1) >= 0]  # the others are padding
    assert places[:3].tolist() == [[0, 0], [1, 0], [2, 0]]
    wide, high = places.max(0) + 1
    assert (wide > high, len(places)) == (True, wide * high)
    assert COUNTING["gemma4_vision"].order == (1, 0)
