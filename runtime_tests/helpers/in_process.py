"""What users get in a process of its own, done in the process of a test: what takes seconds there is done once."""

from __future__ import annotations

import functools
import importlib
import io
import json
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from torch.onnx._internal.exporter import _constants
from torch.onnx._internal.exporter._registration import ONNXRegistry

from posenc.memory import GIB
from posenc.ports import Feeds
from posenc_export.common import messages
from posenc_export.common.child import Child, Ended
from posenc_models.asking import model_of
from posenc_models.asking.__main__ import guarded, write_answers
from posenc_models.asking.load import library_of
from posenc_models.asking.model import Question
from posenc_models.asking.process import Answers, Asking

ONE_AT_A_TIME = threading.RLock()
"""Where messages go is an attribute of a module."""


class InProcess(Asking):
    """A model that is asked in this process; nothing bounds its seconds or its memory."""

    def __init__(self, question: Question, library: str = "transformers", timeout: float = 0.0) -> None:
        library_of(library)
        self.question = question

    def answers(self, cases: Mapping[str, Feeds]) -> Answers:
        with tempfile.TemporaryDirectory() as name:
            self.folder = Path(name)
            self._write_calls(cases)
            write_answers(guarded(partial(model_of, self.question)), self.folder)
            return self._read()


READERS = tuple(f"posenc_export.read.{name}" for name in ("child", "loading", "weighing"))
"""Programs that read a stranger's file, and write none."""


def child_here(words: Sequence[str]) -> Child | ChildHere:
    """Return what stands for a process that reads a file; the process itself for any other."""
    return ChildHere(words) if len(words) == 3 and words[1] in READERS else Child(words)


class ChildHere:
    """What a process that reads a stranger's file says, said by this one; nothing bounds its seconds or its memory."""

    def __init__(self, words: Sequence[str]) -> None:
        """Take the words of `python -m MODULE REQUEST`."""
        _, self._module, self._request = words
        self._pipe: io.BytesIO | None = None

    def line(self, seconds: float | None) -> bytes:
        """Return the next line; all is done at the first."""
        del seconds
        if self._pipe is None:
            self._pipe = io.BytesIO()
            main = importlib.import_module(self._module).main
            with ONE_AT_A_TIME, pytest.MonkeyPatch.context() as patch:
                patch.setattr(messages, "pipe_of_messages", lambda: self._pipe)
                patch.setattr(messages, "limit_memory", lambda at_most, **_: at_most / GIB)
                main(json.loads(self._request))
            self._pipe.seek(0)
        if line := self._pipe.readline():
            return line
        raise Ended("ended with status 0: ")

    def end(self) -> None:
        """There is no process to end."""


def keep_torchlib(patch: pytest.MonkeyPatch) -> None:
    """Have torch.onnx read its library of operators once in a process, and not at every export."""
    read = functools.cache(ONNXRegistry.from_torchlib)

    def copied(opset_version: int = _constants.TORCHLIB_OPSET) -> ONNXRegistry:
        registry, whole = ONNXRegistry(), read(opset_version)
        registry._opset_version = whole._opset_version
        registry.functions = {name: list(metas) for name, metas in whole.functions.items()}
        return registry

    patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(copied))
