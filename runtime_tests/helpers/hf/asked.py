"""A config held against the model's own code: what `posenc_models.asking` says of an eager encoding, in small calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from posenc.encoding import Encoding, Tolerance, eps
from posenc.ports import Array, Axis, Feeds, Mask, Port, Positions, Start, Values, axes_of, sizes_of
from posenc.scheme import SCHEMES, build
from posenc.spec import Mode, Spec, UnsupportedSpec
from posenc_models import Reading, read_config
from posenc_models.asking import CannotAsk, OwnModel, Question, model_of
from posenc_models.asking.model import Disagrees
from posenc_models.config.encodings import ENCODINGS
from posenc_models.config.encodings.diffusion import DIFFUSION
from posenc_models.config.encodings.parts import choose_part
from posenc_models.config.encodings.rows import Row
from posenc_models.config.settings import Settings

Word = Literal["right", "wrong", "not decided"]
SIZES: Mapping[str, tuple[int, ...]] = {"batch": (2, 1), "heads": (2, 2), "length": (7, 70), "grid": (3, 5)}
"""Sizes of axes by kind, of two calls."""
SECOND = {"length": (7, 70), "grid": (5, 4)}
"""Sizes of further lengths of a call: of keys, of a grid's width."""


@dataclass(frozen=True)
class Case:
    """What a tolerance depends on."""

    sizes: Mapping[str, int]
    max_position: int


@dataclass(frozen=True)
class Asked:
    """One encoding of a config: as it is built, and the model's code for that; own: the sides that it was made for."""

    encoding: Encoding
    model: OwnModel
    own: tuple[int, ...] = ()

    def calls(self) -> Iterator[Feeds]:
        """Yield the inputs of small calls."""
        for number in range(2):
            yield feeds_of(self.encoding, number)
        if self.own and any(axis.kind == "grid" for axis in axes_of(self.encoding.inputs)):
            yield feeds_of(self.encoding, 0, self.own)


def spec_of(reading: Reading, part_of_spec: Mapping[str, Any], mode: Mode) -> Spec:
    """Return the spec of a reading."""
    record = SCHEMES[reading.scheme]
    rows = record.rows(reading.parameters)
    length = {} if rows is None else {"max_len": rows}
    return Spec(mode=mode, **{**length, **reading.spec, **part_of_spec})


def modes_of(scheme: str) -> list[Mode]:
    """Return the modes that a scheme has."""
    modes: list[Mode] = ["dynamic", "baked"]
    return [mode for mode in modes if mode not in SCHEMES[scheme].unsupported.modes]


def ask(
    content: Mapping[str, Any], part: str = "", mode: Mode | None = None, overrides: Mapping[str, Any] | None = None
) -> Asked:
    """Return a config's encoding and its model; `overrides` are stronger than what is read."""
    reading = read_config(dict(content), part=part or None, overrides=overrides or {})
    encoding = built_in(reading, [mode] if mode else modes_of(reading.scheme))
    own = own_sides(content, part) or reading.parameters.get("window") or ()
    own = (own, own) if isinstance(own, int) else tuple(own)
    return Asked(encoding, model_of(question_of(content, part, reading, encoding)), own)


def own_sides(content: Mapping[str, Any], part: str) -> tuple[int, ...]:
    """Return the sides of the image that a model is made for, in patches; none where it says no such thing."""
    chosen = choose_part(content, part or None)
    config = content if chosen is None else chosen.config.content
    image, patch = config.get("image_size"), config.get("patch_size")
    sides = (image, image) if isinstance(image, int) else image
    if not isinstance(sides, Sequence) or not isinstance(patch, int) or (chosen and chosen.scheme != "interpolated"):
        return ()
    return tuple(int(side) // patch for side in sides)


def built_in(reading: Reading, modes: Sequence[Mode]) -> Encoding:
    """Return the encoding of a reading in the first mode that it has."""
    first, *others = modes
    torch.manual_seed(0)
    try:
        return build(reading.scheme, spec_of(reading, {}, first), **reading.parameters)
    except UnsupportedSpec:
        if not others:
            raise
        return built_in(reading, others)


def question_of(content: Mapping[str, Any], part: str, reading: Reading, encoding: Encoding) -> Question:
    """Return what is asked about an encoding."""
    tables = {str(i): table.detach().numpy() for i, table in enumerate(encoding.learned)}
    return Question(content, part, None, reading, encoding.inputs, encoding.outputs, tables)


def judge(content: Mapping[str, Any], part: str = "", mode: Mode | None = None) -> tuple[Word, str]:
    """Return whether a config is read rightly, by the model's own code, with what answered, or why nothing did."""
    try:
        asked = ask(content, part, mode)
    except Disagrees as error:
        return "wrong", str(error)
    except CannotAsk as error:
        return "not decided", str(error)
    return verdict(asked)


def verdict(asked: Asked) -> tuple[Word, str]:
    """Return what small calls say."""
    held, refused = 0, ""
    for feeds in asked.calls():
        try:
            theirs = asked.model.call(feeds)
        except Disagrees as error:
            return "wrong", str(error)
        except CannotAsk as error:
            refused = str(error)
            continue
        difference = worst(asked, feeds, theirs)
        if difference:
            return "wrong", difference
        held += 1
    return ("right", f"{asked.model.words}, {held} calls") if held else ("not decided", refused)


def worst(asked: Asked, feeds: Feeds, theirs: Mapping[str, Array]) -> str:
    """Return how far an encoding is from the model, if it is farther than the model says itself."""
    with torch.no_grad():
        values = asked.encoding.module(*(torch.from_numpy(feeds[port.name]) for port in asked.encoding.inputs))
    outputs = values if isinstance(values, (tuple, list)) else (values,)
    for port, ours in zip(asked.encoding.outputs, outputs, strict=True):
        model = theirs[port.name]
        model = model.astype(ours.numpy().dtype)
        if model.shape != tuple(ours.shape):
            return f"{port.name} is {tuple(ours.shape)}, the model's {model.shape}"
        off = np.nan_to_num(np.abs(model.astype(np.float64) - ours.numpy()))  # NaN: of which the model says nothing
        allowed = allowance(asked, feeds, model)
        if not np.all(off <= allowed):
            at = np.unravel_index(np.argmax(np.nan_to_num(off - allowed, nan=np.inf)), off.shape)
            place = ", ".join(map(str, at))
            return (
                f"{port.name}[{place}] differs by {off[at]:.3g} of {np.nanmax(np.abs(model)):.3g}: {asked.model.words}"
            )
    return ""


def allowance(asked: Asked, feeds: Feeds, model: Array) -> Array:
    """Return what each element of an output may be off by."""
    positions = [int(feeds[port.name].max()) for port in asked.encoding.inputs if isinstance(port.carries, Positions)]
    starts = [int(feeds[port.name][0]) for port in asked.encoding.inputs if isinstance(port.carries, Start)]
    sizes = sizes_of(asked.encoding.inputs, feeds)
    lengths = sum(
        size for axis, size in sizes.items() if axis not in ("batch", "heads", "head", "head_dim", "kv_heads")
    )
    case = Case(sizes, max(positions or [lengths + sum(starts)]))
    each = asked.encoding.tolerance(case)
    angles = 4 * eps("float32") * max(case.max_position, 1) * asked.model.amplitude
    tolerance = each.plus(each).plus(Tolerance(atol=angles + asked.model.atol))
    ulps = tolerance.ulps * np.spacing(np.nan_to_num(np.abs(model))) if model.dtype.kind == "f" else 0.0
    model = np.nan_to_num(model)
    return np.zeros(model.shape) + tolerance.atol + tolerance.rtol * np.abs(model) + ulps


def feeds_of(encoding: Encoding, number: int, sides: tuple[int, ...] = ()) -> Feeds:
    """Return small inputs of an encoding, of a grid's sides if those are given."""
    sizes: dict[str, int] = {}
    for axis in axes_of(encoding.inputs):
        of_kind = [one for one in axes_of(encoding.inputs) if one.kind == axis.kind]
        choice = SECOND if axis in of_kind[1:] and axis.kind in SECOND else SIZES
        sizes[axis.name] = size_of(axis, choice.get(axis.kind, (4, 4))[number])
    grid = [axis.name for axis in axes_of(encoding.inputs) if axis.kind == "grid"]
    if sides:
        sizes |= {axis: 1 for axis in sizes if axis not in grid} | dict(zip(grid, sides, strict=False))
    random = np.random.default_rng(number)
    return {port.name: numbers(port, sizes, random, number) for port in encoding.inputs}


def size_of(axis: Axis, size: int) -> int:
    """Return a size that an axis may have."""
    return axis.allowed(size, axis.most)


def numbers(port: Port, sizes: Mapping[str, int], random: np.random.Generator, number: int) -> Array:
    """Return what an input may carry."""
    shape, carries = port.shape(sizes), port.carries
    if isinstance(carries, Mask):
        mask = np.ones(shape, np.int64)
        mask[-1, ..., : shape[-1] // 3 if number else None] = number == 0
        if number == 0:
            mask[-1, ..., -(shape[-1] // 3) :] = 0
        return mask
    if isinstance(carries, Positions):
        return random.integers(0, min(carries.end or 64, 64), shape)
    if isinstance(carries, Start):
        return np.array([3 + number])
    if isinstance(carries, Values) and carries.low is not None and carries.high is not None:
        return random.uniform(carries.low, carries.high, shape).astype(port.dtype)
    return random.standard_normal(shape).astype(port.dtype)


def defaults(names: Sequence[str] = tuple(ENCODINGS)) -> Iterator[tuple[str, Word, str]]:
    """Yield what comes of the default configuration of each type that is not rotary, a part at a time."""
    for name in names:
        content = {"_class_name": name} if name in DIFFUSION else default_config(name)
        for row in ENCODINGS[name]:
            if row.scheme not in ("", "rope") and has(content, row):
                word, words = judge(content, row.part)
                yield "-".join(filter(None, (name, row.part))), word, words


def has(content: Mapping[str, Any], row: Row) -> bool:
    """Whether a configuration has what a row is of."""
    return all(condition.holds(Settings(content), "") for condition in row.when)


def default_config(name: str) -> dict[str, Any]:
    """Return the default configuration of a model type as JSON."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    content: dict[str, Any] = json.loads(json.dumps(CONFIG_MAPPING[name]().to_dict(), default=str))
    return content
