"""The inspection of a file as data: what `inspect` returns, and what `--json` prints.

Its dataclasses hold plain values alone: they come out of another process, and pydantic checks them on the way
(`report/schema.py`). docs/reference/inspection.schema.json is made of them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from posenc.formulas.families import FAMILIES, Family, Traits, is_trained
from posenc.formulas.fitting import Parameter
from posenc_export.common.markdown import count_of
from posenc_export.common.notebooks import html_of

if TYPE_CHECKING:  # pydantic takes a while to load: whoever reads an inspection has these names resolved
    from posenc_export.read import kinds

SCHEMA_VERSION = 1
"""The version of what --json prints, whose fields docs/reference/inspection.schema.json describes."""
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From the gravest on."""
MORE = (": give more with --timeout", ": give more with --memory")
"""How the words end that say of a limit that it ran out."""
UNMEASURED = ": time for measuring ran out"
"""How the words end that say of errors that they are those of a part of the positions."""
Beyond = Literal["refuses", "broadcasts", "repeats", "overruns", "goes on"]
"""What a file does with a call longer than its last right length; it goes on where no end was met."""
Place = Literal["position", "distance", "coordinate", "row"]
"""What errors are by."""
Size = int | str | None
STRICT = {"strict": True, "extra": "forbid", "json_schema_serialization_defaults_required": True}
"""How pydantic reads an inspection: it converts nothing, and refuses fields that a record does not have."""


@dataclass(frozen=True)
class Finding:
    """Something that a user should know of a file.

    Args:
        code: what `posenc explain` knows it by.
        name: its name, which `posenc explain` knows, too.
        severity: an error fails the inspection; a warning and a note do so where --fail-on names them.
        where: the nodes or tensors that it is about.
        detail: what is so, with its numbers.
    """

    code: kinds.Code
    name: kinds.Text
    severity: Severity
    where: kinds.Text
    detail: kinds.Text


@dataclass(frozen=True)
class Errors:
    """How far numbers are from their closed form in float64, by position.

    Args:
        positions: where it was measured.
        errors: the largest absolute error of a row, for each of these positions; infinite (in JSON: null) also where a
            number is NaN.
        bound: the error that counts as too large.
        exceeds_from: the first position with a larger error than the bound; None where there is none.
        sampled: how many positions were measured; None where all were, from 0 to the last.
        tensor: the stored table with the largest error; empty where rows are computed.
        last_position: the last position that was tried, the first is 0; nothing is said of those beyond.
        is_late: whether time ran out before the last position that was to be tried.
        slope: by how much the largest number grows with each position; 0 where numbers do not grow.
        power: of the position, by which it grows.
        place: what `positions` are: "position", "distance" of a query and a key, "row", or "coordinate" of a grid: the
            largest one of a place.
        grid: how many places the largest grid had along each axis; empty where places are no grid.
        samples: how many samples of sound had these positions; None where calls count tokens.
        beyond: why nothing is known of larger calls; empty where nothing was met in them.
    """

    positions: kinds.Positions
    errors: kinds.Errors
    bound: float
    exceeds_from: int | None
    sampled: int | None = None
    tensor: kinds.Text = ""
    last_position: int | None = None
    is_late: bool = False
    slope: float = 0.0
    power: float = 1.0
    place: Place = "position"
    grid: tuple[int, ...] = ()
    samples: int | None = None
    beyond: kinds.Text = ""


@dataclass(frozen=True)
class Rounded:
    """What becomes of an encoding where every position value is rounded to half precision.

    Args:
        dtype: float16 or bfloat16.
        worst: the largest absolute error; None where it is not finite.
        position: where that is.
        noise_from: the first position that is off by more than a tenth of the largest number; None without one.
    """

    dtype: kinds.Text
    worst: kinds.NoNumber
    position: int | None
    noise_from: int | None


@dataclass(frozen=True)
class FoundEncoding:
    """An encoding of a file.

    Args:
        family: its kind.
        name: the form within it: a rope type, a layout; "table" where there is no closed form.
        parameters: by the names that schemes of this project give them.
        also: other forms that fit as well.
        nodes: where it meets data.
        layers: the numbers of the attentions before which it does, counted from 0; nothing where it is in front of all
            layers.
        tensors: the values or tables that were recognised.
        stored: the initializers that they are made of.
        dtype: the element type in which it meets data.
        rows: how many positions its table stores; None where they are computed.
        positions: where positions come from: the name of an input, "range", or "mask NAME".
        error: the largest absolute error against float64; None without a closed form, or where it is not finite.
        shape: the shape of a value that is not recognised.
        errors: the error by position, where it was measured.
        rounded: what half precision does to it.
        moved: distances whose row is not the form's, or is up to how a runtime rounds half precision.
        stored_dtype: the element type in which its table is stored; empty where rows are computed.
        scheme: a scheme of this project with parameters, as they are typed; empty where none has this form.
    """

    family: Family
    name: kinds.Text
    parameters: Mapping[kinds.Text, Parameter]
    also: kinds.Names
    nodes: kinds.Names
    layers: tuple[int, ...]
    tensors: kinds.Names
    stored: kinds.Names
    dtype: kinds.Text
    rows: int | None
    positions: kinds.Text
    error: kinds.NoNumber = None
    shape: tuple[int, ...] = ()
    errors: Errors | None = None
    rounded: tuple[Rounded, ...] = ()
    moved: tuple[int, ...] = ()
    stored_dtype: kinds.Text = ""
    scheme: kinds.Text = ""

    @property
    def traits(self) -> Traits:
        """What is true of all encodings of its family."""
        return FAMILIES[self.family]

    @property
    def is_trained(self) -> bool:
        """Whether its numbers follow no formula: whatever is stored is right."""
        return is_trained(self.family, self.name)

    @property
    def where(self) -> str:
        """Where it is, for a message: what stores it, or the first node in which it meets data."""
        return next(iter((*self.stored, *self.nodes, *self.tensors)), "")

    @property
    def where_it_meets(self) -> str:
        """The first node in which it meets data; what stores it where no node is known."""
        return next(iter(self.nodes), self.where)


@dataclass(frozen=True)
class AskedFit:
    """What a formula said when it was asked about numbers that were seen.

    Args:
        scheme: whose formula it is.
        guesses: how many guesses it made.
        name: the form within the scheme of the nearest guess; empty for the scheme itself.
        parameters: those of the nearest guess, as text; empty where no guess has the shape of the numbers.
        off: how far off that guess is, at most; None where there is none, or it is not finite.
        allowed: how far off it may be.
        agrees: whether the numbers are those of the guess.
    """

    scheme: kinds.Text
    guesses: int
    name: kinds.Text
    parameters: Mapping[kinds.Text, kinds.Text]
    off: kinds.NoNumber
    allowed: kinds.NoNumber
    agrees: bool


@dataclass(frozen=True)
class Observed:
    """Numbers that follow from positions, as formulas were asked about them.

    Args:
        kind: how they meet data: bias, rows, rotation and others.
        how: the same in words.
        axes: what their axes are.
        shapes: the shapes in which they were asked about: tokens in a row may be those of grids.
        dtype: the element type; complex for rotations.
        numbers: the first of them; angles of rotations.
        lowest: the smallest; NaN (in JSON: null) where there is none.
        highest: the largest; NaN (in JSON: null) where there is none.
        stored: what the file stores of which they were made, in words; single numbers with their value.
        fits: the formulas that were asked, in order.
    """

    kind: kinds.Text
    how: kinds.Text
    axes: kinds.Text
    shapes: kinds.Names
    dtype: kinds.Text
    numbers: kinds.FirstNumbers
    lowest: kinds.Figure
    highest: kinds.Figure
    stored: kinds.Names
    fits: tuple[AskedFit, ...]


@dataclass(frozen=True)
class Explained:
    """What is seen at a node, and which formulas were asked about it.

    Args:
        name: the node, or the value, that was asked for (`--explain`), or that no form has.
        op_type: the node's operator.
        operands: what comes in, in words.
        words: what it was recognised as, or why no formula was asked; empty where some were, and none agrees.
        observed: what was seen.
        is_asked: whether somebody asked for this node; else nothing there was recognised.
    """

    name: kinds.Text
    op_type: kinds.Text
    operands: kinds.Names
    words: kinds.Text
    observed: tuple[Observed, ...]
    is_asked: bool = True


@dataclass(frozen=True)
class Attended:
    """What becomes of the queries, the keys and the values of an attention: the nodes in which they are turned.

    Args:
        layer: the number of the attention.
        node: its node.
        queries: the nodes in which its queries are turned; empty where they are not.
        keys: the same of its keys.
        values: the same of its values, which should be empty.
    """

    layer: int
    node: kinds.Text
    queries: kinds.Names
    keys: kinds.Names
    values: kinds.Names


@dataclass(frozen=True)
class Sight:
    """Which keys the queries of an attention see.

    Args:
        layer: the number of the attention.
        node: its node.
        later: whether a query sees keys behind its own place; None where that is not known.
        window: how many keys it sees, its own among them; None where no call that was tried hides an earlier one.
        tried: how many keys the longest such call had; 0 where nothing is known of windows.
    """

    layer: int
    node: kinds.Text
    later: bool | None
    window: int | None
    tried: int


@dataclass(frozen=True)
class End:
    """Where the right positions of a file end.

    Args:
        axis: the dynamic size that grows, as "input_ids axis 1" or its name.
        last_right: the last length at which positions are right; None where no end was met.
        tried: the largest length that was tried.
        node: where it ends.
        beyond: what the file does with a longer call.
        reason: why, in words.
    """

    axis: kinds.Text
    last_right: int | None
    tried: int
    node: kinds.Text
    beyond: Beyond
    reason: kinds.Text

    def at(self, size: int) -> str:
        """Return a size of the axis in words."""
        return f"a length of {size:,}" if self.axis == "length" else f"{size:,} along {self.axis}"


@dataclass(frozen=True)
class NotJudged:
    """Something of which it is not known whether it is right: it was not understood, not there, or not reached in time.

    Args:
        place: the node, tensor, input or file that it is about.
        reason: what was not judged there, and why, in words.
    """

    place: kinds.Text
    reason: kinds.Text

    @property
    def is_late(self) -> bool:
        """Whether a limit of time or memory ran out before it: that says nothing of the file."""
        return self.reason.endswith((*MORE, UNMEASURED))


@dataclass(frozen=True)
class ComparedFile:
    """A config, or the file before, that the file was compared with.

    Args:
        file: its path.
        encodings: how many encodings of the file it could be compared with.
        agrees: whether no finding says that they differ.
        layers: of a rotary config, how many layers of the file rotate.
        of_layers: how many rotate by that config: a file may hold a part of the model, or unknown attentions.
        lists: of a config with longrope, which of its two lists the file turns by: `short_factor`, `long_factor`.
    """

    file: kinds.Text
    encodings: int
    agrees: bool
    layers: int | None = None
    of_layers: int | None = None
    lists: kinds.Names = ()


@dataclass(frozen=True)
class GraphInput:
    """An input of the file: its name, its sizes (a name where dynamic, null where the file says nothing), its dtype."""

    name: kinds.Text
    shape: tuple[Size, ...]
    dtype: kinds.Text


@dataclass(frozen=True)
class Taken:
    """What an input was taken for.

    Args:
        name: the input.
        role: what it was taken for: positions, mask, tokens, length, data and others.
        why: by which it was taken so: its numbers, its name, or what a caller said.
    """

    name: kinds.Text
    role: kinds.Text
    why: kinds.Text


@dataclass(frozen=True)
class Inspection:
    """What a file holds of positions, and what is wrong with it.

    Args:
        schema_version: of this form.
        file: the path that was given.
        nodes: how many nodes it has, with functions inlined.
        opsets: versions of operators, by domain.
        inputs: what a caller gives.
        taken: what the inputs of the file were taken for.
        encodings: in the order in which they meet data.
        ends: where right positions end.
        attentions: how many attentions there are, after which layers are counted.
        attended: of each, what is turned, in a file that turns anything.
        sights: which keys the queries of each attention see.
        missing: files of external data that are not there.
        stopped: where reading the graph stopped, in words; empty where it went through.
        findings: the gravest first.
        not_judged: what is neither right nor wrong by this inspection; empty where all that was met is judged.
        compared: the config, and the file before, that it was compared with, where they were given.
        explained: nodes that somebody asked for, and those where nothing was recognised.
    """

    __pydantic_config__ = STRICT
    schema_version: int
    file: kinds.Text
    nodes: int
    opsets: Mapping[kinds.Text, int]
    inputs: tuple[GraphInput, ...]
    encodings: tuple[FoundEncoding, ...] = ()
    ends: tuple[End, ...] = ()
    attentions: int = 0
    attended: tuple[Attended, ...] = ()
    sights: tuple[Sight, ...] = ()
    taken: tuple[Taken, ...] = ()
    missing: kinds.Names = ()
    stopped: kinds.Text = ""
    findings: tuple[Finding, ...] = field(default=())
    not_judged: kinds.Many[NotJudged] = ()
    compared: tuple[ComparedFile, ...] = ()
    explained: tuple[Explained, ...] = ()

    @property
    def verdict(self) -> str:
        """How many findings there are of each severity, and what was not judged, in words."""
        counts = [(sum(entry.severity == kind for entry in self.findings), kind) for kind in SEVERITIES]
        parts = [count_of(kind, number) for number, kind in counts if number] or ["no findings"]
        unjudged = len({entry.place for entry in self.not_judged})
        parts += [f"{count_of('place', unjudged)} not judged"] if unjudged else []
        return ", ".join([*parts, *(["reading stopped before the end"] if self.stopped else [])])

    @property
    def named(self) -> tuple[FoundEncoding, ...]:
        """The encodings that were recognised."""
        return tuple(encoding for encoding in self.encodings if encoding.family != "not recognised")

    def _repr_html_(self) -> str:
        """Return what notebooks show: the page of `posenc inspect --html`."""
        return html_of(self)

    @property
    def is_late(self) -> bool:
        """Whether a limit of time or memory ran out before all of it was read."""
        return self.stopped.endswith(MORE) or any(entry.reason.endswith(MORE) for entry in self.not_judged)

    @property
    def is_measured(self) -> bool:
        """Whether time was enough to measure the errors of every position that was to be tried."""
        return not any(entry.reason.endswith(UNMEASURED) for entry in self.not_judged)

    @property
    def passed(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)
