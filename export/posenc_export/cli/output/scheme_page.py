"""Schemes as Markdown, on one page: what `schemes.md.jinja` says of each, found out here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args

from jinja2 import Environment, PackageLoader, StrictUndefined

from posenc.encoding import Encoding
from posenc.parameters import ABSENT, Parameter
from posenc.scheme import Scheme
from posenc.spec import Mode, Positions, Spec, UnsupportedSpec
from posenc_export.cli.output.scheme_list import typed
from posenc_export.common.markdown import table
from posenc_export.proof.exporter import ExportOptions
from posenc_export.show.plots import KINDS, kind_of, seeded
from posenc_export.write.formats import FORMATS

TEMPLATE = "schemes.md.jinja"
ByMode = Mapping[Mode, Encoding]
"""The smallest sample of a scheme, baked and dynamic, if it has these forms."""
MAX_LEN = 70


@dataclass(frozen=True)
class Section:
    """What is said of a scheme, beside what its record holds.

    Args:
        scheme: The scheme.
        modes: The forms that it has.
        positions: The ways to give positions that it has; its own is marked where there are others.
        ruled_out: By reason, the forms, ways to give positions, dtypes and methods that it does not have.
        unread: By reason, the forms that `posenc inspect` does not read back.
        formats: The formats of its smallest sample, in each form.
        refused: A line on each group of other formats that have the same reasons.
        own: Its parameters, without those that several schemes take.
        takes_shared: Whether it takes those, too.
        samples: What the tests try, as one types it.
    """

    scheme: Scheme
    modes: list[str]
    positions: list[str]
    ruled_out: Mapping[str, list[str]]
    unread: Mapping[str, list[str]]
    formats: list[str]
    refused: list[str]
    own: list[Parameter]
    takes_shared: bool
    samples: list[str]


def markdown_of(chosen: list[Scheme]) -> str:
    """Return docs/reference/schemes.md: contents by kind, a section a scheme, and the parameters that several share."""
    kinds = {scheme.name: kind_of(scheme) for scheme in chosen}
    by_kind = {kind: [scheme for scheme in chosen if kinds[scheme.name] == kind] for kind in KINDS}
    encodings = {scheme.name: _by_mode(scheme) for scheme in chosen}
    shared = _shared(chosen)
    texts = Environment(
        loader=PackageLoader(__package__, "."),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=False,  # it is Markdown
    )
    page = texts.get_template(TEMPLATE).render(
        by_kind=by_kind,
        overview=_overview(encodings, chosen) if len(chosen) > 1 else "",
        sections=[_section(one, encodings[one.name], shared) for schemes in by_kind.values() for one in schemes],
        shared=shared,
        linked=_linked,
        parameters=_table,
    )
    return page.rstrip("\n") + "\n"


def _by_mode(scheme: Scheme) -> ByMode:
    encodings: dict[Mode, Encoding] = {}
    for mode in get_args(Mode):
        with suppress(UnsupportedSpec):
            encodings[mode] = seeded(scheme.name, Spec(mode, max_len=MAX_LEN), scheme.samples[0])
    return encodings


def _overview(encodings: Mapping[str, ByMode], chosen: Iterable[Scheme]) -> str:
    """Return the table of formats and modes that each scheme has; schemes that have the same share a row."""
    names = list(dict.fromkeys([*ExportOptions().formats, *FORMATS]))
    # by the cells of a row, the schemes that have them
    rows: dict[tuple[str, ...], list[str]] = {}
    for scheme in chosen:
        by_mode = encodings[scheme.name]
        modes = (by_mode.keys() - _reasons(scheme, by_mode, name).keys() for name in names)
        cells = tuple(", ".join(sorted(there)) or "no" for there in modes)
        rows.setdefault(cells, []).append(f"[{scheme.name}](#{scheme.name})")
    return table(("scheme", *names), [(", ".join(alike), *cells) for cells, alike in rows.items()])


def _shared(chosen: Iterable[Scheme]) -> dict[str, Parameter]:
    """Return the parameters without a default that several schemes take under one name."""
    # by name, the parameters of all schemes that take it
    takers: dict[str, list[Parameter]] = {}
    for scheme in chosen:
        for name, parameter in scheme.parameters.items():
            if parameter.default is ABSENT:
                takers.setdefault(name, []).append(parameter)
    return {name: parameters[0] for name, parameters in takers.items() if len(parameters) > 1}


def _section(scheme: Scheme, encodings: ByMode, shared: Mapping[str, Parameter]) -> Section:
    """Return what is said of a scheme."""
    no = scheme.unsupported
    own = [parameter for name, parameter in scheme.parameters.items() if name not in shared]
    there = [way for way in get_args(Positions) if way not in no.positions]
    formats, refused = _formats(scheme, encodings)
    return Section(
        scheme,
        modes=[mode for mode in get_args(Mode) if mode not in no.modes],
        positions=[f"{way} (by default)" if way == scheme.positions and there[1:] else way for way in there],
        ruled_out=_by_reason(
            {**no.modes, **no.positions, **no.dtypes, **({} if "dynamic" in no.modes else no.methods)}
        ),
        unread=_by_reason(no.reading),
        formats=formats,
        refused=refused,
        own=own,
        takes_shared=len(own) < len(scheme.parameters),
        samples=[f"`{' '.join(_assigned(sample)) or 'the defaults'}`" for sample in scheme.samples],
    )


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Return by reason what there is not, of the reason of each."""
    return {reason: [form for form in reasons if reasons[form] == reason] for reason in reasons.values()}


def _linked(paper: str) -> str:
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", paper)


def _table(parameters: Iterable[Parameter]) -> str:
    rows = [(f"`{typed(parameter)}`", parameter.type_name, parameter.help) for parameter in parameters]
    return table(("parameter", "type", "what"), rows)


def _assigned(sample: Mapping[str, object]) -> list[str]:
    values = {k: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for k, v in sample.items()}
    return [f"-p {name}={value}" for name, value in values.items()]


# ---- its formats -----------------------------------------------------------------------------------------------------


def _formats(scheme: Scheme, encodings: ByMode) -> tuple[list[str], list[str]]:
    """Return the formats of the smallest sample, and the reasons against the others, grouped by reason."""
    by_reasons: dict[tuple[tuple[Mode, str], ...], list[str]] = {}
    for name in FORMATS:
        by_reasons.setdefault(tuple(_reasons(scheme, encodings, name).items()), []).append(name)
    formats = by_reasons.pop((), [])
    return formats, [_refused(encodings, names, dict(reasons)) for reasons, names in by_reasons.items()]


def _reasons(scheme: Scheme, encodings: ByMode, format_: str) -> dict[Mode, str]:
    """Return why a scheme cannot have a format, by mode; nothing for modes that can."""
    if format_ in scheme.unsupported.formats:
        return dict.fromkeys(encodings, scheme.unsupported.formats[format_])
    refusals = {mode: FORMATS[format_].refuses(encoding) for mode, encoding in encodings.items()}
    return {mode: reason for mode, reason in refusals.items() if reason}


def _refused(encodings: ByMode, names: list[str], reasons: Mapping[Mode, str]) -> str:
    left = [mode for mode in encodings if mode not in reasons]
    if left:
        (mode, reason), *_ = reasons.items()
        return f"{', '.join(names)}: {left[0]} only; of the {mode} form {reason}."
    return f"No {' or '.join(names)}: {'; '.join(dict.fromkeys(reasons.values()))}."
