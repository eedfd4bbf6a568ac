"""Modules of somebody's own as encodings, with inputs as `-i` writes them."""

from torch import nn

from posenc.encoding import Encoding
from posenc_export.cli.ports import parse_ports
from posenc_export.targets.module import own_encoding


def encoding_of(module: nn.Module, *ports: str, max_len: int = 40) -> Encoding:
    """Return the encoding of a module whose class takes no arguments."""
    return own_encoding(module.eval(), parse_ports(ports), max_len, 0, lambda: type(module)().eval())
