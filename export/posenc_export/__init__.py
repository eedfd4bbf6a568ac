"""Export positional encodings to graphs that other programs run, and prove the result.

>>> import posenc_export
>>> result = posenc_export.export("rope", head_dim=64, mode="dynamic", formats=["onnx"], to="out")
>>> result.passed, result.folder
(True, PosixPath('out'))
>>> posenc_export.validate("out").passed
True
>>> posenc_export.inspect("out/model.onnx").encodings[0].family
'rotary'

The command line, `posenc` and `posenc-export`, does what these functions do. Nothing heavy is imported before one
of them is called.
"""

from __future__ import annotations

import sys

from posenc_export.common import interrupts

if interrupts.is_command():
    if sys.argv[0] == "-m" and not sys.flags.safe_path:
        # Python put the current folder first, which may hold anybody's json.py
        del sys.path[0]
    if not interrupts.is_helper():
        from importlib import import_module
        from pathlib import Path

        from posenc_export.common.supervisor import supervise

        # what it left beside a place is known to a room that is not loaded yet
        supervise(lambda place: import_module("posenc_export.bundle.replacement").settle_leftovers(Path(place)))
    interrupts.leave_at_once()

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from posenc import __version__
from posenc_export.common.errors import BadInput, ExportFailed, path_of, worded
from posenc_export.common.notebooks import PAGES

if TYPE_CHECKING:
    from torch import nn

    from posenc.ports import Port
    from posenc.spec import Spec
    from posenc_export.bundle.folder import Bundle
    from posenc_export.proof.benchmarks import BenchOptions, BenchResult
    from posenc_export.proof.exporter import ExportOptions, ExportResult
    from posenc_export.proof.judging.verdict import ValidateOptions
    from posenc_export.proof.loaded_model import LoadedModel
    from posenc_export.proof.report.result import ValidateResult
    from posenc_export.read import Extended, ExtendOptions, Inspection, InspectOptions
    from posenc_export.write.inputs.given import Inputs
    from posenc_export.write.targets import Target
    from posenc_models import ModelConfig, ModelFolder

    Source: TypeAlias = str | nn.Module | ModelConfig | ModelFolder | Callable[..., nn.Module]

__all__ = ["__version__", "bench", "export", "extend", "inspect", "load", "prove", "report", "target", "validate"]


def _inspection_in_notebook(inspection: Inspection) -> str:
    from posenc_export.show.pages import inspection_in_notebook

    return inspection_in_notebook(inspection)


PAGES["Inspection"] = _inspection_in_notebook


def in_python(message: str) -> str:
    """Return an error's text with keyword arguments in the place of options; a command prints the text itself."""
    from posenc_export.keywords import in_python

    return in_python(message)


@worded(in_python)
def target(
    source: Source = "sinusoidal",
    *,
    spec: Spec | None = None,
    inputs: Inputs = (),
    seed: int = 0,
    parameters: Mapping[str, object] | None = None,
) -> Target:
    """Return what is to be exported: an encoding with its name and the parameters that it is made with.

    Args:
        source: The name of a scheme; a model's config (`posenc_models.ModelConfig.load(path)`); a whole model
            (`posenc_models.ModelFolder.load(path)`); or a module of your own, as "package.module:factory", as a module,
            or as a class or function that makes one.
        spec: Mode, method, positions, max_len and dtype of a scheme; of a module its max_len alone counts.
        inputs: What goes into a module of your own: ports, or texts of them, as "x: float32[batch, seq, 512]".
        seed: For random weights and inputs.
        parameters: Keyword arguments of the scheme, or of the class or function that makes the module.

    Raises BadInput, in one line, where the source cannot be exported.
    """
    from posenc.spec import Spec
    from posenc_export.bundle.port_names import check_inputs
    from posenc_export.write.inputs.given import ports_of
    from posenc_models import ModelConfig, ModelFolder

    spec, parameters = spec or Spec(), parameters or {}
    ports, _ = ports_of(inputs)
    if isinstance(source, ModelFolder):
        if ports or parameters:
            raise BadInput("a whole model has its own inputs, and no parameters: leave -i and -p out")
        from posenc_export.write.targets.whole import whole_target

        return whole_target(source, spec, seed)
    is_module = _is_module(source)
    _check_no_ports_of_scheme(source, ports)
    check_inputs(ports)
    if isinstance(source, ModelConfig):
        from posenc_export.write.targets.hf_config import config_target

        return config_target(source, spec, parameters, seed)
    if is_module:
        from posenc_export.write.targets.module import module_target

        return module_target(source, ports, spec, parameters, seed)
    from posenc_export.write.targets.scheme import scheme_target

    return scheme_target(str(source), spec, parameters, seed)


def _is_module(source: Source) -> bool:
    """Return whether a source is a user's module: a text with a colon names a factory, one without a scheme."""
    from posenc_models import ModelConfig, ModelFolder

    return not isinstance(source, ModelConfig | ModelFolder) and (not isinstance(source, str) or ":" in source)


def _check_no_ports_of_scheme(source: Source, ports: Sequence[Port]) -> None:
    """Raise BadInput, before anything is loaded, for inputs of a scheme."""
    from posenc_models import ModelFolder

    if ports and not _is_module(source) and not isinstance(source, ModelFolder):
        raise BadInput("-i gives the inputs of package.module:factory; a scheme has its own")


@worded(in_python)
def export(
    source: Source = "sinusoidal",
    *,
    to: str | PathLike[str] | None = None,
    inputs: Inputs = (),
    spec: Spec | None = None,
    options: ExportOptions | None = None,
    parameters: Mapping[str, object] | None = None,
    **settings: object,
) -> ExportResult:
    """Export a scheme, a model's rotary encoding, or a module of your own to a bundle, and validate it.

    Args:
        source: What is exported; see `target`.
        to: The folder of the bundle [default: ./NAME-MODE]. A bundle that fails goes to TO-failed, and what was at TO
            stays. Files that this tool did not write are not replaced without force=True.
        inputs: What goes into a module of your own; see `target`.
        spec: Whole, or its fields by name: mode, method, positions, max_len, dtype, position_offset, index_dtype,
            table_rows.
        options: Whole, or their fields by name: formats, opset, rotary_op, check_positions, cpu_isa, namespace, seed,
            budget, validate, cpp, force, notes; runtimes, require, atol, rtol, timeout, prove, progress.
        parameters: Those of the source.
        **settings: Fields of the spec and of the options; every other name is a parameter of the source.

    Returns where the bundle went and the verdicts: `result.passed` says whether all that could run agreed.
    Raises BadInput (what was asked for makes no sense), Unavailable (a required runtime cannot run here), ExportFailed
    (there is no graph that holds for what was asked); each is one line.
    """
    from posenc_export.common.supervisor import time_limit
    from posenc_export.proof.exporter import ExportOptions, export_target
    from posenc_export.proof.exporter.options import check_whole
    from posenc_export.proof.exporter.settings import check_stored, spec_for, split
    from posenc_export.write.inputs.given import ports_of
    from posenc_export.write.inputs.reads import reads_of
    from posenc_export.write.targets.sizes import for_whole
    from posenc_models import ModelFolder

    ports, assumed = ports_of(inputs)
    _check_no_ports_of_scheme(source, ports)
    parts = split(settings, spec, options or ExportOptions(), source)
    is_sized = spec is not None or "max_len" in settings
    if isinstance(source, ModelFolder):
        from posenc_export.write.targets.room_for_models import SLOWEST_DISK, check_disk, fit_memory

        check_whole(source, parts.options, parts.spec.max_len if is_sized else None)
        is_copied = parts.options.proof_of(whole=True, large=False) != "one"
        source = fit_memory(source, parts.options.announce, is_copied=is_copied)
        check_disk(source, Path.cwd() / "model" if to is None else path_of(to, "to"))
        seconds = parts.options.validation.timeout
        loading = seconds + source.contents.bytes / SLOWEST_DISK if seconds else 0.0
    else:
        loading = 0.0
    noted = replace(parts.options, notes=(*parts.options.notes, *assumed))
    values = {**parts.parameters, **(parameters or {})}

    def make() -> Target:
        fitting = spec_for(parts, source, values)
        if isinstance(source, ModelFolder):
            parts.options.validation.progress(f"loading torch: and the model of {source.path}")
        with time_limit(loading, "loading the model"):
            made = target(source, spec=fitting, inputs=ports, seed=noted.seed, parameters=values)
        check_stored(parts.spec, made)
        return made

    def page(result: ExportResult, bundle: Bundle) -> str:
        from posenc_export.show.pages import content_of, page_of

        return page_of(content_of(result, bundle))

    place = None if to is None else path_of(to, "to")
    try:
        return export_target(make, noted, place, page, reads_of(source, values.values()))
    except (BadInput, ExportFailed) as error:
        if not isinstance(source, ModelFolder):
            raise
        raise type(error)(for_whole(error.message)) from error


@worded(in_python)
def validate(
    folder: str | PathLike[str], *, trust: bool = False, options: ValidateOptions | None = None, **settings: object
) -> ValidateResult:
    """Check an existing bundle on this machine, from its golden data alone; the bundle itself is left as it is.

    Args:
        folder: The bundle.
        trust: Whether code in the bundle may be run, as that of TorchScript, torch.export, AOTInductor and C++ headers.
            Otherwise only inert files are checked and run: ONNX.
        options: Whole, or its fields by name: runtimes, require, atol, rtol, prove, progress.
        **settings: Fields of the options.

    Returns the manifest and the verdicts: `result.passed` says whether all that could run agreed.
    Raises BadInput where the folder is no bundle, or where a runtime is named that runs code which is not trusted,
    Unavailable where a required runtime cannot run here.
    """
    from posenc_export.proof.apart.parent import validate_folder
    from posenc_export.proof.exporter.settings import with_fields
    from posenc_export.proof.judging.verdict import ValidateOptions

    return validate_folder(path_of(folder, "folder"), with_fields(options or ValidateOptions(), settings), trust)


@worded(in_python)
def load(folder: str | PathLike[str]) -> LoadedModel:
    """Load a whole model that writes text, or gives vectors of sentences, for a first try.

    ONNX Runtime runs it on the CPU, and torch is not needed.

    >>> posenc_export.load("llama").generate([5, 9, 2], max_new_tokens=4)
    [24, 18, 3, 13]
    >>> posenc_export.load("minilm").encode([[101, 4937, 102], [101, 102]]).shape
    (2, 384)

    Args:
        folder: A bundle that `posenc export --model` wrote. Nothing of it but its ONNX file is run.

    Raises BadInput, in one line, where the folder is no bundle, or holds neither a causal language model with its cache
    nor an encoder of sentences.
    """
    from posenc_export.proof.loaded_model import load_model

    return load_model(path_of(folder, "folder"))


@worded(in_python)
def report(
    folder: str | PathLike[str],
    to: str | PathLike[str],
    *,
    trust: bool = False,
    force: bool = False,
    options: ValidateOptions | None = None,
    **settings: object,
) -> ValidateResult:
    """Check a bundle as `validate` does, and write the result as a page in HTML: one file, which loads nothing.

    Args:
        folder: The bundle, which is left as it is; what its own report says is not believed.
        to: The file of the page, which ends in .html; it is written for a bundle that fails, too.
        trust: As for `validate`.
        force: Whether a file is replaced that is there.
        options: As for `validate`.
        **settings: As for `validate`.

    Raises BadInput where the page cannot be written, before any work, and otherwise as `validate` does.
    """
    from posenc_export.proof.exporter.settings import with_fields
    from posenc_export.proof.judging.verdict import ValidateOptions
    from posenc_export.show.pages import report_folder

    chosen = with_fields(options or ValidateOptions(), settings)
    return report_folder(path_of(folder, "folder"), path_of(to, "to"), chosen, trust=trust, force=force)


@worded(in_python)
def inspect(
    path: str | PathLike[str],
    *,
    config: str | PathLike[str] | None = None,
    against: str | PathLike[str] | None = None,
    options: InspectOptions | None = None,
    **settings: object,
) -> Inspection:
    """Say what an ONNX file, whoever made it, holds of positions: which encodings, how right, and where they end.

    Nothing of the file is run but small kernels on numbers that follow from positions, in a process with limits.

    Args:
        path: The ONNX file.
        config: A model's config.json, or its folder: the file is held against it, layer by layer.
        against: The ONNX file that it was made of by an optimizer or a quantizer.
        options: Whole, or its fields by name: bound, timeout, memory, begun.
        **settings: Fields of the options.

    Returns the encodings and the findings: `result.passed` says whether none of these is an error.
    Raises BadInput where a file cannot be read, or where reading it takes too long or too much memory.
    """
    from posenc_export.proof.exporter.settings import with_fields
    from posenc_export.read import InspectOptions, inspect_file

    held = {name: place for name, place in (("config", config), ("against", against)) if place is not None}
    places = {name: path_of(place, name) for name, place in held.items()}
    chosen = with_fields(options or InspectOptions(), settings)
    return inspect_file(path_of(path, "path"), places.get("config"), places.get("against"), chosen)


@worded(in_python)
def prove(
    file: str | PathLike[str],
    against: Source | PathLike[str],
    *,
    inputs: Inputs = (),
    parameters: Mapping[str, object] | None = None,
    **settings: object,
) -> ValidateResult:
    """Prove an ONNX file that any program wrote, as an export of ours is proved, and return the verdicts.

    Args:
        file: The ONNX file, which is left as it is, or the folder that it lies in.
        against: What it is to be: as the source of `export`, or the path of another ONNX file.
        inputs: As for `export`; and names of the file that the target has under others: "position_ids=positions".
        parameters: As for `export`.
        **settings: As for `export`.
    """
    from posenc_export.proof.foreign.source import SourceFile, prove_source
    from posenc_export.write.inputs.given import ports_of, renames_of

    source = str(against) if isinstance(against, PathLike) else against
    items, names = renames_of(inputs)
    return prove_source(
        SourceFile(path_of(file, "file"), names, ports_of, *ports_of(items)), source, settings, parameters or {}, target
    )


@worded(in_python)
def extend(
    file: str | PathLike[str],
    to: str | PathLike[str],
    *,
    parameters: Mapping[str, object] | None = None,
    options: ExtendOptions | None = None,
    **settings: object,
) -> Extended:
    """Write an ONNX file, whoever made it, with more positions, under another rope scaling, or exact, and prove it.

    Args:
        file: The ONNX file, which is left as it is.
        to: Where the new file goes.
        parameters: Those of rope_type, by the names that transformers has for them.
        options: Whole, or its fields by name: max_len, rope_type, encoding, exact, keep_rows, force, timeout, memory.
        **settings: Fields of the options.

    Returns what was rewritten: `result.passed` says whether the length is reached, and outputs are those of before.
    Raises BadInput where nothing can be extended, as learned tables, or where it takes too long or too much memory.
    """
    from posenc_export.proof.exporter.settings import with_fields
    from posenc_export.read import ExtendOptions, extend_file

    chosen = with_fields(options or ExtendOptions(), settings)
    if parameters is not None and not isinstance(parameters, Mapping):
        raise BadInput(f"parameters must be a mapping of names to values, got {parameters!r}")
    named = replace(chosen, parameters={**chosen.parameters, **(parameters or {})})
    return extend_file(path_of(file, "file"), path_of(to, "to"), named)


@worded(in_python)
def bench(
    source: Source | PathLike[str] = "sinusoidal",
    *,
    trust: bool = False,
    inputs: Inputs = (),
    spec: Spec | None = None,
    options: ExportOptions | None = None,
    timing: BenchOptions | None = None,
    parameters: Mapping[str, object] | None = None,
    **settings: object,
) -> BenchResult:
    """Time a scheme, a module or a bundle per runtime, beside a copy of the same bytes and the usual export.

    Without a spec or a max_len, tables have a row for every position of the longest call, or for every row of a file.

    Args:
        source: As for `export`, or the path of a bundle's folder (a pathlib.Path).
        trust: Whether code in that bundle may be run, as for `validate`.
        inputs: As for `export`.
        spec: As for `export`.
        options: As for `export`; opset, rotary_op, seed and progress count.
        timing: Whole, or its fields by name: lengths, batch, heads, rounds, runtimes.
        parameters: As for `export`.
        **settings: Fields of the timing; others as for `export`.

    Returns medians and ratios of one run. Raises BadInput where nothing can be timed.
    """
    from posenc_export.proof.benchmarks import USUAL_LENGTHS, BenchOptions
    from posenc_export.proof.benchmarks.run import bench_folder, bench_target, check_no_folder, progress_of_bundle
    from posenc_export.proof.exporter import ExportOptions
    from posenc_export.proof.exporter.settings import fields_of, spec_for, split, with_fields, with_rows

    of_timing = {name: settings.pop(name) for name in fields_of(BenchOptions) & settings.keys()}
    timing, options = with_fields(timing or BenchOptions(), of_timing), options or ExportOptions()
    if isinstance(source, PathLike):
        progress = progress_of_bundle(options.validation, {**settings, **(parameters or {})})
        return bench_folder(Path(source), timing, progress, trust)
    check_no_folder(source)
    sized = with_rows(settings, spec, max(timing.lengths or USUAL_LENGTHS))
    parts = split(sized, spec, options, source)
    values = {**parts.parameters, **(parameters or {})}
    fitting = spec_for(replace(parts, sized=sized is settings or bool(timing.lengths)), source, values)
    return bench_target(
        lambda: target(source, spec=fitting, inputs=inputs, seed=parts.options.seed, parameters=values),
        parts.options,
        timing,
    )
