"""The child in which a model is asked: `python -P -m posenc.hf.asking FOLDER`; see `process`.

It reads question.pickle, and, once its input says that they are there, feeds.pickle; it writes model.json, and
answers.npz. What it gives back is arrays and JSON alone. Its memory is bounded by what is free once torch is there.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from posenc.hf.asking import model_of
from posenc.hf.asking.load import said
from posenc.hf.asking.model import CannotAsk, Disagrees, Model
from posenc.memory import free_memory
from posenc.ports import Array, Feeds

TOO_LARGE = "what the config asks for does not fit into the memory that is free"


def main(folder: Path) -> None:
    """Make the model that a folder asks about, wait for the calls, and write what it gives."""
    bound_memory()
    question = pickle.loads((folder / "question.pickle").read_bytes())  # written by the process that started this one
    model = _guarded(partial(model_of, question))
    if sys.stdin.readline() and isinstance(model, Model):
        model = _guarded(partial(_answered, model, folder))
    (folder / "model.json").write_text(json.dumps(_described(model)), encoding="utf-8")


def bound_memory() -> None:
    """Let this process take what is free, and no more: a config is a stranger's."""
    import torch  # noqa: F401  (libraries take more addresses than memory)

    with contextlib.suppress(ImportError, OSError, ValueError, StopIteration):
        import resource

        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        size = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize:"))
        most = size + free_memory()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _answered(model: Model, folder: Path) -> Model:
    """Write what a model gives in each call."""
    cases: dict[str, Feeds] = pickle.loads((folder / "feeds.pickle").read_bytes())
    outputs: dict[str, Array] = {}
    refused: CannotAsk | None = None
    for case, feeds in cases.items():
        try:
            outputs |= {f"{case}/{name}": value for name, value in model.call(feeds).items()}
        except Disagrees:
            raise
        except CannotAsk as error:
            refused = error
    if refused is not None and not outputs:
        raise refused
    np.savez(folder / "answers.npz", **outputs)  # type: ignore[arg-type]
    return model


def _guarded(work: Callable[[], Model]) -> Model | Disagrees | str:
    """Return what comes of some work, or in one line why nothing does."""
    try:
        return work()
    except Disagrees as error:
        return error
    except CannotAsk as error:
        return str(error)
    except MemoryError:
        return TOO_LARGE
    except Exception as error:
        return TOO_LARGE if "allocate memory" in str(error) else f"asked, it raised {said(error)}"


def _described(model: Model | Disagrees | str) -> dict[str, object]:
    if isinstance(model, Disagrees):
        return {"disagrees": str(model)}
    if isinstance(model, str):
        return {"cannot": model}
    words = {"words": model.words, "library": model.library, "note": model.note, "amplitude": model.amplitude}
    return {**words, "atol": model.atol, "permutation": list(model.permutation)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
