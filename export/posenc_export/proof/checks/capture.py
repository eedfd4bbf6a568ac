"""Checks of what an export saw of the module: its outputs must depend on its inputs alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from posenc_export.bundle.rules import rules_of
from posenc_export.proof.checks import NOT_HELD, CheckResult, Context, Words, check
from posenc_export.proof.runtimes import Missing

if TYPE_CHECKING:
    from torch import nn


@check(
    "purity",
    stage="capture",
    words=Words(
        code="PE107",
        asks="Are the outputs of a call the same whatever was called before?",
        failure="The module keeps something of its calls, and a file cannot: a graph gives what the first call gives",
        remedy="Make `forward` depend on its inputs alone: take what it counts, or remembers, as an input.",
        example="a module that counts the tokens that it has seen, or keeps the longest length so far",
    ),
)
def purity(context: Context) -> list[str]:
    """No output depends on earlier calls, and no call changes any attribute of this package's encodings."""
    capture = context.captured
    # It may keep something of a call: its file is that of the uncalled module.
    if rules_of(context.manifest.family).may_keep_state:
        order = capture.behaviour.order
        todo = "keep nothing of a call that a later one reads, or give a class or function that makes a new module"
        return [f"what this module gives depends on earlier calls: {order}; {todo}"] if order else []
    problems = [f"a call changed {name} of the module" for name in capture.changed]
    if not capture.same_after_calls:
        problems.append(
            "what is captured after calls at other lengths is another graph: the module keeps something of a call"
        )
    return problems


@check(
    "determinism",
    stage="capture",
    words=Words(
        code="PE108",
        asks="Do two captures of the module give one program, and two copies of it the same outputs?",
        failure="What was exported is one of several things that the module may be",
        remedy="Leave out dropout (module.eval()) and random numbers; set a seed where weights are made.",
        example="weights drawn anew by each copy, or dropout that is on",
    ),
)
def determinism(context: Context) -> list[str] | CheckResult:
    """Two captures of the module give the same program, and two copies of it give the same outputs."""
    random = context.captured.behaviour.random
    if context.manifest.foreign:
        if rules_of(context.manifest.family).derived_tolerances:
            raise Missing(f"captures: {NOT_HELD}")
        return CheckResult([random] if random else [], f"two copies of the module; captures: {NOT_HELD}")
    problems = [] if context.captured.same_twice else ["two captures in a row differ"]
    return [*problems, random] if random else problems


def _is_measured(context: Context) -> bool:
    return not rules_of(context.manifest.family).derived_tolerances


@check(
    "rounding",
    stage="capture",
    applies=_is_measured,
    words=Words(
        code="PE115",
        asks="Does a module of your own give the same where each float on the way moves by one ulp?",
        failure="Its outputs are noise: they depend on the last digits of floats, which differ between libraries",
        remedy="Compute positions in integers and angles in float32; take no sine and no difference of large numbers.",
        example="angles in float16, or the sine of x * 1e7",
    ),
)
def rounding(context: Context) -> list[str]:
    """If each intermediate result moves by one ulp, the outputs move by no more than noise."""
    noise = context.captured.behaviour.noise
    return [f"what this module gives is noise: {noise}"] if noise else []


@check(
    "choices",
    stage="capture",
    applies=lambda context: bool(context.captured.behaviour.choices),
    words=Words(
        code="PE116",
        asks="Does the last digit of a float choose an integer, a row of a table, or the outcome of a comparison?",
        failure="It never fails: a note names the line. A file that chooses otherwise than eager fails in `agrees`",
        remedy="Nothing has to be done. To choose alike on any machine, choose by integers or half a step off an edge.",
        example="T5's buckets by the logarithm of a distance, where a distance is the edge of a bucket",
    ),
)
def choices(context: Context) -> CheckResult:
    """A choice that the last digit of a float changes is a note, with the line of code."""
    return CheckResult(note=f"the last digit of a float chooses at {context.captured.behaviour.choices}")


@check(
    "padding",
    stage="capture",
    applies=lambda context: bool(context.captured.behaviour.padding),
    words=Words(
        code="PE117",
        asks="Are there rows of outputs that belong to masked tokens?",
        failure="It never fails: a note names them. They are compared with eager only, by a tolerance of their own",
        remedy="Nothing has to be done where nobody reads them. If somebody does, let the mask carry `values`.",
        example="padding at the left under a causal mask: every key is masked there, and what comes out is arbitrary",
    ),
)
def padding(context: Context) -> CheckResult:
    """Rows of masked tokens are compared with eager alone, by a tolerance of their own, and count in no scale."""
    outputs = "; ".join(context.captured.behaviour.padding)
    how = "not compared" if context.manifest.foreign else "compared with eager, not with float64"
    return CheckResult(note=f"rows of masked tokens are {how}: {outputs}")


def fingerprint(module: nn.Module) -> dict[str, object]:
    """Return the attributes that a call could change: tensors by identity and version, plain values by value."""
    import torch

    state: dict[str, object] = {}
    for prefix, part in module.named_modules():
        for name, value in [*vars(part).items(), *part._parameters.items(), *part._buffers.items()]:
            key = f"{prefix}.{name}" if prefix else name
            if isinstance(value, torch.Tensor):
                state[key] = (id(value), value._version, tuple(value.shape))
            elif isinstance(value, (int, float, str, bool, tuple, list)) or value is None:
                state[key] = repr(value) if not _holds_tensors(value) else id(value)
            elif isinstance(value, dict) and not name.startswith("_"):
                state[key] = (sorted(map(repr, value)), [id(v) for v in value.values()])
    return state


def _holds_tensors(value: object) -> bool:
    import torch

    return isinstance(value, (tuple, list)) and any(isinstance(v, torch.Tensor) for v in value)


def changes(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names whose fingerprint changed."""
    return tuple(sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k)))
