"""What a bundle says of itself: manifest.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from posenc.encoding import Tolerance
from posenc.ports import Axis, Port
from posenc_export.bundle.carries import name_of, port_kinds
from posenc_export.bundle.case import Case
from posenc_export.bundle.consistency import misfits
from posenc_export.bundle.counts import too_many
from posenc_export.bundle.generation import Generation
from posenc_export.bundle.identity import INDEX_DTYPE
from posenc_export.common.errors import BadInput, one_line

SCHEMA_VERSION = 2
MOST_LINES = 10
"""Problems of a manifest that are named; the others are counted."""
JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class Artifact:
    """A graph in the bundle, or the weights beside a graph, in format "FORMAT.data".

    Args:
        eager_tolerance: How much farther this file may be from the eager module than the cases say.

    """

    format: str
    file: str
    bytes: int
    sha256: str
    eager_tolerance: Tolerance | None = None


@dataclass(frozen=True)
class File:
    """Another file of the bundle, its path with slashes: the golden data, and what --cpp added."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class AskedModel:
    """The model of a config that was read, whose own code was asked; golden data keep its outputs.

    Args:
        words: The code that answered.
        library: Where the code is from.
        permutation: Feature i of our outputs is feature permutation[i] of the model's; () if the order is the same.
        note: What else is known of the model.
        difference: What would agree with the model, if this encoding does not.
        unasked: Why the model was not asked, or nothing.
        crashed: Whether it was not asked because the process that asks crashed.

    """

    words: str = ""
    library: str = ""
    permutation: tuple[int, ...] = ()
    note: str = ""
    difference: str = ""
    unasked: str = ""
    crashed: bool = False

    @property
    def line(self) -> str:
        """The line of a report about it."""
        if self.unasked:
            return f"read by posenc's table, not held against the model's code: {self.unasked}"
        order = f"; feature i of a rotated head is its feature {_runs(self.permutation)}" if self.permutation else ""
        return f"against {self.library}: {self.words}{order}" + (f"; {self.note}" if self.note else "")


def _runs(numbers: tuple[int, ...]) -> str:
    """Return the first six numbers as text."""
    return ", ".join(map(str, numbers[:6])) + (", ..." if len(numbers) > 6 else "")


@dataclass(frozen=True)
class Manifest:
    """What a bundle says of itself.

    Args:
        scheme: The scheme, or the name of the user's module.
        family: The kind of encoding.
        positions: How a call gives positions, if it does.
        max_len: The length up to which calls were tried.
        opset_reason: Why the opset is not lower.
        ir_version: The IR version of the ONNX file.
        loads_on: The first ONNX Runtime that loads the file.
        cases: The calls that golden data hold.
        trace: The sizes of the dynamic axes in the call that was traced.
        reference: What outputs are compared with, in words.
        versions: The versions of the libraries that made the bundle.
        not_tried: What the plan left out, and why.
        notes: Assumptions about inputs.
        unread: Inputs whose values the module does not read: it takes their shape, dtype or device alone.
        rotary_op: The ONNX operator that rotates.
        check_positions: Whether the ONNX file gives NaN for a position out of range where a device cannot refuse it.
        half_safe: Why the file, converted to half precision, is off by more than a few roundings, or nothing.
        not_on_cuda: Operators that compute rows, and for which ONNX Runtime has no kernel on CUDA.
        added: Whether outputs are sums with an input: differences are then measured beside its size.
        origin: Where parameters that were read from a file come from.
        files: Every other file that was written, except this one and the reports, which come after it.
        seed: The seed of the random numbers that the encoding was made with, if the bundle says it.
        model: The model that was asked about a config that was read.
        id: The id of the graph, the same in every file; empty in older bundles.
        facts: The facts whose digest the id is, see `identity`.
        foreign: The ONNX file that another program wrote, and its writer, where the bundle is the proof of such a file.
        generations: Tokens that the module wrote, where it is a causal language model.

    """

    scheme: str
    family: str
    params: Mapping[str, Any]
    mode: str
    method: str | None
    positions: str | None
    max_len: int
    dtype: str
    opset: int
    opset_reason: str
    ir_version: int
    loads_on: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    artifacts: tuple[Artifact, ...]
    cases: tuple[Case, ...]
    trace: Mapping[str, int]
    reference: str
    versions: Mapping[str, str]
    not_tried: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    rotary_op: str = "decomposed"
    check_positions: bool = False
    half_safe: str = ""
    not_on_cuda: tuple[str, ...] = ()
    added: bool = False
    origin: Mapping[str, str] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    seed: int | None = None
    model: AskedModel | None = None
    id: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    foreign: str = ""
    generations: tuple[Generation, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def artifact(self, format_: str) -> Artifact | None:
        """Return the file of a format, if the bundle has it."""
        return next((artifact for artifact in self.artifacts if artifact.format == format_), None)

    @property
    def index_dtype(self) -> str:
        """The dtype of positions, masks and the integers that are computed of them."""
        return self.facts.get(INDEX_DTYPE, "int64")

    def to_json(self) -> dict[str, object]:
        """Return the manifest as JSON values."""
        fields = asdict(self)
        ports = {key: [_port_json(port) for port in getattr(self, key)] for key in ("inputs", "outputs")}
        cases = [case.to_json() for case in self.cases]
        for name in (name for name in ("model", "foreign", "not_on_cuda", "generations") if not fields[name]):
            fields.pop(name)
        return {"schema_version": fields.pop("schema_version"), **fields, **ports, "cases": cases}

    @classmethod
    def from_json(cls, data: object) -> Manifest:
        """Read a manifest; raise BadInput if it has another schema, or is damaged: a line for each problem."""
        from posenc_export.bundle.schema import problems  # pydantic takes a while to load

        version = data.get("schema_version") if isinstance(data, dict) else None
        if not isinstance(data, dict) or version is None:
            raise BadInput("manifest.json has no schema_version: it does not describe a bundle")
        # True is an int, too; the schema refuses what is not a version.
        if type(version) is int and version > 0 and version != SCHEMA_VERSION:
            todo = "upgrade it" if version > SCHEMA_VERSION else "export the bundle again"
            raise BadInput(
                f"the bundle has schema version {version}, this posenc-export reads {SCHEMA_VERSION}: {todo}"
            )
        # Each step relies on the one before: few enough entries, of the right types, that fit each other.
        _refuse(too_many(data))
        _refuse(problems(data))
        manifest = cls(**_fields(data))
        _refuse(misfits(manifest.inputs, manifest.outputs, manifest.cases))
        return manifest


def _refuse(lines: list[str]) -> None:
    """Raise BadInput with a line for each problem, up to `MOST_LINES`."""
    if lines:
        more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
        failure = BadInput("\n".join(map(one_line, [*lines[:MOST_LINES], *more])))
        failure.has_lines = True
        raise failure


def _fields(data: JsonObject) -> dict[str, Any]:
    # JSON has lists, frozen dataclasses have tuples; objects become their dataclasses below.
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return {
        **data,
        **lists,
        "cases": tuple(_case(case) for case in data["cases"]),
        "inputs": tuple(_port(port) for port in data["inputs"]),
        "outputs": tuple(_port(port) for port in data["outputs"]),
        "artifacts": tuple(_artifact(artifact) for artifact in data["artifacts"]),
        "files": tuple(File(**file) for file in data["files"]),
        "model": _model(data.get("model")),
        "generations": tuple(_generation(entry) for entry in data.get("generations", ())),
    }


def _model(data: JsonObject | None) -> AskedModel | None:
    return None if data is None else AskedModel(**{**data, "permutation": tuple(data["permutation"])})


def _generation(data: JsonObject) -> Generation:
    return Generation(*(tuple(map(tuple, data[name])) for name in ("prompts", "tokens")))


def _case(data: JsonObject) -> Case:
    names = ("eager_tolerance", "tolerance", "model_tolerance")
    tolerances = {name: Tolerance(**data[name]) for name in names if name in data}
    return Case(**{**data, **tolerances})


def _port(data: JsonObject) -> Port:
    carries = dict(data["carries"])
    made = port_kinds()[carries.pop("what")].carries
    carries = {key: tuple(value) if isinstance(value, list) else value for key, value in carries.items()}
    return Port(data["name"], tuple(_axis_of(axis) for axis in data["axes"]), data["dtype"], made(**carries))


def _axis_of(data: JsonObject) -> Axis:
    return Axis(**{**data, "without": tuple(data.get("without", ()))})


def _port_json(port: Port) -> dict[str, object]:
    axes = [{name: value for name, value in asdict(axis).items() if name != "without" or value} for axis in port.axes]
    return {**asdict(port), "axes": axes, "carries": {"what": name_of(port.carries), **asdict(port.carries)}}


def _artifact(data: JsonObject) -> Artifact:
    tolerance = data.get("eager_tolerance")
    return Artifact(**{**data, "eager_tolerance": None if tolerance is None else Tolerance(**tolerance)})
