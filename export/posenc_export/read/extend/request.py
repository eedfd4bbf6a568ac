"""What is asked of an extension, as it goes to the process that makes it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ExtendRequest:
    """What is to be done.

    Args:
        file: the path of the file, which the process does not share its working folder with.
        shown: the path as the user gave it.
        scratch: the folder in which the new file is made, with all that is written beside it.
        made: the path of the new file while it is made.
        tables: the name of the file for large new tables, where the model keeps others beside it.
        weights: the name of the file that gets the model's other external data; empty where the new file goes beside
            the old one, and shares them.
        out: where the new file goes; empty where it stays.
        max_len: how many positions it is to hold; 0 for as many as before.
        rope_type: another rope scaling; empty where it stays.
        parameters: of the scaling.
        encoding: which encoding is meant; empty where there is one kind.
        exact: whether Sin and Cos give way to angle addition.
        keep_rows: whether old rows stay as they are.
        seconds: how long a process may take; 0 for any.
        memory: bytes that it may take.
    """

    file: str
    shown: str
    scratch: str
    made: str
    tables: str
    weights: str = ""
    out: str = ""
    max_len: int = 0
    rope_type: str = ""
    parameters: dict[str, object] = field(default_factory=dict)
    encoding: str = ""
    exact: bool = False
    keep_rows: bool = False
    seconds: float = 0.0
    memory: int = 2**32
