"""golden.cpp: every golden case with its tensors and tolerances, and how the class is called with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from posenc.scheme import Port, Tolerance
from posenc_export.arrays import Array
from posenc_export.bundle.folder import Manifest, TrialSpec
from posenc_export.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.cpp.names import TYPES, braced, dtype_constant, quoted
from posenc_export.validation.plan import Case, axes_of, long_axis
from posenc_export.validation.run import device_parity

BACKENDS = ("onnx", "torchscript")
"""Formats that the class can run, in the order of `Case::tolerances`."""


def golden_source(manifest: Manifest, arrays: Mapping[str, Array]) -> str:
    """Return the text of golden.cpp; what the tensors hold lies in files of their own."""
    arguments = [f"elements<const {TYPES[p.dtype]}>(inputs[{i}].data)" for i, p in enumerate(manifest.inputs)]
    arguments += [f"elements<{TYPES[p.dtype]}>(outputs[{i}].data)" for i, p in enumerate(manifest.outputs)]
    return filled(
        "golden.cpp",
        BUNDLE_TEMPLATES,
        cases="".join(_case(manifest, spec, arrays) for spec in manifest.trials).rstrip(),
        unused="" if manifest.inputs else "[[maybe_unused]] ",
        arguments=", ".join(arguments),
    )


def _case(manifest: Manifest, spec: TrialSpec, arrays: Mapping[str, Array]) -> str:
    case = spec.case
    return filled(
        "golden_case.cpp",
        BUNDLE_TEMPLATES,
        name=case.name,
        axes=", ".join(str(case.sizes[axis]) for axis in axes_of(manifest.inputs)),
        refused=str(case.refused).lower(),
        inputs=", ".join(_tensors(case, manifest.inputs, arrays)),
        outputs=", ".join(_tensors(case, manifest.outputs, arrays)),
        tolerances=braced(*_tolerances(manifest, spec)),
    )


def _tensors(case: Case, ports: tuple[Port, ...], arrays: Mapping[str, Array]) -> Iterator[str]:
    for port in ports:
        shape = case.shape(port)
        axis = long_axis(port, shape) if f"{case.name}/{port.name}.rows" in arrays else -1
        yield braced(quoted(port.name), dtype_constant(port), braced(*shape), axis)


def _tolerances(manifest: Manifest, spec: TrialSpec) -> Iterator[str]:
    """Yield the tolerances of each backend, on the CPU and on CUDA."""
    by_format = {artifact.format: artifact.parity for artifact in manifest.artifacts}
    for backend in BACKENDS:
        loosened = replace(spec, parity=spec.parity.loosened(by_format.get(backend)))
        yield braced(*(_tolerance(device_parity(loosened, device)) for device in ("cpu", "cuda")))


def _tolerance(allowed: Tolerance) -> str:
    numbers = (repr(float(n)) for n in (allowed.atol, allowed.rtol, allowed.ulps, allowed.vector))
    return braced(*numbers, str(allowed.bits).lower())
