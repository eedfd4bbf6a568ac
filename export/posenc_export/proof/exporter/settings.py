"""Keyword arguments of the Python API: which are a spec's, which are options, which are parameters of the source."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar, get_origin, get_type_hints

from posenc.parameters import Parameter, fit
from posenc.scheme import SCHEMES
from posenc.spec import BLOCK_ROWS, CHOICES, Spec
from posenc_export.common.errors import BadInput, bad_input
from posenc_export.proof.exporter.options import HEADERS, ExportOptions
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.write.targets import Target
from posenc_models import ModelConfig, ModelFolder, read_config

Options = TypeVar("Options")
WHOLE_FORMATS = ("onnx",)
"""What a whole model is written as, unless somebody says otherwise."""
MAX_ROWS = 2**22
"""Rows of a table beyond which somebody has to ask for it."""


@dataclass(frozen=True)
class ExportSettings:
    """Keyword arguments, sorted.

    Attributes:
        spec: What is asked for of an encoding.
        options: What is written, and how it is validated.
        parameters: Keyword arguments of what is exported.
        sized: Whether somebody says what max_len is.
    """

    spec: Spec
    options: ExportOptions
    parameters: Mapping[str, object]
    sized: bool = True


def split(
    settings: Mapping[str, object], spec: Spec | None, options: ExportOptions, source: object = None
) -> ExportSettings:
    """Return each setting where it belongs: by its name a field of the spec or of the options, else a parameter.

    For a model's config, where nothing else is said, the mode is one that its scheme has, and a table has as many rows
    as the model has positions. Products with weights in blocks are computed at accuracy level 4 where the file is for
    ONNX Runtime alone.
    """
    settings = _renamed(settings)
    of_spec, of_options, of_validation = (
        {name: settings[name] for name in fields_of(kind) & settings.keys()}
        for kind in (Spec, ExportOptions, ValidateOptions)
    )
    parameters = {name: settings[name] for name in settings if name not in of_spec | of_options | of_validation}
    if spec is None and isinstance(source, ModelFolder):
        of_spec = {"mode": "dynamic", "max_len": source.length, **of_spec}
    if isinstance(source, ModelFolder) and options == ExportOptions():
        of_options = {"formats": WHOLE_FORMATS, **of_options}
    level = of_options.pop("accuracy_level", None)
    if isinstance(source, ModelFolder) and source.quantize and of_options.get("attention_op") == "microsoft":
        # ONNX Runtime alone loads such a file, and its kernel takes half the time at level 4
        level = level or 4
    if level is not None:
        of_options["accuracy_level"] = level
    if spec is None and isinstance(source, ModelConfig):
        of_spec = {**_mode(source), **of_spec}
        # only a table needs to know how many rows the model has
        if of_spec.get("mode", "baked") == "baked":
            of_spec = {**_context(source, with_fields(Spec(), of_spec)), **of_spec}
    _check_near(set(parameters), source)
    validation = with_fields(options.validation, of_validation)
    return ExportSettings(
        with_fields(spec or Spec(), of_spec),
        replace(with_fields(options, of_options), validation=validation),
        parameters,
        spec is not None or "max_len" in of_spec,
    )


def _renamed(settings: Mapping[str, object]) -> Mapping[str, object]:
    """Return settings under today's names; warn about those of 0.1."""
    if "cpp_name" not in settings:
        return settings
    warnings.warn("cpp_name is namespace from posenc-export 0.2 on; the old name goes with 0.3", DeprecationWarning, 5)
    return {"namespace": settings["cpp_name"], **{k: v for k, v in settings.items() if k != "cpp_name"}}


def _check_near(names: set[str], source: object) -> None:
    """Raise BadInput for a name that no parameter of a scheme has, and that is nearly the name of another argument."""
    if not (isinstance(source, str) and names and source in SCHEMES.names()):
        return
    known = SCHEMES[source].parameters
    arguments = {*fields_of(Spec), *fields_of(ExportOptions), *fields_of(ValidateOptions)} - {"validation"}
    for name in sorted(names - known.keys()):
        near = "mode" if name in CHOICES["mode"] else nearest(name, [*known, *sorted(arguments)])
        if near in arguments:
            raise BadInput(f"there is no argument {name!r}: did you mean {near!r}?")


def nearest(name: str, known: Sequence[str]) -> str:
    """Return the name that is nearest to one, or nothing where none is near."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), "")


def spec_for(settings: ExportSettings, source: object, parameters: Mapping[str, object]) -> Spec:
    """Return the spec; where nobody says what max_len is, it is what a scheme makes of its parameters, as of a file."""
    spec = with_stored_rows(settings.spec, settings.options.formats)
    if settings.sized or not (isinstance(source, ModelConfig) or source in SCHEMES.names()):
        return spec
    with bad_input():
        scheme, known = str(source), parameters
        if isinstance(source, ModelConfig):
            reading = read_config(source, overrides=parameters, positions=settings.spec.positions)
            scheme, known = reading.scheme, reading.parameters
        rows = SCHEMES[scheme].rows(known)
    return spec if rows is None else replace(spec, max_len=rows)


def with_stored_rows(spec: Spec, formats: Sequence[str]) -> Spec:
    """Return the spec for some formats: a header, whose rows are part of a program, stores as few as there may be."""
    return replace(spec, table_rows=BLOCK_ROWS) if spec.table_rows is None and HEADERS & set(formats) else spec


def check_stored(spec: Spec, target: Target) -> None:
    """Raise BadInput where stored rows are asked for of an encoding that composes none."""
    from posenc.sincos.elsewhere import digits_of  # torch takes a second to load

    if spec.table_rows is not None and target.rules.registered and not digits_of(target.encoding.module):
        rows = f"--table-rows {spec.table_rows} is for rows that angle addition composes (--dynamic, --method exact)"
        raise BadInput(f"{rows}; this {target.name} has none: leave it out")


def with_rows(settings: Mapping[str, object], spec: Spec | None, length: int) -> Mapping[str, object]:
    """Return settings with a row for every position of a call of this length, unless they say max_len."""
    if spec is not None or "max_len" in settings:
        return settings
    offset = settings.get("position_offset") or 0
    return {"max_len": length + (offset if isinstance(offset, int) else 0), **settings}


def _mode(config: ModelConfig) -> dict[str, object]:
    """Return the mode of a config's scheme where it has no other than `dynamic`."""
    with bad_input():
        scheme = config.scheme
    return {"mode": "dynamic"} if "baked" in SCHEMES[scheme].unsupported.modes else {}


def _context(config: ModelConfig, spec: Spec) -> dict[str, object]:
    """Return how many rows the table of a model has, if its config says so.

    Raises BadInput for so many that somebody has to ask for it.
    """
    with bad_input():
        setting = config.spec_settings(spec.positions).get("max_len")
    if setting is None:
        return {}
    rows = int(str(setting.value))
    if rows > MAX_ROWS:
        raise BadInput(f"the config's {setting.path} is {rows}: give --max-len for a table")
    return {"max_len": rows}


def fields_of(options: type) -> set[str]:
    """Return the names of a dataclass's fields, without those that are for this package alone."""
    return {field.name for field in fields(options) if not field.metadata.get("internal")}


def with_fields(options: Options, values: Mapping[str, object]) -> Options:
    """Return options with other values; lists become tuples, and one name a tuple of one.

    Raises BadInput, in one line, for a name that none of the fields has.
    """
    kind = type(options)
    unknown = next((name for name in values if name not in fields_of(kind)), None)
    if unknown is not None:
        raise BadInput(f"there is no option {unknown!r}: expected {', '.join(sorted(fields_of(kind)))}")
    hints = get_type_hints(kind)
    with bad_input():
        fitting = {name: _fitting(Parameter(name, hints[name]), value) for name, value in values.items()}
        return replace(options, **fitting)  # type: ignore[type-var]


def _fitting(field_: Parameter, value: object) -> object:
    """Return a value of a field's type: lists become tuples, one name a tuple of one, none an empty one."""
    if get_origin(field_.type) is tuple:
        # "onnx" -> ("onnx",)
        value = (value,) if isinstance(value, str) else value
        return () if value in ((), []) else fit(field_, value)
    return fit(field_, value)
