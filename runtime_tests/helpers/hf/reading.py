"""What a config is read as, in short: for tests of what `--from-hf` reads."""

from __future__ import annotations

from typing import Any

from posenc_models import read_config
from posenc_models.config.encodings import ENCODINGS
from posenc_models.config.encodings.described import parameters_of, spec_settings
from posenc_models.config.encodings.parts import parts_of
from posenc_models.config.settings import Settings


def read(config: dict[str, Any], part: str | None = None, positions: str | None = None) -> dict[str, Any]:
    reading = read_config(config, part=part, positions=positions)
    return {"scheme": reading.scheme, **reading.parameters, **reading.spec}


def values_of(config: dict[str, Any]) -> dict[str, dict[str, object]]:
    """What a config itself says of each of its encodings."""
    parts = parts_of(Settings(config), str(config.get("model_type") or config["_class_name"]))
    own = [part for part in parts if part.row in ENCODINGS[part.model_type]]
    rows = [(part.name, part, part.row) for part in own if part.row is not None and not part.config.path]
    return {
        name: {k: v.value for k, v in {**parameters_of(part, row, None, {}), **spec_settings(part, row, None)}.items()}
        for name, part, row in rows
    }
