"""Schemes: registered functions from a spec and parameters to an Encoding, each with a record of what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from posenc.encoding import Encoding
from posenc.parameters import Parameter, Value, check, check_required, parameters_of
from posenc.registry import Registry
from posenc.spec import Mode, Positions, Spec, UnsupportedSpec

Reasons = Mapping[str, str]
Builder = Callable[..., Encoding]
Rows = Callable[[Mapping[str, object]], int | None]
BOUNDS = "how far an output may be off"
TRIED = "what is tried, and where positions end"
DATA = "trained numbers, drawn or read: they are the same for both by definition"
"""Why numbers of a function are none of an output's, or the same for a module and its reference; see `not_held`."""


def _no_rows(parameters: Mapping[str, object]) -> None:
    """Return None: the parameters of most schemes say nothing about max_len."""


@dataclass(frozen=True)
class Unsupported:
    """Reasons why a mode, method, way to give positions, dtype or format cannot work, by its name.

    Args:
        reading: why `posenc inspect` does not read a file of a mode back as this scheme.
    """

    modes: Reasons = field(default_factory=dict)
    methods: Reasons = field(default_factory=dict)
    positions: Reasons = field(default_factory=dict)
    dtypes: Reasons = field(default_factory=dict)
    formats: Reasons = field(default_factory=dict)
    reading: Reasons = field(default_factory=dict)

    def reasons(self) -> dict[str, str]:
        """Return every reason, by the name of the mode, method, positions, dtype or format."""
        return {**self.modes, **self.methods, **self.positions, **self.dtypes, **self.formats}

    def check(self, name: str, spec: Mapping[str, object]) -> None:
        """Raise UnsupportedSpec, in one line, for a field of a spec that cannot work.

        Args:
            name: the scheme's.
            spec: fields of a spec by name, all of them or those that were typed.
        """
        by_field = {"mode": self.modes, "positions": self.positions, "dtype": self.dtypes}
        if spec.get("mode") == "dynamic":  # a table has no method
            by_field["method"] = self.methods
        for field_, reasons in by_field.items():
            choice = spec.get(field_)
            if choice in reasons:
                raise UnsupportedSpec(f"{name} has no {choice} form: {reasons[str(choice)]}")


@dataclass(frozen=True)
class Scheme:
    """A registered encoding: `build(spec, **parameters)`, where it comes from, and what cannot work.

    Args:
        name: the name that users give.
        build: the function that makes the encoding.
        paper: where it comes from.
        positions: how positions are given by default.
        samples: parameters that tests and documents try, the smallest first.
        unsupported: what cannot work, with reasons.
        summary: the first line of the docstring of `build`.
        rows: a function from parameters to the default max_len: the rows of a file that they name, or None.
        formula: one line of mathematics, in plain text.
        models: who uses it, by the names that people know.
        sums: the modes whose outputs are sums, which a runtime may add in any order: they agree within a tolerance,
            or that have logarithms and powers, which it rounds in its way: they agree within a tolerance, where every
            other output has the bits of eager PyTorch on the CPU.
        not_held: functions of the scheme's file that a test does not make wrong, with the reason: their numbers are
            none of an output's (`BOUNDS`, `TRIED`), or the same for the reference (`DATA`).
    """

    name: str
    build: Builder
    paper: str
    positions: Positions
    samples: tuple[Mapping[str, Value], ...]
    unsupported: Unsupported
    summary: str
    rows: Rows = _no_rows
    formula: str = ""
    models: tuple[str, ...] = ()
    sums: tuple[Mode, ...] = ()
    not_held: Reasons = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters of `build`, by name."""
        return parameters_of(self.build)

    def unread(self, mode: Mode) -> str:
        """Return why a file of a mode is not read back as this scheme; an empty text where it is."""
        return self.unsupported.reading.get(mode, "")


SCHEMES: Registry[Scheme] = Registry("scheme", "posenc.schemes", named_by_files=True)


def scheme(
    name: str,
    *,
    paper: str,
    samples: tuple[Mapping[str, Value], ...],
    positions: Positions = "implicit",
    unsupported: Unsupported | None = None,
    rows: Rows = _no_rows,
    formula: str = "",
    models: tuple[str, ...] = (),
    sums: tuple[Mode, ...] = (),
    not_held: Reasons | None = None,
) -> Callable[[Builder], Builder]:
    """Register the decorated function `(spec, **parameters) -> Encoding` as the scheme `name`."""

    def register(build: Builder) -> Builder:
        summary = (build.__doc__ or "").strip().partition("\n")[0]
        no = unsupported or Unsupported()
        known = (name, build, paper, positions, samples, no, summary, rows, formula, models, sums, not_held or {})
        SCHEMES.add(name, Scheme(*known))
        return build

    return register


def build(name: str, spec: Spec | None = None, **parameters: object) -> Encoding:
    """Build the scheme `name` as a spec asks for it (baked by default).

    Raises ValueError, in one line, for an unknown name, and for a parameter that is unknown, of another type or out of
    range; UnsupportedSpec for a spec that the scheme does not support.
    """
    record = SCHEMES[name]
    spec = spec or Spec()
    spec = replace(spec, positions=spec.positions or record.positions)
    record.unsupported.check(name, vars(spec))
    known = record.parameters
    check_required(parameters, known, name)
    from posenc.weights import recording  # with torch, which a list of schemes does without

    with recording() as tables:
        encoding = record.build(spec, **check(parameters, known, name))
    return replace(encoding, learned=tuple(tables))
