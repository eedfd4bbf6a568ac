"""`--share=K/N`: shares of the tests are disjoint, and together all of them."""

import subprocess
import sys

import pytest

from helpers.shared import ROOT, share_of


@pytest.mark.exhaustive
def test_shares_are_disjoint_and_together_all() -> None:
    def collected(*words: str) -> set[str]:
        file = str(ROOT / "runtime_tests" / "proof" / "tools" / "test_shares.py")
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *words, file]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return {line for line in done.stdout.splitlines() if "::" in line}

    whole, first, second = collected(), collected("--share=1/2"), collected("--share=2/2")
    assert first
    assert second
    assert not first & second
    assert first | second == whole


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "x/2", ""])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"share|invalid literal"):
        share_of(text)


def test_pytest_takes_the_commands_of_the_build() -> None:
    """Without a path, pytest learns of the option late: it must not take the share for a path (`--share 1/2`)."""
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("pytest ")]
    assert len(lines) == 2
    for line in lines:
        words = ["bash", "-c", f"commit=6a419c; {line} --markers"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "exhaustive" in done.stdout
