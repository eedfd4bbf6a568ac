"""golden.cpp: every golden case with its tensors and tolerances, and how the class is called with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from posenc.encoding import Tolerance
from posenc.ports import Array, Port, axes_of
from posenc_export.bundle.carries import are_looked_up
from posenc_export.bundle.case import Case
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.sampling import long_axis
from posenc_export.write.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.write.cpp.arguments import gives_arrays
from posenc_export.write.cpp.names import braced, dtype_constant, qualified_type, quoted
from posenc_export.write.cpp.uses import Uses

BACKENDS = ("onnx", "torchscript")
"""Formats that the class can run, in the order of `Case::tolerances`."""


def golden_source(manifest: Manifest, arrays: Mapping[str, Array], uses: Uses) -> str:
    """Return the text of golden.cpp; the elements of tensors lie in files of their own."""
    # The class takes a single size for each axis: it cannot be called with sizes that differ between ports.
    fed = uses.fed(manifest.inputs)
    arguments = [f"elements_of<const {qualified_type(p)}>(inputs[{i}])" for i, p in enumerate(fed)]
    allocated = gives_arrays(manifest.inputs, manifest.outputs)
    if not allocated:
        arguments += [f"elements_of<{qualified_type(p)}>(outputs[{i}])" for i, p in enumerate(manifest.outputs)]
    call = filled(
        f"golden_call{'_arrays' * allocated}.cpp", BUNDLE_TEMPLATES, arguments=", ".join(["axes", *arguments])
    )
    return filled(
        "golden.cpp",
        BUNDLE_TEMPLATES,
        cases="".join(_case(manifest, case, arrays, uses) for case in manifest.cases if not case.unlike).rstrip(),
        unused="" if fed else "[[maybe_unused]] ",
        unused_memory="[[maybe_unused]] " * allocated,
        call=call.rstrip("\n"),
    )


def _case(manifest: Manifest, case: Case, arrays: Mapping[str, Array], uses: Uses) -> str:
    fed = uses.fed(manifest.inputs)
    index = {port.name: i for i, port in enumerate(fed)}
    over = {output: index[source] for output, source in uses.replaces.items()}
    return filled(
        "golden_case.cpp",
        BUNDLE_TEMPLATES,
        name=case.name,
        axes=", ".join(str(case.sizes[axis.name]) for axis in axes_of(manifest.inputs)),
        refused=str(case.refused).lower(),
        on_cuda=str(case.refused and not are_looked_up(manifest.inputs)).lower(),
        inputs=", ".join(_tensors(case, fed, arrays)),
        outputs=", ".join(_tensors(case, manifest.outputs, arrays, over)),
        tolerances=braced(*_tolerances(manifest, case)),
        masked_atol=repr(float(case.masked_atol)),
    )


def _tensors(
    case: Case, ports: tuple[Port, ...], arrays: Mapping[str, Array], replaced: Mapping[str, int] = MappingProxyType({})
) -> Iterator[str]:
    for port in ports:
        shape = _shape(case, port, arrays)
        # The axis of the rows that are kept; -1 if the tensor is kept whole.
        axis = long_axis(port, shape) if f"{case.name}/{port.name}.rows" in arrays else -1
        yield braced(quoted(port.name), dtype_constant(port), braced(*shape), axis, replaced.get(port.name, -1))


def _shape(case: Case, port: Port, arrays: Mapping[str, Array]) -> tuple[int, ...]:
    """Return the shape of a tensor: that of what is stored where sizes do not follow from those of the inputs."""
    if all(axis.size is not None or set(axis.names) <= case.sizes.keys() for axis in port.axes):
        return port.shape(case.sizes)
    key = f"{case.name}/{port.name}"
    if key not in arrays:  # of a call that is refused
        return tuple(axis.size or 0 for axis in port.axes)
    shape = list(arrays[key].shape)
    if f"{key}.rows" in arrays:  # the last row is always among those that are kept
        shape[long_axis(port, tuple(shape))] = int(arrays[f"{key}.rows"][-1]) + 1
    return tuple(shape)


def _tolerances(manifest: Manifest, case: Case) -> Iterator[str]:
    """Yield the tolerances of each backend, on the CPU and on CUDA."""
    for backend in BACKENDS:
        artifact = manifest.artifact(backend)
        # A file may be farther from eager than the case says: another format rounds otherwise.
        allowed = case.eager_tolerance.plus(artifact.eager_tolerance if artifact else None)
        of_backend = replace(case, eager_tolerance=allowed)
        yield braced(*(_tolerance(of_backend.eager_tolerance_where(same_bits)) for same_bits in (True, False)))


def _tolerance(allowed: Tolerance) -> str:
    numbers = (repr(float(n)) for n in (allowed.atol, allowed.rtol, allowed.ulps, allowed.vector))
    return braced(*numbers, str(allowed.bits).lower())
