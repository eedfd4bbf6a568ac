"""Names of dozens of layers are one in words."""

import pytest

from posenc_export.common.names import in_runs


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""),
        (["logits"], "logits"),
        (["y", "y2"], "y, y2"),
        (
            ["present.0.key", "present.0.value", "present.1.key", "present.1.value"],
            "present.0..1.key, present.0..1.value",
        ),
        (["logits", *(f"present.{i}.key" for i in range(24))], "logits, present.0..23.key"),
        (["present.0.key", "present.2.key"], "present.0.key, present.2.key"),
        (["a.0.b.0", "a.0.b.1"], "a.0.b.0, a.0.b.1"),
        (["x01", "x02"], "x01, x02"),
    ],
)
def test_names_that_count_up_are_one(names: list[str], words: str) -> None:
    assert in_runs(names) == words
