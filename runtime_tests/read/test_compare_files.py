"""A file against the one that it was made of: what an optimizer has changed."""

from dataclasses import replace

from helpers.inspections import inspection, rotary, table
from posenc_export.read.comparing.against import compare_files
from posenc_export.read.inspection import Inspection

GEMMA = inspection(rotary(range(5), 1e4), rotary([5], 1e6))


def said(now: Inspection, before: Inspection) -> list[tuple[str, str]]:
    return [(finding.name, finding.detail) for finding in compare_files(now, before)]


def test_the_same_file_has_no_finding() -> None:
    assert said(GEMMA, GEMMA) == []
    assert said(inspection(table(512)), inspection(table(512))) == []


def test_one_table_in_the_place_of_two() -> None:
    assert said(inspection(rotary(range(6), 1e4)), GEMMA) == [
        ("shared-table", "one table, rope_theta 10000, is used by layers 0-5; layer 5 had 1000000 before")
    ]


def test_attentions_that_an_optimizer_fused_do_not_count() -> None:
    assert said(replace(GEMMA, attentions=0), GEMMA) == []


def test_a_layer_that_lost_its_rotation() -> None:
    now = inspection(rotary(range(5), 1e4), attentions=6)
    assert said(now, GEMMA) == [("differs", "layer 5 had rotary positions before, and none now")]


def test_half_precision_does_not_change_a_base() -> None:
    half = replace(rotary(range(4), 10003.0), dtype="float16")
    assert said(inspection(half), inspection(rotary(range(4), 10000.0))) == []
    assert said(inspection(rotary(range(4), 10003.0)), inspection(rotary(range(4), 10000.0))) != []


def test_a_table_that_was_cut() -> None:
    assert said(inspection(table(128)), inspection(table(512))) == [
        ("differs", "learned: rows is 128 now, was 512 before")
    ]


def test_an_encoding_that_is_gone() -> None:
    assert said(inspection(), inspection(table(512))) == [("differs", "1 learned encodings before, 0 now")]
