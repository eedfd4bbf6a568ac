"""What a bundle says of itself: manifest.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from posenc.picture_places import SENSES, PicturePlaces
from posenc.ports import Port
from posenc.spec import Mode
from posenc_export.bundle.carries import name_of
from posenc_export.bundle.identity import INDEX_DTYPE, TABLE_ROWS
from posenc_export.bundle.rules import rules_of

if TYPE_CHECKING:  # pydantic takes a while to load: whoever reads a manifest has these names resolved, see schema.py
    from posenc_export.bundle import forms, kinds

SCHEMA_VERSION = 2
STRICT = {"strict": True, "extra": "forbid"}
"""How pydantic reads the records: it converts nothing, and refuses fields that they do not have."""


@dataclass(frozen=True)
class Artifact:
    """A graph in the bundle, or the weights beside a graph, in format "FORMAT.data".

    Args:
        eager_tolerance: How much farther this file may be from the eager module than the cases say.

    """

    __pydantic_config__ = STRICT
    format: kinds.FormatName
    file: kinds.FileName
    bytes: kinds.Count
    sha256: kinds.Digest
    eager_tolerance: forms.AnyTolerance | None


@dataclass(frozen=True)
class File:
    """Another file of the bundle, its path with slashes: the golden data, and what --cpp added."""

    __pydantic_config__ = STRICT
    file: kinds.PathName
    bytes: kinds.Count
    sha256: kinds.Digest


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

    __pydantic_config__ = STRICT
    words: kinds.Text = ""
    library: kinds.Text = ""
    permutation: kinds.Listed[kinds.Count] = ()
    note: kinds.Text = ""
    difference: kinds.Text = ""
    unasked: kinds.Text = ""
    crashed: kinds.Flag = False

    @property
    def line(self) -> str:
        """The line of a report about it."""
        if self.unasked:
            return f"read by posenc's table, not held against the model's code: {self.unasked}"
        parts = [f"against {self.library}: {self.words}"]
        if self.permutation:
            parts.append(f"our features of a rotated head are the model's features {_runs(self.permutation)}")
        return "; ".join([*parts, *([self.note] if self.note else [])])


def _runs(numbers: tuple[int, ...]) -> str:
    """Return the first six numbers as text."""
    return ", ".join(map(str, numbers[:6])) + (", ..." if len(numbers) > 6 else "")


@dataclass(frozen=True)
class Generation:
    """What a language model wrote behind prompts that went in as one batch: the likeliest token, each time.

    Args:
        prompts: ids of tokens; shorter prompts are padded on the left, and on the right where an encoder reads them.
            An encoder of sounds gets numbers made from each id, instead of tokens.
        tokens: as many for each prompt.
        begins: ids with which a decoder begins, where an encoder reads the prompts.
        pictures: those of each prompt, where a model sees: a number that pixels are made from, then the steps, rows and
            columns of its grid if it has one.
    """

    __pydantic_config__ = STRICT
    prompts: kinds.Some[kinds.Some[kinds.Count]]
    tokens: kinds.Some[kinds.Some[kinds.Count]]
    begins: kinds.Listed[kinds.Count] = ()
    pictures: kinds.Listed[kinds.Listed[kinds.Some[kinds.Count]]] = ()


@dataclass(frozen=True, kw_only=True)
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
        attention_op: The ONNX operator that attends, in a module or a whole model.
        quantize: What the weights of linear layers are rounded to in the ONNX file; null for nothing.
        accuracy_level: What MatMulNBits computes in: 1 for float32, 4 for 8 bits, to which it rounds what goes in.
        check_positions: Whether the ONNX file gives NaN for a position out of range where a device cannot refuse it.
        half_safe: Why the file, converted to half precision, is off by more than a few roundings, or nothing.
        not_on_cuda: Operators that compute rows, and for which ONNX Runtime has no kernel on CUDA.
        added: Whether outputs are sums with an input: differences are then measured beside its size.
        origin: Where parameters that were read from a file come from.
        files: Every other file that was written, except this one and the reports, which come after it.
        seed: The seed of the random numbers that the encoding was made with, if the bundle says it.
        model: The model that was asked about a config that was read.
        id: The digest of `facts`, which all files of the bundle have; empty in older bundles.
        facts: What the graph is, see `identity`.
        foreign: The ONNX file that another program wrote, and its writer, where the bundle is the proof of such a file.
        generations: Tokens that the module wrote, where it is a language model.
        parts: Folders of the model's other graphs, such as an encoder. Each is a bundle; its graph lies in this folder.
        picture_id: The id of the tokens in whose place embeddings of pictures go; null where a model takes none.
        picture_types: Whether the decoder is told these tokens by `token_type_ids`.
        picture_of: What the pictures are: images, or the spectra of audio.

    """

    __pydantic_config__ = STRICT
    scheme: kinds.Text
    family: kinds.Text
    params: kinds.Params
    mode: Mode
    method: kinds.NoMethod
    positions: kinds.NoPositions
    max_len: kinds.Natural
    dtype: kinds.DType
    opset: kinds.Natural
    opset_reason: kinds.Text
    ir_version: kinds.Natural
    loads_on: kinds.Text
    inputs: kinds.Listed[forms.AnyPort]
    outputs: kinds.Some[forms.AnyPort]
    artifacts: kinds.Some[kinds.Object[Artifact]]
    cases: kinds.Listed[forms.AnyCase]
    trace: Mapping[str, kinds.Natural]
    reference: kinds.Text
    versions: Mapping[str, kinds.Text]
    not_tried: kinds.Listed[kinds.Text]
    notes: kinds.Listed[kinds.Text]
    unread: kinds.Listed[kinds.PortName] = ()
    rotary_op: Literal["decomposed", "onnx", "microsoft", "microsoft-mrope"]
    attention_op: Literal["decomposed", "onnx", "microsoft"] = "decomposed"
    quantize: Literal["int8", "int4"] | None = None
    accuracy_level: Literal[1, 4] = 1
    check_positions: kinds.Flag = False
    half_safe: kinds.Text
    not_on_cuda: kinds.Listed[kinds.Name] = ()
    added: kinds.Flag = False
    origin: kinds.Origin
    files: kinds.Files[kinds.Object[File]]
    seed: kinds.NoCount = None
    model: kinds.Object[AskedModel] | None = None
    id: kinds.NoDigest = ""
    facts: Mapping[str, kinds.Text] = field(default_factory=dict)
    foreign: kinds.Text = ""
    generations: kinds.Few[kinds.Object[Generation]] = ()
    parts: kinds.Listed[kinds.Name] = ()
    picture_id: kinds.NoCount = None
    picture_types: kinds.Flag = False
    picture_of: Literal["image", "audio"] = "image"
    schema_version: kinds.Natural

    @property
    def is_whole(self) -> bool:
        """Whether it is of a whole model: a folder's, whose task is asked for or follows from its config."""
        return "task" in self.origin and not rules_of(self.family).registered

    def artifact(self, format_: str) -> Artifact | None:
        """Return the file of a format, if the bundle has it."""
        return next((artifact for artifact in self.artifacts if artifact.format == format_), None)

    @property
    def places(self) -> PicturePlaces | None:
        """Where embeddings of pictures go, if the model sees or hears."""
        if self.picture_id is None:
            return None
        return PicturePlaces(token=self.picture_id, types=self.picture_types, sense=SENSES[self.picture_of])

    @property
    def index_dtype(self) -> str:
        """The dtype of positions, masks and the integers that are computed of them."""
        return self.facts.get(INDEX_DTYPE, "int64")

    @property
    def table_rows(self) -> str:
        """How many of the first positions have stored rows where others are composed; empty where no row is."""
        return self.facts.get(TABLE_ROWS, "")

    def to_json(self) -> dict[str, object]:
        """Return the manifest as JSON values.

        Fields that came later are left out where they are empty: a new one belongs into the list below.
        """
        fields = asdict(self)
        ports = {key: [_port_json(port) for port in getattr(self, key)] for key in ("inputs", "outputs")}
        cases = [case.to_json() for case in self.cases]
        if self.places is None:
            fields = {name: value for name, value in fields.items() if not name.startswith("picture_")}
        for name in ("model", "foreign", "not_on_cuda", "generations", "parts"):
            if not fields[name]:
                fields.pop(name)
        for generation in fields.get("generations", ()):
            for name in ("begins", "pictures"):
                if not generation[name]:
                    generation.pop(name)
        return {"schema_version": fields.pop("schema_version"), **fields, **ports, "cases": cases}


def _port_json(port: Port) -> dict[str, object]:
    axes = [{name: value for name, value in asdict(axis).items() if name != "without" or value} for axis in port.axes]
    return {**asdict(port), "axes": axes, "carries": {"what": name_of(port.carries), **asdict(port.carries)}}
