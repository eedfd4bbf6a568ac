"""The encoding that a model's config.json describes, as a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posenc.encoding import Encoding
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.common.arrays import to_numpy
from posenc_export.common.errors import bad_input
from posenc_export.write.targets import Target
from posenc_export.write.targets.scheme import scheme_target
from posenc_models import ModelConfig, Reading, read_config
from posenc_models.asking.model import Question


def config_target(config: ModelConfig, spec: Spec, parameters: Mapping[str, object], seed: int) -> Target:
    """Return the encoding that a config describes; parameters that are given replace those of the config.

    Raises BadInput, in one line, where it describes none, or one that cannot be built.
    """
    with bad_input():
        reading = read_config(config, overrides=parameters, positions=spec.positions)
        spec = replace(spec, **_implied(spec, reading.spec))
    target = scheme_target(reading.scheme, spec, reading.parameters, seed)
    path = "the config" if config.path is None else config.path.as_posix()
    # fields that the user set otherwise did not come from the config
    of_another = {name for name, value in reading.spec.items() if getattr(spec, name) != value}
    origin = {name: where for name, where in reading.origin.items() if name not in of_another}
    origin = {"config": path, **origin, **_only_mode(reading.scheme, spec)}
    question = _question(config, reading, target.encoding)
    return replace(target, origin=origin, notes=reading.notes, question=question)


def _question(config: ModelConfig, reading: Reading, encoding: Encoding) -> Question:
    """Return the question to the config's model, with our learned tables."""
    part = "" if config.part is None else config.part.name
    tables = {str(i): to_numpy(table) for i, table in enumerate(encoding.learned)}
    ports = (encoding.inputs, encoding.outputs)
    return Question(config.content, part, config.layer, reading, *ports, tables, config.layer_type or "")


def _only_mode(scheme: str, spec: Spec) -> dict[str, str]:
    """Return why the mode is not the usual one, where a scheme has no other."""
    there_is_none = spec.mode == "dynamic" and "baked" in SCHEMES[scheme].unsupported.modes
    return {"mode": f"{scheme} has no baked form"} if there_is_none else {}


def _implied(spec: Spec, fields: Mapping[str, object]) -> dict[str, Any]:
    """Return how a model gives positions, and where they begin, as far as the spec does not say so."""
    unsaid = {"positions": spec.positions is None, "position_offset": not spec.position_offset}
    return {name: fields[name] for name, is_unsaid in unsaid.items() if is_unsaid and name in fields}
