"""Rows of an encoding at positions: sines and cosines, for clock hands and for curves of errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Floats, Integers, Positions
from posenc.scheme import SCHEMES, Scheme
from posenc.spec import Method, Mode, Spec
from posenc_export.common.arrays import call_on_arrays
from posenc_export.show.plots.encodings import Parameters, outputs_of, seeded


def rows_of(scheme: str, mode: Mode, method: Method, max_len: int, parameters: Parameters) -> Encoding:
    """Build the encoding that gives rows, or cosines and sines, at positions; raise ValueError where there is none."""
    record = SCHEMES[scheme]
    output = _output_of(record)
    if output is None:
        raise ValueError(f"{scheme} has no rows at positions: --kind heatmap draws what it has")
    return seeded(scheme, Spec(mode, method, "explicit", max_len), {**parameters, **output})


def _output_of(scheme: Scheme) -> dict[str, object] | None:
    """Return the parameters with which a scheme takes positions alone and gives rows; None if it cannot."""
    spec = Spec(positions="explicit", max_len=2)
    for output in outputs_of(scheme, {}):
        try:
            encoding = seeded(scheme.name, spec, {**scheme.samples[0], **output})
        except ValueError:
            continue
        if [type(port.carries) for port in encoding.inputs] == [Positions]:
            return output
    return None


def rows_at(encoding: Encoding, positions: Integers) -> Floats:
    """Return an encoding's rows at positions, as float64: (positions, dim); of cos and sin, sines first."""
    arrays = call_on_arrays(encoding.module, [_fed(encoding, positions)])
    return _joined(encoding, dict(zip([port.name for port in encoding.outputs], arrays, strict=True)))


def reference_at(encoding: Encoding, positions: Integers) -> Floats:
    """Return the rows of the float64 reference, in the order of rows_at."""
    return _joined(encoding, encoding.reference({encoding.inputs[0].name: _fed(encoding, positions)}, None))


def _fed(encoding: Encoding, positions: Integers) -> Integers:
    """Return positions in the shape of an encoding's port: each axis of positions gets the same."""
    # (seq,) -> (1, seq), or (axes, 1, seq) where a token has several positions
    axes = [axis.size or 1 for axis in encoding.inputs[0].axes[:-1]]
    return np.broadcast_to(positions, (*axes, len(positions))).copy()


def _joined(encoding: Encoding, outputs: Mapping[str, Array]) -> Floats:
    names = [port.name for port in encoding.outputs]
    names = names[::-1] if encoding.family == "cos_sin" else names  # sines first
    return np.concatenate([np.asarray(outputs[name][0], np.float64) for name in names], -1)
