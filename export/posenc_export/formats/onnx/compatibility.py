"""Where an ONNX file loads, and why: read from the file itself, which may be a stranger's; nothing of it is run.

What is known of runtimes was measured: docs/compatibility.md has the table, and a test holds these claims against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from posenc_export.formats import OPSETS, ROTARY_RUNTIMES, Opset
from posenc_export.formats.onnx.dtypes import BFLOAT16, DOUBLE, graphs_of, holds, tensors_of
from posenc_export.formats.onnx.operators import ONNX, Operator, operators_of

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

Loads = Literal["yes", "no", "not known"]
OLDEST = OPSETS[min(OPSETS)].onnx_runtime
"""The oldest ONNX Runtime that was tried."""
MICROSOFT = "com.microsoft"
CONTRIBUTED: Mapping[str, str] = {"RotaryEmbedding": ROTARY_RUNTIMES["microsoft"]}
"""The first ONNX Runtime that has an operator of com.microsoft as our files use it."""
OPENVINO, WEB = "2026.4.1", "1.30.0"
"""The releases of OpenVINO and of onnxruntime-web that were tried."""
NOT_ON_OPENVINO = {
    DOUBLE: "it computes on CPUs in float32 what is float64 in this file",
    BFLOAT16: "it loads, and cuts numbers to bfloat16 where a graph rounds them: off by up to one ulp, not half of one",
}
"""What a file may hold that OpenVINO does not compute as it stands, by the number of the dtype."""
LOOKS_UP = ("Gather", "GatherElements", "GatherND")


@dataclass(frozen=True)
class Claim:
    """Whether a runtime loads a file and gives its numbers, the first release that does, and why, in words."""

    runtime: str
    loads: Loads
    since: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Need:
    """Something of a file that needs a release of ONNX Runtime; nothing where none is known."""

    what: str
    release: str


@dataclass(frozen=True)
class Used:
    """An operator of a file: the opset of its present form, where ONNX has it, and the ONNX Runtime of that."""

    operator: Operator
    since: int
    release: str


def claims(model: ModelProto) -> tuple[Claim, ...]:
    """Return what is known of each runtime for a file."""
    return (_onnx_runtime(model), _openvino(model), _web(model))


def refused(known: Iterable[Claim], release: str, reason: str) -> tuple[Claim, ...]:
    """Return what is known of each runtime for a file that the ONNX Runtime of a release refuses, with the reason.

    Where it is known to need a newer one, that is no news.
    """
    why = f"ONNX Runtime {release}, which is installed here, refuses it: {reason}"
    return tuple(claim if _needs_newer(claim, release) else _without_loading(claim, why) for claim in known)


def _needs_newer(claim: Claim, release: str) -> bool:
    return claim.runtime == "ONNX Runtime" and bool(claim.since) and _order(claim.since) > _order(release)


def _without_loading(claim: Claim, why: str) -> Claim:
    """Return a claim on a file that is refused: what was tried of its operators says nothing of it."""
    if claim.loads == "no":
        return claim
    loads: Loads = "no" if claim.runtime == "ONNX Runtime" else "not known"
    return Claim(claim.runtime, loads, "", (why, *claim.reasons))


def operators_used(model: ModelProto) -> list[Used]:
    """Return the operators of a file, each with the opset, and the release, since which it is there."""
    return [Used(one, _since(one), _release_of(one)) for one in operators_of(model)]


def external_files(model: ModelProto) -> list[str]:
    """Return the files beside it that weights of an ONNX file lie in."""
    entries = (e for tensor in _tensors(model) for e in tensor.external_data if e.key == "location")
    return sorted({entry.value for entry in entries})


def _onnx_runtime(model: ModelProto) -> Claim:
    needs = list(_needs(model))
    unknown = tuple(f"{need.what}: no ONNX Runtime that was tried has it" for need in needs if not need.release)
    beside = _beside(model)
    if unknown:
        return Claim("ONNX Runtime", "not known", "", (*unknown, *beside))
    since = max((need.release for need in needs), key=_order)
    deciding = tuple(f"{need.what}: since {need.release}" for need in needs if need.release == since)
    tried = ("no older release was tried",) if since == OLDEST else ()
    return Claim("ONNX Runtime", "yes", since, (*deciding, *tried, *beside))


def _needs(model: ModelProto) -> Iterator[Need]:
    """Yield what asks for a release of ONNX Runtime: the IR version, the opsets, and operators that are not ONNX's."""
    yield Need(f"IR version {model.ir_version}", _first(r.onnx_runtime for r in _with_ir(model.ir_version)))
    for opset in sorted({one.version for one in model.opset_import if not one.domain or one.domain == ONNX}):
        yield Need(f"opset {opset}", _release_of_opset(opset))
    for used in operators_used(model):
        if not used.release or used.operator.domain != ONNX or used.release != OLDEST:
            yield Need(_named(used), used.release)


def _openvino(model: ModelProto) -> Claim:
    reasons = list(_beside(model))
    if any(node in LOOKS_UP for node in _names(model)):
        reasons.append("a position that there is not gives zeros, without an error")
    for dtype, why in NOT_ON_OPENVINO.items():
        if holds(model, dtype):
            return Claim("OpenVINO", "no", "", (why, *reasons))
    return _tried("OpenVINO", OPENVINO, model, reasons)


def _web(model: ModelProto) -> Claim:
    if holds(model, BFLOAT16):
        return Claim("onnxruntime-web", "no", "", ("it has no tensors of bfloat16",))
    if external_files(model):
        return Claim("onnxruntime-web", "no", "", ("it takes no weights that lie beside a graph",))
    return _tried("onnxruntime-web", WEB, model, [])


def _tried(runtime: str, release: str, model: ModelProto, reasons: list[str]) -> Claim:
    """Return that a file loads in the one release that was tried, if all that it needs was tried there."""
    unknown = [f"{need.what} was not tried there" for need in _needs(model) if not need.release]
    return Claim(runtime, "not known" if unknown else "yes", "" if unknown else release, (*unknown, *reasons))


def _beside(model: ModelProto) -> tuple[str, ...]:
    files = external_files(model)
    return (f"its weights lie beside it, in {', '.join(files)}: keep them together",) if files else ()


def _names(model: ModelProto) -> set[str]:
    return {one.name for one in operators_of(model) if one.domain == ONNX}


def _named(used: Used) -> str:
    return f"{used.operator.domain} {used.operator.name}" + (f" of opset {used.since}" if used.since else "")


def _since(operator: Operator) -> int:
    """Return the opset since which an operator of ONNX has its present form; 0 where it is none at that opset."""
    import onnx

    domain = "" if operator.domain == ONNX else operator.domain
    try:
        return int(onnx.defs.get_schema(operator.name, operator.opset, domain).since_version)
    except (onnx.defs.SchemaError, TypeError, OverflowError):  # an opset of a stranger's file may be any number
        return 0


def _release_of(operator: Operator) -> str:
    """Return the first ONNX Runtime that has an operator; nothing where none is known."""
    if operator.domain == MICROSOFT:
        return CONTRIBUTED.get(operator.name, "")
    since = _since(operator) if operator.domain == ONNX else 0
    return _release_of_opset(since) if since else ""


def _release_of_opset(opset: int) -> str:
    return _first(record.onnx_runtime for number, record in OPSETS.items() if number >= opset > 0)


def _with_ir(version: int) -> list[Opset]:
    return [record for record in OPSETS.values() if record.ir_version >= version > 0]


def _first(releases: Iterable[str]) -> str:
    return min(releases, key=_order, default="")


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", release)[:3])


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    return (tensor for graph in graphs_of(model.graph) for tensor in tensors_of(graph))
