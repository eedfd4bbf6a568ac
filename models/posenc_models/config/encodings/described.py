"""What a row says of a config: parameters of the scheme, fields of the spec, names of weights."""

import re
from collections.abc import Mapping

from posenc_models.config.encodings.parts import ConfigPart
from posenc_models.config.encodings.rows import LEARNED, Row
from posenc_models.config.settings import Setting

LISTED = 12
"""Names that a message lists."""
NO_WEIGHTS = "none given: as before training; -p weights=FOLDER reads them"


def spec_settings(part: ConfigPart, row: Row, positions: str | None) -> dict[str, Setting]:
    """Return what is said of positions, position_offset and max_len; see `ModelConfig.spec_settings`."""
    before = row.before.read(part.config, part.absent)
    way = positions or row.positions
    if positions == "implicit" and before.value and not row.shifted:
        advice = f"use --positions mask, or explicit with positions from {before.value} on"
        raise ValueError(f"positions of {part.kind} begin at {before.value}: {advice}")
    settings = {}
    if row.positions is not None:
        settings["positions"] = Setting(row.positions, part.kind)
    if way == "mask" and before.value:
        settings["position_offset"] = before
    if row.length is not None:
        settings["max_len"] = _rows(row.length.read(part.config, part.absent), before, row.shifted and way != "mask")
    return settings


def _rows(length: Setting, before: Setting, shifted: bool) -> Setting:
    """Return how many positions the table has; rows before the first count where they are positions, too."""
    if shifted or not before.value:
        return length
    return Setting(int(str(length.value)) + int(str(before.value)), f"{length.path}, and {before.path} before")


def parameters_of(
    part: ConfigPart, row: Row, positions: str | None, overrides: Mapping[str, object]
) -> dict[str, Setting]:
    """Return the parameters of the scheme, each with its origin, without those that the user gives."""
    settings = row.read(part.config, part.absent, part.kind)
    before = row.before.read(part.config, part.absent)
    # the scheme skips these rows itself; from a mask, positions begin behind them
    if before.value and row.shifted and (positions or row.positions) != "mask":
        settings["offset"] = before
    if row.tables and overrides.get("weights") is None:
        settings["weights"] = Setting(None, NO_WEIGHTS)
    elif row.tables and "key" not in overrides:
        settings |= _key(part, row, str(overrides["weights"]))
    if row.scheme == LEARNED and row.tables and overrides.get("weights") is not None:
        key = overrides.get("key") or (settings["key"].value if "key" in settings else None)
        check_rows(part, row, str(overrides["weights"]), None if key is None else str(key).partition(",")[0])
    return {name: setting for name, setting in settings.items() if name not in overrides}


def check_rows(part: ConfigPart, row: Row, path: str, key: str | None) -> None:
    """Raise ValueError where a table of weights has other rows than the config says: the model's code refuses it."""
    if row.length is None:
        return
    from posenc.weight_files import read_tensor

    table, _ = read_tensor(path, key, lambda tensor: tensor.dim() == 2)
    shape = tuple(getattr(table, "shape", ()))
    if len(shape) < 2:  # the scheme says what is wrong with it
        return
    length, before = row.length.read(part.config, part.absent), row.before.read(part.config, part.absent)
    rows = int(str(length.value)) + int(str(before.value))
    if shape[-2] != rows:
        named = f"{key} of {path}" if key else path
        more = f", and {before.value} before the first" if before.value else ""
        raise ValueError(f"weights: {named} has {shape[-2]} rows, and the config says {rows} ({length.path}{more})")


def _key(part: ConfigPart, row: Row, path: str) -> dict[str, Setting]:
    """Return the names of the tables in a file of weights, or a model's folder; nothing for a file without names."""
    from posenc.weight_files import names_in

    names = names_in(path)
    if not names:
        return {}
    layers = row.layer_numbers(part.config, part.absent)
    keys = (name_of(table, names, path, layers) for table in row.tables)
    return {"key": Setting(",".join(keys), f"its name in {path}")}


def name_of(table: str, names: tuple[str, ...], path: str, layers: tuple[int, ...] = ()) -> str:
    """Return the only name that has the ending of a table; see `Row.tables`.

    Args:
        table: the ending.
        names: the names of a file's tensors.
        path: the file, for messages.
        layers: the numbers that `*` stands for; any number, if there are none.

    Raises ValueError, in one line, where no name or several have it.
    """
    for ending in table.split("|"):
        matches = names_that_end(names, ending, layers)
        if len(matches) == 1:
            return matches[0]
        if matches:
            listed = ", ".join(matches[:LISTED]) + (", ..." if len(matches) > LISTED else "")
            raise ValueError(
                f"weights: {len(matches)} tensors of {path} may be meant: give one as -p key=NAME: {listed}"
            )
    endings = " or ".join(ending.replace("*", "N") for ending in table.split("|"))
    raise ValueError(f"weights: none of the {len(names)} tensors of {path} ends in {endings}: give -p key=NAME")


def names_that_end(names: tuple[str, ...], ending: str, layers: tuple[int, ...]) -> list[str]:
    """Return the names that end so; for an ending with a dot, the modules whose tensors begin so."""
    # "layers.*.attn." in "encoder.layers.3.attn.rel_pos_h"
    number = f"(?:{'|'.join(map(str, layers))})" if layers else r"\d+"
    ends = re.escape(ending.rstrip(".")).replace(r"\*", number)
    pattern = re.compile(rf"(?:.*\.)?{ends}(?={r'[.]' if ending.endswith('.') else '$'})")
    matches = (pattern.match(name) for name in names)
    return list(dict.fromkeys(match.group() for match in matches if match))
