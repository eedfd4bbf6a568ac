"""Where an ONNX file loads, and why: read from the file, which may be untrusted, without running it.

The claims on runtimes were measured: docs/reference/measured/files.md has the table, and a test holds them against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from posenc_export.write.formats import OPSETS, ROTARY_RUNTIMES
from posenc_export.write.formats.onnx.dtypes import BFLOAT16, DOUBLE, holds, tensors_of
from posenc_export.write.formats.onnx.inner_graphs import graphs_of
from posenc_export.write.formats.onnx.operators import ONNX, Operator, operators_of

if TYPE_CHECKING:
    from onnx import ModelProto

Loads = Literal["yes", "no", "not known"]
OLDEST = OPSETS[min(OPSETS)].onnx_runtime
"""The oldest ONNX Runtime that was tried."""
MICROSOFT = "com.microsoft"
CONTRIBUTED: Mapping[str, str] = {
    "RotaryEmbedding": ROTARY_RUNTIMES["microsoft"],
    "MRotaryEmbedding": ROTARY_RUNTIMES["microsoft-mrope"],
}
"""The first ONNX Runtime that has an operator of com.microsoft as our files use it."""
OPENVINO, WEB = "2026.4.1", "1.30.0"
"""The releases of OpenVINO and of onnxruntime-web that were tried."""
NOT_ON_OPENVINO = {
    DOUBLE: "it computes on CPUs in float32 what is float64 in this file",
    BFLOAT16: "it loads, and cuts numbers to bfloat16 where a graph rounds them: off by up to one ulp, not half of one",
}
"""Dtypes that OpenVINO does not compute as they stand, by their numbers, with what it does."""
LOOKS_UP = ("Gather", "GatherElements", "GatherND")


@dataclass(frozen=True)
class LoadClaim:
    """Whether a runtime loads a file and gives its numbers.

    Attributes:
        runtime: Its name.
        loads: The answer.
        since: The first release that does.
        reasons: Why, in words.
    """

    runtime: str
    loads: Loads
    since: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Need:
    """Something in a file that needs a release of ONNX Runtime; "" where no such release is known."""

    words: str
    release: str


@dataclass(frozen=True)
class Used:
    """An operator of a file.

    Attributes:
        operator: Its name, domain and opset.
        since: The opset of its present form, or 0 where ONNX has no such operator.
        release: The first ONNX Runtime with that form.
    """

    operator: Operator
    since: int
    release: str


def claims(model: ModelProto) -> tuple[LoadClaim, ...]:
    """Return what is known of each runtime for a file."""
    return (_onnx_runtime(model), _openvino(model), _web(model))


def refused(known: Iterable[LoadClaim], release: str, reason: str) -> tuple[LoadClaim, ...]:
    """Return what is known of each runtime for a file that the ONNX Runtime of a release refuses, with the reason.

    A file that is known to need a newer release keeps its claim.
    """
    why = f"ONNX Runtime {release}, which is installed here, refuses it: {reason}"
    return tuple(claim if _needs_newer(claim, release) else _without_loading(claim, why) for claim in known)


def _needs_newer(claim: LoadClaim, release: str) -> bool:
    return claim.runtime == "ONNX Runtime" and bool(claim.since) and _order(claim.since) > _order(release)


def _without_loading(claim: LoadClaim, why: str) -> LoadClaim:
    """Return a claim on a file that is refused."""
    # its operators may have been tried, but not in such a file
    if claim.loads == "no":
        return claim
    loads: Loads = "no" if claim.runtime == "ONNX Runtime" else "not known"
    return LoadClaim(claim.runtime, loads, "", (why, *claim.reasons))


def operators_used(model: ModelProto) -> list[Used]:
    """Return the operators of a file, each with the opset, and the release, since which it is there."""
    return [Used(operator, _since(operator), _release_of(operator)) for operator in operators_of(model)]


def external_files(model: ModelProto) -> list[str]:
    """Return the files beside an ONNX file that its weights lie in."""
    tensors = (tensor for graph in graphs_of(model.graph) for tensor in tensors_of(graph))
    return sorted({entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"})


def _onnx_runtime(model: ModelProto) -> LoadClaim:
    needs = list(_needs(model))
    unknown = tuple(f"{need.words}: no ONNX Runtime that was tried has it" for need in needs if not need.release)
    beside = _beside(model)
    if unknown:
        return LoadClaim("ONNX Runtime", "not known", "", (*unknown, *beside))
    since = max((need.release for need in needs), key=_order)
    deciding = tuple(f"{need.words}: since {need.release}" for need in needs if need.release == since)
    tried = ("no older release was tried",) if since == OLDEST else ()
    return LoadClaim("ONNX Runtime", "yes", since, (*deciding, *tried, *beside))


def _needs(model: ModelProto) -> Iterator[Need]:
    """Yield whatever asks for a release of ONNX Runtime: the IR version, the opsets, operators that ONNX lacks."""
    yield Need(f"IR version {model.ir_version}", _release_of_ir(model.ir_version))
    for opset in sorted({entry.version for entry in model.opset_import if entry.domain in ("", ONNX)}):
        yield Need(f"opset {opset}", _release_of_opset(opset))
    for used in operators_used(model):
        # an operator that the oldest release has needs no line
        if not used.release or used.operator.domain != ONNX or used.release != OLDEST:
            yield Need(_named(used), used.release)


def _openvino(model: ModelProto) -> LoadClaim:
    reasons = list(_beside(model))
    if _names(model).intersection(LOOKS_UP):
        reasons.append("a position out of range gives zeros, without an error")
    for dtype, why in NOT_ON_OPENVINO.items():
        if holds(model, dtype):
            return LoadClaim("OpenVINO", "no", "", (why, *reasons))
    return _tried("OpenVINO", OPENVINO, model, reasons)


def _web(model: ModelProto) -> LoadClaim:
    if holds(model, BFLOAT16):
        return LoadClaim("onnxruntime-web", "no", "", ("it has no tensors of bfloat16",))
    if external_files(model):
        return LoadClaim("onnxruntime-web", "no", "", ("it takes no weights that lie beside a graph",))
    return _tried("onnxruntime-web", WEB, model, [])


def _tried(runtime: str, release: str, model: ModelProto, reasons: list[str]) -> LoadClaim:
    """Return that a file loads in the release that was tried, if everything in it was tried there."""
    unknown = [f"{need.words} was not tried there" for need in _needs(model) if not need.release]
    return LoadClaim(runtime, "not known" if unknown else "yes", "" if unknown else release, (*unknown, *reasons))


def _beside(model: ModelProto) -> tuple[str, ...]:
    files = external_files(model)
    return (f"its weights lie beside it, in {', '.join(files)}: keep them together",) if files else ()


def _names(model: ModelProto) -> set[str]:
    return {operator.name for operator in operators_of(model) if operator.domain == ONNX}


def _named(used: Used) -> str:
    return f"{used.operator.domain} {used.operator.name}" + (f" of opset {used.since}" if used.since else "")


def _since(operator: Operator) -> int:
    """Return the opset since which an operator of ONNX has its present form; 0 where that opset does not have it."""
    import onnx

    domain = "" if operator.domain == ONNX else operator.domain
    try:
        return int(onnx.defs.get_schema(operator.name, operator.opset, domain).since_version)
    except (onnx.defs.SchemaError, TypeError, OverflowError):  # the opset of an untrusted file may be any number
        return 0


def _release_of(operator: Operator) -> str:
    """Return the first ONNX Runtime that has an operator; "" where none is known."""
    if operator.domain == MICROSOFT:
        return CONTRIBUTED.get(operator.name, "")
    since = _since(operator) if operator.domain == ONNX else 0
    return _release_of_opset(since) if since else ""


def _release_of_opset(opset: int) -> str:
    return _first(record.onnx_runtime for number, record in OPSETS.items() if number >= opset > 0)


def _release_of_ir(version: int) -> str:
    return _first(record.onnx_runtime for record in OPSETS.values() if record.ir_version >= version > 0)


def _first(releases: Iterable[str]) -> str:
    return min(releases, key=_order, default="")


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", release)[:3])
