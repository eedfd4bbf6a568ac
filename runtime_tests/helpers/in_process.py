"""What users get in a process of its own, done in the process of a test: what takes seconds there is done once."""

import functools
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from torch.onnx._internal.exporter import _constants
from torch.onnx._internal.exporter._registration import ONNXRegistry

from posenc.ports import Feeds
from posenc_models.asking import model_of
from posenc_models.asking.__main__ import guarded, write_answers
from posenc_models.asking.load import library_of
from posenc_models.asking.model import Question
from posenc_models.asking.process import Answers, Asking


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


def keep_torchlib(patch: pytest.MonkeyPatch) -> None:
    """Have torch.onnx read its library of operators once in a process, and not at every export."""
    read = functools.cache(ONNXRegistry.from_torchlib)

    def copied(opset_version: int = _constants.TORCHLIB_OPSET) -> ONNXRegistry:
        registry, whole = ONNXRegistry(), read(opset_version)
        registry._opset_version = whole._opset_version
        registry.functions = {name: list(metas) for name, metas in whole.functions.items()}
        return registry

    patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(copied))
