"""Reading is the inverse of writing: each scheme is read back from its own file, with its parameters.

Files are written by the exporter of this project and by the plain one of torch, in both forms, in float32 and float16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

import posenc_export
from posenc import parameters
from posenc.parameters import Value
from posenc.scheme import SCHEMES
from posenc.spec import DType, Mode, Spec
from posenc_export.proof.exporter import export_target
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.exporter.request import request_for
from posenc_export.read.inspection import Inspection
from posenc_export.write.targets.scheme import scheme_target

MAX_LEN = 70
ANOTHER = {
    # a table of cosines and sines for each type of layer is that of plain rope, and nothing in the file joins them
    ("rope_layers", "baked"): "rope",
    ("rope_layers", "dynamic"): "rope",
    # a network that was run at export left the bias of a window, and the window says no more
    ("swin_cpb", "baked"): "swin_bias",
}
"""Schemes whose files hold the numbers of another, which is the truth about such a file."""
QUICK = {"learned_2d", "xpos", "deberta_buckets", "attention_temperature"}
"""Schemes of which a file is read in the quick run: one of each kind of observation but biases."""


def cases() -> Iterator[Any]:
    """Yield each scheme that can be read, in its forms and both dtypes, by both exporters."""
    for scheme in SCHEMES.values():
        for mode in get_args(Mode):
            if mode in scheme.unsupported.modes or scheme.unread(mode):
                continue
            for dtype, by in (("fp32", "torch.onnx"), ("fp16", "posenc-export")):
                first = scheme.name in QUICK and (mode, dtype) == ("baked", "fp32")
                marks = () if first else pytest.mark.exhaustive
                yield pytest.param(scheme.name, mode, dtype, by, marks=marks, id=f"{scheme.name}-{mode}-{dtype}-{by}")


def written(folder: Path, name: str, mode: Mode, dtype: DType, by: str) -> Path:
    """Return a file of a scheme's smallest sample, written by an exporter."""
    target = scheme_target(name, Spec(mode, max_len=MAX_LEN, dtype=dtype), SCHEMES[name].samples[0], 0)
    if by == "posenc-export":
        export_target(lambda: target, ExportOptions(formats=("onnx",), validate=False), folder / "bundle")
        return folder / "bundle" / "model.onnx"
    encoding = target.encoding
    request = request_for(target, ExportOptions(formats=("onnx",)))
    shapes = tuple(dict.fromkeys(port.dynamic, torch.export.Dim.DYNAMIC) for port in encoding.inputs)
    torch.onnx.export(
        encoding.module.eval(),
        request.trace,
        str(folder / "plain.onnx"),
        dynamo=True,
        input_names=[port.name for port in encoding.inputs],
        # a name that a tensor of the module has would be given twice: such a file is damaged
        output_names=[f"output_{number}" for number in range(len(encoding.outputs))],
        dynamic_shapes=shapes,
        external_data=False,
        verbose=False,
    )
    return folder / "plain.onnx"


@pytest.mark.parametrize(("name", "mode", "dtype", "by"), [*cases()])
def test_a_scheme_is_read_back_from_its_own_file(tmp_path: Path, name: str, mode: Mode, dtype: DType, by: str) -> None:
    """The line of an inspection is the scheme, its parameters are those that were written, and its end is found."""
    inspection = posenc_export.inspect(written(tmp_path, name, mode, dtype, by))
    assert inspection.encodings
    for encoding in inspection.encodings:
        scheme, *words = encoding.scheme.split(" -p ")
        assert scheme == ANOTHER.get((name, mode), name), inspection.encodings
        if scheme == name:
            check_parameters(name, words, SCHEMES[name].samples[0])
    check_end(inspection, name, mode)


QUICK_DEFAULTS = {"interpolated", "deberta_buckets"}
"""Schemes of which a file of default size is read in the quick run."""
LENGTHS = {"attention_temperature": 3 * 8192}
"""Lengths of schemes that do nothing within the default length."""


def defaults() -> Iterator[Any]:
    """Yield each scheme with the form of its default parameters: computed, or stored where it cannot be computed."""
    for scheme in SCHEMES.values():
        mode: Mode = "baked" if "dynamic" in scheme.unsupported.modes else "dynamic"
        if not scheme.unread(mode):
            marks = () if scheme.name in QUICK_DEFAULTS else pytest.mark.exhaustive
            yield pytest.param(scheme.name, mode, marks=marks, id=f"{scheme.name}-{mode}")


@pytest.mark.parametrize(("name", "mode"), [*defaults()])
def test_a_scheme_is_read_back_at_the_size_that_models_have(tmp_path: Path, name: str, mode: Mode) -> None:
    """Samples are small, and models are as large as the defaults."""
    target = scheme_target(name, Spec(mode, max_len=LENGTHS.get(name, 2048)), {}, 0)
    export_target(lambda: target, ExportOptions(formats=("onnx",), validate=False), tmp_path / "bundle")
    # machines differ by three: the usual limit is for users
    inspection = posenc_export.inspect(tmp_path / "bundle" / "model.onnx", timeout=500)
    assert inspection.encodings
    for encoding in inspection.encodings:
        scheme, *words = encoding.scheme.split(" -p ")
        assert scheme == ANOTHER.get((name, mode), name), inspection.encodings
        if scheme == name:
            check_parameters(name, words, {})


def check_parameters(name: str, words: list[str], sample: Mapping[str, Value]) -> None:
    """Compare parameters, as an inspection has them, with those that were written; unsaid ones are no matter.

    Args:
        name: the scheme.
        words: parameters as an inspection has them.
        sample: those that were given; nothing where a scheme has its defaults.
    """
    scheme = SCHEMES[name]
    expected = {**parameters.defaults(scheme.parameters), **sample}
    read = parameters.parse(words, scheme.parameters, name)
    assert read
    for key, value in read.items():
        given = expected[key]
        if given is None and not sample:
            continue  # None stands for a number that the scheme chooses, such as its count of heads
        if isinstance(value, tuple) and not isinstance(given, tuple):
            given = (given,) * len(value)
        assert value == (FOLLOWS.get((name, key), given) if given is None else given), (key, value, given)


FOLLOWS: dict[tuple[str, str], object] = {
    ("dinov3", "rope_theta"): 100.0,
    ("sincos_3d", "temporal"): 4,
    ("learned", "d_model"): 16,
    ("swin_cpb", "pretrained_window"): 0,
}
"""What parameters without a default come to."""


def check_end(inspection: Inspection, name: str, mode: Mode) -> None:
    """Tables of a sequence end with their last row."""
    ends = [end.last_right for end in inspection.ends if end.axis == "length"]
    if mode == "baked" and ends:
        assert ends == [MAX_LEN], (name, inspection.ends)


def test_schemes_that_are_not_read_back_say_why() -> None:
    """At least 25 of 28 are read back; the others have a reason in their record."""
    modes: dict[str, list[Mode]] = {
        scheme.name: [mode for mode in get_args(Mode) if mode not in scheme.unsupported.modes]
        for scheme in SCHEMES.values()
    }
    never = [name for name, forms in modes.items() if all(SCHEMES[name].unread(mode) for mode in forms)]
    assert len(SCHEMES.values()) - len(never) >= 25
    assert all(len(SCHEMES[name].unread(mode).split()) > 4 for name in never for mode in modes[name])
