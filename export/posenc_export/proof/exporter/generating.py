"""Tokens that a language model writes behind prompts of random ids, recorded for the proof of its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array
from posenc_export.bundle.carries import limits_of
from posenc_export.bundle.case import Case
from posenc_export.bundle.manifest import Generation
from posenc_export.common.arrays import call_on_arrays, numpy_dtype
from posenc_export.proof.callees import Callee
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.exporter.request import dims_of
from posenc_export.proof.generation import TokenWriter, precision_cost, prompt_batch, recorded, token_writer
from posenc_export.proof.scenes import SceneGraphs
from posenc_export.write.targets import Target
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import trace_sizes

PROMPTS = (7, 3)
"""How many tokens the prompts of a generation have: unlike, so that a batch of them is padded."""
WORDS = 50_000
"""Ids below this are drawn for prompts with pictures: those beyond are often of other things."""
ALBUM = (((1, (1, 2, 3)),), ((2, (1, 1, 4)), (3, (1, 3, 1))), ((4, (1, 2, 2)),), ())
"""Pictures of each prompt: a number that pixels are made from, and a grid in squares of patches that share a row.

One picture, a wide and a tall one, a square one, and a text alone.
"""


def generations_of(
    target: Target, parts: Sequence[Encoding], options: ExportOptions
) -> tuple[tuple[Generation, ...], tuple[str, ...]]:
    """Return the tokens that a language model writes behind prompts of random ids, and lines for the report.

    Args:
        target: The model, or its decoder.
        parts: Its other graphs: what reads the prompts, where the decoder does not, or what makes embeddings.
        options: The seed counts.
    """
    if not target.generates:
        return (), _beside_float32(target, options)
    writer = _writer(target, parts)
    rng = np.random.default_rng(options.seed)
    prompts = (
        _scenes(writer.scene, rng, target.begins)
        if writer.scene
        else prompt_batch(_prompts(writer, rng), target.begins)
    )
    written = recorded(writer, prompts, target.generates, options.validation.progress)
    if options.accuracy_level != 1:
        writer = _writer(
            replace(target, encoding=_in_file(target.encoding, options)), [_in_file(part, options) for part in parts]
        )
    return written, _tokens_of_float32(target, writer, prompts, _precision(target, options))


def _writer(target: Target, parts: Sequence[Encoding]) -> TokenWriter:
    """Return the eager modules of a model as what writes tokens."""
    decoder = _callee(target.encoding)
    by_output = {port.name: _callee(part) for part in parts for port in part.outputs}
    return token_writer(decoder, by_output.get, target.places)


def _prompts(writer: TokenWriter, rng: np.random.Generator) -> list[list[int]]:
    """Return prompts of random ids: of sounds a prompt is one number, which features are made of."""
    reads = writer.decoder if writer.encoder is None else writer.encoder
    ends = [limits_of(port).end for port in reads.inputs if port.name == "input_ids"]
    return [rng.integers(0, end, size).tolist() for end in ends for size in PROMPTS] or [[1], [2]]


def _scenes(scene: SceneGraphs, rng: np.random.Generator, begins: Sequence[int]) -> Generation:
    """Return prompts of random ids with pictures among them, and one without any."""
    (end,) = (limits_of(port).end or 1 for port in scene.words.inputs)
    words = [id_ for id_ in range(min(end, WORDS)) if id_ not in scene.reserved_ids]
    prompts, pictures = [], []
    for seen in (tuple(scene.picture(seed, grid) for seed, grid in some) for some in ALBUM):
        prompt = rng.choice(words, 2).tolist()
        for picture in seen:
            prompt += [*rng.choice(words, 1).tolist(), *[scene.places.token] * scene.rows_of(picture)]
        prompts.append(prompt + rng.choice(words, 3).tolist())
        pictures.append(seen)
    return prompt_batch(prompts, begins, pictures)


def _in_file(encoding: Encoding, options: ExportOptions) -> Encoding:
    """Return a model that computes as its file does: at accuracy level 4 its products round what goes in."""
    if options.accuracy_level == 1:
        return encoding
    from posenc_export.proof.recording.rounded_inputs import with_rounded_inputs

    return with_rounded_inputs(encoding)


def _precision(target: Target, options: ExportOptions) -> str:
    """Return what a model computes in, in words: int4, int4 at accuracy level 4."""
    return target.precision + (f" at accuracy level {options.accuracy_level}" if options.accuracy_level != 1 else "")


def _tokens_of_float32(target: Target, writer: TokenWriter, prompts: Generation, precision: str) -> tuple[str, ...]:
    """Return a line on the tokens of a model in half precision or of few bits, led along those of float32."""
    if target.precise is None:
        return ()
    precise = target.precise()
    in_float32 = _writer(precise, [make().encoding for make in precise.others])
    found = precision_cost(writer, in_float32, prompts, target.generates)
    words = (
        f"of {found.count} tokens that the model writes in float32, it writes {found.count - len(found.changed)} in "
        f"{precision}; a logit is off by {found.off:.1e} of the largest"
    )
    return (f"{words}; {found.changed[0]}" if found.changed else words,)


def _beside_float32(target: Target, options: ExportOptions) -> tuple[str, ...]:
    """Return a line on how far off a model is that writes no tokens, in half precision or of few bits."""
    if target.precise is None:
        return ()
    precise = target.precise()
    encoding = _in_file(target.encoding, options)
    sizes = trace_sizes(encoding.inputs, dims_of(encoding.module), target.spec.max_len)
    feeds = feeds_for(precise.encoding.inputs, Case("beside float32", sizes), options.seed)
    ours, theirs = (
        _callee(one).call({port.name: feeds[port.name].astype(numpy_dtype(port.dtype)) for port in one.inputs})
        for one in (encoding, precise.encoding)
    )
    shares = {name: np.abs(ours[name] - expected).max() / np.abs(expected).max() for name, expected in theirs.items()}
    words = ", ".join(f"{name} by {share:.1e}" for name, share in shares.items())
    return (f"in {_precision(target, options)} it is off, of the largest in float32: {words}",)


def _callee(encoding: Encoding) -> Callee:
    """Return an eager module that can be called by names."""
    module, inputs = encoding.uncalled().module, encoding.inputs

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        results = call_on_arrays(module, [feeds[port.name] for port in inputs])
        return {port.name: array for port, array in zip(encoding.outputs, results, strict=True)}

    return Callee(call, inputs)
