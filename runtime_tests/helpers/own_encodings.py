"""Modules of somebody's own as encodings, with inputs as `-i` writes them."""

import torch
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.proof.recording.own_module import OwnCase, own_case
from posenc_export.proof.recording.record import record
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets.module import own_encoding

X = ("x: float32[batch, seq, 8]",)
MASKED = (*X, "mask: int64[batch, seq] mask")
LEAST = torch.finfo(torch.float32).min


class Garbage(nn.Module):
    """Gives numbers for padding that are noise, and much larger than the others."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask[..., None] != 0, 1.5 * x, 100 * torch.sin(x * 1e8))


def encoding_of(module: nn.Module, *ports: str, max_len: int = 40) -> Encoding:
    """Return the encoding of a module whose class takes no arguments."""
    return own_encoding(module.eval(), parse_ports(ports), max_len, 0, lambda: type(module)().eval())


def described(module: nn.Module, inputs: tuple[str, ...]) -> Encoding:
    """Return the encoding of a module that is the same however often it is made."""
    return own_encoding(module.eval(), parse_ports(inputs), 64, 0, lambda: module)


def recorded(encoding: Encoding, *lengths: int) -> list[GoldenCase]:
    """Return what a module gives at some lengths."""
    cases = [Case(f"seq{n}", {"batch": 3, "seq": n}) for n in lengths]
    return list(record(encoding, cases, 0).cases)


def judged(module: nn.Module, inputs: tuple[str, ...] = X, length: int = 33) -> OwnCase:
    """Return what rounding does to a module at one length."""
    encoding = described(module, inputs)
    return own_case(encoding, recorded(encoding, length)[0], 0)


def allowed(own: OwnCase) -> float:
    """Return by how much a graph may differ from a module."""
    return own.golden.case.eager_tolerance.atol
