"""`posenc prove`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc_export.cli.declared import named, number, path, real
from posenc_export.cli.options import ASKED, CHECKED, PROOF, SETTINGS, SPEC, SPOKEN, TASK, guarded, validate_options
from posenc_export.cli.output.ending import end, print_result
from posenc_export.cli.output.helping import ENCODING, PROVED, Command, epilog, options
from posenc_export.cli.output.progressing import progress
from posenc_export.cli.text.sources import Values, against_source
from posenc_export.proof.planning.scope import BUDGET

if TYPE_CHECKING:
    from posenc_export.proof.exporter import ExportOptions
    from posenc_export.proof.runtimes import Progress


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Prove an ONNX file of any exporter, as an export is proved.",
    epilog=epilog(
        [
            "posenc prove model.onnx --against my.model:make -i 'ids: int64[b, t] < 99'",
            "posenc prove model.onnx --against rope -p head_dim=8 -i ids=positions",
            "posenc prove model.onnx --from-hf config.json",
            "posenc prove folder-of-optimum --model my-llama",
            "posenc prove optimized.onnx --against model.onnx",
        ],
        PROVED,
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@options(
    named(
        "--against",
        "What FILE must equal: package.module:factory, a scheme with -p, or another ONNX file, such as that before "
        "an optimizer.",
        "TARGET",
    ),
    under=ENCODING,
)
@options(
    path("--model", "What FILE must equal: a model of transformers, the folder that save_pretrained wrote.", "FOLDER"),
    TASK,
    under="Whole models",
)
@SPEC
@CHECKED
@ASKED
@options(
    number("--seed", "Seed of random weights and inputs.", 0, least=0, end=2**63 - 1),
    number("--budget", "Calls with an array of more elements than this are not tried.", BUDGET),
    PROOF,
    real("--memory", "Memory that reading FILE may take.  [default: 8]", 8.0, "GIB"),
    under="Validation",
)
@SPOKEN
@guarded
def prove(file: Path, **values: Any) -> None:
    """Prove that FILE, an ONNX file of any exporter, gives what TARGET gives; FILE itself is left as it is.

    FILE may be a folder: then it is the model.onnx in it, or its only ONNX file. Inputs are matched by their names, or
    by -i 'NAME_IN_FILE=NAME_IN_TARGET'. Outputs are matched by their names, or in order if names differ.
    """
    import posenc_export
    from posenc_export.proof.running.progress import expect
    from posenc_export.write.formats.onnx.place import check_file, model_file

    check_file(model_file(file))  # before torch loads
    source = against_source(values)
    with progress(values) as say:
        request = _options(values, say, source.notes)
        expect(say, 2)
        spec: dict[str, Any] = dict(source.settings)
        result = posenc_export.prove(
            file,
            memory=values["memory"],
            against=source.source,
            inputs=(*source.inputs, *source.renames),
            options=request,
            parameters=source.parameters(),
            **spec,
        )
    print_result(result, file, values)
    end(result, values)


def _options(values: Values, say: Progress, notes: tuple[str, ...]) -> ExportOptions:
    from posenc_export.proof.exporter import ExportOptions

    validation = validate_options(values, say)
    return ExportOptions(
        seed=values["seed"],
        budget=values["budget"],
        proof=values["proof"],
        notes=notes,
        validation=validation,
        ask_timeout=values["ask_timeout"],
    )
