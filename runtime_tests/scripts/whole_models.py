"""Whole models of transformers, exported and compared with eager: run by hand, not by pytest.

python runtime_tests/scripts/whole_models.py                  exports every model, and prints what came of it
python runtime_tests/scripts/whole_models.py GPT-2 BERT       exports these
python runtime_tests/scripts/whole_models.py --keep=FILE      goes on with what FILE has, and keeps the rest there
python runtime_tests/scripts/whole_models.py --write          puts the table into docs/reference/measured/modules.md

It takes a quarter of an hour on two cores.
"""

import datetime
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from helpers.measured import Measured, measure, rows
from whole import Whole

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "modules.md"
PART = "measured"


def line(model: Measured) -> str:
    """Return a row of the table."""
    error = "" if model.error is None else f"{model.error:.1e}"
    return f"| {model.name} | {model.calls} | {error} | {model.verdict} | {model.why} |"


def summary(models: Iterable[Measured]) -> str:
    """Return the text between the markers of the page."""
    models = list(models)
    packages = ("transformers", "torch")
    libraries = ", ".join(f"{name} {version(name)}" for name in packages) + f", onnxruntime {onnxruntime.__version__}"
    certified = sum(model.verdict == "certified" for model in models)
    table = "\n".join(map(line, models))
    return (
        f"Measured on {datetime.date.today().isoformat()} with {libraries}: "
        f"{certified} of {len(models)} are certified.\n\n"
        f"| model | calls | largest error | verdict | why |\n|---|---|---|---|---|\n{table}\n"
    )


def kept(path: Path | None) -> dict[str, Measured]:
    """Return what a file keeps, by name: the last measurement of each model."""
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
    models = [Measured(**json.loads(text)) for text in lines]
    return {model.name: model for model in models}


def measurements(wanted: Iterable[Whole], path: Path | None) -> Iterator[Measured]:
    """Yield what came of each model, measured where the file has nothing of it."""
    before = kept(path)
    for row in wanted:
        if row.name in before:
            yield before[row.name]
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = measure(row, Path(folder))
        print(f"{model.verdict}: {row.name} {model.error}: {model.why}", flush=True)
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(model)) + "\n")
        yield model


def main() -> None:
    """Measure, print, and put the table into the page."""
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    path = next((Path(arg.removeprefix("--keep=")) for arg in sys.argv if arg.startswith("--keep=")), None)
    text = summary(measurements([row for row in rows() if not names or row.name in names], path))
    if "--write" in sys.argv:
        put_part(PAGE, PART, text)
    print(text)


if __name__ == "__main__":
    main()
