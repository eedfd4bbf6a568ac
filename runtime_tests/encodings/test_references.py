"""A reference shares nothing with what it judges: no function runs for both, and a module that is wrong alone is seen.

Functions are found by running them, so that a new scheme, rope type or helper is held by what is here.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from helpers.judged import MAX_LEN, Form, disagreements, forms
from helpers.reached import HOME, Owned, Reached, functions, place, reached, replaced
from helpers.shared import one_of_each
from helpers.wrong import moved, wrong
from posenc.encoding import Encoding
from posenc.formulas.parts.frequencies import Frequencies
from posenc.parameters import Value
from posenc.rope_types import ROPE_TYPES, geometric
from posenc.scheme import BOUNDS, DATA, SCHEMES, TRIED
from posenc.spec import Spec
from posenc_export.common.errors import PosencError
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.write.targets import Target
from posenc_export.write.targets.scheme import scheme_target

COMPUTES = ("arithmetic.py", "sources/", "joins/", "where/", "schemes/", "rope_types/", "sincos/", "lookup.py")
"""Where modules and their constants are computed."""
MOST = 6
"""Forms in which a wrong function is tried."""
PORTS = "what goes in and out, as the manifest says it"
NOT_HELD = {
    "sources/interpolated/weights.py:Filter.roundings": BOUNDS,
    "sources/window/two_products.py:SideTables.error": BOUNDS,
    "sources/window/two_products.py:SideTables.to": DATA,
    "sources/features/encode.py:ColumnLayout.width": PORTS,
    "sources/grid/fractions.py:AxisFraction.max_angle": BOUNDS,
    "sources/interpolated/encode.py:ResampledGrid.error_bound": BOUNDS,
    "sources/interpolated/encode.py:ResampledGrid.half_ulp": BOUNDS,
    "sources/interpolated/encode.py:ResampledGrid.sizes": TRIED,
    "sources/rotary/xpos.py:Fade.half_end": TRIED,
    "sources/rotary/centered.py:CenteredAxialAngles.ends": TRIED,
    "sources/rotary/fractions.py:CenteredAngles.ends": TRIED,
    "rope_types/__init__.py:Rope.edges": TRIED,
    "sincos/rows.py:largest_angle": BOUNDS,
    "rope_types/yarn.py:_pair_of": "the ends of the ramp are whole pairs: a hundredth of one is rounded away",
    "sincos/angle_addition.py:larger": "one token more makes the part of a last block a whole one: the same rows",
    "sincos/octaves.py:digits": "parts of pi / 2 with one binary digit more are off by less than the bound",
    **{
        f"schemes/{name}.py:{one}": why
        for name, each in ((scheme.name, scheme) for scheme in SCHEMES.values())
        for one, why in each.not_held.items()
    },
}
"""Functions whose numbers are none of an output's, or the same for both, with the reason; a scheme's record has its."""


@functools.cache
def runs(scheme: str) -> list[tuple[Form, Reached]]:
    """Every form of a scheme, with what runs for its module and for its reference."""
    return [(form, reached(form)) for form in forms(scheme)]


def by_code(names: Iterable[str]) -> dict[CodeType, list[Form]]:
    """What runs while modules of some schemes are made and called, with the forms that it runs in."""
    found: dict[CodeType, list[Form]] = defaultdict(list)
    for form, codes in (one for name in names for one in runs(name)):
        for code in codes.module:
            if place(code).startswith(COMPUTES) and code in functions():
                found[code].append(form)
    return found


def is_seen(owned: Owned, some: list[Form], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a wrong function is seen in one of some forms, or gives no numbers in any."""
    numbers: list[None] = []
    for form in some[:: (len(some) - 1) // MOST + 1]:
        with monkeypatch.context() as patch:
            replaced(owned, wrong(owned.function, lambda: numbers.append(None)), patch.setattr)
            try:
                if disagreements(form.built()):
                    return True
            except (PosencError, ValueError, IndexError, RuntimeError, KeyError):
                return True  # no file is written
    return not numbers


def unseen(found: dict[CodeType, list[Form]], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the functions whose wrong numbers nobody sees."""
    for code, some in found.items():
        if place(code) not in NOT_HELD and not is_seen(functions()[code], some, monkeypatch):
            yield place(code)


@pytest.mark.parametrize("name", one_of_each(SCHEMES, lambda name: SCHEMES[name].samples == ()))
def test_no_function_runs_for_a_module_and_for_its_reference(name: str) -> None:
    shared = set()
    for _, codes in runs(name):
        assert codes.module
        assert codes.reference
        shared |= {place(code) for code in codes.module & codes.reference}
    assert shared == set()


def test_what_is_shared_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = ROPE_TYPES["linear"]
    monkeypatch.setitem(vars(ROPE_TYPES)["_items"], "linear", replace(kind, reference=kind.compute))
    codes = reached(Form("rope", Spec("dynamic", "exact", "explicit", MAX_LEN), LINEAR))
    assert {place(code) for code in codes.module & codes.reference} == {
        "rope_types/__init__.py:geometric",
        "rope_types/linear.py:linear",
    }


@pytest.mark.parametrize("name", one_of_each(SCHEMES, lambda name: SCHEMES[name].samples == ()))
def test_what_a_scheme_computes_wrong_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {code: some for code, some in by_code([name]).items() if place(code).startswith(f"schemes/{name}.py")}
    assert own
    assert list(unseen(own, monkeypatch)) == []


def test_what_is_not_held_is_a_function() -> None:
    # a dataclass writes others
    in_package = [code for code in functions() if Path(code.co_filename).is_relative_to(HOME)]
    assert set(NOT_HELD) - {place(code) for code in in_package} == set()


@pytest.mark.exhaustive
def test_what_schemes_share_is_seen_where_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    found = by_code(SCHEMES)
    assert set(NOT_HELD) <= {place(code) for code in found}
    shared = {code: some for code, some in found.items() if not place(code).startswith("schemes/")}
    assert list(unseen(shared, monkeypatch)) == []


LINEAR: dict[str, Value] = {"head_dim": 16, "rope_type": "linear", "factor": 4.0}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ROPE_TYPES)
@pytest.mark.parametrize("what", ["inv_freq", "attention_factor"])
def test_a_wrong_rope_type_fails_its_report(
    name: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = ROPE_TYPES[name]

    def compute(*args: Any, **kwargs: Any) -> Frequencies:
        right = kind.compute(*args, **kwargs)
        return replace(right, **{what: 1.01 * getattr(right, what)})

    monkeypatch.setitem(vars(ROPE_TYPES)["_items"], name, replace(kind, compute=functools.wraps(kind.compute)(compute)))
    parameters = {"head_dim": 16, "rope_type": name, **kind.samples[0]}
    assert_fails(scheme_target("rope", Spec(max_len=MAX_LEN), parameters, 0), tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SCHEMES)
def test_a_wrong_scheme_fails_its_report(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the first function whose wrong numbers a module is made of, in any form: scripts hold no wrong functions."""
    form, encoding = next(made_wrong(name, monkeypatch))
    assert_fails(Target(name, encoding, form.spec, form.parameters), tmp_path)


def made_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Form, Encoding]]:
    """Yield encodings of a scheme that were made with a wrong function, or of other rows, and are seen to be wrong."""
    for form, codes in runs(name):
        for code in sorted((code for code in codes.module if code in functions()), key=place):
            if place(code).startswith(COMPUTES) and place(code) not in NOT_HELD:
                try:
                    with monkeypatch.context() as patch:
                        replaced(functions()[code], wrong(functions()[code].function, lambda: None), patch.setattr)
                        encoding = form.built()
                    if (encoding.end or MAX_LEN) >= form.spec.max_len and disagreements(encoding):
                        yield form, encoding
                except (PosencError, ValueError, IndexError, RuntimeError, KeyError):
                    continue
    form, _ = runs(name)[0]
    encoding = form.built()
    # The module's own numbers: the reference has them as they were read, or as parameters say them.
    for tensor in list(encoding.module.parameters()) or encoding.module.buffers():
        tensor.data = moved(tensor.data)
    yield form, encoding


def test_a_factor_that_multiplies_fails_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def linear(dim: int, rope_theta: float, length: int, *, factor: float) -> Frequencies:
        return Frequencies(geometric(dim, rope_theta) * factor)

    monkeypatch.setitem(vars(ROPE_TYPES)["_items"], "linear", replace(ROPE_TYPES["linear"], compute=linear))
    assert_fails(scheme_target("rope", Spec(max_len=MAX_LEN), LINEAR, 0), tmp_path)


def assert_fails(target: Target, folder: Path) -> None:
    """Export a target; see the report fail, by numbers against float64, and by what is stored at most."""
    options = ExportOptions(("torchscript",), validation=ValidateOptions(runtimes=("torchscript-cpu",)))
    result = export_target(lambda: target, options, folder / "bundle")
    assert not result.passed
    failed = {verdict.check for verdict in result.verdicts if verdict.status == "fail"}
    assert "agrees" in failed
    assert failed <= {"agrees", "tables"}
