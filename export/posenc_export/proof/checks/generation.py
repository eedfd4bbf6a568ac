"""A check of causal language models: a loaded graph writes the tokens that the eager module writes."""

from __future__ import annotations

from posenc_export.bundle.folder import Bundle, sha256
from posenc_export.common.errors import BadInput
from posenc_export.common.names import first_few
from posenc_export.proof.callees import Callee
from posenc_export.proof.checks import CheckResult, Context, Words, check
from posenc_export.proof.generation import TokenWriter, differences, token_writer

NAMED = 3
"""Tokens that a line names."""


def _is_recorded(context: Context) -> bool:
    return bool(context.manifest.generations)


@check(
    "generation",
    stage="runner",
    applies=_is_recorded,
    words=Words(
        code="PE118",
        asks="Does greedy generation give the eager module's tokens, for each prompt alone and for a padded batch?",
        failure="A cache, a mask or positions are wrong somewhere on the way: the first token that differs says where",
        remedy="Look at the first token that differs: the first of all speaks of the prompt, a later one of the cache, "
        "one in a padded batch of the mask. Two logits that are as good as equal are a note, and no failure.",
        example="a token of a padded batch that differs from the model's",
    ),
)
def generation(context: Context) -> CheckResult:
    """The graph writes the tokens that the eager module writes, with its own keys and values."""
    try:
        writer = _writer(context)
    except BadInput as error:
        return CheckResult([error.message], "")
    room = max((case.room for case in context.manifest.cases), default=0.0)
    wrong: list[str] = []
    near: list[str] = []
    for number, one in enumerate(context.manifest.generations, 1):
        context.tell(f"generation {number} of {len(context.manifest.generations)}")
        differ, may_differ = differences(writer, one, room)
        wrong += differ
        near += may_differ
    count = sum(len(tokens) for one in context.manifest.generations for tokens in one.tokens)
    return CheckResult(first_few(wrong, NAMED), f"{count} tokens", "; ".join(near[:NAMED]))


def _writer(context: Context) -> TokenWriter:
    """Return the loaded graph, with the others of its model on the same runtime.

    Raises BadInput where one of them is not the file that was exported: then it is not loaded.
    """
    runner, runtime = context.loaded
    bundle = Bundle(context.folder, context.manifest, context.trusted)

    def part_with(output: str) -> Callee | None:
        """Return the other graph that gives an output, loaded."""
        part = bundle.part_with(output)
        if part is None:
            return None
        artifact = part.manifest.artifact(context.artifact.format)
        if artifact is None:
            raise BadInput(f"{part.folder.name} has no graph in format {context.artifact.format}")
        if sha256(part.path(artifact)) != artifact.sha256:
            raise BadInput(f"{artifact.file} is not the file that was exported")
        part.check_graphs()
        return Callee(runtime.open(part.path(artifact), part.manifest, part.trusted).run, part.manifest.inputs)

    return token_writer(Callee(runner.run, context.manifest.inputs), part_with, context.manifest.places)
