"""What export and validation may take for granted: much of an encoding of ours, little of a user's module."""

from __future__ import annotations

from dataclasses import dataclass, replace

PROMPT_POSITIONS = "prompt positions"
"""The family of positions of prompts with images and videos in them."""


@dataclass(frozen=True)
class Rules:
    """How encodings of ours and a user's module are treated differently; the defaults are for ours.

    Attributes:
        registered: A scheme makes it, and its record says its parameters, its method and the formats that it lacks, so
            that it can be made again anywhere. Otherwise its code and its tensors are all that identifies it.
        derived_tolerances: Tolerances come from mathematics, and integers have a reference. Otherwise tolerances are
            measured, by how far rounding moves the outputs, and rows of padding do not count.
        known_end: The encoding says where its positions end. Otherwise the end is found by trying.
        known_operators: The graph may be written in faster forms, with a check that lengths are equal. Otherwise it
            stays as torch.onnx writes it, and onnx.checker sees whether its opset has its operators.
        known_refusals: The ports say which calls must be refused. Otherwise the eager module is asked.
        promises_half_safe: More than a few roundings lost in half precision are an error. Otherwise they are a note.
        may_keep_state: A call may change the module, or its inputs, as long as no later output depends on that.
            Otherwise any change is an error.
        may_branch: Lengths at which modules branch are planned, and guards that calls break are tried, since the graph
            may be right there. Otherwise such a guard is an error.
        tries_other_ways: What fails is captured in other ways, and written at newer opsets.
        notes_unread: A note names the inputs that are read for their shape alone. Otherwise the scheme documents them.
    """

    registered: bool = True
    derived_tolerances: bool = True
    known_end: bool = True
    known_operators: bool = True
    known_refusals: bool = True
    promises_half_safe: bool = True
    may_keep_state: bool = False
    may_branch: bool = False
    tries_other_ways: bool = False
    notes_unread: bool = False


OURS = Rules()
USERS = Rules(
    registered=False,
    derived_tolerances=False,
    known_end=False,
    known_operators=False,
    known_refusals=False,
    promises_half_safe=False,
    may_keep_state=True,
    may_branch=True,
    tries_other_ways=True,
    notes_unread=True,
)


COUNTED = replace(USERS, derived_tolerances=True, known_refusals=True, may_keep_state=False)
"""For positions of prompts with images: no scheme makes them, but they are integers with a reference, and refuse."""


def rules_of(family: str) -> Rules:
    """Return the rules for an encoding of a family, or for the manifest of its export."""
    if family == PROMPT_POSITIONS:
        return COUNTED
    return USERS if family == "module" else OURS
