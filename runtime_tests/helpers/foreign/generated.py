"""Files made by processes in environments of their own, judged, and put beside their truth."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from helpers.foreign.built import KINDS
from helpers.foreign.files import digest_of
from helpers.foreign.judged import Eager, end_of
from helpers.foreign.optimizers import ELSEWHERE, OPTIMIZERS, dtype_after
from helpers.foreign.towers import TINY
from helpers.foreign.truth import End, Held, Refused, Truth

MAIN = ("plain old", "plain new", "transformers.exporters", "transformers.exporters ort_fusions")
OPTIMIZED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("llama", "bert", "gptj"), ("plain old", "plain new")),
    **dict.fromkeys(("gemma3", "llama-yarn", "roformer", "t5", "bloom", "conformer", "mpt", "swin"), ("plain old",)),
    **dict.fromkeys(("modernbert", "whisper", "dinov3", "vit", "opt", "unet"), ("plain new",)),
}
"""Models whose files are optimized too, and by which exporters those are."""
ELSEWHERE_MADE: Mapping[str, tuple[str, ...]] = {
    "genai": ("onnxruntime-genai",),
    "mobius": ("mobius",),
    "optimum": ("optimum",),
}
"""Exporters of environments of their own, by environment."""
LLAMAS = ("llama", "llama-yarn", "llama-llama3", "llama-longrope", "llama-linear")
MODELS: Mapping[str, tuple[str, ...]] = {
    "genai": (*LLAMAS, "gemma3", "qwen2", "smollm3", "phi3"),
    "mobius": (*LLAMAS, "gemma3", "qwen2", "smollm3", "phi3", "gpt2", "bert"),
    "optimum": (
        "llama",
        "bert",
        "gptj",
        "gpt2",
        "opt",
        "bloom",
        "mpt",
        "roberta",
        "roformer",
        "qwen2",
        "gemma3",
        "vit",
    ),
}
"""Models that those are tried with."""
FORMS: Mapping[str, str] = {
    "mobius": "RotaryEmbedding of ONNX 23 without position_ids, which some versions of ONNX Runtime reject",
}
"""What must be found in the files of an exporter that rotate: operators in forms that a runtime may refuse."""
RUNTIME_TESTS = Path(__file__).parents[2]
SECONDS = 420
"""What a process may take."""
ALWAYS = ("torch", "transformers", "diffusers", "onnx", "onnxscript")
OF_OPTIMIZER = {"onnxslim": "onnxslim", "onnxsim": "onnxsim", "common float16": "onnxconverter-common"}


@dataclass(frozen=True)
class Environments:
    """Where interpreters are, by name: "main" has the exporters of torch and transformers, "tools" the rest."""

    pythons: Mapping[str, Path]

    def call(self, name: str, module: str, *arguments: str) -> str:
        """Run a module of ours in an environment; return why it ended, or nothing."""
        variables = {**os.environ, "PYTHONPATH": str(RUNTIME_TESTS), "OMP_NUM_THREADS": "1"}
        command = [str(self.pythons[name]), "-m", module, *arguments]
        try:
            ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"no end within {SECONDS} s"
        return "" if ended.returncode == 0 else (ended.stderr.strip().splitlines() or ["killed"])[-1][:200]


def slug(name: str) -> str:
    """Return a name as it stands in file names."""
    return name.replace(" ", "-")


def make_files(model: str, folder: Path, environments: Environments, name: str = "main") -> bool:
    """Make the files of a model by the exporters of an environment, and optimize those of the main one.

    Return whether the environment makes files of this model.
    """
    if name != "main" and model not in MODELS[name]:
        return False
    exporters = MAIN if name == "main" else ELSEWHERE_MADE[name]
    folder.mkdir(parents=True, exist_ok=True)
    # what was made is kept: a run that was cut short goes on
    if not (folder / "done").exists():
        why = environments.call(name, "helpers.foreign.worker", model, str(folder), *exporters)
        (folder / "done").write_text(why, encoding="utf-8")
    for exporter in OPTIMIZED.get(model, ()) if name == "main" else ():
        optimize(model, folder / f"{model}.{slug(exporter)}.onnx", environments)
    return True


def optimize(model: str, path: Path, environments: Environments) -> None:
    """Make the files of every optimizer from a file."""
    if not path.exists() or list(path.parent.glob(f"{path.stem}.*.raw")):
        return  # the exporter made none, or it was done before
    for name, elsewhere in (("main", False), ("tools", True)):
        names = [optimizer for optimizer in OPTIMIZERS if (optimizer in ELSEWHERE) == elsewhere]
        environments.call(name, "helpers.foreign.optimizers", model, str(path), *names)


def versions_of(folder: Path, exporter: str, optimizer: str) -> dict[str, str]:
    """Return the versions of the packages that have to do with a file."""
    there: dict[str, str] = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
    names = [*ALWAYS, OF_OPTIMIZER.get(optimizer, "onnxruntime-gpu" if optimizer else "")]
    names += [
        name for name in ("optimum-onnx", "onnxruntime-genai", "mobius-onnx") if name.partition("-")[0] in exporter
    ]
    return {name: there[name] for name in names if name in there}


def instead(held: tuple[Held, ...], end: End) -> tuple[Held, ...] | None:
    """Return what a file holds whose trace took one side of a switch by length: it is wrong right beyond the switch.

    Dynamic frequencies are the default ones up to the context, longrope's the short ones up to the original one.
    """
    changed = []
    for encoding in held:
        parameters = dict(encoding.parameters)
        if encoding.form == "dynamic" and end.last == parameters["max_position_embeddings"]:
            for name in ("factor", "max_position_embeddings"):
                parameters.pop(name)
            changed.append(replace(encoding, form="default", parameters=parameters))
        elif encoding.form == "longrope" and end.last == parameters["original_max_position_embeddings"]:
            parameters.pop("long_factor")
            changed.append(replace(encoding, parameters=parameters))
        else:
            changed.append(encoding)
    return None if tuple(changed) == held else tuple(changed)


def silent(end: End) -> str:
    """Return what must be found in a file that runs beyond its end, and is wrong there; nothing of others."""
    # a file that refuses says itself where it ends
    if end.last is None or end.beyond == "refuses":
        return ""
    return f"it runs beyond {end.last} {end.unit}, and is wrong there"


def truth_of_file(path: Path, model: str, exporter: str, optimizer: str, eager: Eager, *, known: int | None) -> Truth:
    """Return the truth about a file: run it, and look at nothing of its graph but the names of its inputs."""
    tiny, content = TINY[model], path.read_bytes()
    graph = onnx.load_from_string(content).graph
    stored = {tensor.name for tensor in graph.initializer}
    dtype = dtype_after(optimizer)
    end = end_of(path, eager, dtype, KINDS[tiny.kind].unit, known if dtype == "int8" else None)
    return Truth(
        file=path.name,
        model=model,
        model_type=tiny.model_type,
        exporter=exporter,
        optimizer=optimizer,
        versions=versions_of(path.parent, exporter, optimizer),
        sha256=digest_of(content),
        size=len(content),
        inputs=tuple(port.name for port in graph.input if port.name not in stored),
        held=tiny.held,
        dtype="float32" if dtype == "int8" else dtype,
        end=end,
        must_find=silent(end) or (FORMS.get(exporter, "") if tiny.held[0].family == "rotary" else ""),
        held_in_file=instead(tiny.held, end),
    )


def head_dim(held: Iterable[Held]) -> int:
    """Return the features of a head, which a cache has as its last axis."""
    return next((int(str(row.parameters["head_dim"])) for row in held if "head_dim" in row.parameters), 16)


def combinations(model: str, folder: Path, exporters: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each exporter of a model, and each optimizer of its file."""
    # the file of an exporter comes before those that were made from it: its end is theirs
    for exporter in exporters:
        yield exporter, ""
        if (folder / f"{model}.{slug(exporter)}.onnx").exists() and exporter in OPTIMIZED.get(model, ()):
            yield from ((exporter, optimizer) for optimizer in OPTIMIZERS)


def judge(model: str, folder: Path, exporters: Iterable[str]) -> Iterator[Truth | Refused]:
    """Yield the truth about each file of a folder, or why there is none."""
    eager = Eager(folder / "eager.npz", head_dim(TINY[model].held))
    known = None
    for exporter, optimizer in combinations(model, folder, exporters):
        name = f"{model}.{slug(exporter)}" + (f".{slug(optimizer)}" if optimizer else "")
        path = folder / f"{name}.onnx"
        failed = folder / f"{name}.failed" if optimizer else folder / f"{slug(exporter)}.failed"
        if not path.exists() and optimizer and not failed.exists():
            continue  # a run that was cut short
        if not path.exists():
            # a process that was ended says so in its own file
            source = failed if failed.exists() else folder / "done"
            why = re.sub(r"\x1b\[\d+m", "", source.read_text(encoding="utf-8")) or "it was not made"
            yield Refused(model, exporter, optimizer, why)
            continue
        try:
            truth = truth_of_file(path, model, exporter, optimizer, eager, known=known)
            known = known if optimizer else truth.end.last
            yield truth if truth.end.first is not None else explained(truth, path) or refusal(truth)
        except Exception as error:  # ONNX Runtime refuses to load it: it has many kinds of errors
            yield Refused(model, exporter, optimizer, "ONNX Runtime: " + without_place(str(error), folder))


def refusal(truth: Truth) -> Refused:
    """Return why a file is left out that is right at no length."""
    why = "it refuses every length" if truth.end.beyond == "refuses" else "it is wrong at every length"
    return Refused(truth.model, truth.exporter, truth.optimizer, why)


def explained(truth: Truth, path: Path) -> Truth | None:
    """Return the truth about a Llama whose file leaves out the scaling: it is right against the Llama without one.

    Weights do not depend on the rope type, so the same numbers come out where the frequencies are the default ones.
    """
    # the folder of the same environment: its weights were drawn for the same sizes
    plain = path.parents[1] / "llama" / "eager.npz"
    if not truth.model.startswith("llama-") or not plain.exists():
        return None
    if end_of(path, Eager(plain, head_dim(truth.held)), truth.dtype, truth.end.unit).first is None:
        return None
    why = "the frequencies are the default ones: the scaling of the config is left out"
    return replace(truth, must_find=why, held_in_file=TINY["llama"].held)


def without_place(text: str, folder: Path) -> str:
    """Return the first line of an error without the folder of this run."""
    return (text.strip().splitlines() or [""])[0].replace(f"{folder}/", "")[:200]
