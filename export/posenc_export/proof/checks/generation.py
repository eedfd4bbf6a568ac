"""A check of causal language models: a loaded graph writes the tokens that the eager module writes."""

from __future__ import annotations

from posenc_export.proof.checks import CheckResult, Context, Words, check
from posenc_export.proof.generation import differences


def _is_recorded(context: Context) -> bool:
    return bool(context.manifest.generations)


@check(
    "generation",
    stage="runner",
    applies=_is_recorded,
    words=Words(
        code="PE118",
        asks="Does greedy generation give the tokens that the eager module gives: of each prompt alone, and of a batch "
        "that is padded on the left?",
        failure="A cache, a mask or positions are wrong somewhere on the way: the first token that differs says where",
        remedy="Look at the first token that differs: the first of all speaks of the prompt, a later one of the cache, "
        "one in a padded batch of the mask. Two logits that are as good as equal are a note, and no failure.",
        example="a token of a padded batch that differs from the model's",
    ),
)
def generation(context: Context) -> CheckResult:
    """The graph writes the tokens that the eager module writes, with its own keys and values."""
    runner, _ = context.loaded
    wrong: list[str] = []
    near: list[str] = []
    for one in context.manifest.generations:
        differ, may_differ = differences(runner.run, context.manifest.inputs, one)
        wrong += differ
        near += may_differ
    count = sum(len(tokens) for one in context.manifest.generations for tokens in one.tokens)
    more = [f"and {len(wrong) - 3} more"] if len(wrong) > 3 else []
    return CheckResult([*wrong[:3], *more], f"{count} tokens", "; ".join(near[:3]))
