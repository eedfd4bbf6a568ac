"""What transformers' configuration classes take where a file says nothing: the table is what the classes say."""

import json
import zlib
from typing import Any

import pytest

from helpers.shared import ROOT

pytest.importorskip("transformers")

from scripts.hf_class_defaults import FILE, library, model_types, table
from scripts.hf_survey import PAGE

WRITTEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
OF_THIS_VERSION = pytest.mark.skipif(WRITTEN["library"] != library(), reason=f"the table is of {WRITTEN['library']}")
SAMPLE = 200
"""One model type in so many is asked in the quick run."""


def written(names: list[str]) -> dict[str, Any]:
    return {name: WRITTEN["classes"][name] for name in names if name in WRITTEN["classes"]}


def turn(name: str) -> int:
    return zlib.crc32(name.encode()) % SAMPLE


def test_the_table_says_whose_classes_it_is_of() -> None:
    assert FILE == ROOT / "models" / "posenc_models" / "config" / "class_defaults.json"
    assert WRITTEN["library"].startswith("transformers ")
    assert f"with {WRITTEN['library']}, " in PAGE.read_text(encoding="utf-8")


@OF_THIS_VERSION
def test_a_sample_is_what_the_classes_take() -> None:
    names = [name for name in model_types() if turn(name) == turn(library()) or name in ("gemma3_text", "gpt_neox")]
    assert written(names)
    assert json.loads(json.dumps(table(names))) == written(names)


@OF_THIS_VERSION
def test_what_another_class_takes_is_no_row_of_the_table() -> None:
    assert table(["llama"]) != {"llama": WRITTEN["classes"]["gemma3_text"]}
    assert table(["bert"]) == written(["bert"]) == {}


@OF_THIS_VERSION
@pytest.mark.exhaustive
def test_every_row_is_what_a_class_takes() -> None:
    entries = json.loads(json.dumps(table(model_types())))
    assert entries == written(model_types())
    assert list(WRITTEN["classes"]) == sorted(WRITTEN["classes"])
