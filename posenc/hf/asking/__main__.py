"""The child in which a model is asked: `python -P -m posenc.hf.asking FOLDER`; see `process`.

It reads question.pickle, says "ready", and for each line on its input reads feeds.pickle and writes answers.npz. What it
gives back is arrays and JSON alone. Its memory is bounded by what is free once torch is there.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import sys
from pathlib import Path

import numpy as np

from posenc.hf.asking import model_of
from posenc.hf.asking.load import said
from posenc.hf.asking.model import CannotAsk, Model
from posenc.memory import free_memory


def main(folder: Path) -> None:
    """Answer what is asked in a folder, until there is no more input."""
    sys.stdout.flush()
    bound_memory()
    question = pickle.loads((folder / "question.pickle").read_bytes())  # written by the process that started this one
    model = _guarded(lambda: model_of(question))
    _write(folder / "model.json", _described(model))
    print("ready", flush=True)
    for _ in sys.stdin:
        feeds = pickle.loads((folder / "feeds.pickle").read_bytes())
        answer = model
        if isinstance(model, Model):
            asked: Model = model
            answer = _guarded(lambda: _answers(asked, feeds, folder))
        _write(folder / "model.json", _described(answer))
        print("done", flush=True)


def bound_memory() -> None:
    """Let this process take what is free, and no more: a config is a stranger's."""
    import torch  # noqa: F401  (libraries take more addresses than memory)

    with contextlib.suppress(ImportError, OSError, ValueError, StopIteration):
        import resource

        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        size = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize:"))
        most = size + free_memory()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _answers(model: Model, cases: dict[str, dict[str, np.ndarray]], folder: Path) -> Model:
    arrays = {f"{case}/{name}": value for case, feeds in cases.items() for name, value in model.call(feeds).items()}
    np.savez(folder / "answers.npz", **arrays)
    return model


def _guarded(work: object) -> Model | str:
    """Return what comes of some work, or in one line why nothing does."""
    assert callable(work)
    try:
        model: Model = work()
        return model
    except CannotAsk as error:
        return str(error)
    except MemoryError:
        return "what the config asks for does not fit into the memory that is free"
    except Exception as error:
        if "alloc" in str(error) and "memory" in str(error):
            return "what the config asks for does not fit into the memory that is free"
        return f"asked, it raised {said(error)}"


def _described(model: Model | str) -> dict[str, object]:
    if isinstance(model, str):
        return {"cannot": model}
    words = {"words": model.words, "library": model.library, "note": model.note, "amplitude": model.amplitude}
    return {**words, "permutation": list(model.permutation)}


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
