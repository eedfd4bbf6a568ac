"""The bundles that same_bits.py holds from version to version, and what is noted beside each when it is written."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import posenc_export
from helpers.combinations import DTYPES, MAX_LEN, MODES, POSITIONS, combinations, form_of, form_of_variants
from known import absolute, lies, packages, relative, rotary, shapes, wrong
from posenc.scheme import SCHEMES, build
from posenc.spec import Spec, UnsupportedSpec
from posenc_export.bundle.folder import Bundle
from posenc_export.cli import main
from posenc_export.common.arrays import call_on_arrays
from posenc_export.common.errors import PosencError
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.report.rows import tables
from posenc_export.proof.running.run import validate_bundle
from posenc_export.write.formats import FORMATS
from posenc_export.write.targets import Target
from posenc_models import ModelConfig, load_config

DATA = Path(__file__).parents[1] / "data"
FACTS, SAID = "facts.json", "said.json"
"""What is noted of one bundle, beside it; what commands print, once in a folder."""
GRAPHS, HEADERS = ("onnx", "torchscript"), ("header", "header-c99")
RUNTIMES = ("ort-cpu", "torchscript-cpu")
LONGEST_NAME = 150
MODULES = (absolute, rotary, relative, shapes, wrong, packages, lies)
CONFIGS = ("llama-3.1-8b", "qwen2-vl-2b")
ENCODER = {"vocabulary": 100, "d_model": 32, "heads": 4, "layers": 1}


@dataclass(frozen=True)
class Held:
    """A bundle: its name, what it is made of, and options of its export.

    source: a scheme, package.module:factory, or the path of a config. widely: with a pt2 file and the C++ class too.
    """

    name: str
    source: str
    spec: Spec
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    widely: bool = False

    def target(self) -> Target:
        """Return what is exported; raise PosencError where there is none."""
        is_config = self.source.endswith(".json")  # it is read here: its path is that of a checkout
        source = ModelConfig.of(load_config(self.source)) if is_config else self.source
        return posenc_export.target(source, spec=self.spec, inputs=self.inputs, parameters=self.parameters)


def held(everything: bool = False) -> list[Held]:
    """Return every bundle that is written, each by a name of its own.

    Of combinations: each form and way to give positions of each scheme, its other dtypes, and its variants in one form;
    with everything, also what differs in two of these at once.
    """
    bundles = [*_of_schemes(everything), *_of_options(), *_of_modules(), *_of_models()]
    return [replace(bundle, name=bundle.name[:LONGEST_NAME]) for bundle in bundles]


def _of_schemes(everything: bool) -> Iterator[Held]:
    wide: set[str] = set()
    for combination in combinations():
        scheme, spec, params = combination.values
        smallest = params == SCHEMES[scheme].samples[0]
        usual = spec.positions == SCHEMES[scheme].positions and form_of(spec) == form_of_variants(scheme)
        if everything or smallest or (usual and spec.dtype == DTYPES[0]):
            first = smallest and usual and scheme not in wide
            wide |= {scheme} if first else set()
            yield Held(str(combination.id), scheme, spec, params, widely=first)


def _of_options() -> Iterator[Held]:
    """Yield each operator for a rotation, and the newest opset."""
    spec = Spec("dynamic", "exact", "explicit", MAX_LEN)
    for op in ("onnx", "microsoft"):
        yield Held(f"rope-operator-{op}", "rope", spec, {"head_dim": 16}, options={"rotary_op": op})
    yield Held("sinusoidal-opset-23", "sinusoidal", spec, {"d_model": 16}, options={"opset": 23})


def _of_modules() -> Iterator[Held]:
    """Yield modules of users, those that are refused among them."""
    for row in (row for module in MODULES for row in module.ROWS if row.quick):
        source, options = f"known.{row.factory}", {"formats": ("onnx",)}
        yield Held(f"own-{row.name}", source, Spec(max_len=row.max_len), dict(row.params), row.inputs, options)


def _of_models() -> Iterator[Held]:
    """Yield encodings of configs, held against the models' own code, and a whole network."""
    for name in CONFIGS:
        yield Held(f"config-{name}", str(DATA / "configs" / f"{name}.json"), Spec("dynamic", max_len=MAX_LEN))
    source, inputs = "posenc_models.networks.encoder:TextEncoder", ("ids: int64[batch, seq] < 100",)
    yield Held("model-TextEncoder", source, Spec(max_len=MAX_LEN), ENCODER, inputs)


def write(one: Held, folder: Path) -> None:
    """Write one bundle into FOLDER/NAME/bundle, and its facts beside it; what was at FOLDER/NAME goes."""
    place = folder / one.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        _forget_classes()
        target = one.target()
        settings = {"formats": _formats(one, target), "validate": False, "cpp": one.widely, **one.options}
        options = ExportOptions(**settings)
        bundle = Bundle.open(export_target(lambda: target, options, place / "bundle").folder, trusted=True)
        facts = {"refusals": _refusals(bundle, target), **_report(bundle)}
    except PosencError as error:
        facts = {"refused": str(error)}
    _write(place / FACTS, facts)


def _forget_classes() -> None:
    """Have TorchScript forget the classes that it has met: it numbers those that it meets again in one process."""
    torch._C._jit_clear_class_registry()
    torch.jit._recursive.concrete_type_store = torch.jit._recursive.ConcreteTypeStore()
    torch.jit._state._clear_class_state()


def _formats(one: Held, target: Target) -> tuple[str, ...]:
    """Return both graphs, the headers where there can be some, and pt2 where a bundle is written widely."""
    there_is_none = SCHEMES[one.source].unsupported.formats if one.source in SCHEMES else HEADERS
    wanted = (*GRAPHS, *HEADERS, *(["pt2"] if one.widely else []))
    return tuple(f for f in wanted if f not in there_is_none and not FORMATS[f].refuses(target.encoding))


def _refusals(bundle: Bundle, target: Target) -> dict[str, str]:
    """Return what the eager module says in each case that must be refused."""
    module, said = target.encoding.uncalled().module, {}
    for golden in bundle.golden():
        if golden.case.refused:
            try:
                call_on_arrays(module, [golden.feeds[port.name] for port in target.encoding.inputs])
                said[golden.case.name] = "it answers"
            except Exception as error:
                said[golden.case.name] = f"{type(error).__name__}: {error}"
    return said


def _report(bundle: Bundle) -> dict[str, object]:
    """Return the verdicts of a validation, and the rows of its report."""
    verdicts = validate_bundle(bundle, ValidateOptions(runtimes=RUNTIMES))
    found = {f"{v.subject} {v.check}": {"status": v.status, "detail": v.detail, "note": v.note} for v in verdicts}
    rows = {row.cells[0]: " | ".join(row.cells[1:]) for table in tables(verdicts) for row in table.rows}
    return {"verdicts": found, "report": {"columns": [table.columns for table in tables(verdicts)], **rows}}


def write_said(folder: Path) -> None:
    """Write what commands print, and why schemes have no such forms as they have not."""
    from click.testing import CliRunner

    words = [["schemes", "--json"], ["schemes", "--markdown"], ["explain", "--json"], ["explain", "--markdown"]]
    words += [["--help"], *([name, "--help"] for name in sorted(main.commands))]
    runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb"})
    said = {f"posenc {' '.join(line)}": runner.invoke(main, line).output for line in words}
    _write(folder / SAID, {**said, "forms that there are not": _unsupported()})


def _unsupported() -> dict[str, str]:
    """Return the reason why a scheme has no form, by the names of both."""
    reasons = {}
    for scheme in SCHEMES:
        for mode, method in MODES:
            for positions in POSITIONS:
                try:
                    build(scheme, Spec(mode, method, positions, MAX_LEN), **SCHEMES[scheme].samples[0])
                except UnsupportedSpec as error:
                    reasons[f"{scheme} {mode} {method} {positions}"] = str(error)
    return reasons


def _write(path: Path, facts: Mapping[str, object]) -> None:
    """Write what is noted, without the place of this checkout."""
    text = json.dumps(facts, indent=1, ensure_ascii=False).replace(str(DATA.parents[1]), "CHECKOUT")
    path.write_text(f"{text}\n", encoding="utf-8")
