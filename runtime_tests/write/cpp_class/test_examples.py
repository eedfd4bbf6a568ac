"""The programs of examples/cpp, exported, built and run by the commands that they show."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import posenc_export
from helpers.cpp_tools import compiler
from helpers.shared import ROOT, need
from posenc_export.cli import export

EXAMPLES = ROOT / "examples" / "cpp"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
CLASS = ["decode_loop", "vision_tower", "bias_in_place"]
STRICTLY = "-Wall -Wextra -Wconversion -Wshadow -Werror"
OF_C_ITSELF = {"memcpy", "memmove", "memset", "memcmp"}
"""What GCC may call in a freestanding program, too."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples, as a stranger has them: without bundles, without what was built."""
    made = tmp_path / "cpp"
    shutil.copytree(EXAMPLES, made, ignore=shutil.ignore_patterns("bundles", "build", "step"))
    monkeypatch.chdir(made)
    monkeypatch.setenv("CXXFLAGS", STRICTLY)
    return made


def commands(source: str) -> list[str]:
    """Return the commands in the comment at the top of a program."""
    top = (EXAMPLES / source).read_text(encoding="utf-8").partition("#include")[0]
    return re.findall(r"^//   (\S.*)$", top, flags=re.MULTILINE)


def do(command: str) -> str:
    """Do one command in the current folder, an export in this process and unproved; return what it prints."""
    words = shlex.split(command)
    if words[0] == "posenc-export":
        result = CliRunner().invoke(export, [*words[1:], "--no-validate", "-q"], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.exhaustive
def test_a_decode_loop_with_a_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("ort-cpp")
    monkeypatch.setenv("CMAKE_BUILD_TYPE", "None")  # half the time of a build
    printed = [do(command) for command in commands("decode_loop.cpp")]
    assert printed[-1] == "13 tokens and 40 steps: the bits of one call of 53\n"


@pytest.mark.exhaustive
def test_the_programs_with_a_class_in_one_build(folder: Path) -> None:
    need("ort-cpp")
    shown = [commands(f"{name}.cpp") for name in CLASS]
    for export_, _, _ in shown:
        do(export_)
    assert len({build for _, build, _ in shown}) == 1
    do(shown[0][1])
    assert [len(do(run).splitlines()) for _, _, run in shown] == [1, 4, 3]
    lost = (folder / "decode_loop.cpp").read_text().replace("past_ += tokens;", "")
    (folder / "decode_loop.cpp").write_text(lost)
    with pytest.raises(AssertionError, match="other bits than one call"):
        [do(command) for command in commands("decode_loop.cpp")[1:]]


@pytest.mark.exhaustive
def test_a_chat_writes_what_python_writes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was trained for a moment: what matters is that C++ and Python go on alike, line after line."""
    need("ort-cpp")
    monkeypatch.chdir(folder / "chat")
    monkeypatch.setenv("CMAKE_BUILD_TYPE", "None")
    train, export_, build, talk = commands("chat/main.cpp")
    text = ROOT / "runtime_tests" / "data" / "alice.txt"
    do(train.replace("../../../runtime_tests/data/alice.txt", str(text)).replace("--steps 400", "--steps 60"))
    do(export_)
    do(build)
    model = posenc_export.load("bundle")
    said = b"Alice was beginning"
    first = model.generate([*said], 300, eos_token_id=10)
    assert first[-1] == ord("\n")
    assert do(talk).encode("latin-1") == bytes(first)
    lines = talk.replace("echo 'Alice was beginning'", "printf 'Alice was beginning\\nDown, d\\n'")
    second = model.generate([*said, *first, *b"Down, d"], 300, eos_token_id=10)
    assert do(lines).encode("latin-1") == bytes([*first, *second])


MICRO = commands("microcontroller/main.c")
MODES = {"baked": "--max-len 256", "dynamic": "--dynamic"}


@pytest.mark.parametrize("mode", MODES)
def test_the_header_on_the_budget_of_a_microcontroller(folder: Path, mode: str) -> None:
    """Sizes are those of the table where the compiler is, tables and bits are so everywhere."""
    gcc = compiler("gcc", "c")
    shown = [c.replace(MODES["baked"], MODES[mode]).replace("bundles/baked", f"bundles/{mode}") for c in MICRO]
    _, measured, bits = (do(command) for command in shown)
    assert f"`{bits.split()[1]}` {mode}" in README
    sizes = dict(re.findall(r"(\w+) ([^,\n]+)", measured))
    calls = sizes.pop("calls")
    assert set(calls.split()) <= {*OF_C_ITSELF, "nothing"}
    assert (sizes.pop("data"), int(sizes["stack"]) <= 512) == ("0", True), measured
    row = next(line for line in README.splitlines() if f", {mode} | gcc " in line).replace(",", "").split(" | ")
    version = do(f"{gcc} -dumpfullversion").strip()
    same = row[1] == f"gcc {version}" and row[2] == os.uname().machine.replace("_", "-")
    assert sizes["tables"] == row[4]
    assert not same or [*sizes.values(), calls] == [*row[3:6], row[6].removesuffix(" |")]


def test_every_program_is_in_the_table() -> None:
    shown = set(re.findall(r"^\| \[([\w.]+)\]", README, flags=re.MULTILINE))
    assert shown == {*(f"{name}.cpp" for name in CLASS), "chat", "microcontroller"}
    sources = [*EXAMPLES.glob("*.cpp"), *EXAMPLES.glob("*/*.c"), *EXAMPLES.glob("*/*.cpp")]
    assert {path.stem for path in sources} == {*CLASS, "main", "step"}
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 100 for path in sources)
