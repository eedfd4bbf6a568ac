"""`posenc compat`: where the ONNX file of a bundle loads, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posenc_export.cli.declared import JSON
from posenc_export.cli.options import SETTINGS, VERBOSE, guarded
from posenc_export.cli.output.helping import Command, epilog
from posenc_export.cli.output.printing import print_json
from posenc_export.common.errors import BadInput, check_machine, first_line, one_line

if TYPE_CHECKING:
    from onnx import ModelProto

    from posenc_export.write.formats.onnx.compatibility import LoadClaim, Used
    from posenc_export.write.formats.onnx.providers import NodeGroup, Placement


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Say where the ONNX file of a bundle loads, and why.",
    epilog=epilog(
        ["posenc compat sinusoidal-dynamic", "posenc compat sinusoidal-dynamic --json"],
        {0: "the answer is printed, whatever it is"},
    ),
)
@click.argument("bundle", type=click.Path(path_type=Path))
@JSON
@VERBOSE
@guarded
def compat(bundle: Path, as_json: bool, verbose: int) -> None:
    """Say where the ONNX file of a BUNDLE loads: from which release on, and what in the file decides this.

    The ONNX Runtime that is installed loads the file in a process of its own; the graph is not called. Which nodes
    execution providers take is read from their own lists of operators: nothing is run on them.
    """
    from posenc_export.write.formats.onnx.browsers import browser_claims
    from posenc_export.write.formats.onnx.compatibility import claims, external_files, operators_used, refused
    from posenc_export.write.formats.onnx.loading import installed_release, why_refused
    from posenc_export.write.formats.onnx.phones import phone_claims
    from posenc_export.write.formats.onnx.providers import placements

    name, model = _model(bundle)
    runtimes, operators = (*claims(model), *browser_claims(model), *phone_claims(model)), operators_used(model)
    release = installed_release()
    # the installed ONNX Runtime is asked; its answer is stronger than the table
    reason = why_refused(bundle / name) if release else ""
    runtimes = refused(runtimes, release, reason) if reason else runtimes
    by_lists = placements(model)
    if as_json:
        facts = {"file": name, "ir_version": model.ir_version, "weights_beside": external_files(model)}
        lists = {"runtimes": [asdict(claim) for claim in runtimes], "operators": [_json(used) for used in operators]}
        print_json({**facts, **lists, "providers": [_of_provider(one) for one in by_lists]})
        return
    details = (_head(name, model), *map(_line, runtimes), _operators(operators), *_by_lists(by_lists))
    for line in (_verdict(name, runtimes), *(details if verbose else _short(runtimes, by_lists))):
        click.echo(one_line(line))


def _model(folder: Path) -> tuple[str, ModelProto]:
    """Return the ONNX file of a bundle; raise BadInput where it has none, or where it cannot be read."""
    from posenc_export.bundle.folder import Bundle
    from posenc_export.write.formats.onnx import read_onnx

    bundle = Bundle.open(folder)
    artifact = bundle.manifest.artifact("onnx")
    if artifact is None:
        raise BadInput(f"{folder} has no ONNX file: posenc compat is of ONNX; export with -f onnx")
    try:
        return artifact.file, read_onnx(bundle.path(artifact))
    except Exception as error:
        check_machine(error)
        raise BadInput(f"cannot load {artifact.file}: it is not an ONNX file: {first_line(error)}") from error


def _verdict(name: str, runtimes: Sequence[LoadClaim]) -> str:
    """Return in one line whether a file runs everywhere, or how many runtimes do not take it."""
    no, unknown = (sum(claim.loads == answer for claim in runtimes) for answer in ("no", "not known"))
    if not no and not unknown:
        return f"{name} runs in all {len(runtimes)} runtimes that were tried"
    refusing = [f"{no} do{'es' * (no == 1)} not take it"] if no else []
    doubtful = [f"{unknown} {'is' if unknown == 1 else 'are'} not known to take it"] if unknown else []
    return f"{name}: of {len(runtimes)} runtimes, {', '.join([*refusing, *doubtful])}"


def _short(runtimes: Sequence[LoadClaim], by_lists: Sequence[Placement]) -> Iterator[str]:
    """Yield the runtimes that do not take a file, and why; then who takes all of it."""
    yield from (_line(claim) for answer in ("no", "not known") for claim in runtimes if claim.loads == answer)
    taking = ", ".join(f"{claim.runtime} {_since(claim)}" for claim in runtimes if claim.loads == "yes")
    if taking:
        yield f"runs in: {taking}"
    whole = ", ".join(one.provider for one in by_lists if placed(one).startswith("whole"))
    yield f"execution providers that take all {by_lists[0].nodes} nodes, by their own lists: {whole or 'none'}"
    yield "-v says why, what each does with a position out of range, and which nodes each execution provider leaves"


def _head(name: str, model: ModelProto) -> str:
    opsets = ", ".join(f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import)
    return f"{name}: opset {opsets}; IR version {model.ir_version}"


def _line(claim: LoadClaim) -> str:
    """Return a claim in one line."""
    where = _since(claim) if claim.runtime == "ONNX Runtime" else f"yes, tried with {claim.since}"
    return f"{claim.runtime}: {where if claim.since else claim.loads}" + "".join(f"; {why}" for why in claim.reasons)


def _since(claim: LoadClaim) -> str:
    """Return the release that was tried; of ONNX Runtime, the first of those that were."""
    return f"{claim.since} and newer" if claim.runtime == "ONNX Runtime" else claim.since


def _operators(operators: list[Used]) -> str:
    words = (f"{u.operator.name} (opset {u.since or 'unknown'}, {u.release or 'unknown'})" for u in operators)
    return f"operators, with the opset of their form and the ONNX Runtime that has it: {', '.join(words)}"


def _json(used: Used) -> dict[str, object]:
    return {**asdict(used.operator), "since": used.since, "release": used.release}


def _by_lists(placements: tuple[Placement, ...]) -> Iterator[str]:
    """Yield which nodes each execution provider takes: a line for each, and before them where that is from."""
    versions = dict.fromkeys(f"{one.source.version} of {one.source.date}" for one in placements)
    yield (
        f"{placements[0].nodes} nodes by execution provider, read from the providers' own lists "
        f"({', '.join(versions)}); nothing was run, no list has what they ask of shapes and attributes, and ONNX "
        "Runtime keeps nodes of sizes on the CPU besides"
    )
    yield from (f"  {one.provider}: {placed(one)}" for one in placements)


def placed(one: Placement) -> str:
    """Return in words whether a provider takes a whole file, or how many nodes it leaves, and which."""
    if one.nodes and not one.taken and not one.unknown and one.provider != "CPU":
        return "none of the nodes"
    # on the CPU, ONNX Runtime puts casts around a node in float16 that has no kernel
    widened = tuple(group for group in one.left if one.provider == "CPU" and group.why.startswith("float16"))
    left = tuple(group for group in one.left if group not in widened)
    parts = []
    if left:
        parts.append(
            f"{_counted(left)} {'without a kernel' if one.provider == 'CPU' else 'on the CPU'}: {_grouped(left)}"
        )
    if one.unknown:
        parts.append(f"not known of {_counted(one.unknown)}: {_grouped(one.unknown)}")
    parts = parts or ["whole"]
    return "; ".join([*parts, f"{_counted(widened)} of float16 in float32"] if widened else parts)


def _counted(groups: tuple[NodeGroup, ...]) -> str:
    count = sum(group.nodes for group in groups)
    return f"{count} node{'s' * (count != 1)}"


def _grouped(groups: tuple[NodeGroup, ...]) -> str:
    """Return nodes by what stands against them: the names of operators, then the reason that they share."""
    by_reason: dict[str, list[str]] = {}
    for group in groups:
        name = group.operator if group.domain == "ai.onnx" else f"{group.domain} {group.operator}"
        by_reason.setdefault(group.why, []).append(name + (f" x{group.nodes}" if group.nodes > 1 else ""))
    return ", ".join(", ".join(names) + (f" ({why})" if why else "") for why, names in by_reason.items())


def _of_provider(one: Placement) -> dict[str, object]:
    verdict = "split" if one.left else "not known" if one.unknown else "whole"
    return {"verdict": verdict, **asdict(one), "read_from": "list"}
