"""Schemes as Markdown, on one page: formulas, pictures, forms, formats, parameters and commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args

from posenc.encoding import Encoding
from posenc.parameters import ABSENT, Parameter
from posenc.scheme import Scheme
from posenc.spec import Mode, Positions, Spec, UnsupportedSpec
from posenc_export.cli.output.scheme_list import typed
from posenc_export.common.markdown import table
from posenc_export.proof.exporter import ExportOptions
from posenc_export.show.plots import KINDS, kind_of, seeded
from posenc_export.write.formats import FORMATS

HEAD = """# Schemes

For those who look up an encoding: its formula, a picture, its parameters, and the formats that it can be written in.

Made by `posenc schemes --markdown > docs/reference/schemes.md`, and the pictures, of the first sample of each scheme,
by `posenc schemes --pictures docs/pictures --force`. `posenc plot NAME -o FILE` draws a scheme with other parameters.

"""
FORMS = """A scheme has every form and format that is not ruled out under its name: baked (a table) or dynamic
(computed, for any length), in float32, float16, bfloat16 and float64.
"""
SHARED = "Parameters of rope types"
SHARED_LINK = "#parameters-of-rope-types"
ByMode = Mapping[Mode, Encoding]
"""The smallest sample of a scheme, baked and dynamic, if it has these forms."""
MAX_LEN = 70
FEW = 3
"""So many samples stand in one line; more are listed."""


@dataclass(frozen=True)
class Listed:
    """The schemes of a list, and what is worked out for all of them at once.

    Args:
        by_kind: The schemes of each kind.
        encodings: The smallest sample of each scheme, by its name.
        shared: The parameters that several of them take.
    """

    by_kind: Mapping[str, list[Scheme]]
    encodings: Mapping[str, ByMode]
    shared: Mapping[str, Parameter]

    @property
    def schemes(self) -> list[Scheme]:
        """The schemes, kind by kind."""
        return [scheme for schemes in self.by_kind.values() for scheme in schemes]


def listed(chosen: list[Scheme]) -> Listed:
    """Return schemes by kind, with their smallest samples, and with the parameters that several of them take."""
    kinds = {scheme.name: kind_of(scheme) for scheme in chosen}
    by_kind = {kind: [scheme for scheme in chosen if kinds[scheme.name] == kind] for kind in KINDS}
    return Listed(by_kind, {scheme.name: _by_mode(scheme) for scheme in chosen}, _shared(chosen))


def markdown_of(chosen: list[Scheme]) -> str:
    """Return docs/reference/schemes.md: contents by kind, a section a scheme, and the parameters that several share."""
    of_list = listed(chosen)
    parts = [HEAD + FORMS]
    parts += [_contents(of_list.by_kind), _overview(of_list, chosen)] if len(chosen) > 1 else []
    parts += [_section(scheme, of_list) for scheme in of_list.schemes]
    return "\n".join([*parts, *([_shared_section(of_list)] if of_list.shared else [])])


def _by_mode(scheme: Scheme) -> ByMode:
    encodings: dict[Mode, Encoding] = {}
    for mode in get_args(Mode):
        with suppress(UnsupportedSpec):
            encodings[mode] = seeded(scheme.name, Spec(mode, max_len=MAX_LEN), scheme.samples[0])
    return encodings


def _contents(by_kind: Mapping[str, list[Scheme]]) -> str:
    lines = []
    for kind, schemes in by_kind.items():
        lines += [f"**{kind}**\n", *(f"* [{s.name}](#{s.name}): {s.summary}" for s in schemes), ""] if schemes else []
    return "\n".join(lines)


def _overview(of_list: Listed, chosen: Iterable[Scheme]) -> str:
    """Return the table of formats and modes that each scheme has; schemes that have the same share a row."""
    names = list(dict.fromkeys([*ExportOptions().formats, *FORMATS]))
    # by the cells of a row, the schemes that have them
    rows: dict[tuple[str, ...], list[str]] = {}
    for scheme in chosen:
        by_mode = of_list.encodings[scheme.name]
        modes = (by_mode.keys() - _reasons(scheme, by_mode, name).keys() for name in names)
        cells = tuple(", ".join(sorted(there)) or "no" for there in modes)
        rows.setdefault(cells, []).append(f"[{scheme.name}](#{scheme.name})")
    return table(("scheme", *names), [(", ".join(alike), *cells) for cells, alike in rows.items()]) + "\n"


def _shared(chosen: Iterable[Scheme]) -> dict[str, Parameter]:
    """Return the parameters without a default that several schemes take under one name."""
    # by name, the parameters of all schemes that take it
    takers: dict[str, list[Parameter]] = {}
    for scheme in chosen:
        for name, parameter in scheme.parameters.items():
            if parameter.default is ABSENT:
                takers.setdefault(name, []).append(parameter)
    return {name: parameters[0] for name, parameters in takers.items() if len(parameters) > 1}


def _shared_section(of_list: Listed) -> str:
    """Return the parameters that several schemes take, under a heading."""
    parameters = _table(of_list.shared.values())
    return f"## {SHARED}\n\nThe types that take a parameter stand behind it.\n\n{parameters}\n"


# ---- a scheme --------------------------------------------------------------------------------------------------------


def _section(scheme: Scheme, of_list: Listed) -> str:
    """Return all that is said of a scheme, under a heading of its name."""
    own = [parameter for name, parameter in scheme.parameters.items() if name not in of_list.shared]
    parts = [f"## {scheme.name}", scheme.summary, *([f"    {scheme.formula}"] if scheme.formula else [])]
    parts.append(f"![Heat map of {scheme.name}](../pictures/{scheme.name}.png)")
    parts += ["\n".join(_facts(scheme, of_list.encodings[scheme.name])), _commands(scheme), _table(own)]
    if len(own) < len(scheme.parameters):
        parts.append(f"It takes the [{SHARED.lower()}]({SHARED_LINK}), too.")
    return "\n\n".join([*parts, _samples(scheme)]) + "\n"


def _commands(scheme: Scheme) -> str:
    """Return the commands that export a scheme and draw it, as code."""
    dynamic = "" if "dynamic" in scheme.unsupported.modes else " --dynamic"
    return f"```bash\nposenc-export {scheme.name}{dynamic}\nposenc plot {scheme.name} -o {scheme.name}.png\n```"


def _facts(scheme: Scheme, encodings: ByMode) -> list[str]:
    no = scheme.unsupported
    facts = [f"* Source: {_linked(scheme.paper)}."]
    facts += [f"* Models: {', '.join(scheme.models)}."] if scheme.models else []
    facts.append(f"* Forms: {_there(get_args(Mode), no.modes)}; positions {_positions(scheme)}.")
    reasons = {**no.modes, **no.positions, **no.dtypes, **({} if "dynamic" in no.modes else no.methods)}
    alike = {reason: [form for form in reasons if reasons[form] == reason] for reason in reasons.values()}
    facts += [f"  * No {' or '.join(forms)}: {reason}." for reason, forms in alike.items()]
    why = {reason: [mode for mode in no.reading if no.reading[mode] == reason] for reason in no.reading.values()}
    unread = "`posenc inspect` does not read it back"
    facts += [f"* {unread} ({' and '.join(forms)}): {reason}." for reason, forms in why.items()]
    return facts + _formats(scheme, encodings)


def _linked(paper: str) -> str:
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", paper)


def _there(choices: Iterable[str], no: Mapping[str, str]) -> str:
    return " and ".join(choice for choice in choices if choice not in no)


def _positions(scheme: Scheme) -> str:
    there = [way for way in get_args(Positions) if way not in scheme.unsupported.positions]
    return ", ".join(f"{way} (by default)" if way == scheme.positions and len(there) > 1 else way for way in there)


def _table(parameters: Iterable[Parameter]) -> str:
    rows = [(f"`{typed(parameter)}`", parameter.type_name, parameter.help) for parameter in parameters]
    return table(("parameter", "type", "what"), rows)


def _samples(scheme: Scheme) -> str:
    samples = [f"`{' '.join(_assigned(sample)) or 'the defaults'}`" for sample in scheme.samples]
    if len(samples) <= FEW:
        return f"Tried by the tests with {', '.join(samples)}."
    listed = "\n".join(f"* {sample}" for sample in samples)
    return f"<details><summary>Tried by the tests with {len(samples)} samples</summary>\n\n{listed}\n\n</details>"


def _assigned(sample: Mapping[str, object]) -> list[str]:
    values = {k: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for k, v in sample.items()}
    return [f"-p {name}={value}" for name, value in values.items()]


# ---- its formats -----------------------------------------------------------------------------------------------------


def _formats(scheme: Scheme, encodings: ByMode) -> list[str]:
    """Return the formats of the smallest sample, and the reasons against the others, grouped by reason."""
    by_reasons: dict[tuple[tuple[Mode, str], ...], list[str]] = {}
    for name in FORMATS:
        by_reasons.setdefault(tuple(_reasons(scheme, encodings, name).items()), []).append(name)
    lines = [f"* Formats: {', '.join(by_reasons.pop((), []))}."]
    return lines + [_refused(encodings, names, dict(reasons)) for reasons, names in by_reasons.items()]


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
        return f"  * {', '.join(names)}: {left[0]} only; of the {mode} form {reason}."
    return f"  * No {' or '.join(names)}: {'; '.join(dict.fromkeys(reasons.values()))}."
