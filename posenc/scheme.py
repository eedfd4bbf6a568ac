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


def _no_rows(parameters: Mapping[str, object]) -> None:
    """Return None: the parameters of most schemes name no file whose rows count."""


@dataclass(frozen=True)
class Unsupported:
    """What cannot work, by kind: the name of a mode, method, way to give positions, dtype or format -> the reason."""

    modes: Reasons = field(default_factory=dict)
    methods: Reasons = field(default_factory=dict)
    positions: Reasons = field(default_factory=dict)
    dtypes: Reasons = field(default_factory=dict)
    formats: Reasons = field(default_factory=dict)

    def reasons(self) -> dict[str, str]:
        """Return every reason, by the name of what cannot work."""
        return {**self.modes, **self.methods, **self.positions, **self.dtypes, **self.formats}


@dataclass(frozen=True)
class Scheme:
    """A registered encoding: `build(spec, **parameters)`, where it comes from, and what cannot work.

    positions: how they are given by default.
    samples: parameters that tests and documents go through, the smallest first.
    rows: of parameters that name a file, how many positions that has; None where none does.
    formula: one line of mathematics, in plain text. models: that use it, by the names that people know.
    sums: the modes whose outputs are sums that a runtime adds in an order of its own: they agree within a tolerance,
        where every other output has the bits of eager PyTorch on the CPU.
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

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters of its own."""
        return parameters_of(self.build)


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
) -> Callable[[Builder], Builder]:
    """Register the decorated function `(spec, **parameters) -> Encoding` as the scheme `name`."""

    def register(build: Builder) -> Builder:
        summary = (build.__doc__ or "").strip().partition("\n")[0]
        no = unsupported or Unsupported()
        SCHEMES.add(name, Scheme(name, build, paper, positions, samples, no, summary, rows, formula, models, sums))
        return build

    return register


def build(name: str, spec: Spec | None = None, **parameters: object) -> Encoding:
    """Build the scheme `name` as a spec asks for it (baked by default).

    Raises ValueError, in one line, for an unknown name, a parameter that it has not or that is of another type or out
    of range; UnsupportedSpec for a spec that the scheme has no form of.
    """
    record = SCHEMES[name]
    spec = spec or Spec()
    spec = replace(spec, positions=spec.positions or record.positions)
    _check_supported(record, spec)
    known = record.parameters
    check_required(parameters, known, name)
    from posenc.weights import recording  # with torch, which a list of schemes does without

    with recording() as tables:
        encoding = record.build(spec, **check(parameters, known, name))
    return replace(encoding, learned=tuple(tables))


def _check_supported(record: Scheme, spec: Spec) -> None:
    no = record.unsupported
    choices = [(no.modes, spec.mode), (no.positions, str(spec.positions)), (no.dtypes, spec.dtype)]
    choices += [(no.methods, spec.method)] if spec.mode == "dynamic" else []
    for reasons, choice in choices:
        if choice in reasons:
            raise UnsupportedSpec(f"{record.name} has no {choice} form: {reasons[choice]}")
