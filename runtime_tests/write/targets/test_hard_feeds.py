"""What goes in with hard rows is what golden data keep: of a large input some rows, among zeros."""

import numpy as np
import pytest

from posenc_export.bundle.case import Case
from posenc_export.bundle.sampling import long_axis, sample, sampled_rows, spread
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.hard_rows import BY_SEQUENCE, KINDS


@pytest.mark.parametrize("hard", [BY_SEQUENCE, *KINDS])
def test_a_large_input_is_what_is_kept_of_it(hard: str) -> None:
    (port,) = parse_ports(("x: float32[batch, 3, 256, 256]",))
    case = Case("large", {"batch": len(KINDS)}, hard=hard)
    feed = feeds_for((port,), case, 0)["x"]
    rows, axis = sampled_rows(port, feed.shape), long_axis(port, feed.shape)
    assert rows is not None
    kept = sample(feed, rows, axis)
    assert kept.any() == (hard != "zeros")
    assert np.array_equal(spread(kept, rows, feed.shape, axis), feed)
