"""A vision tower's rotary module, replaced: positions are rows and columns of patches."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from posenc.scheme import build
from posenc.spec import Spec
from posenc_models.config.foreign import HfModule
from posenc_models.replacing.called import Replacement, calls_of, fresh, inv_freq_of, parts_of
from posenc_models.replacing.compare import Candidate, CosSinFunction, fitting
from posenc_models.replacing.modules import CosSin, KeepDtype, OrderedPatches, PatchCosSin
from posenc_models.replacing.ordered import order_of, ordered

SIZES = (("embed_dim", "hidden_size"), ("num_heads", "num_attention_heads"))
"""Keys of the width of a tower, and of its heads."""


def patches(module: HfModule, spec: Spec) -> Replacement:
    """Return PatchCosSin in the place of a vision tower's module, or another whose columns have its order."""
    inv_freq = inv_freq_of(module, "inv_freq")
    theta, pairs = module.config.rope_parameters.get("rope_theta", 10000.0), inv_freq.numel()
    head = _head_of(module.config)
    if head is not None and 3 * 2 * pairs <= head:
        raise ValueError(f"three axes of {pairs} frequencies fit into its heads of {head}: ours has rows and columns")
    x = torch.zeros(1, 1, device=inv_freq.device)
    original = partial(fresh, module, x, ())
    one_batch = _takes_batches(original, x)
    alone = partial(_of_batch, original) if one_batch else original
    try:
        in_half, _ = fresh(module, x.half(), (), _patch(x, one_batch))
        order = order_of(alone, inv_freq, 2, last=True)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(f"asked for cos and sin it raised {type(error).__name__}: {first}") from None
    cast, batched = in_half.dtype == torch.float16, in_half.dim() == 3
    ours: list[nn.Module] = []
    if not (cast or one_batch):  # PatchCosSin gives float32, at positions without a batch
        cosines = build("rope_2d", spec, head_dim=4 * pairs, rope_theta=theta, output="cos_sin", width="full").module
        ours.append(PatchCosSin(KeepDtype(cosines)))
    if order is not None:
        mine = ordered(spec, {"head_dim": 2 * pairs, "rope_theta": theta}, order)
        ours.append(OrderedPatches(mine, batched, cast))
    # rows, and columns in the other order: (patches, 2), or with a batch of one
    positions = [torch.cat([p, p.flip(1)]).t().to(x.device) for p in calls_of(spec)]
    positions = [p.unsqueeze(0) for p in positions] if one_batch else positions
    candidates = [Candidate(m, partial(parts_of, m.to(x.device), x)) for m in ours]
    if not candidates:
        raise ValueError("its columns have no order of axes and frequencies that ours could have; replace it by hand")
    return Replacement(fitting(original, candidates, positions), "axial")


def _head_of(config: Any) -> int | None:
    """Return how many features a head of a tower has; None where its config does not say it."""
    if isinstance(head := getattr(config, "head_dim", None), int):
        return head
    sizes = [next((size for key in keys if isinstance(size := getattr(config, key, None), int)), 0) for keys in SIZES]
    return sizes[0] // sizes[1] if all(sizes) else None


def _patch(x: Tensor, one_batch: bool) -> Tensor:
    """Return the positions of a patch in the first row and column: (1, 2), or with a batch of one."""
    positions = torch.zeros(1, 2, dtype=torch.int64, device=x.device)
    return positions.unsqueeze(0) if one_batch else positions


def _takes_batches(original: CosSinFunction, x: Tensor) -> bool:
    """Return whether a vision tower's module takes positions (batch, patches, 2)."""
    patches = 3  # not 2, the number of axes, by which others would be told from it
    try:
        cos, _ = original(torch.zeros(1, patches, 2, dtype=torch.int64, device=x.device))
        return cos.shape[:-1] == (1, patches)
    except Exception:
        return False


def _of_batch(original: CosSinFunction, positions: Tensor) -> CosSin:
    return original(positions.unsqueeze(0))
