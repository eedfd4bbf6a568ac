"""The child in which a model is asked: `python -P -m posenc_models.asking FOLDER SECONDS`; see `process`.

It reads question.pickle, and feeds.pickle once its input has a line; it writes model.json and answers.npz: arrays and
JSON alone. Its memory is bounded by what is free once torch is imported, its computing by SECONDS (0 for any).
"""

import contextlib
import json
import pickle
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from math import ceil
from pathlib import Path

import numpy as np

from posenc.memory import bound_addresses, free_memory
from posenc.ports import Array, Feeds
from posenc_models.asking import model_of
from posenc_models.asking.load import said
from posenc_models.asking.model import CannotAsk, Disagrees, OwnModel

TOO_LARGE = "what the config asks for does not fit into the memory that is free"


def main(folder: Path, seconds: float) -> None:
    """Make the model that a folder asks about, wait for the calls, and write its answers."""
    bound_computing(seconds)
    bound_memory()
    question = pickle.loads((folder / "question.pickle").read_bytes())  # written by the process that started this one
    model = guarded(partial(model_of, question))
    sys.stdin.readline()
    write_answers(model, folder)


def write_answers(model: OwnModel | Disagrees | str, folder: Path) -> None:
    """Write the answers of a model to the calls of a folder, or why it has none."""
    if isinstance(model, OwnModel) and (folder / "feeds.pickle").exists():
        model = guarded(partial(_answered, model, folder))
    (folder / "model.json").write_text(json.dumps(_described(model)), encoding="utf-8")


def bound_computing(seconds: float) -> None:
    """Let this process compute for so long, whatever else the machine does; the system ends it then (SIGXCPU)."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        if seconds:
            resource.setrlimit(resource.RLIMIT_CPU, (max(ceil(seconds), 1), most))


def bound_memory() -> None:
    """Let this process take the free memory, and no more: a config may come from anybody."""
    import torch  # noqa: F401  (libraries take more addresses than memory)

    with contextlib.suppress(ImportError, OSError, ValueError):
        bound_addresses(free_memory(), for_good=True)


def _answered(model: OwnModel, folder: Path) -> OwnModel:
    """Write a model's outputs in each call; raise CannotAsk where it refuses all calls."""
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


def guarded(work: Callable[[], OwnModel]) -> OwnModel | Disagrees | str:
    """Return the result of some work, or in one line why there is none."""
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


def _described(model: OwnModel | Disagrees | str) -> dict[str, object]:
    """Return what model.json says."""
    if isinstance(model, Disagrees):
        return {"disagrees": str(model)}
    if isinstance(model, str):
        return {"cannot": model}
    return {field.name: getattr(model, field.name) for field in fields(model) if field.name != "call"}


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
