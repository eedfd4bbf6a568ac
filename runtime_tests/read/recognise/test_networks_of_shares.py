"""FIRE's network is looked for among what a file stores. That takes little memory, also where the bias is another's."""

import tracemalloc

import numpy as np
import pytest

from posenc.formulas import fire
from posenc.formulas.fitting import Observation

HEADS, HIDDEN, PLACES = 3, 512, 512
C, THRESHOLD = 0.125, 64.0


def observed(own: bool) -> Observation:
    """A bias of FIRE's network, or numbers at random; the weights of the network are stored beside either."""
    rng = np.random.default_rng(0)
    weights = (
        *(rng.normal(size=HIDDEN), rng.normal(size=HIDDEN)),
        *(rng.normal(size=(HEADS, HIDDEN)), rng.normal(size=HEADS)),
    )
    place = np.arange(PLACES)
    bias = fire.network(weights, fire.shares(place[:, None], place[None], C, THRESHOLD))
    if not own:
        bias = 16 * rng.uniform(size=bias.shape)
    return Observation(
        "bias",
        bias.astype(np.float32),
        float(np.finfo(np.float32).eps),
        stored=(*weights, *map(np.array, (C, THRESHOLD))),
    )


@pytest.mark.parametrize("own", [True, False])
def test_a_network_takes_little_memory(own: bool) -> None:
    seen = observed(own)
    tracemalloc.start()
    try:
        guesses = list(fire.fit(seen))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # all units of all queries and keys are 1 GiB
    assert peak < 2**28
    assert any(seen.agrees(guess) for guess in guesses) is own
    assert bool(guesses) is own
