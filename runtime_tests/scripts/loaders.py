"""Whole models in the programs of others, and in our own class: run by hand, not by pytest.

python loaders.py --python PYTHON --npm DIR           exports each model, and prints what came of it
python loaders.py --python PYTHON --npm DIR --write   puts the table into docs/reference/measured/models.md

PYTHON is that of an environment of its own (pip install torch==2.13.0 optimum-onnx==0.1.0 optimum==2.1.0
transformers==4.57.6 onnxruntime==1.31.1 onnxruntime-genai==0.18.0 diffusers==0.35.2), and DIR a folder in which
`npm install --ignore-scripts @huggingface/transformers` ran. C++ takes CMake, a compiler and the headers of ONNX
Runtime (CMAKE_PREFIX_PATH). Each loader takes the bundle as it is, and must write the tokens of its manifest, of every
prompt alone and of the padded batch.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from helpers.model_folders import GROUPED, MODELS, SMALL, SQUARE, WINDOWS, Small
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation
from posenc_export.common.markdown import table
from scripts.loading.byte_tokenizer import END, PAD, VOCABULARY, save_tokenizer

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
PROGRAMS = Path(__file__).parent / "loading"
TEXT = "Alice was beginning to get very tired"
FOLDERS: dict[str, Small] = {
    "Llama": replace(MODELS["llama"], config={**SQUARE, **VOCABULARY}),
    "Llama, `head_dim` of its own": replace(MODELS["llama"], config={**GROUPED, **VOCABULARY}),
    "Qwen3": replace(
        MODELS["qwen3"], config={**SQUARE, **VOCABULARY, **WINDOWS, "head_dim": 8, "use_sliding_window": True}
    ),
    "GPT-2": replace(
        MODELS["gpt2"],
        config={**SMALL, **VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 256},
    ),
    "Gemma 3": replace(MODELS["gemma3_text"], config={**GROUPED, **VOCABULARY, **WINDOWS, "query_pre_attn_scalar": 8}),
}
HEAD = ("model", "`posenc_export.load`", "ORTModelForCausalLM", "onnxruntime-genai", "transformers.js", "C++ class")
PEERS = {"ORTModelForCausalLM": "with_optimum.py", "onnxruntime-genai": "with_genai.py"}
EQUAL = "equal"


@dataclass(frozen=True)
class Loaders:
    """What runs a bundle.

    Args:
        python: a Python with optimum-onnx and onnxruntime-genai.
        npm: a folder with transformers.js.
    """

    python: Path
    npm: Path

    def versions(self, names: Sequence[str] = ("optimum-onnx", "onnxruntime-genai", "onnxruntime")) -> str:
        """Return packages of that Python, with their versions, and transformers.js."""
        ask = f"from importlib.metadata import version; print(', '.join(f'{{n}} {{version(n)}}' for n in {names!r}))"
        theirs = subprocess.run([self.python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
        package = self.npm / "node_modules" / "@huggingface" / "transformers" / "package.json"
        js = json.loads(package.read_text(encoding="utf-8"))["version"]
        return f"{theirs}, transformers.js {js}"


def export(folder: Path, to: Path) -> None:
    """Export a model by the command, with its C++ class and genai's config."""
    words = ["export", "--model", folder, "--runtime-config", "genai", "--cpp", "--namespace", "written"]
    words += ["--no-validate", "-q", "-o", to]
    subprocess.run([sys.executable, "-m", "posenc_export", *map(str, words)], check=True)


def compared(written: Sequence[Sequence[Sequence[int]]], generations: Sequence[Generation]) -> str:
    """Return whether tokens are those of the manifest, as far as a loader went: it may end where a text does."""
    alone = [
        _compared(rows[0], one.tokens[0]) for rows, one in zip(written, generations, strict=True) if len(rows) == 1
    ]
    batch = [_compared(*pair) for pair in zip(written[-1], generations[-1].tokens, strict=True)]
    wrong = next(filter(None, alone), "")
    if wrong:
        return f"differ: {wrong}"
    count = sum(len(row) for rows in written for row in rows)
    if any(batch):
        return f"{EQUAL} alone; padded batch: {next(filter(None, batch))}"
    return f"{EQUAL} ({count} tokens)"


def _compared(row: Sequence[int], expected: Sequence[int]) -> str:
    """Return which token is another one than the manifest's, or nothing."""
    texts = [expected, *(expected[: at + 1] for at, token in enumerate(expected) if token == END)]
    if any(list(row[: len(text)]) == list(text) for text in texts):
        return ""
    at = next((i for i, (a, b) in enumerate(zip(row, expected, strict=False)) if a != b), len(row))
    return f"token {at} is another one" if at < len(row) else f"ends after {at} tokens"


def asked(bundle: Path) -> tuple[dict[str, Any], tuple[Generation, ...]]:
    """Return what a loader is asked, and the texts that it should write."""
    generations = Bundle.open(bundle).manifest.generations
    prompts = [[list(prompt) for prompt in one.prompts] for one in generations]
    counts = [len(one.tokens[0]) for one in generations]
    return {"prompts": prompts, "counts": counts, "text": TEXT, "pad": PAD}, generations


def answered(command: Sequence[object], bundle: Path, tokenizer: Sequence[int], **variables: str) -> str:
    """Run a loader's program; return what came of it."""
    question, generations = asked(bundle)
    words = [*map(str, command), str(bundle), json.dumps(question)]
    env = {**{name: text for name, text in os.environ.items() if name != "PYTHONPATH"}, **variables}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if "Error" in line or "rror:" in line]
        return f"fails: {(lines or ['with status ' + str(done.returncode)])[-1].strip()[:240]}"
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    words_differ = "" if list(answer["ids"]) == list(tokenizer) else "; its tokenizer gives other ids"
    return compared(answer["tokens"], generations) + words_differ


def of_ours(bundle: Path) -> str:
    """Return whether posenc_export.load writes the tokens."""
    import posenc_export

    question, generations = asked(bundle)
    model = posenc_export.load(bundle)
    written: list[Any] = [
        model.generate(prompts, count) for prompts, count in zip(question["prompts"], question["counts"], strict=True)
    ]
    return compared(written, generations)


def of_cpp(bundle: Path, folder: Path) -> str:
    """Return whether the class writes the tokens, by the test that lies beside it."""
    for command in (
        ["cmake", "-S", bundle / "cpp", "-B", folder],
        ["cmake", "--build", folder, "--target", "generation"],
    ):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"is not built: {done.stderr.strip().splitlines()[-1]}"
    run = [folder / "generation", bundle / "model.onnx"]
    done = subprocess.run([*map(str, run)], capture_output=True, text=True, check=False)
    tokens = done.stdout.partition(" tokens")[0]
    return f"{EQUAL} ({tokens} tokens)" if done.returncode == 0 else f"differ: {done.stdout.strip() or done.stderr}"


def row(title: str, small: Small, loaders: Loaders, folder: Path) -> tuple[str, ...]:
    """Return the row of a model: what each loader writes."""
    from transformers import AutoTokenizer

    small.save(folder / "model")
    save_tokenizer(folder / "model")
    export(folder / "model", folder / "bundle")
    bundle = folder / "bundle"
    ids = AutoTokenizer.from_pretrained(folder / "model")(TEXT)["input_ids"]
    of_peers = [answered([loaders.python, PROGRAMS / program], bundle, ids) for program in PEERS.values()]
    js = answered(["node", PROGRAMS / "with_transformers_js.mjs"], bundle, ids, POSENC_NPM=str(loaders.npm))
    return (title, of_ours(bundle), *of_peers, js, of_cpp(bundle, folder / "built"))


def summary(rows: Iterable[Sequence[str]], loaders: Loaders) -> str:
    """Return the text between the markers of the page."""
    ours = f"our own with onnxruntime {version('onnxruntime-gpu')}"
    return f"Tried on {datetime.date.today().isoformat()} with {loaders.versions()}, {ours}.\n\n{table(HEAD, rows)}\n"


def main() -> None:
    """Export, load, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"a model of {', '.join(FOLDERS)} (default: all)")
    parser.add_argument("--python", type=Path, required=True, help="a Python with optimum-onnx and onnxruntime-genai")
    parser.add_argument("--npm", type=Path, required=True, help="a folder with transformers.js")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    loaders = Loaders(options.python, options.npm.resolve())
    rows = []
    for title in options.names or FOLDERS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(row(title, FOLDERS[title], loaders, Path(folder)))
        print(*rows[-1], sep=" | ", flush=True)
    if options.write:
        put_part(PAGE, "loaders", summary(rows, loaders))


if __name__ == "__main__":
    main()
