"""`posenc export`, which is `posenc-export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from posenc_export.cli.declared import choice, named, number, path, real, several, switch
from posenc_export.cli.options import (
    ASKED,
    CHECKED,
    PROOF_OF_EXPORTS,
    SETTINGS,
    SPEC,
    SPOKEN,
    TASK,
    VALIDATING,
    VERSION,
    WRITTEN,
    complete_source,
    guarded,
)
from posenc_export.cli.output.ending import end, print_result
from posenc_export.cli.output.helping import EXPORTED, FILES, PROVED, Command, epilog, options
from posenc_export.cli.output.progressing import progress
from posenc_export.cli.text.sources import TextSource, Values, read_source
from posenc_export.common.errors import BadInput, decoded, printable
from posenc_export.proof.planning.scope import BUDGET
from posenc_export.write.formats import ATTENTION_OPS, FORMATS
from posenc_export.write.formats.aoti_package import CPU_ISAS
from posenc_export.write.runtime_configs import RUNTIME_CONFIGS
from posenc_models.whole import BITS

PAGE = "report.html"
"""What --html adds."""

if TYPE_CHECKING:
    from posenc_export.proof.exporter import ExportResult
    from posenc_export.proof.exporter.settings import ExportSettings
    from posenc_export.proof.runtimes import Progress


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Write a bundle of an encoding, or of your module, and prove it.",
    epilog=epilog(
        [
            "posenc export --dynamic",
            "posenc export rope -p head_dim=64 --dynamic -f onnx -o rope",
            "posenc export --from-hf config.json --dynamic --rotary-op onnx",
            "posenc export --model my-llama --attention-op onnx",
            "posenc export package.module:Factory -i 'x: float32[batch, seq, 512]'",
        ],
        PROVED | EXPORTED,
    ),
)
@click.argument("scheme", required=False, shell_complete=complete_source)
@options(
    path("--model", "Write a whole model of transformers: the folder that save_pretrained wrote.", "FOLDER"),
    TASK,
    choice(
        "--quantize",
        BITS,
        "Store the weights of linear layers in blocks of 8 or 4 bits (MatMulNBits); the rest stays as it is.",
    ),
    number(
        "--accuracy-level",
        "With --quantize: 4 rounds what goes into products to 8 bits, too, which makes steps faster; 1 computes in "
        "floats.  [default: 4 with --attention-op microsoft, otherwise 1]",
        end=4,
    ),
    switch("--last-logits", "Let a decoder give the logits of the last token alone: long prompts take less memory."),
    switch("--any-image-size", "Let a model of images take any height and width that it takes in PyTorch."),
    path("--adapter", "Merge the LoRA of this folder, as peft writes it, into the weights.", "FOLDER"),
    switch("--allow-unused-weights", "Export though weights lie in FOLDER that nothing in its model reads."),
    choice(
        "--runtime-config",
        RUNTIME_CONFIGS,
        "Write the config of a runtime beside the model: genai, that of onnxruntime-genai.",
    ),
    choice(
        "--attention-op",
        ATTENTION_OPS,
        "How attention is written in ONNX: as plain operators, as Attention and RotaryEmbedding of ai.onnx "
        "(opset 23), or as GroupQueryAttention of com.microsoft, whose cache stays in place. For a module of your own, "
        "too.",
        "decomposed",
    ),
    under="Whole models",
)
@SPEC
@options(
    several(
        "-f --format formats",
        FORMATS,
        "What to write, with commas between. pt2: torch.export; aoti: AOTInductor; header: C++ without a runtime; "
        "cache: cosines and sines for kernels.",
        ("onnx", "torchscript"),
    ),
    under=FILES,
)
@WRITTEN
@CHECKED
@ASKED
@options(
    switch("--no-validate", "Write the bundle without running it."),
    number("--seed", "Seed of random weights and inputs.", 0, least=0, end=2**63 - 1),
    number("--budget", "Calls with an array of more elements than this are not tried.", BUDGET),
    PROOF_OF_EXPORTS,
    real("--memory", "Memory that the export may take.  [default: what is free]", None, "GIB"),
    under="Validation",
)
@options(
    switch("--cpp", "Add a folder for C++: a class, an example, a replay of all cases."),
    choice(
        "--cpu-isa",
        CPU_ISAS,
        "What an AOTInductor package is compiled for: this CPU; avx512; avx2; default: every x86-64.",
        "native",
    ),
    named(
        "--namespace",
        "In C++: NAME::rows in headers (in C NAME_rows), posenc::NAME::Model with --cpp.  "
        "[default: posenc_SCHEME in headers, DIR's name with --cpp]",
    ),
    click.option("--cpp-name", hidden=True, deprecated="Give --namespace, which says the same; it goes with 0.3."),
    switch("--html", "Add the report as a page to look at, report.html; see posenc report."),
    path("-o --output", "The folder of the bundle; one that fails is DIR-failed.  [default: ./SCHEME-MODE]", "DIR"),
    switch(
        "--force",
        "Replace DIR whatever is in it, but no home, system folder or work tree. Without it, only what this tool wrote "
        "is replaced.",
    ),
    under=FILES,
)
@SPOKEN
@VERSION
@guarded
def export(**values: Any) -> None:
    """Export SCHEME, a name or package.module:factory, to a bundle, and validate it; it is sinusoidal by default."""
    import posenc_export
    from posenc.memory import GIB, free_memory
    from posenc_export.bundle.place import check_target
    from posenc_export.common.supervisor import tell
    from posenc_export.proof.exporter import steps
    from posenc_export.proof.running.progress import expect
    from posenc_export.write.inputs.reads import reads_of

    tell(memory=int(values["memory"] * GIB) if values["memory"] else free_memory())
    source = read_source(values)
    if values["output"] is not None:
        # before torch loads: a folder that may not be replaced is said at once
        check_target(values["output"], values["force"], reads_of(source.source, source.texts))
    with progress(values) as say:
        settings = _settings(source, values, say)
        expect(say, steps(settings.options))
        say("loading torch")
        spec: dict[str, Any] = dict(source.settings)
        result = posenc_export.export(
            source.source,
            to=values["output"],
            inputs=source.inputs,
            options=settings.options,
            parameters=source.parameters(),
            **spec,
        )
    print_result(result, result.folder, values)
    if not (values["as_json"] or values["quiet"]):
        _print_files(result, bool(values["verbose"]))
    end(result, values)


def _settings(source: TextSource, values: Values, say: Progress) -> ExportSettings:
    """Return the spec and the options; refuse contradictions and missing runtimes before torch is loaded."""
    from posenc_export.proof.exporter.options import ExportOptions, check_options, check_whole
    from posenc_export.proof.exporter.settings import split
    from posenc_export.proof.judging.verdict import no_progress
    from posenc_export.proof.running.model import check_has_model
    from posenc_export.proof.runtimes.requests import prepare
    from posenc_models import ModelFolder

    if values["cpp_name"] and values["namespace"]:
        raise BadInput("--cpp-name is the old name of --namespace: leave it out")
    # names that options share with fields of ExportOptions and ValidateOptions
    names = (
        *("opset", "rotary_op", "check_positions", "cpu_isa", "seed", "budget", "cpp", "html", "force", "ask_timeout"),
        "proof",
        *("runtime_config", "attention_op", "accuracy_level"),
        *VALIDATING,
    )
    settings = {
        **{name: values[name] for name in names},
        "namespace": values["cpp_name"] if values["namespace"] is None else values["namespace"],
        "formats": _formats(values),
        "validate": not values["no_validate"],
        "progress": say,
        "notes": source.notes,
        "announce": no_progress if values["quiet"] else _announce,
    }
    parts = split({**source.settings, **settings}, None, ExportOptions(), source.source)
    check_options(parts.options)
    if isinstance(source.source, ModelFolder):
        check_whole(source.source, parts.options, values["max_len"])
    validation = parts.options.validation
    check_has_model(validation.require, not isinstance(source.source, str))
    prepare(validation.runtimes, validation.required_runtimes, say)
    return parts


def _formats(values: Values) -> tuple[str, ...]:
    """Return the formats that are asked for: a whole model is written as ONNX alone, unless somebody says otherwise."""
    source = click.get_current_context().get_parameter_source("formats")
    if values["model"] is not None and source is click.core.ParameterSource.DEFAULT:
        return ("onnx",)
    return tuple(dict.fromkeys(values["formats"]))


def _announce(line: str) -> None:
    """Print a line on what --force removes to stderr."""
    click.echo(printable(line), err=True)


def _print_files(result: ExportResult, verbose: bool) -> None:
    from posenc_export.cli.output.tables import print_comparisons

    for line in result.files():
        click.echo(line)
    if (result.folder / PAGE).is_file():
        click.echo(decoded(str(result.folder / PAGE)))
    if verbose:
        print_comparisons(result.verdicts)
    if result.failed:
        click.echo(f"nothing was written to its place: what failed lies in {decoded(str(result.folder))}", err=True)
