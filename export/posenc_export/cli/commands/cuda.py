"""`posenc cuda`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from posenc_export.cli.declared import choice, path, switch
from posenc_export.cli.options import SETTINGS, guarded
from posenc_export.cli.output.helping import Command, epilog
from posenc_export.cli.output.printing import console
from posenc_export.cli.output.progressing import progress
from posenc_export.cli.text.words import SeveralWords, check_file

if TYPE_CHECKING:
    from posenc_export.proof.cuda.prove import CudaProof
    from posenc_export.proof.runtimes import Progress


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Prove every scheme on CUDA, in one table.",
    epilog=epilog(
        [
            "posenc cuda --save cuda.md",
            "posenc cuda --placement --scheme rope",
            "posenc cuda --device cpu --scheme rope --no-cpp --no-bench",
        ],
        {0: "all that ran agreed", 1: "something did not", 3: "nothing could run here"},
    ),
)
@choice("--device", ["cuda", "cpu"], "What to prove; cpu rehearses the same rows where there is no GPU.", "cuda")
@click.option("--scheme", "schemes", cls=SeveralWords, multiple=True, metavar="NAME", help="Only this.  [default: all]")
@switch("--cpp/--no-cpp", "Build the C++ runners and the C++ class.", True)
@switch("--bench/--no-bench", "Time the dynamic forms.", True)
@switch("--placement", "Only ask ONNX Runtime where each node would run: no kernel runs, no GPU is needed.")
@path("--save", "Write the table as Markdown too.")
@guarded
def cuda(**values: Any) -> None:
    """Prove every scheme on CUDA: each sample on each runtime, the C++ class, placement, device memory, and times."""
    from posenc_export.cli.output.tables import print_proofs
    from posenc_export.common.errors import BadInput
    from posenc_export.common.machine import facts
    from posenc_export.proof.cuda.table import headline, is_table, markdown, status_of

    check_file(values["save"])
    if values["save"] is not None and values["save"].is_file() and not is_table(values["save"]):
        raise BadInput(f"{values['save']} is there, and holds no table of posenc cuda: give another with --save")
    if values["placement"]:
        _place(values)
    with progress(values) as say:
        proofs = _proofs(values, say)
    machine = facts()
    print_proofs(console(), machine, proofs)
    click.echo(headline(proofs))
    if values["save"] is not None:
        values["save"].write_text(markdown(machine, headline(proofs), proofs), encoding="utf-8")
    sys.exit({"pass": 0, "fail": 1, "skip": 3}[status_of(proofs)])


def _place(values: dict[str, Any]) -> NoReturn:
    """Place every form of the schemes, print the table, and exit."""
    from posenc_export.cli.output.tables import print_placements
    from posenc_export.common.errors import Unavailable, bad_input
    from posenc_export.common.machine import facts
    from posenc_export.proof.cuda.place import place
    from posenc_export.proof.cuda.plan import placements
    from posenc_export.proof.cuda.table import placed_headline, placed_markdown
    from posenc_export.proof.runtimes import Missing

    with bad_input():
        plans = placements(values["schemes"])
    with progress(values) as say:
        try:
            placed = list(place(plans, say))
        except Missing as missing:
            raise Unavailable(f"nothing can be placed here: {missing}") from missing
    machine = facts()
    print_placements(console(), machine, placed)
    click.echo(placed_headline(placed))
    if values["save"] is not None:
        values["save"].write_text(placed_markdown(machine, placed), encoding="utf-8")
    sys.exit(1 if any(one.failed for one in placed) else 0)


def _proofs(values: dict[str, Any], say: Progress) -> list[CudaProof]:
    """Prove as the options ask; C++ runners are built first, so that their rows run too."""
    from posenc.scheme import SCHEMES
    from posenc_export.common.errors import Unavailable, bad_input
    from posenc_export.proof.cuda.plan import plans, runtimes_of, why_nothing_runs
    from posenc_export.proof.cuda.prove import EMBEDDED, TIMED, prove, prove_class, timed
    from posenc_export.proof.runtimes import RUNTIMES

    device, schemes = values["device"], values["schemes"] or tuple(SCHEMES)
    with bad_input():
        bundles = plans(schemes)
    reason = why_nothing_runs(device)
    if reason:
        raise Unavailable(f"nothing can run on {device} here: {reason}")
    if values["cpp"]:
        for name in runtimes_of(device):  # one that cannot run here is a row of its own
            RUNTIMES[name].prepare(say)
    proofs = list(prove(bundles, device, say))
    if values["cpp"]:
        for plan in (plan for plan in EMBEDDED if plan.scheme in schemes):
            proofs += prove_class(plan, device, say)
    if values["bench"]:
        for plan in (plan for plan in TIMED if plan.scheme in schemes):
            proofs += timed(plan, device, say)
    return proofs
