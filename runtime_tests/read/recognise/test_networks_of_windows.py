"""The network of a window's bias is found among what a file stores: most windows are ruled out by a few keys."""

import numpy as np
import pytest

from posenc.formulas import swin_cpb
from posenc.formulas.fitting import Observation
from posenc.formulas.parts.windows import of_places
from posenc.ports import Floats

HEADS, HIDDEN, SIDES = 3, 24, (4, 6)


def observed(pretrained: int, dtype: type = np.float32) -> Observation:
    """The bias of a network at random, with its weights among what is stored."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(HIDDEN, 2)), rng.normal(size=HIDDEN), rng.normal(size=(HEADS, HIDDEN))
    grid = 16 / (1 + np.exp(-swin_cpb.logits(weights, SIDES, pretrained)))
    bias = np.moveaxis(of_places(grid.reshape(2 * SIDES[0] - 1, 2 * SIDES[1] - 1, -1), SIDES), -1, 0)
    stored = tuple(weight.astype(np.float64) for weight in weights)
    return Observation("bias", bias.astype(dtype), float(np.finfo(dtype).eps), stored=stored)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("pretrained", [0, 12])
def test_few_windows_are_computed_whole(pretrained: int, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, whole = observed(pretrained, dtype), []
    logits = swin_cpb.logits

    def counted(weights: swin_cpb.Weights, sides: tuple[int, int], window: int) -> Floats:
        whole.append((sides, window))
        return logits(weights, sides, window)

    monkeypatch.setattr(swin_cpb, "logits", counted)
    guesses = list(swin_cpb.fit(seen))
    assert any(guess.parameters["pretrained_window"] == pretrained and seen.agrees(guess) for guess in guesses)
    # once to rule it out or not, and once for the guess: 6 sides and 64 windows may be tried
    assert len(whole) <= 2 * len(guesses) + 4
