"""The record of an export: each stage takes it and returns it with more in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from posenc.encoding import Encoding
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.identity import Facts
from posenc_export.bundle.manifest import AskedModel, Generation, Manifest
from posenc_export.proof.judging.context import Capture
from posenc_export.proof.planning.scope import Proof
from posenc_export.proof.stored.matching import Digest
from posenc_export.write.formats import Digests, WriteRequest
from posenc_export.write.formats.capture import Findings


@dataclass(frozen=True)
class Written:
    """What a file was made of.

    Attributes:
        digests: They must be the same when the module is captured again.
        findings: What capturing showed.
    """

    digests: Digests
    findings: Findings


@dataclass(frozen=True)
class OtherGraph:
    """Another graph of a model, with its bundle: the encoder of a decoder.

    Attributes:
        encoding: The module, its ports, its reference.
        manifest: That of its bundle.
        captures: What captures showed of it, by format.
    """

    encoding: Encoding
    manifest: Manifest
    captures: Mapping[str, Capture]

    @property
    def name(self) -> str:
        """The name of its graph's file, and of its bundle's folder."""
        return Path(self.manifest.artifacts[0].file).stem


@dataclass(frozen=True)
class Draft:
    """A bundle that is being made.

    Attributes:
        request: How the module is captured and written; first as it is wanted, then as every format could be.
        reference: What the cases are held against, in words.
        stored: Digests of the tensors of a user's module, before anything was called.
        written: What the file of each format was made of.
        facts: The identity of the graph.
        cases: What the eager module, the reference and a model give in the calls that were planned.
        not_tried: Calls that were not tried, with the reasons.
        notes: Lines for the report.
        unread: Inputs whose values no output depends on.
        model: The model that was asked, for a config.
        generations: Tokens that a language model wrote.
        parts: The model's other graphs, which were written before.
        proof: Which calls are tried.
        is_whole: Whether it is a whole model, whose inputs no user declares.
    """

    request: WriteRequest
    reference: str
    stored: Mapping[str, Digest] = field(default_factory=dict)
    written: Mapping[str, Written] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    cases: tuple[GoldenCase, ...] = ()
    not_tried: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    model: AskedModel | None = None
    generations: tuple[Generation, ...] = ()
    parts: tuple[OtherGraph, ...] = ()
    proof: Proof = "full"
    is_whole: bool = False

    @property
    def breaking(self) -> tuple[Mapping[str, int], ...]:
        """The sizes that break what torch.export assumed."""
        return tuple(sizes for written in self.written.values() for sizes in written.findings.sizes)

    @property
    def digests(self) -> dict[str, Digests]:
        """The digests of each format's program."""
        return {name: written.digests for name, written in self.written.items()}
