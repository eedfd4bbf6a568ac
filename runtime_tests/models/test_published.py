"""Published configs of 2024 to 2026: each is read as its model's own code computes, or refused with a true reason."""

import zlib

import pytest

from helpers.hf.published import answer, file_of, names
from posenc_models import read_config

NAMES = names()
SAMPLE = 8
"""One config in so many is held against its model's code in the quick run."""


def test_there_are_forty() -> None:
    assert len(NAMES) >= 40


@pytest.mark.parametrize("name", NAMES)
def test_each_has_its_answer(name: str) -> None:
    content = file_of(name)
    if "refused" in content:
        with pytest.raises(ValueError) as refusal:  # noqa: PT011  (the whole message is compared)
            read_config(content["config"])
        assert str(refusal.value) == content["refused"]
        assert "\n" not in str(refusal.value)
        assert "leave it out" not in str(refusal.value)
        assert "-p layout" not in str(refusal.value)
        return
    for expected in content["answers"]:
        found = answer(content["config"], expected["how"])
        assert found["scheme"] == expected["scheme"]
        assert found["parameters"] == expected["parameters"]


def _sample(name: str) -> bool:
    return zlib.crc32(name.encode()) % SAMPLE == 0


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if _sample(name) else pytest.mark.exhaustive) for name in NAMES]
)
def test_the_models_own_code_agrees(name: str) -> None:
    pytest.importorskip("transformers")
    from scripts.published import findings

    content = file_of(name)
    found = findings(name)
    assert not [f for f in found if f.word == "wrong"]
    confirmed = sum(f.word == "right" for f in found)
    assert confirmed == sum(one["judged"] == "right" for one in content.get("answers", ()))
