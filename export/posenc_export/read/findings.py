"""Findings of `posenc inspect`, for `posenc explain` and docs/reference/checks.md: a code, a name and words for each.

A code never changes, and is not given again when its finding is gone: scripts ask for codes with `--fail-on`.
"""

from __future__ import annotations

from posenc.registry import Registry
from posenc_export.common.explanations import Explanation, Words
from posenc_export.read.inspection import Finding, Severity

FINDINGS: Registry[Explanation] = Registry("finding")
USUAL: dict[str, Severity] = {}
"""How grave a finding is by default, by its name."""


def finding_words() -> list[Explanation]:
    """Return the words of every finding, by their codes."""
    return sorted(FINDINGS.values(), key=lambda entry: entry.code)


def finding(name: str, where: str, detail: str, severity: Severity | None = None) -> Finding:
    """Return a finding of a name.

    Args:
        name: a name of this catalogue.
        where: the nodes or tensors that it is about.
        detail: what is so, with its numbers: a sentence without a full stop.
        severity: where it differs from what is usual for the name.
    """
    return Finding(FINDINGS[name].code, name, severity or USUAL[name], where, detail)


def _finding(name: str, severity: Severity, words: Words) -> None:
    FINDINGS.add(name, Explanation(**vars(words), name=name))
    USUAL[name] = severity


_finding(
    "ends",
    "note",
    Words(
        code="PE201",
        asks="Up to which length does the file give right positions, and does it refuse what is longer?",
        failure="The positions end there: a longer call is refused, with the error of the node that is named",
        remedy="Cut calls to that length; or write more rows: posenc extend MODEL.onnx --max-len N -o OUT.onnx.",
        example="a table of 512 rows, made when the model was traced, of a model that was trained for 8192",
    ),
)
_finding(
    "wrong-beyond",
    "error",
    Words(
        code="PE202",
        asks="Does the file run beyond the last length at which its positions are right?",
        failure="A longer call gets wrong numbers and no error: positions are repeated, broadcast or read past the end",
        remedy="Refuse longer calls in the program that runs it; or write more rows: posenc extend MODEL.onnx "
        "--max-len N -o OUT.onnx.",
        example="a bias of 256 keys that is broadcast over 257, so that each key gets the bias of one",
    ),
)
_finding(
    "fixed-axis",
    "note",
    Words(
        code="PE203",
        asks="Is the length, or the batch, of an input of tokens one fixed number?",
        failure="The file takes calls of this size alone; others are refused by the runtime",
        remedy="Export again with dynamic axes; or pad every call to this size and mask the rest.",
        example="input_ids of [1, 512], traced without dynamic_shapes",
    ),
)
_finding(
    "off-formula",
    "error",
    Words(
        code="PE204",
        asks="Are the position numbers those of their closed form, in float64, up to the bound?",
        failure="From the named position on, numbers are off by more than the bound, which --fail-above changes",
        remedy="Compute angles in float64, or by posenc extend MODEL.onnx --exact -o OUT.onnx. Compute the biases of "
        "ALiBi in float32.",
        example="angles in float32, off by 0.008 at position 131,071",
    ),
)
_finding(
    "half-noise",
    "error",
    Words(
        code="PE205",
        asks="Are angles, or the logarithms of T5's distances, computed in float16 or bfloat16?",
        failure="A half holds whole numbers up to 2048 (bfloat16: 256): from the named position on, angles are noise; "
        "a distance on the edge between two rows gets the one or the other, as a runtime rounds",
        remedy="Keep the nodes of the angles in float32 when converting; or posenc extend MODEL.onnx --exact "
        "-o OUT.onnx.",
        example="a whole model converted to bfloat16, positions included: position 257 is 256",
    ),
)
_finding(
    "no-position",
    "error",
    Words(
        code="PE206",
        asks="Do the rows of different positions differ?",
        failure="Every position gets the same row, so that the file does not know the order of its tokens",
        remedy="Look at inv_freq, or at the table, in the exporting program: it was mostly never filled in.",
        example="inv_freq of zeros after an export: cos is 1 and sin is 0 everywhere",
    ),
)
_finding(
    "shared-table",
    "error",
    Words(
        code="PE207",
        asks="Do layers that should have tables of their own share one?",
        failure="An optimizer has put the table of one layer in the place of another's: that layer rotates wrongly",
        remedy="Optimise without the fusion of rotary embeddings; or report it to the optimizer with this line.",
        example="ONNX Runtime's FusionRotaryEmbeddings on layers with bases 10000 and 1000000: one table, base 10000",
    ),
)
_finding(
    "parameter",
    "error",
    Words(
        code="PE208",
        asks="Are the parameters those that the model's config says, layer by layer?",
        failure="The file has another encoding than its model: the line names the parameter and both values",
        remedy="Report it to the exporter; where the config is not that of this file, give the right one.",
        example="attention factor 1 in the file, 1.4159 in a config with YaRN",
    ),
)
_finding(
    "batch-of-one",
    "error",
    Words(
        code="PE209",
        asks="Do position ids have a row for each sequence of a batch where an operator wants that?",
        failure="The ids are made for batch 1, and the operator does not broadcast: larger batches are refused",
        remedy="Give the operator one start instead, or expand the ids to the batch; or call with batch 1 alone.",
        example="com.microsoft.RotaryEmbedding with position_ids of [1, seq], fused from cache_position.unsqueeze(0)",
    ),
)
_finding(
    "rejected-form",
    "warning",
    Words(
        code="PE210",
        asks="Is each rotary operator in a form that every runtime with that operator takes?",
        failure="Some releases of runtimes refuse the file, or fuse the operator wrongly, because of this form",
        remedy="Give the operator its position ids; or export with plain operators, and let the runtime fuse them.",
        example="ai.onnx.RotaryEmbedding without position_ids, with caches of three axes",
    ),
)
_finding(
    "missing-data",
    "warning",
    Words(
        code="PE211",
        asks="Are the external data beside the ONNX file?",
        failure="Tables and frequencies in these files cannot be read: what depends on them is not named",
        remedy="Put the files that are named beside the ONNX file, under the names that it gives them.",
        example="model.onnx copied without model.onnx.data",
    ),
)
_finding(
    "not-recognised",
    "note",
    Words(
        code="PE212",
        asks="Is every value a known encoding that depends on positions and is combined with data?",
        failure="These numbers are none of the known forms: nothing is said of whether they are right",
        remedy="Nothing, if they are no positional encoding; else --explain says how near formulas came: report it.",
        example="a mask of distances that a model computes in a way of its own",
    ),
)
_finding(
    "differs",
    "error",
    Words(
        code="PE213",
        asks="Does the file hold the same encodings, layer by layer, as the one given with --against?",
        failure="What changed the file changed its positions: the line names what was there before, and what is now",
        remedy="Leave out the optimizer's or quantizer's step that did it; or report it with this line.",
        example="rotary tables of 4096 rows before, of 2048 after an optimizer",
    ),
)
_finding(
    "layers",
    "error",
    Words(
        code="PE214",
        asks="Do the layers that the config names have positions, and no others?",
        failure="A layer has positions and should have none, or lacks them: it attends otherwise than in training",
        remedy="Report it to the exporter with the layers that the line names.",
        example="no_rope_layers of SmolLM3 read the other way round: three of four layers without positions",
    ),
)
_finding(
    "never-runs",
    "error",
    Words(
        code="PE215",
        asks="Is there a call that the file takes?",
        failure="A node refuses every call: its sizes fit at no length and no batch, or all sizes are fixed and misfit",
        remedy="Export again, with another exporter or another opset: torch.onnx.export(dynamo=True) writes most of "
        "what the TorchScript-based one writes wrongly. Run the file once before it is shipped.",
        example="a Reshape of (1, 13, 96) to [3, 2, 16, 13, 96], from repeat_interleave in an old exporter",
    ),
)
_finding(
    "refused",
    "error",
    Words(
        code="PE224",
        asks="Does ONNX Runtime load the file?",
        failure="Its graph is none: its types do not fit, or it has an operator that does not exist",
        remedy="Export again, or undo the last change of the graph; onnx.checker.check_model(FILE, full_check=True) "
        "may say more. What is said of positions below holds of what could be read.",
        example="Add of a float and an integer, after a converter made one of its inputs half precision",
    ),
)
_finding(
    "not-judged",
    "warning",
    Words(
        code="PE216",
        asks="Was everything judged that depends on positions?",
        failure="The named place was not reached, not read, or not in time: whether it is right is not known. It is an "
        "error if --fail-above gives a bound that could not be compared",
        remedy="Give more with --timeout or --memory where the line names a limit; otherwise compare the file with its "
        "model by posenc prove, or report the file.",
        example="a Loop whose number of turns data decide, with positions inside",
    ),
)
_finding(
    "no-rotation",
    "error",
    Words(
        code="PE217",
        asks="Are the tables of a rotary operator cosines and sines of the same angles?",
        failure="cos^2 + sin^2 differs from pair to pair of a row, or is 0 or no number: pairs are stretched",
        remedy="Look where the tables are made in the exporting program: mostly one was cut, filled in by something "
        "else, or never filled in.",
        example="cos_cache and sin_cache of a RotaryEmbedding that hold random numbers",
    ),
)
_finding(
    "not-finite",
    "error",
    Words(
        code="PE218",
        asks="Are all numbers of an encoding finite?",
        failure="A row holds NaN or infinity: outputs are NaN from that position on. It is a warning where ALiBi "
        "in float16 has no number for very long calls",
        remedy="Look where the table is made, in half precision above all: 65504 is the largest number of float16.",
        example="a table of 512 rows of which row 300 is NaN",
    ),
)
_finding(
    "first-position",
    "warning",
    Words(
        code="PE219",
        asks="Is the first token at position 0, and with a cache at the number of cached tokens?",
        failure="Positions begin elsewhere, or a past is not counted: tokens stand at other places than in training",
        remedy="Hold the file against its model: posenc prove, or --config. Where the model counts so, it is right.",
        example="positions of Range(0, length) beside a cache of 7 tokens: each new token is at position 0 again",
    ),
)
_finding(
    "sides",
    "error",
    Words(
        code="PE220",
        asks="Does each attention rotate queries and keys alike, once, token by token, and leave values as they are?",
        failure="A score then depends on more than the distance of two tokens, or on no position at all",
        remedy="Look where the line says: in the module that was exported, or in the optimizer that changed its graph.",
        example="queries that are rotated and keys that are not, after a cache was put between them",
    ),
)
_finding(
    "config",
    "error",
    Words(
        code="PE221",
        asks="Could the file be held against the config that was given?",
        failure="The config is not read, so that nothing is known of whether the file has the encoding of its model",
        remedy="Change the config as the line says; or leave out --config, and look at what the file holds yourself.",
        example="a config.json of a model type of somebody's own, whose rope_scaling has a key that nobody knows",
    ),
)
_finding(
    "not-compared",
    "note",
    Words(
        code="PE222",
        asks="Was the file held against all that the config says of attention?",
        failure="The named settings change what attention computes, and inspect does not look for them in the graph",
        remedy="Hold the file against its model, which compares what it computes: posenc prove FILE --model FOLDER.",
        example="attn_logit_softcapping of Gemma 2, or a window that is wider than the longest call that was tried",
    ),
)
_finding(
    "mixed-tokens",
    "error",
    Words(
        code="PE223",
        asks="Does each row of positions meet the features of one token, in every head?",
        failure="Heads and tokens are mixed: the place at which a token stands depends on its head, and on the length",
        remedy="Split heads by Reshape to [batch, length, heads, features] and Transpose after it; a Reshape alone to "
        "[batch, heads, length, features] takes elements of several tokens for one.",
        example="a rotary operator on three axes whose heads were made by a Reshape without a Transpose",
    ),
)
