"""A registered scheme as a target."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.parameters import defaults
from posenc.scheme import SCHEMES, build
from posenc.spec import Spec
from posenc_export.common.errors import bad_input
from posenc_export.write.targets import Target


def scheme_target(name: str, spec: Spec, parameters: Mapping[str, object], seed: int) -> Target:
    """Return the encoding of a scheme; raise BadInput, in one line, where it cannot be made so."""
    import torch

    torch.manual_seed(seed)
    with bad_input():
        encoding = build(name, spec, **parameters)
        return Target(name, encoding, spec, {**defaults(SCHEMES[name].parameters), **parameters})
