"""Integers of modules in int32, for runtimes without int64: what `Spec.index_dtype` asks for.

A module that counts has `count_dtype`, the dtype of what it counts, None for torch's own, int64; one that makes
integers of other numbers has `integer_dtype`. Both are constants of the class, which an instance with int32 replaces:
files with int64 are the same as without this choice. The class names them in `__constants__`, which subclasses inherit:
annotations of a subclass would hide a `Final` from TorchScript.
"""

from typing import TYPE_CHECKING

from posenc.spec import UnsupportedSpec

if TYPE_CHECKING:
    from torch import nn


def narrow(module: "nn.Module") -> None:
    """Make the integers of a module int32: what it counts, what it makes of other numbers, and what it stores.

    Raises UnsupportedSpec where a part says that its integers need more, by `needs_int64`, or where it stores more.
    """
    import torch

    limits = torch.iinfo(torch.int32)
    for part in module.modules():
        needs = getattr(type(part), "needs_int64", "")
        if needs:
            raise UnsupportedSpec(f"index_dtype int32 has no room for it: {needs}; leave --index-dtype out")
        for name in ("count_dtype", "integer_dtype"):
            if hasattr(type(part), name):
                setattr(part, name, torch.int32)
        for name, stored in part.named_buffers(recurse=False):
            if stored.dtype == torch.int64:
                if stored.numel() and (stored.max() > limits.max or stored.min() < limits.min):
                    why = f"{name} holds larger numbers"
                    raise UnsupportedSpec(f"index_dtype int32 has no room for it: {why}; leave --index-dtype out")
                setattr(part, name, stored.to(torch.int32))
