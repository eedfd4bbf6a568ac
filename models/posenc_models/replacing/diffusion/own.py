"""Modules of diffusers that are like no other: Mochi's, with frequencies that are learned, and OmniGen's longrope."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from posenc.scheme import build
from posenc.sincos import sincos_of_angles
from posenc.spec import Spec
from posenc_models.config.foreign import HfModule
from posenc_models.replacing.called import Replacement
from posenc_models.replacing.compare import Candidate, calls, fitting
from posenc_models.replacing.diffusion.prove import prove
from posenc_models.replacing.diffusion.where import Call
from posenc_models.replacing.modules import CosSin, KeepsDtype

SIZES = ((1, 1, 1), (2, 5, 9), (7, 30, 53), (300, 2, 3), (1, 3, 200))
"""Frames, rows and columns of the calls that are tried."""
END = 2**17
"""Positions of OmniGen are compared below it."""


class LearnedCosSin(KeepsDtype):
    """Mochi: frequencies come in, and rows and columns are centred, as far apart as fills a fixed area.

    Args:
        area: rows times columns that every picture fills.
        spec: how ours compute.
    """

    unit: Tensor

    def __init__(self, area: float, spec: Spec) -> None:
        super().__init__()
        self.area = area
        self.sincos = sincos_of_angles(spec)
        # a buffer, as a graph would hold Python's number in float32
        self.register_buffer("unit", torch.tensor(self.sincos.unit, dtype=torch.float64), persistent=False)

    def forward(
        self, pos_frequencies: Tensor, num_frames: int, height: int, width: int, *_: object, **__: object
    ) -> CosSin:
        """Return cos and sin: (3, heads, pairs) -> twice (tokens, heads, pairs)."""
        places = self.places([num_frames, height, width], pos_frequencies.device)
        angles = torch.einsum("nd,dhf->nhf", places, pos_frequencies.to(torch.float64)) / self.unit
        cos, sin = self.sincos(angles.to(self.sincos.within))
        return cos, sin

    def places(self, sizes: list[int], device: torch.device) -> Tensor:
        """Return the places of all tokens: (tokens, 3)."""
        frames, *sides = (torch.arange(size, device=device).to(torch.float64) for size in sizes)
        apart = (self.area / (sizes[1] * sizes[2])) ** 0.5
        # the middle of each row and column, from the middle of the picture
        centred = [(side + 0.5 - len(side) / 2) * apart for side in sides]
        return torch.stack(torch.meshgrid(frames, *centred, indexing="ij"), -1).flatten(0, 2)


def learned(original: HfModule, spec: Spec) -> Replacement:
    """Return LearnedCosSin in the place of Mochi's module, compared at random frequencies."""
    ours = LearnedCosSin(float(original.target_area), spec)
    draw = torch.Generator().manual_seed(0)
    tried: list[Call] = [(torch.randn(3, 2, 8, generator=draw), *sizes, None, torch.float32) for sizes in SIZES]

    def angle_of(call: Call) -> float:
        frequencies, *sizes = call[:4]
        assert isinstance(frequencies, Tensor)
        farthest = ours.places(sizes, frequencies.device).abs().amax(0)  # type: ignore[arg-type]
        return float(farthest @ frequencies.abs().amax((1, 2)).double())

    return Replacement(ours, f"learned frequencies, pair; {prove(original, ours, angle_of, tried).words()}")


class FirstSequence(KeepsDtype):
    """OmniGen: the cosines and sines of the first sequence of a batch, in float32."""

    def __init__(self, cosines: nn.Module) -> None:
        super().__init__()
        self.cosines = cosines

    def forward(self, hidden_states: Tensor, position_ids: Tensor) -> CosSin:
        """Return cos and sin: (batch, seq) -> twice (seq, dim)."""
        cos, sin = self.cosines(position_ids)
        return cos[0], sin[0]


def long_rope(original: HfModule, spec: Spec) -> Replacement:
    """Return FirstSequence in the place of OmniGen's module, whose frequencies switch at a length."""
    if spec.mode == "baked":
        raise ValueError("rope_type longrope depends on a call's length: give mode='dynamic'")
    names = ("short_factor", "long_factor", "original_max_position_embeddings", "max_position_embeddings")
    parameters = {name: getattr(original, name) for name in names}
    parameters = {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}
    switch = int(original.original_max_position_embeddings)
    cosines = build(
        "rope",
        spec,
        **parameters,
        rope_type="longrope",
        head_dim=int(original.dim),
        rope_theta=float(original.base),
        output="cos_sin",
        width="full",
        layout="halves",
    ).module
    # the length at which the frequencies switch is among the calls
    ours, states = FirstSequence(cosines), torch.zeros(1, 1, 1)
    fitting(partial(original, states), [Candidate(ours, partial(ours, states))], calls(END, switch))
    return Replacement(ours, f"longrope, pair; at most four roundings of float32 angles up to {2 * switch + 2}")


OWN: Mapping[tuple[tuple[str, ...], str], Callable[[HfModule, Spec], Replacement]] = {
    (("pos_frequencies", "num_frames", "height", "width", "device", "dtype"), "target_area"): learned,
    (("hidden_states", "position_ids"), "long_factor"): long_rope,
}
"""By the names of their arguments, and by an attribute."""
