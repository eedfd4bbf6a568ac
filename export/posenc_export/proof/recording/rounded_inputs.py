"""What it may cost a file that its products round what goes in to 8 bits: measured on the module, call by call.

At accuracy level 4 a kernel rounds the inputs of products with weights in blocks, in blocks of its own: a module that
rounds them alike shows how far outputs move. Kernels of other machines make other blocks, and an input at the edge of
two numbers falls to either side; so twice the largest move is allowed, as elsewhere. That may hide a wrong graph: a
check (`proof/checks/float_products.py`) computes the same file in floats, and holds it to what is left without it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from torch import nn

from posenc.encoding import Encoding, Tolerance
from posenc_export.bundle.case import GoldenCase
from posenc_export.proof.planning.padding import padding_of
from posenc_export.proof.recording.own_module import ULP_MOVES, finite_peak, without_padding
from posenc_export.proof.recording.rounding import moves
from posenc_export.write.targets.feeds import feeds_for
from posenc_models.whole.quantized import round_inputs


def with_rounded_inputs(encoding: Encoding) -> Encoding:
    """Return a whole model whose layers with rounded weights round what goes in, too."""

    def fresh() -> nn.Module:
        module = encoding.uncalled().module
        round_inputs(module)
        return module

    return replace(encoding, fresh=fresh)


def with_room(rounding: Encoding, golden: GoldenCase, seed: int) -> GoldenCase:
    """Return a case whose tolerances have room for products that round what goes in.

    Args:
        rounding: The whole model with rounded inputs.
        golden: What it gives without.
        seed: For the inputs.
    """
    if golden.case.refused:
        return golden
    padding = padding_of(rounding.inputs, rounding.outputs, golden, feeds_for(rounding.inputs, golden.case, seed))
    moved = moves(rounding, golden, padding, nullcontext(), seed)
    room, of_masked = (ULP_MOVES * finite_peak(elements) for elements in (moved.of_tokens, moved.of_masked))
    golden = without_padding(golden, padding, max(golden.case.masked_atol, of_masked - room))
    case = golden.case
    more = Tolerance(atol=room)
    case = replace(
        case, room=room, eager_tolerance=case.eager_tolerance.plus(more), tolerance=case.tolerance.plus(more)
    )
    return replace(golden, case=case)
