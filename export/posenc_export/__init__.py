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
    interrupts.leave_at_once()

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from posenc import __version__
from posenc_export.any_file import extend, in_python, inspect, report
from posenc_export.common.errors import path_of, worded

if TYPE_CHECKING:
    from torch import nn

    from posenc.spec import Spec
    from posenc_export.keywords import Inputs
    from posenc_export.proof.benchmarks import BenchOptions, BenchResult
    from posenc_export.proof.exporter import ExportOptions, ExportResult
    from posenc_export.proof.judging.verdict import ValidateOptions
    from posenc_export.proof.report.result import ValidateResult
    from posenc_export.write.targets import Target
    from posenc_models import ModelConfig

    Source: TypeAlias = str | nn.Module | ModelConfig | Callable[..., nn.Module]

__all__ = ["__version__", "bench", "export", "extend", "inspect", "prove", "report", "target", "validate"]


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
        source: The name of a scheme; a model's config (`posenc_models.ModelConfig.load(path)`); or a module of your
            own, as "package.module:factory", as a module, or as a class or function that makes one.
        spec: Mode, method, positions, max_len and dtype of a scheme; of a module its max_len alone counts.
        inputs: What goes into a module of your own: ports, or texts of them, as "x: float32[batch, seq, 512]".
        seed: For random weights and inputs.
        parameters: Keyword arguments of the scheme, or of the class or function that makes the module.

    Raises BadInput, in one line, where the source cannot be exported.
    """
    from posenc.spec import Spec
    from posenc_export.bundle.port_names import check_inputs
    from posenc_export.common.errors import BadInput
    from posenc_export.keywords import ports_of
    from posenc_models import ModelConfig

    spec, parameters = spec or Spec(), parameters or {}
    ports, _ = ports_of(inputs)
    # a text with a colon names a factory, one without a scheme
    is_module = not isinstance(source, ModelConfig) and (not isinstance(source, str) or ":" in source)
    if ports and not is_module:
        raise BadInput("-i gives the inputs of package.module:factory; a scheme has its own")
    check_inputs(ports)
    if isinstance(source, ModelConfig):
        from posenc_export.write.targets.hf_config import config_target

        return config_target(source, spec, parameters, seed)
    if is_module:
        from posenc_export.write.targets.module import module_target

        return module_target(source, ports, spec, parameters, seed)
    from posenc_export.write.targets.scheme import scheme_target

    return scheme_target(str(source), spec, parameters, seed)


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
        spec: Whole, or its fields by name: mode, method, positions, max_len, dtype, position_offset, index_dtype.
        options: Whole, or their fields by name: formats, opset, rotary_op, check_positions, cpu_isa, namespace, seed,
            budget, validate, cpp, force, notes; runtimes, require, atol, rtol, timeout, prove, progress.
        parameters: Those of the source.
        **settings: Fields of the spec and of the options; every other name is a parameter of the source.

    Returns where the bundle went and the verdicts: `result.passed` says whether all that could run agreed.
    Raises BadInput (what was asked for makes no sense), Unavailable (a required runtime cannot run here), ExportFailed
    (there is no graph that holds for what was asked); each is one line.
    """
    from posenc_export.keywords import ports_of
    from posenc_export.proof.exporter import ExportOptions, export_target
    from posenc_export.proof.exporter.settings import spec_for, split

    ports, assumed = ports_of(inputs)
    parts = split(settings, spec, options or ExportOptions(), source)
    noted = replace(parts.options, notes=(*parts.options.notes, *assumed))
    values = {**parts.parameters, **(parameters or {})}

    def make() -> Target:
        fitting = spec_for(parts, source, values)
        return target(source, spec=fitting, inputs=ports, seed=noted.seed, parameters=values)

    return export_target(make, noted, None if to is None else path_of(to, "to"))


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
        file: The ONNX file, which is left as it is.
        against: What it is to be: as the source of `export`, or the path of another ONNX file.
        inputs: As for `export`; and names of the file that the target has under others: "position_ids=positions".
        parameters: As for `export`.
        **settings: As for `export`.
    """
    from posenc_export.keywords import ports_of, renames_of
    from posenc_export.proof.foreign.source import File, prove_source

    source = str(against) if isinstance(against, PathLike) else against
    items, names = renames_of(inputs)
    return prove_source(
        File(path_of(file, "file"), names, ports_of, *ports_of(items)), source, settings, parameters or {}, target
    )


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
