"""What is written into a page is the same on every machine."""

from pathlib import Path

from helpers.pages import Scene, comparable, for_page

SHOWN = """ort-cpu  pass
passed: agrees on 3 runtimes, all 18 checks; compared with float64
not run: 10 other runtimes
words: old
"""
PRINTED = """ort-cpu  pass
ort-cuda  pass
passed: agrees on 9 runtimes, all 40 checks; compared with float64
not run: 1 other runtime
words: new
/tmp/made/rope/model.onnx  9 bytes
"""


def test_what_is_of_a_machine_stays_as_the_page_has_it() -> None:
    page = for_page(Scene("posenc-export", SHOWN, PRINTED), Path("/tmp/made"))
    assert page == SHOWN.replace("words: old", "words: new\nrope/model.onnx  9 bytes")


def test_a_page_that_shows_no_machine_gets_none() -> None:
    page = for_page(Scene("posenc-export", "ort-cpu  FAIL\n", PRINTED), Path("/tmp/made"))
    assert "not run:" not in page
    assert "cuda" not in page


def test_machines_do_not_make_two_outputs_of_one() -> None:
    other = PRINTED.replace("words: new\n/tmp/made/rope/model.onnx  9 bytes", "words: old")
    assert comparable(other) == comparable(SHOWN)
    assert comparable(PRINTED) != comparable(SHOWN)
