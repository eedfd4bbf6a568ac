"""Rows of a table at given positions, refusing positions that the table does not hold. Scriptable and exportable."""

import torch
from torch import Tensor


def take(table: Tensor, index: Tensor, end: int) -> Tensor:
    """Return `table[index]`: (rows, dim), (...) -> (..., dim); an error in eager mode names `end`."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return torch.nn.functional.embedding(index, table)
    return _take_in_positions(table, index, end)


def _take_in_positions(table: Tensor, index: Tensor, end: int) -> Tensor:
    try:
        return torch.nn.functional.embedding(index, table)
    except IndexError as error:
        raise IndexError(f"positions must be in 0..{end - 1} ({error})") from None


def inside(index: Tensor, end: int) -> Tensor:
    """Send every negative index to `end`: a look-up refuses it there, and would count from the end otherwise."""
    return index.masked_fill(index < 0, end)


def at_least(index: Tensor, least: int) -> Tensor:
    """Return whole numbers, and `least` in the place of smaller ones.

    It compares, and does not clamp: where the upper 32 bits of two int64 are equal, Clip, Max and Min of ONNX Runtime
    1.31 compare the lower ones as signed numbers, and take 2^31 for less than 0.
    """
    return index.masked_fill(index < least, least)


def clip(index: Tensor, end: int) -> Tensor:
    """Return whole numbers moved into 0..end, by comparisons as `at_least`."""
    return at_least(index, 0).masked_fill(index > end, end)


def index_or_end(index: Tensor, end: int, far: int = 2**30) -> Tensor:
    """Return whole numbers of 0..end-1, and for others one that is no smaller: a table of so many rows refuses it."""
    if index.dtype == torch.int32:
        # int32 is clipped right, and WebGPU takes what comes of these two; -1 goes to far - 1
        return index.clamp(-1, end) % far
    part = index % end
    return torch.where(part == index, part, end)


def following(keys: Tensor, start: Tensor, count: int, dtype: torch.dtype | None = None) -> Tensor:
    """Return the positions of queries that follow one another among the keys: (seq_k,), (1,) -> (1, count, 1).

    Args:
        keys: their positions, 0, 1, 2, ... A start below 0, and a query beyond the last key, are refused: they look up
            a row that the keys do not have.
    """
    # No operator computes a shape here: a decode step consists of a dozen operators.
    far = torch.full([1, 1], 2**62, dtype=torch.int64, device=start.device)
    if dtype is not None:
        far = torch.full([1, 1], 2**30, dtype=dtype, device=start.device)
    at = torch.where(start < 0, far, start) + torch.arange(count, dtype=dtype, device=start.device)
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return torch.nn.functional.embedding(at, keys.unsqueeze(1))
    return _among(keys, start, at)


def _among(keys: Tensor, start: Tensor, at: Tensor) -> Tensor:
    try:
        return torch.nn.functional.embedding(at, keys.unsqueeze(1))
    except IndexError:
        count, last, got = at.shape[1], keys.shape[0] - at.shape[1], start.tolist()[0]
        expected = f"0 to {last}" if last >= 0 else "that of fewer queries"
        raise IndexError(
            f"start must be {expected}, since {count} queries count from it among {keys.shape[0]} keys, got {got}"
        ) from None


def places(none: Tensor, sizes: Tensor, tokens: int) -> Tensor:
    """Return how many places images have, by their heights and widths: (batch, 2) -> (batch,).

    Args:
        none: a zero, (1, 1). Sizes below 1, and more places than tokens, are refused: they look up its second row.
    """
    known = sizes.clamp(0, 2**31 - 1)  # a product of two fits an int64
    count = known[:, 0] * known[:, 1]
    wrong = ((count < 1) | (count > tokens)).to(torch.int64)
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return count + torch.nn.functional.embedding(wrong, none).squeeze(-1)
    return count + _zeros(none, wrong, sizes, tokens)


def _zeros(none: Tensor, wrong: Tensor, sizes: Tensor, tokens: int) -> Tensor:
    try:
        return torch.nn.functional.embedding(wrong, none).squeeze(-1)
    except IndexError:
        got = " x ".join(map(str, sizes[wrong.bool()][0].tolist()))
        raise IndexError(f"sizes must be at least 1, height x width at most the {tokens} tokens, got {got}") from None


def zero_or_refusal(none: Tensor, amiss: Tensor, words: str) -> Tensor:
    """Return a zero, (1,), by a look-up that fails where something is amiss: in a graph, the runtime refuses the call.

    Args:
        none: a zero, (1, 1), whose second row is looked up then.
        amiss: 0 where nothing is, (1,).
        words: what the IndexError of eager mode says.
    """
    try:
        return torch.nn.functional.embedding((amiss != 0).long(), none).squeeze(-1)
    except IndexError:
        raise IndexError(words) from None


def counted(mask: Tensor, offset: int, dtype: torch.dtype | None = None) -> Tensor:
    """Return positions from an attention mask of 1 and 0: (batch, seq) -> the same.

    Tokens count from `offset` on, and padding is at the position before, but never below 0. RoBERTa and OPT count from
    2, left-padded generation from 0.
    """
    return (mask.cumsum(-1, dtype=dtype) * mask + (offset - 1)).clamp(min=0)


def leading(table: Tensor, length: int) -> Tensor:
    """Return the first rows with a batch axis: (rows, dim) -> (1, length, dim).

    In a graph the slice stops short at the table's end. An addition to x then refuses the other length, on the CPU and
    on CUDA alike; rows that are returned need `exactly`.
    """
    check_length(length, table.shape[0])
    return table[:length].view(1, length, table.shape[1])


def exactly(rows: Tensor, length: int) -> Tensor:
    """Return rows, (1, length, dim), through an operator that refuses any other length in a graph.

    The operator is a Split, and in ONNX a Reshape.
    """
    whole: Tensor = rows.split([length, 0], 1)[0]
    return whole


def check_length(length: int, end: int) -> None:
    """Raise ValueError where a sequence has more tokens than the encoding has positions."""
    if length > end:
        raise ValueError("length {} is beyond the {} positions of this encoding".format(length, end))


def check_width(width: int, expected: int) -> None:
    """Raise ValueError unless x has as many features as the encoding."""
    if width != expected:
        raise ValueError("x has {} features, this encoding has {}".format(width, expected))


def check_same(length: int, expected: int) -> None:
    """Raise ValueError unless two inputs have the same length: a graph would repeat a single token."""
    if length != expected:
        raise ValueError("an input has {} tokens, another {}: expected as many".format(length, expected))
