"""What each check asks, in words for users: the one table for reports, `posenc explain` and docs/validation.md.

A check that is added has an entry here: a code that no other has had, and four texts. A code stays what it is, since
scripts look for it; one whose check has gone is not given again.
"""

from __future__ import annotations

from dataclasses import dataclass

from posenc.registry import Registry, UnknownName
from posenc_export.markdown import table


@dataclass(frozen=True)
class Explanation:
    """A check in words: what it asks (a question), what a failure means, what to do then, and an example of one."""

    code: str
    name: str
    asks: str
    failure: str
    remedy: str
    example: str


CATALOGUE: Registry[Explanation] = Registry("check")


def explained(code: str, name: str, *, asks: str, failure: str, remedy: str, example: str) -> None:
    """Enter a check into the table; raise ValueError where its code, or its name, is taken."""
    if any(code == other.code for other in CATALOGUE.values()):
        raise ValueError(f"code {code} of check {name!r} is taken")
    CATALOGUE.add(name, Explanation(code, name, asks, failure, remedy, example))


def explanation(word: str) -> Explanation:
    """Return the entry of a code or a name, in any case; raise UnknownName, in one line, where there is none."""
    by_code = {entry.code.lower(): entry for entry in CATALOGUE.values()}
    found = by_code.get(word.lower())
    if found is None and word.lower().startswith("pe"):
        raise UnknownName(f"unknown code {word!r}: known: {', '.join(entry.code for entry in by_code.values())}")
    return CATALOGUE[word.lower()] if found is None else found


def code_of(name: str) -> str:
    """Return the code of a check."""
    return CATALOGUE[name].code


def markdown() -> str:
    """Return the table of docs/validation.md."""
    rows = [(entry.code, f"`{entry.name}`", entry.asks, entry.failure) for entry in CATALOGUE.values()]
    return table(("code", "check", "what it asks", "what a failure means"), rows)


explained(
    "PE101",
    "integrity",
    asks="Is each file the one that was exported, by its size and its SHA-256?",
    failure="The file was changed, or damaged, after the bundle was written; nothing else of it is looked at",
    remedy="Copy the bundle again, in binary; or export it anew.",
    example="a model.onnx that a tool has optimised in its place",
)
explained(
    "PE102",
    "structure",
    asks="Has the ONNX graph the names, dtypes, opset and IR version of the manifest, and does onnx.checker accept it?",
    failure="Programs that feed the graph by its manifest would not find its inputs, or a runtime may refuse it",
    remedy="Export anew; where a tool has converted the file, give that tool the names and the opset.",
    example="an output that was renamed, or an opset that a converter has raised",
)
explained(
    "PE103",
    "static-axis",
    asks="Is every axis that was asked to be dynamic free in the ONNX graph, with no constant of traced sizes?",
    failure="The export has taken the length of its example for a constant: other lengths are refused, or are wrong",
    remedy="In the module, take sizes from x.shape in `forward`, not from a list, a cache or an int that was stored.",
    example="a cached table of 11 rows, in a graph that was traced at length 11",
)
explained(
    "PE104",
    "agrees",
    asks="Is every output of every case as near to eager PyTorch, and to float64, as its tolerance says?",
    failure="The graph computes something else on that runtime than the module: the line names the case and the output",
    remedy="Look at the case that is named; where other runtimes agree, try another release of this one.",
    example="angles in float32, off by 0.008 at position 131,071",
)
explained(
    "PE105",
    "refusal",
    asks="Does a length or a position beyond the end, or a negative one, give an error?",
    failure="A call out of range gets a wrong row and no error: a program that goes too far would not notice",
    remedy="Check lengths and positions before the call; or export --dynamic, which ends at 16,777,216 positions.",
    example="position 2048 of a table of 2048 rows, answered with the last row",
)
explained(
    "PE106",
    "lost-input",
    asks="Does the graph use each input on whose values the outputs of the module depend?",
    failure="The export has dropped an input: whatever is fed there, the answer is the same",
    remedy="See why `forward` does not depend on it: it may have been read into Python, by .item(), int() or a shape.",
    example="an attention mask that was all ones while tracing",
)
explained(
    "PE107",
    "purity",
    asks="Are the outputs of a call the same whatever was called before?",
    failure="The module keeps something of its calls, and a file cannot: a graph gives what the first call gives",
    remedy="Make `forward` depend on its inputs alone: take what it counts, or remembers, as an input.",
    example="a module that counts the tokens that it has seen, or keeps the longest length so far",
)
explained(
    "PE108",
    "determinism",
    asks="Do two captures of the module give one program, and two copies of it the same outputs?",
    failure="What was exported is one of several things that the module may be; or its outputs are noise",
    remedy="Leave out dropout (module.eval()) and random numbers; set a seed where weights are made.",
    example="weights drawn anew by each copy, or dropout that is on",
)
explained(
    "PE109",
    "provider",
    asks="Does the ONNX Runtime session run on the execution provider that was asked for?",
    failure="ONNX Runtime fell back to another provider without an error: the device was not tried",
    remedy="Install what the provider lacks: for CUDA the driver and the libraries of `posenc-export[cuda]`.",
    example="CUDA asked for, and the CPU taken",
)
explained(
    "PE110",
    "placement",
    asks="Does every node that computes rows run on the GPU of a CUDA session?",
    failure="Rows are computed on the CPU and copied to the device in each call: right, and slow",
    remedy="Take another opset, or a newer ONNX Runtime, that has the operators that are named on CUDA.",
    example="a Cos of float64, for which the provider has no kernel",
)
explained(
    "PE111",
    "io-binding",
    asks="Does a call whose inputs and outputs lie in the device's memory give the same bits as from the host's?",
    failure="What a program gets that keeps its tensors on the device differs from what was proved",
    remedy="Call from host memory with this release, and report it: it is a bug of the runtime, or of this tool.",
    example="an output that is read before the device has finished",
)
explained(
    "PE112",
    "half-safe",
    asks="Converted to float16 and bfloat16, is the ONNX file off by two roundings at most?",
    failure="A float holds a position, or an angle beyond a circle: in half precision positions turn to noise",
    remedy="Take positions apart in integers, and keep angles in tables that were made in float64.",
    example="an angle that is position * inv_freq in float32, off by radians in float16 from position 2048 on",
)
