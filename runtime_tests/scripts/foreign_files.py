"""Files by other people's exporters, for the tests of inspect, prove and extend: run by hand, not by pytest.

python runtime_tests/scripts/foreign_files.py environments FOLDER    # an environment of each exporter, under FOLDER
python runtime_tests/scripts/foreign_files.py make FOLDER [MODEL..]  # the files, and the truth about each
python runtime_tests/scripts/foreign_files.py faults FOLDER          # the files that are wrong
python runtime_tests/scripts/foreign_files.py write FOLDER           # archives and table of runtime_tests/foreign_files

The interpreter that runs it has torch, transformers, diffusers, onnxscript, onnxruntime and onnxslim; the environments
share its torch. What was made before is kept: remove FOLDER/work for a fresh run. It takes half an hour on one core.
"""

import datetime
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.foreign.faulty import faulty
from helpers.foreign.files import TABLE, archive_of, pack
from helpers.foreign.generated import ELSEWHERE_MADE, MAIN, Environments, judge, make_files
from helpers.foreign.towers import TINY
from helpers.foreign.truth import Refused, Table, Truth, truth_of, write_table

REQUIREMENTS = {
    "tools": ("onnxsim==0.8.1", "onnxconverter-common==1.16.0"),
    "genai": ("onnxruntime-genai==0.18.0",),
    "mobius": ("mobius-onnx==0.1.0",),
    "optimum": ("optimum-onnx[onnxruntime]==0.1.0", "diffusers==0.35.2"),
}


def environments(folder: Path) -> Environments:
    """Return the interpreters of a folder."""
    return Environments({"main": Path(sys.executable), **{n: folder / n / "bin" / "python" for n in REQUIREMENTS}})


def make_environments(folder: Path) -> None:
    """Make an environment of each exporter; packages of this interpreter are seen in it, after its own."""
    for name, packages in REQUIREMENTS.items():
        place = folder / name
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        site = place / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        (site / "zz_shared.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        subprocess.run([str(place / "bin" / "python"), "-m", "pip", "install", "-q", *packages], check=True)


def make(folder: Path, models: list[str]) -> None:
    """Make and judge the files of models; write beside them what came of it."""
    for model in models:
        rows: list[Truth | Refused] = []
        for name, exporters in {"main": MAIN, **ELSEWHERE_MADE}.items():
            place = folder / "work" / name / model
            if make_files(model, place, environments(folder), name):
                rows += judge(model, place, exporters)
        keep(folder, model, rows)


def keep(folder: Path, name: str, rows: list[Truth | Refused]) -> None:
    """Write what came of some files, and print it."""
    lines = "".join(json.dumps(asdict(row)) + "\n" for row in rows)
    (folder / "work" / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    for row in rows:
        came = f"{row.end}" if isinstance(row, Truth) else row.why
        print(row.model, row.exporter, row.optimizer, came, flush=True)


def made(folder: Path) -> Iterator[Truth | Refused]:
    """Yield what was made, model by model."""
    for model in (*TINY, "faults"):
        path = folder / "work" / f"{model}.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            content = json.loads(line)
            yield Refused(**content) if "why" in content else truth_of(content)


def write(folder: Path) -> None:
    """Write the archives and the table."""
    rows = list(made(folder))
    truths = tuple(row for row in rows if isinstance(row, Truth))
    paths = {path.name: path for path in (folder / "work").glob("*/*/*.onnx")}
    for model in dict.fromkeys(truth.model for truth in truths):
        pack(model, [paths[truth.file] for truth in truths if truth.model == model])
    refused = tuple(row for row in rows if isinstance(row, Refused))
    write_table(Table(datetime.date.today().isoformat(), truths, refused, len(truths)), TABLE)
    size = sum(archive_of(model).stat().st_size for model in {truth.model for truth in truths})
    print(f"{len(truths)} files, {len(refused)} refused, {size} bytes")


def main() -> None:
    """Do what the first argument says."""
    action, folder, models = sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3:]
    if action == "environments":
        make_environments(folder)
    elif action == "make":
        make(folder, models or list(TINY))
    elif action == "faults":
        keep(folder, "faults", list(faulty(folder / "work" / "faults")))
    elif action == "write":
        write(folder)
    else:
        raise SystemExit(f"{action} is none of environments, make, faults, write")


if __name__ == "__main__":
    main()
