"""Queries that follow a start are among the keys: what else there is refused, where, and in which words."""

from pathlib import Path
from typing import Any

import pytest
import torch

import posenc
from helpers.shared import one_of_each
from posenc.encoding import Encoding
from posenc.ports import Array, Axis, Port, Start, axes_of, carrying
from posenc.scheme import SCHEMES
from posenc.spec import Mode, Spec, UnsupportedSpec
from posenc_export.bundle.carries import keys_axis
from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.schema import read_manifest
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.planning.plan import plan
from posenc_export.proof.planning.scope import Scope
from posenc_export.proof.runtimes import RUNTIMES, RunFailed, Runner
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.scheme import scheme_target

LENGTH, KEYS = 3, 7
LEAST, MOST = -(2**63), 2**63 - 1
LEGAL, REFUSED = (0, 1, KEYS - LENGTH), (-1, -LENGTH, -KEYS, LEAST, KEYS - LENGTH + 1, KEYS, MOST)
MODES: tuple[Mode, ...] = ("baked", "dynamic")


def kinds() -> list[Any]:
    """Return the samples of every scheme whose queries are among keys, in each form."""
    found = []
    for scheme in SCHEMES.values():
        for i, sample in enumerate(scheme.samples):
            for mode in MODES:
                try:
                    encoding = built(scheme.name, mode, sample)
                except UnsupportedSpec:
                    continue
                if keys_axis(encoding.inputs):
                    found.append(pytest.param(scheme.name, mode, dict(sample), id=f"{scheme.name}-{mode}-{i}"))
    return found


def built(scheme: str, mode: Mode, params: Any) -> Encoding:
    return posenc.build(scheme, Spec(mode, positions="offset", max_len=40), **params)


def call(inputs: tuple[Port, ...], start: int) -> dict[str, Array]:
    """Return the inputs of a call of LENGTH queries from a start, and of KEYS keys."""
    keys = keys_axis(inputs)
    sizes = {axis.name: KEYS if axis.name == keys else LENGTH if axis.is_length else 2 for axis in axes_of(inputs)}
    return feeds_for(inputs, Case("call", sizes, first=start), 0)


def test_every_scheme_of_queries_and_keys_that_has_starts_is_among_them() -> None:
    names = {one.values[0] for one in kinds()}
    assert names == {"alibi", "t5_bias", "deberta_buckets", "clipped_relative", "kerple", "fire"}


@pytest.mark.parametrize(("scheme", "mode", "params"), kinds())
def test_eager_names_the_start_and_the_range(scheme: str, mode: Mode, params: Any) -> None:
    encoding = built(scheme, mode, params)
    script = torch.jit.script(encoding.module)
    for start in LEGAL:
        inputs = [torch.from_numpy(array) for array in call(encoding.inputs, start).values()]
        assert torch.equal(encoding.module(*inputs), script(*inputs))
    for start in REFUSED:
        inputs = [torch.from_numpy(array) for array in call(encoding.inputs, start).values()]
        with pytest.raises(IndexError) as caught:
            encoding.module(*inputs)
        assert str(caught.value) == f"start must be 0 to 4, since 3 queries count from it among 7 keys, got {start}"
        with pytest.raises(Exception, match=r"(?i)index"):
            script(*inputs)


@pytest.mark.parametrize(("scheme", "mode", "params"), one_of_each(kinds(), lambda one: one.values[1]))
def test_graphs_refuse_on_every_runtime_of_the_cpu(tmp_path: Path, scheme: str, mode: Mode, params: Any) -> None:
    spec = Spec(mode, positions="offset", max_len=40)
    options = ExportOptions(("onnx", "torchscript"), validate=False)
    folder = export_target(lambda: scheme_target(scheme, spec, params, 0), options, tmp_path / "bundle").folder
    bundle = Bundle.open(folder, trusted=True)
    for name in ("ort-cpu", "onnx-reference", "torchscript-cpu"):
        runner = opened(bundle, name)
        for start in LEGAL:
            assert runner.run(call(bundle.manifest.inputs, start))
        for start in REFUSED:
            with pytest.raises(RunFailed):
                runner.run(call(bundle.manifest.inputs, start))


def opened(bundle: Bundle, name: str) -> Runner:
    artifact = bundle.manifest.artifact(RUNTIMES[name].format)
    assert artifact is not None
    return RUNTIMES[name].open(bundle.path(artifact), bundle.manifest, True)


@pytest.mark.parametrize(("scheme", "mode", "params"), kinds())
def test_a_plan_has_queries_among_the_keys_alone_and_others_to_be_refused(scheme: str, mode: Mode, params: Any) -> None:
    encoding = built(scheme, mode, params)
    names = [axis.name for axis in axes_of(encoding.inputs) if axis.is_length]
    cases = plan(Scope(encoding, dict.fromkeys((axis.name for axis in axes_of(encoding.inputs)), 11), 40)).cases
    ends = {(case.first + case.sizes[names[0]], case.sizes[names[1]]) for case in cases if not case.refused}
    assert all(end <= keys for end, keys in ends)
    assert any(end == keys > 11 for end, keys in ends)
    refused = {case.first for case in cases if case.refused and not case.unlike}
    assert {-1, LEAST, 3, 4} <= refused


def test_a_bundle_of_an_earlier_version_has_starts_that_are_among_nothing(small_bundle: Path) -> None:
    data = Bundle.open(small_bundle).manifest.to_json()
    port = Port("start", (Axis("", "features", 1),), "int64", Start(9, "seq"))
    as_json = {"name": "start", "axes": [{**vars(port.axes[0])}], "dtype": "int64"}
    for carries, expected in (({"end": 9}, Start(9)), ({"end": 9, "among": "seq"}, Start(9, "seq"))):
        inputs = [*data["inputs"], {**as_json, "carries": {"what": "start", **carries}}]  # type: ignore[misc]
        read = read_manifest({**_plain(data), "inputs": _plain(inputs)})
        assert [one.carries for one in carrying(read.inputs, Start)][-1] == expected


def _plain(value: Any) -> Any:
    """Return what JSON makes of a value."""
    import json

    return json.loads(json.dumps(value))


def test_numbers_that_must_be_refused_are_those_of_strict_ranges() -> None:
    encoding = posenc.build("timestep", Spec("dynamic", max_len=50), dim=4)
    trig = posenc.build("timestep", Spec("dynamic", "trig", max_len=50), dim=4)
    assert encoding.inputs[0].carries.bounds == (-50.0, 50.0)  # type: ignore[union-attr]
    assert trig.inputs[0].carries.bounds is None  # type: ignore[union-attr]
