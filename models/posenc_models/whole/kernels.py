"""What layers with states compute, in a form for calls of every length: in a graph it stands for the model's own.

transformers computes a call of one token in one way, and of several in another: the length of the traced call would
stay in the graph. Each kind of mechanism has one function here, under the names of those that it stands for. It gives
their numbers, and the proof compares them: the eager model is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional

from posenc.libraries import replaced_in_files
from posenc.sincos.angle_addition import unseen


@contextmanager
def length_free(model: nn.Module, cache: Any) -> Iterator[None]:
    """Have a model compute by functions for calls of every length, while a graph is captured.

    Args:
        model: the model.
        cache: what it is called with: it says which state a layer asked for.
    """
    with replaced_in_files(model, {**KERNELS, "mamba_selective_scan": partial(selective_scan, cache.next_state)}):
        yield


@contextmanager
def each_token_masked(model: nn.Module) -> Iterator[None]:
    """Have a model hide a token that its mask hides also in a call of one token, as it does in a call of several."""
    with replaced_in_files(model, {MASK: mask_of_call}):
        yield


@contextmanager
def masks_as_given(model: nn.Module) -> Iterator[None]:
    """Have a decoder make no mask of an encoder's states, while a graph is captured.

    transformers would make one of those that are not cached yet, also where none is hidden; a mask of all goes in.
    """
    if torch.compiler.is_exporting():
        with replaced_in_files(
            model, {"create_bidirectional_mask": lambda config, inputs_embeds, attention_mask, **_: attention_mask}
        ):
            yield
        return
    yield


def mask_of_call(inputs_embeds: Tensor, attention_mask: Tensor | None, **_: object) -> Tensor | None:
    """Return which tokens of a call add to states, (batch, seq), of a mask of all, (batch, past + seq)."""
    if attention_mask is None or attention_mask.dim() != 2:
        return None
    return attention_mask[:, -inputs_embeds.shape[1] :]


def recurrent_mask(inputs_embeds: Tensor, attention_mask: Tensor | None, **_: object) -> Tensor | None:
    """Return the same, but that one token alone adds to states whatever its mask says, as transformers has it."""
    mask = mask_of_call(inputs_embeds, attention_mask)
    if mask is None:
        return None
    is_alone = torch.full((1, 1), inputs_embeds.shape[1], device=mask.device) == 1
    return mask.masked_fill(is_alone, 1)


def state_space_duality(  # noqa: PLR0917  (models give them so)
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    C: Tensor,  # noqa: N803
    chunk_size: int,
    D: Tensor | None = None,  # noqa: N803
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    **_: object,
) -> tuple[Tensor, Tensor] | Tensor:
    """Return what Mamba-2 makes of tokens, (batch, seq, heads, features), and its state behind them.

    Chunks of tokens attend to themselves, with decays; between chunks a state passes by one small product of decays
    (Dao and Gu, arXiv:2405.21060, section 6).

    Args:
        hidden_states: (batch, seq, heads, features).
        dt: steps, (batch, seq, heads).
        A: decay of each head, (heads).
        B: what writes to the state, (batch, seq, groups, size).
        C: what reads it, (batch, seq, groups, size).
        chunk_size: tokens of a chunk at most.
        D: weights of the input that is added to the output, (heads).
        dt_bias: added to steps, (heads).
        initial_states: (batch, heads, features, size); None for zeros.
        dt_softplus: whether steps go through softplus.
        dt_limit: the least step, and the largest.
        return_final_states: whether the state is returned, too.
    """
    seq, heads, features = hidden_states.shape[1:]
    groups, size = B.shape[2:]
    dt = dt if dt_bias is None else dt + dt_bias.to(dt.dtype)
    dt = functional.softplus(dt) if dt_softplus else dt
    low, high = dt_limit
    dt = dt.clamp(low, high) if (low, high) != (0.0, float("inf")) else dt
    wide = hidden_states.float()
    tokens, count = _chunks(seq, chunk_size)

    def in_chunks(values: Tensor) -> Tensor:
        """(batch, seq, heads or groups, ...) -> (batch, groups, heads of each or 1, chunks, tokens, ...)."""
        cut = _cut(values, tokens, count)
        cut = cut.unflatten(3, (groups, cut.shape[3] // groups))
        moved: Tensor = cut.movedim((3, 4), (1, 2))
        return moved

    steps = in_chunks((A.float() * dt.float()).unsqueeze(-1)).squeeze(-1)
    x = in_chunks(wide * dt.float().unsqueeze(-1))
    write, read = in_chunks(B.float()), in_chunks(C.float())
    # within chunks: (..., tokens, size) @ (..., size, tokens), and decays between each two tokens
    within = (read @ write.transpose(-1, -2)) * _decays(steps, tokens)
    # behind them: the state that each chunk adds, (..., features, size)
    sums = steps.cumsum(-1)
    to_end = (sums[..., -1:] - sums).exp().unsqueeze(-1)
    added = x.transpose(-1, -2) @ (write * to_end)
    if initial_states is None:
        first = torch.zeros_like(added[:, :, :, :1])
    else:
        first = initial_states.to(added.dtype).unflatten(1, (groups, heads // groups)).unsqueeze(3)
    # each chunk's state is all earlier ones, decayed: (..., chunks + 1, chunks + 1) @ (..., chunks + 1, numbers)
    passing = _decays(functional.pad(sums[..., -1], (1, 0)), count + 1)
    states = (passing @ torch.cat([first, added], 3).flatten(-2)).unflatten(-1, (features, size))
    between = (read @ states[:, :, :, :-1].transpose(-1, -2)) * sums.exp().unsqueeze(-1)
    output = (within @ x + between).movedim((1, 2), (3, 4))
    output = _joined(output.flatten(3, 4), seq)
    if D is not None:
        output = output + D.unsqueeze(-1) * wide
    final = states[:, :, :, -1].flatten(1, 2)
    return (output, final) if return_final_states else output


def gated_delta_rule(  # noqa: PLR0917  (models give them so)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int = 64,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **_: object,
) -> tuple[Tensor, Tensor | None]:
    """Return what a gated delta rule makes of tokens, (batch, seq, heads, features), and its state behind them.

    Each token writes what its key does not recall yet. Within a chunk that is a triangular system, which a few products
    invert; from chunk to chunk a state passes, (batch, heads, key features, features) (Yang et al., arXiv:2412.06464).

    Args:
        query: (batch, seq, key heads, key features).
        key: as queries.
        value: (batch, seq, heads, features).
        g: logarithms of decays, (batch, seq, heads), or (batch, seq, heads, key features), as Kimi has them.
        beta: how much of a value is written, (batch, seq, heads).
        chunk_size: tokens of a chunk at most.
        initial_state: (batch, heads, key features, features); None for zeros.
        output_final_state: whether the state is returned, too.
        use_qk_l2norm_in_kernel: whether queries and keys are brought to length 1.
    """
    batch, seq, heads, features = value.shape
    if key.shape[2] != heads:
        query, key = (one.repeat_interleave(heads // key.shape[2], 2) for one in (query, key))
    by_feature = g.dim() == 4
    tokens, count = _chunks(seq, min(chunk_size, CHUNK_BY_FEATURE) if by_feature else chunk_size)
    beta, g = (one.unsqueeze(-1) if one.dim() == 3 else one for one in (beta, g))
    # each (batch, heads, chunks, tokens, features)
    queries, keys, values, betas, decays = (
        _cut(one.float(), tokens, count).movedim(3, 1) for one in (query, key, value, beta, g)
    )
    if use_qk_l2norm_in_kernel:
        queries, keys = (one * (one.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for one in (queries, keys))
    queries = queries * queries.shape[-1] ** -0.5
    sums = decays.cumsum(-2)
    # (..., tokens, tokens): what of a token's key is in another's, decayed on the way
    if by_feature:
        between = _decays(decays.transpose(-1, -2), tokens).movedim(-3, -1)
        system = ((keys * betas).unsqueeze(-2) * keys.unsqueeze(-3) * between).sum(-1)
        within = (queries.unsqueeze(-2) * keys.unsqueeze(-3) * between).sum(-1)
    else:
        between = _decays(decays.squeeze(-1), tokens)
        system = (keys * betas) @ keys.transpose(-1, -2) * between
        within = queries @ keys.transpose(-1, -2) * between
    inverse = _unit_triangular_inverse(system, tokens)
    written = inverse @ (values * betas)
    recalled = inverse @ (keys * betas * sums.exp())
    asked = queries * sums.exp()
    kept = keys * (sums[..., -1:, :] - sums).exp()
    # (batch, heads, chunks, key features or 1, 1)
    decayed = sums[..., -1, :].exp().unsqueeze(-1)

    def pass_chunk(state: Tensor, chunk: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Return the state behind a chunk, and what its tokens are told."""
        written, recalled, asked, within, kept, decayed = chunk
        new = written - recalled @ state
        told = asked @ state + within @ new
        return state * decayed + kept.transpose(-1, -2) @ new, told

    first = values.new_zeros(batch, heads, key.shape[3], features) if initial_state is None else initial_state.float()
    along = tuple(one.movedim(2, 0) for one in (written, recalled, asked, within, kept, decayed))
    last, told = scan(pass_chunk, first, along)
    # (chunks, batch, heads, tokens, features) -> (batch, seq, heads, features)
    output = _joined(told.permute(1, 0, 3, 2, 4), seq)
    return output.to(query.dtype), last if output_final_state else None


def _unit_triangular_inverse(system: Tensor, tokens: int) -> Tensor:
    """Return the inverse of matrices whose diagonal is 1 and that have nothing above it: (..., tokens, tokens).

    What is given on the diagonal and above does not count. Blocks of 1, 2, 4 ... rows are inverted: of two blocks with
    inverses P and R, and Q below the first, the inverse has -R Q P there. A series of powers would overflow.
    """
    places = torch.arange(tokens, device=system.device)
    inverse = (places.unsqueeze(1) == places).to(system.dtype).expand(system.shape)
    width = 1
    while width < CHUNK:
        blocks = places // width
        is_below = (blocks.unsqueeze(1) == blocks + 1) & (blocks % 2 == 0)
        inverse = inverse - inverse @ (system * is_below) @ inverse
        width *= 2
    return inverse


def selective_scan(  # noqa: PLR0917  (models give them so)
    first: Callable[[], Tensor],
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    C: Tensor,  # noqa: N803
    D: Tensor | None = None,  # noqa: N803
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **_: object,
) -> tuple[Tensor, Tensor] | Tensor:
    """Return what Mamba makes of tokens, (batch, channels, seq), and its state behind them: token by token.

    Each number of the state has a decay of its own, so that no product of matrices stands for many tokens (Gu and Dao,
    arXiv:2312.00752, section 3.2).

    Args:
        first: gives the state before them, (batch, channels, size): the model's own function begins with zeros.
        hidden_states: (batch, channels, seq).
        dt: steps, (batch, channels, seq).
        A: decays, (channels, size).
        B: what writes to the state, (batch, size, seq).
        C: what reads it, (batch, size, seq).
        D: weights of the input that is added to the output, (channels).
        z: gates of the output, (batch, channels, seq).
        delta_bias: added to steps, (channels).
        delta_softplus: whether steps go through softplus.
        return_last_state: whether the state is returned, too.
    """
    dt = dt if delta_bias is None else dt + delta_bias.to(dt.dtype).unsqueeze(-1)
    steps = (functional.softplus(dt) if delta_softplus else dt).float()

    def pass_token(state: Tensor, token: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Return the state behind a token, (batch, channels, size), and what is read of it, (batch, channels)."""
        step, added, write, read = token
        state = state * (step.unsqueeze(-1) * A.float()).exp() + added.unsqueeze(-1) * write.unsqueeze(1)
        return state, (state @ read.unsqueeze(-1)).squeeze(-1)

    # each (seq, batch, ...)
    along = tuple(one.permute(2, 0, 1) for one in (steps, steps * hidden_states.float(), B.float(), C.float()))
    # of a model with several heads it is a part of a larger tensor, and what passes on lies in a row
    last, outputs = scan(pass_token, first().float().contiguous(), along)
    output = outputs.permute(1, 2, 0)
    output = output if D is None else output + hidden_states * D.unsqueeze(-1)
    output = output if z is None else output * functional.silu(z)
    return (output, last.to(hidden_states.dtype)) if return_last_state else output


def _chunks(seq: int, most: int) -> tuple[int, int]:
    """Return how many tokens a chunk has, and how many chunks there are, for any length of a call.

    There are two at least, the last of which may be empty: an exporter would take a lone one for the only number there
    is. Of the size of a chunk it sees no more than that there is a token: it would assume things of the traced one.
    """
    largest = min(most, CHUNK)
    count = (seq + largest - 1) // largest + 1
    tokens = unseen((seq + count - 1) // count, largest)
    torch._check(tokens >= 1)
    return tokens, count


def _cut(values: Tensor, tokens: int, count: int) -> Tensor:
    """Return values in chunks, zeros behind them: (batch, seq, ...) -> (batch, count, tokens, ...)."""
    batch, seq, *rest = values.shape
    places = torch.arange(tokens * count, device=values.device).clamp(max=seq)
    behind = torch.cat([values, torch.zeros_like(values[:, :1])], 1)
    return behind.index_select(1, places).reshape(batch, count, tokens, *rest)


def _joined(chunks: Tensor, seq: int) -> Tensor:
    """Return the tokens of chunks, without those behind the last: (batch, count, tokens, ...) -> (batch, seq, ...)."""
    return chunks.flatten(1, 2).index_select(1, torch.arange(seq, device=chunks.device))


def _decays(steps: Tensor, length: int) -> Tensor:
    """Return the decay from each token to each later one, 0 to earlier ones: (..., length) -> (..., length, length).

    Logarithms are added along each way: a difference of two sums would lose digits.
    """
    places = torch.arange(length, device=steps.device)
    is_before = places.unsqueeze(1) > places
    sums = (steps.unsqueeze(-1) * is_before).cumsum(-2)
    return sums.exp() * (places.unsqueeze(1) >= places)


CHUNK, CHUNK_BY_FEATURE = 64, 16
"""Tokens of a chunk at most, also where each feature decays by itself: with more, most of the time is for decays."""
MASK = "create_recurrent_attention_mask"
"""What transformers calls the function that cuts a mask to the tokens of a call."""
KERNELS: Mapping[str, Callable[..., Any]] = {
    MASK: recurrent_mask,
    "mamba2_chunk_scan": state_space_duality,
    "torch_chunk_gated_delta_rule": gated_delta_rule,
    "chunk_kimi_delta_attention": gated_delta_rule,
}
"""By their names in the files of models: the functions that stand in for them."""
