"""Parameters of schemes, read from their sources: the same as those of the loaded schemes, and without torch."""

import subprocess
import sys

import pytest

from helpers.model_folders import refused_without_torch
from posenc.registry import UnknownName
from posenc.scheme import SCHEMES
from posenc.signatures import declared_parameters, declared_unsupported


@pytest.mark.parametrize("name", SCHEMES)
def test_a_source_declares_what_its_scheme_takes(name: str) -> None:
    assert declared_parameters(name) == SCHEMES[name].parameters
    assert declared_unsupported(name) == SCHEMES[name].unsupported


def test_no_source_needs_torch() -> None:
    code = (
        "import sys; from posenc.scheme import SCHEMES; from posenc.signatures import *; "
        "print([name for name in SCHEMES.names() "
        "if (declared_parameters(name), declared_unsupported(name)) and 'torch' in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("rope -p nonsense=3", "rope has no parameter 'nonsense': it has head_dim, "),
        ("mrope -p rope_type=abc", "rope_type must be "),
        ("rope -p rope_type=yarn -p factor=x", "factor must be float, got 'x'"),
        ("rope -p head_dim=7", "head_dim must be an even number of at least 2, got 7"),
        ("rope_nd -p rope_theta=10000,0.5", "rope_theta must be a finite number above 1, got 0.5"),
        ("learned -p std=inf", "std must be a finite number above 0, got inf"),
        ("learned --dynamic", "learned has no dynamic form: a row exists for each position up to max_len"),
        ("hash_grid --baked", "hash_grid has no baked form: "),
        ("alibi --dynamic --method trig", "alibi has no trig form: a bias has no sines"),
        ("mrope --positions mask", "mrope has no mask form: "),
        ("rope -i x:float32[a]", "-i gives the inputs of package.module:factory; a scheme has its own"),
    ],
)
def test_a_wrong_parameter_is_refused_without_torch(words: str, text: str) -> None:
    assert text in refused_without_torch(*words.split())


def test_an_unknown_scheme_declares_nothing() -> None:
    with pytest.raises(UnknownName, match="did you mean 'rope'"):
        declared_parameters("ropee")
