"""The lists of execution providers: operators, opsets and dtypes, each list with the commit of its source.

Files of JSON beside this one hold them; `runtime_tests/scripts/provider_lists.py` writes them from the sources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Matching = Literal["kernel", "span", "any"]
"""How an operator's opset is held against a list.

kernel   ONNX Runtime's registry of kernels: a kernel without a last opset is of the form of that one opset alone
span     from an opset to another, or on from it
any      the list says nothing of forms
"""
ORDER = (
    *("cpu", "cuda", "tensorrt", "directml", "openvino_cpu", "openvino_gpu", "webgpu", "webgpu_int64", "jsep", "webnn"),
    *("coreml", "coreml_nn", "qnn", "nnapi", "xnnpack"),
)
"""The files of lists: the CPU, which takes what others leave, then servers, browsers and phones."""


@dataclass(frozen=True)
class ListOrigin:
    """Where a list is from: a repository, a commit of it, that commit's date, the release and the files."""

    repository: str
    commit: str
    date: str
    version: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """An operator that a provider takes, from the form of an opset to that of another.

    Attributes:
        since: the first opset.
        until: the last one; None where none is said.
        dtypes: by the name of a type or an input in the operator's definition, by "#" and the number of an input, or
            by "*" for all inputs that may hold floats; None where the list does not say.
    """

    since: int
    until: int | None
    dtypes: Mapping[str, frozenset[str]] | None


@dataclass(frozen=True)
class ProviderList:
    """What a provider takes by its list.

    Attributes:
        title: the provider's name.
        matching: how an operator's opset is held against the list.
        opset: the last opset of files that the list is of; None where it says none.
        every: the dtypes that any input or output may have; None where the list says none.
        source: where it is from.
        kernels: by domain and operator.
        signatures: the types of inputs and of outputs of operators that ONNX does not define.
    """

    title: str
    matching: Matching
    opset: int | None
    every: frozenset[str] | None
    source: ListOrigin
    kernels: Mapping[str, Mapping[str, tuple[Kernel, ...]]]
    signatures: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]

    def of(self, domain: str, name: str) -> tuple[Kernel, ...]:
        """Return the kernels of an operator."""
        return self.kernels.get(domain, {}).get(name, ())


@cache
def provider_lists() -> tuple[ProviderList, ...]:
    """Return all lists, that of the CPU first."""
    return tuple(_read(Path(__file__).with_name(f"{name}.json")) for name in ORDER)


@cache
def signatures() -> Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the types of inputs and of outputs of com.microsoft's operators, from all lists that have them."""
    return {name: ways for one in reversed(provider_lists()) for name, ways in one.signatures.items()}


def _read(path: Path) -> ProviderList:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    kernels = {
        domain: {name: tuple(_kernel(*row) for row in rows) for name, rows in operators.items()}
        for domain, operators in data["kernels"].items()
    }
    source = ListOrigin(**{**data["source"], "paths": tuple(data["source"]["paths"])})
    every = frozenset(data["every"].split()) if data["every"] else None
    signatures = {name: (tuple(ins), tuple(outs)) for name, (ins, outs) in data["signatures"].items()}
    return ProviderList(data["title"], data["matching"], data["opset"], every, source, kernels, signatures)


def _kernel(since: int, until: int | None, dtypes: dict[str, str] | None) -> Kernel:
    by_name = None if dtypes is None else {key: frozenset(words.split()) for key, words in dtypes.items()}
    return Kernel(since, until, by_name)
