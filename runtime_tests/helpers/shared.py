"""What every test may need: the data folder, what runs here, the first of each kind, types of fixtures."""

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from helpers.combinations import run
from posenc.parameters import Value
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.proof.runtimes import RUNTIMES, Missing

DATA = Path(__file__).parents[1] / "data"
ROOT = Path(__file__).parents[2]
EPS = 2.0**-23
"""From 1 to the next float32."""
EXPLICIT = Spec("dynamic", "exact", "explicit")

Cli = Callable[..., Result]


def required() -> set[str]:
    """What POSENC_TEST_REQUIRE names, with commas between, shall be here: a test of it fails, and is not skipped."""
    return set(filter(None, os.environ.get("POSENC_TEST_REQUIRE", "").split(",")))


@functools.cache
def why_missing(name: str) -> str:
    """Return why a runtime cannot run here, or nothing; build its runner first where it has one."""
    RUNTIMES[name].prepare(lambda _: None)
    try:
        RUNTIMES[name].check()
    except Missing as missing:
        return str(missing)
    return ""


Running = Callable[[Iterable[str]], set[str]]


def need(name: str) -> None:
    """Skip a test, or fail it where it is required, without a runtime."""
    reason = why_missing(name)
    if reason and name in required():
        pytest.fail(f"{name} is required: {reason}")
    if reason:
        pytest.skip(f"{name}: {reason}")


def with_tests() -> dict[str, str]:
    """Return an environment in which a process can import what lies beside the tests."""
    path = os.pathsep.join([str(ROOT / "runtime_tests"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def one_of_each(values: Iterable[Any], kind: Callable[[Any], object]) -> list[Any]:
    """Parameters of a test: the first of each kind for the quick run, the others for the exhaustive one."""
    seen: set[object] = set()
    made = []
    for value in values:
        marks = (pytest.mark.exhaustive,) if kind(value) in seen else ()
        seen.add(kind(value))
        of_pytest = hasattr(value, "marks")
        values = value.values if of_pytest else value if isinstance(value, tuple) else (value,)
        made.append(pytest.param(*values, marks=marks, id=value.id if of_pytest else None))
    return made


Once = Callable[[str, Callable[[Path], None]], Path]


def written_once(once: Once, scheme: str, spec: Spec, params: Mapping[str, Value]) -> Path:
    """Return the ONNX bundle of a scheme, not validated, written once for all tests that read it: none changes it."""
    spec = replace(spec, positions=spec.positions or SCHEMES[scheme].positions)
    name = sha256(repr((scheme, spec, sorted(params.items()))).encode()).hexdigest()[:16]

    def write(folder: Path) -> None:
        run(scheme, spec, params, folder, formats=("onnx",), validate=False)

    return once(f"written-{name}", write) / "bundle"


def sample_bundle(once: Once, name: str) -> Path:
    """Return the bundle of a sample of the tables on phones and browsers, as `written_once` does."""
    from scripts.old_runtimes import spec_of
    from scripts.phones import samples

    scheme, params, *_ = samples()[name]
    return written_once(once, scheme, spec_of(samples()[name]), params)


Sanitized = Callable[[str], Path]
