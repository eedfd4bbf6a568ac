"""Whole models as TorchScript and as programs of torch.export, each proved: run by hand, not by pytest.

python runtime_tests/scripts/model_formats.py               exports models in both formats, and prints what came of it
python runtime_tests/scripts/model_formats.py llama t5      exports these model types
python runtime_tests/scripts/model_formats.py --write       puts the table into docs/reference/measured/models.md

Each command is a process of its own. It takes half an hour on two cores.
"""

import argparse
import datetime
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from helpers.model_folders import MODELS, Small
from posenc_export.common.markdown import table
from scripts.model_folders import command

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
KINDS = (
    *("llama", "qwen3", "gemma3_text", "mixtral", "gpt2", "falcon", "bloom"),
    *("bert", "modernbert", "vit", "swin", "t5", "whisper"),
)
RUNTIMES = {"torchscript": "torchscript-cpu", "pt2": "pt2-cpu"}
LONGEST = "24"


def measured(small: Small, format_: str, folder: Path) -> str:
    """Return what came of a model in a format, in a few words."""
    words = ("--max-len", LONGEST, "-f", format_, "--runtime", RUNTIMES[format_], "--json", "-o", f"{format_}-bundle")
    status, out, err = command(["export", "--model", "model", *words], folder)
    if status is None:
        return "out of time"
    if status not in (0, 1) or not out:
        lines = [line.removeprefix("Error: ") for line in err.splitlines() if line.strip()]
        return f"status {status}: {lines[-1] if lines else 'no reason'}"
    wrong = [f"{row['check']}: {row['detail']}" for row in json.loads(out)["verdicts"] if row["status"] == "fail"]
    return wrong[0][:160] if wrong else "certified"


def main() -> None:
    """Measure, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="TYPE", help="a model type (default: a dozen of them)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    rows = []
    for small in map(MODELS.__getitem__, options.kinds or KINDS):
        with tempfile.TemporaryDirectory() as place:
            small.save(Path(place) / "model")
            rows.append((small.title, small.kind, *(measured(small, name, Path(place)) for name in RUNTIMES)))
        print(*rows[-1], sep=" | ", flush=True)
    text = (
        f"Measured on {datetime.date.today().isoformat()} with transformers {version('transformers')}, "
        f"torch {version('torch')}, calls of up to {LONGEST} tokens.\n\n"
        f"{table(('model', 'type', *(f'`-f {name}`' for name in RUNTIMES)), rows)}\n"
    )
    if options.write:
        put_part(PAGE, "formats", text)
    print(text)


if __name__ == "__main__":
    main()
