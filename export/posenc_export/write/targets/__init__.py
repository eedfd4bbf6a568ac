"""What is exported: a scheme, a model's config, a user's module or a whole model. Each has a maker of a `Target`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from posenc.encoding import Encoding
from posenc.picture_places import PicturePlaces
from posenc.spec import Spec
from posenc_export.bundle.rules import Rules, rules_of

if TYPE_CHECKING:  # the command line loads this file for its options, and no models
    from posenc_models.asking.model import Question
    from posenc_models.whole import Quantize

OWN_FLOAT64 = "the module run in float64"
ROUNDED = "the module of the file's own {} weights, run in float64"
"""What a model whose weights are quantized is held against."""
SCHEME_REFERENCE = "the scheme's float64 reference"


@dataclass(frozen=True)
class Target:
    """What is exported.

    Attributes:
        name: That of a scheme, or package.module:factory.
        encoding: The module, its ports, its reference.
        spec: What was asked for.
        params: The parameters that it is made with.
        reference: What its outputs are held against, in words.
        origin: For parameters that were read from a file: the place in it.
        question: What the model of a config is to be asked.
        notes: Lines for the report.
        companions: Files that are copied into its bundle, as a model's tokenizer, by their paths there.
        config: What the config of a whole model says.
        generates: How many tokens a language model is to write, greedily; 0 for anything else.
        begins: The tokens with which a decoder begins, where an encoder reads the prompts.
        places: Where embeddings of pictures go in a prompt, where a model sees.
        file: What the graph's file is called, without its ending; "" for the usual name of its format.
        others: Makers of the model's other graphs, where it has several.
        precise: Makes the same model in float32, where it is in half precision or its weights are quantized.
        precision: What the numbers of a whole model are: fp32, fp16, int4.
        quantize: What its linear weights are written as; None for what they are.
        positions: How many positions a whole model has; None where its config does not say it.
        is_large: Whether a proof is quick unless somebody asks for a full one.
        answers_empty: Whether the answer to a text without a token follows from no weights, as a mean that is 0: files
            of other programs are held to it.
    """

    name: str
    encoding: Encoding
    spec: Spec
    params: Mapping[str, object]
    reference: str = SCHEME_REFERENCE
    origin: Mapping[str, str] = field(default_factory=dict)
    question: Question | None = None
    notes: tuple[str, ...] = ()
    generates: int = 0
    begins: tuple[int, ...] = ()
    places: PicturePlaces | None = None
    file: str = ""
    others: tuple[Callable[[], Target], ...] = ()
    precise: Callable[[], Target] | None = None
    precision: str = "fp32"
    quantize: Quantize | None = None
    positions: int | None = None
    is_large: bool = False
    answers_empty: bool = False
    companions: Mapping[str, Path] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)

    @property
    def rules(self) -> Rules:
        """What is known of it before it is looked at."""
        return rules_of(self.encoding.family)

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole model."""
        return bool(self.config)

    def file_of(self, usual: str) -> str:
        """Return what a file is called, of the usual name of its format."""
        return self.file + PurePath(usual).suffix if self.file else usual

    @property
    def folder(self) -> str:
        """The default name of its bundle."""
        return f"{self.name.rpartition(':')[2]}-{self.spec.mode}"
