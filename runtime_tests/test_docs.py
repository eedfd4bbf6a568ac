"""Documents that are made from the code are what the code makes now; links between them lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from posenc.scheme import SCHEMES
from posenc_export.cli.axis_names import AXIS_KINDS, KINDS, PORT_WORDS
from posenc_export.cli.listing import markdown_of
from posenc_export.cli.ports import parse_ports

PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]


def test_the_list_of_schemes_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "schemes.md").read_text(encoding="utf-8")
    assert text == markdown_of(SCHEMES.values()), "run: posenc schemes --markdown > docs/schemes.md"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def python_blocks() -> list[tuple[str, str]]:
    """Programs in README.md and docs/: Python that imports posenc_export."""
    blocks = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        programs = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
        blocks += [
            (page, block) for block in programs if re.search(r"^import posenc_export$", block, flags=re.MULTILINE)
        ]
    return blocks


@pytest.mark.parametrize(("page", "program"), python_blocks(), ids=[page for page, _ in python_blocks()])
def test_programs_run_as_they_stand(page: str, program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_tables_of_usual_names_are_those_of_the_reader() -> None:
    text = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w, ]+) \| (\w+) \|$", text, flags=re.MULTILINE)
    shown = {name: kind for names, kind in rows for name in names.split(", ") if names != "anything else"}
    assert {n: k for n, k in shown.items() if k in KINDS} == AXIS_KINDS
    assert {n: k for n, k in shown.items() if n in PORT_WORDS} == PORT_WORDS


def test_every_input_that_is_shown_is_read() -> None:
    text = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `'(.*?)'` \|", text, flags=re.MULTILINE)
    assert len(shown) >= 10
    for one in shown:
        parse_ports((one,) if "size of" not in one else (one, "x: float32[batch, seq]"))
