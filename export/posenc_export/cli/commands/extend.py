"""`posenc extend`: an ONNX file of anybody's with more positions, with another scaling, or exact."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from posenc_export.bundle.place import check_apart
from posenc_export.cli.declared import named, number, path, real, switch
from posenc_export.cli.options import SETTINGS, SPOKEN, guarded
from posenc_export.cli.output.helping import Command, epilog, options
from posenc_export.cli.output.printing import print_json
from posenc_export.cli.text.sources import ONNX, TextSource, check_target, check_texts
from posenc_export.common.errors import bad_input, one_line
from posenc_export.write.inputs.reads import reads_of

MADE = options(
    path("-o --out", "Where the new file goes."),
    number("--max-len", "How many positions the file is to hold.  [default: as many as now]", least=2),
    named("--rope-type", "Another rope scaling, with its parameters by -p; see posenc schemes rope."),
    click.option(
        *("-p", "--param", "params"),
        multiple=True,
        metavar="KEY=VALUE",
        help="A parameter of --rope-type, as factor=4; without that option, one of --against, as head_dim=64.",
    ),
    named("--encoding", "Which encoding is meant, where there are several: a tensor, a node or a family."),
    switch("--exact", "Swap Sin and Cos for angle addition, which is exact at every position, in half precision, too."),
    switch("--keep-rows", "Leave old rows as they are, with a warning of the seam.  [default: all rows are made anew]"),
    switch("--force", "Replace the file at -o. The one that is read is never replaced."),
    under="The new file",
)
PROVED = options(
    named("--against", "Prove the new file against this, too, as posenc prove does.", "TARGET"),
    click.option(*("-i", "--input", "inputs"), multiple=True, metavar="PORT", help="An input, for --against."),
    real(
        "--timeout",
        "Seconds that reading and writing may take, and the proof as long.  [default: 300; 0 = no limit]",
        300.0,
        "SECONDS",
    ),
    real("--memory", "Memory that each of the two may take.  [default: 8]", 8.0, "GIB"),
    under="Proof",
)


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Give an ONNX file of your own more positions, and prove them.",
    epilog=epilog(
        [
            "posenc extend model.onnx --max-len 131072 -o longer.onnx",
            "posenc extend m.onnx --max-len 8192 --rope-type yarn -p factor=4 -o o.onnx",
            "posenc extend model.onnx --exact -o exact.onnx",
        ],
        {0: "written and proved", 1: "positions end too early, or outputs are not those of before"},
    ),
)
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.onnx")
@MADE
@PROVED
@SPOKEN
@guarded
def extend(model: Path, **values: Any) -> None:
    """Write MODEL with more positions, and prove it: tables are computed anew in float64, other buffers made as long.

    MODEL itself is left as it is. Only nodes that compute from positions are run, and the old and the new file, in
    calls that are compared.
    """
    import posenc_export

    if values["out"] is None:
        raise click.UsageError("say where the new file goes: -o OUT.onnx")
    if values["inputs"] and values["against"] is None:
        raise click.UsageError("-i gives the inputs of --against: give that, too")
    if values["against"] is not None:
        check_target(values["against"], values["inputs"])
        check_apart(values["out"], _reads_of_target(values))
    of_target = _target_parameters(values)
    names = ("max_len", "rope_type", "encoding", "exact", "keep_rows", "force", "timeout", "memory")
    settings = {name: values[name] for name in names if values[name] is not None}
    result = posenc_export.extend(model, values["out"], parameters=_parameters(values), **settings)
    if values["as_json"]:
        print_json({**asdict(result), "passed": result.passed})
    elif not values["quiet"]:
        from posenc_export.read import extension_lines

        for line in extension_lines(result, bool(values["verbose"])):
            click.echo(one_line(line))
    if values["against"] is not None and result.passed:
        _prove(values, of_target)
    sys.exit(0 if result.passed else 1)


def _parameters(values: Mapping[str, Any]) -> dict[str, object]:
    """Return the parameters of the rope type; raise BadInput for those that it does not take."""
    if values["rope_type"] is None and values["against"] is not None:
        return {}
    with bad_input():
        check_texts(values["params"])
        if not values["params"] or values["rope_type"] is None:
            return {name: value for name, _, value in (text.partition("=") for text in values["params"])}
        from posenc.parameters import Parameter, parse
        from posenc.rope_types import ROPE_TYPES

        known = {**ROPE_TYPES[values["rope_type"]].parameters, "rope_theta": Parameter("rope_theta", float)}
        return parse(values["params"], known, values["rope_type"])


def _reads_of_target(values: Mapping[str, Any]) -> list[Path]:
    """Return what is read of --against: another ONNX file, or the code and the parameters of a target."""
    against = values["against"]
    return [Path(against)] if against.endswith(ONNX) else reads_of(against, values["params"])


def _target_parameters(values: Mapping[str, Any]) -> dict[str, object]:
    """Return the parameters of --against, where no --rope-type takes them; raise BadInput for unknown ones."""
    against = values["against"]
    if against is None or values["rope_type"] is not None:
        return {}
    with bad_input():
        check_texts(values["params"])
    if values["params"] and against.endswith(ONNX):
        raise click.UsageError(f"-p is for schemes and modules: {against} is an ONNX file")
    return TextSource(against, (), {}, values["params"], ()).parameters()


def _prove(values: Mapping[str, Any], parameters: Mapping[str, object]) -> None:
    """Prove the new file against a target, and exit with the status of that."""
    import posenc_export
    from posenc_export.cli.output.ending import end, print_result

    known = {"max_len": values["max_len"]} if values["max_len"] else {}
    result = posenc_export.prove(
        values["out"], values["against"], inputs=values["inputs"], parameters=parameters, **known
    )
    print_result(result, values["out"], values)
    end(result, values)
