"""The rotary encoding that a model's config.json describes, as a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from posenc.hf import ModelConfig, read_config
from posenc.spec import Spec
from posenc_export.errors import bad_input
from posenc_export.targets import Target
from posenc_export.targets.scheme import scheme_target


def config_target(config: ModelConfig, spec: Spec, parameters: Mapping[str, object], seed: int) -> Target:
    """Return the encoding that a config describes; parameters that are given are stronger than what it says.

    Raises BadInput, in one line, where it describes none, or one that cannot be built.
    """
    with bad_input():
        reading = read_config(config, overrides=parameters)
    target = scheme_target(reading.scheme, spec, reading.parameters, seed)
    path = "the config" if config.path is None else config.path.as_posix()
    return replace(target, origin={"config": path, **reading.origin})
