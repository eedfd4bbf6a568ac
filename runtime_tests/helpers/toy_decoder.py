"""A bundle of a causal language model so small that NumPy says by hand what it writes: one attention, one head."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import MANIFEST, file_of, sha256, write_json
from posenc_export.bundle.golden import GOLDEN
from posenc_export.bundle.identity import PREFIX
from posenc_export.bundle.manifest import SCHEMA_VERSION, Artifact, Generation, Manifest
from posenc_export.write.inputs.ports import parse_ports

VOCABULARY, WIDTH, POSITIONS = 11, 4, 32
ID = "5" * 64
"""The digest of no facts: a class in C++ takes a graph of its own id alone."""
INPUTS = (
    f"input_ids: int64[batch_size, seq] < {VOCABULARY}",
    "attention_mask: int64[batch_size, past+seq] mask",
    f"position_ids: int64[batch_size, seq] positions < {POSITIONS}",
    f"past_key_values.0.key: float32[batch_size, 1, past, {WIDTH}]",
    f"past_key_values.0.value: float32[batch_size, 1, past, {WIDTH}]",
)
OUTPUTS = (
    f"logits: float32[batch_size, seq, {VOCABULARY}]",
    f"present.0.key: float32[batch_size, 1, past+seq, {WIDTH}]",
    f"present.0.value: float32[batch_size, 1, past+seq, {WIDTH}]",
)
OF_STATES = (
    "encoder_attention_mask: int64[batch_size, cached+fresh] mask",
    f"encoder_hidden_states: float32[batch_size, cached+fresh, {WIDTH}]",
    f"past_key_values.0.encoder.key: float32[batch_size, 1, cached, {WIDTH}]",
    f"past_key_values.0.encoder.value: float32[batch_size, 1, cached, {WIDTH}]",
)
KEPT_OF_STATES = (
    f"present.0.encoder.key: float32[batch_size, 1, cached+fresh, {WIDTH}]",
    f"present.0.encoder.value: float32[batch_size, 1, cached+fresh, {WIDTH}]",
)
PROMPTS = ((3, 4, 9, 8, 8, 2), (1,), (7, 7, 7, 2, 10, 4, 0, 1, 5))
DRAWN = np.random.default_rng(3)
QUERIES, KEYS, VALUES = (DRAWN.normal(size=(VOCABULARY, WIDTH)).astype(np.float32) for _ in range(3))
PLACES = DRAWN.normal(size=(POSITIONS, WIDTH)).astype(np.float32)
HEAD = DRAWN.normal(size=(WIDTH, VOCABULARY)).astype(np.float32)
NODES = """
    Gather(queries, input_ids) -> q; Gather(places, position_ids) -> place; Add(q, place) -> q_placed
    Gather(keys, input_ids) -> k; Add(k, place) -> k_placed; Unsqueeze(k_placed, one) -> k_new
    Concat(past_key_values.0.key, k_new) -> present.0.key; Squeeze(present.0.key, one) -> k_all
    Gather(values, input_ids) -> v; Unsqueeze(v, one) -> v_new
    Concat(past_key_values.0.value, v_new) -> present.0.value; Squeeze(present.0.value, one) -> v_all
    Transpose(k_all) -> k_turned; MatMul(q_placed, k_turned) -> scores
    Cast(attention_mask) -> seen; Sub(seen, 1.0) -> hidden; Mul(hidden, 1e9) -> away; Unsqueeze(away, one) -> aside
    Add(scores, aside) -> scores_seen; Softmax(scores_seen) -> weights; MatMul(weights, v_all) -> mixed
    MatMul(mixed, head) -> logits
"""
NODES_OF_STATES = """
    Shape(past_key_values.0.encoder.key) -> cached_sizes; Gather(cached_sizes, two) -> cached
    Slice(encoder_hidden_states, cached, end, one) -> fresh
    MatMul(fresh, state_keys) -> key_new; Unsqueeze(key_new, one) -> key_fresh
    Concat(past_key_values.0.encoder.key, key_fresh) -> present.0.encoder.key
    MatMul(fresh, state_values) -> value_new; Unsqueeze(value_new, one) -> value_fresh
    Concat(past_key_values.0.encoder.value, value_fresh) -> present.0.encoder.value
    Squeeze(present.0.encoder.key, one) -> states_k; Transpose(states_k) -> states_k_turned
    Squeeze(present.0.encoder.value, one) -> states_v
    MatMul(q_placed, states_k_turned) -> states_scores
    Cast(encoder_attention_mask) -> states_seen; Sub(states_seen, 1.0) -> states_hidden
    Mul(states_hidden, 1e9) -> states_away
    Unsqueeze(states_away, one) -> states_aside; Add(states_scores, states_aside) -> states_scores_seen
    Softmax(states_scores_seen) -> states_weights; MatMul(states_weights, states_v) -> states_mixed
    Add(mixed, states_mixed) -> mixed_of_both
    MatMul(mixed_of_both, head) -> logits
"""
STATE_KEYS, STATE_VALUES = (DRAWN.normal(size=(WIDTH, WIDTH)).astype(np.float32) for _ in range(2))
ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    **{"Concat": {"axis": 2}, "Transpose": {"perm": [0, 2, 1]}},
    **{"Cast": {"to": 1}, "Softmax": {"axis": -1}},
}


def written(prompt: Sequence[int], count: int) -> list[int]:
    """Return the tokens that the model writes behind a prompt, by NumPy: each from all of the text before it."""
    text = list(prompt)
    for _ in range(count):
        scores = (QUERIES[text[-1]] + PLACES[len(text) - 1]) @ (KEYS[text] + PLACES[: len(text)]).T
        weights = np.exp(scores - scores.max())
        text.append(int((weights / weights.sum() @ VALUES[text] @ HEAD).argmax()))
    return text[len(prompt) :]


def states_of(texts: int, tokens: int) -> np.ndarray:
    """Return the states of an encoder that attending.cpp makes, (texts, tokens, features)."""
    places = np.arange(texts * tokens * WIDTH)
    return ((places * 37 + 11) % 64 / 32 - 1).astype(np.float32).reshape(texts, tokens, WIDTH)


def written_behind(states: np.ndarray, mask: Sequence[int], prompt: Sequence[int], count: int) -> list[int]:
    """Return the tokens that the model writes behind a prompt and the states of an encoder, (tokens, features)."""
    text, states = list(prompt), states[np.array(mask) == 1]
    for _ in range(count):
        query = QUERIES[text[-1]] + PLACES[len(text) - 1]
        mixed = np.zeros(WIDTH)
        for keys, values in (
            (KEYS[text] + PLACES[: len(text)], VALUES[text]),
            (states @ STATE_KEYS, states @ STATE_VALUES),
        ):
            weights = np.exp(query @ keys.T - (query @ keys.T).max())
            mixed += weights / weights.sum() @ values
        text.append(int((mixed @ HEAD).argmax()))
    return text[len(prompt) :]


def save(
    folder: Path,
    *,
    generations: bool = True,
    rows: int = 0,
    last: bool = False,
    in_place: bool = False,
    states: bool = False,
) -> None:
    """Write the bundle: its graph, its manifest, and golden data of no case.

    Args:
        folder: Where.
        generations: Whether with the texts that it must write.
        rows: How many positions a token has, all alike, as in models of text with images; 0: one, without an axis.
        last: Whether it gives the logits of the last token alone.
        in_place: Whether its attention is GroupQueryAttention, whose past and present may share a buffer.
        states: Whether its tokens attend to states of an encoder, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    inputs = (
        tuple(text.replace("position_ids: int64[", f"position_ids: int64[{rows}, ") for text in INPUTS)
        if rows
        else INPUTS
    )
    outputs = tuple(text.replace("seq, 11", "1, 11") if last else text for text in OUTPUTS)
    if in_place:  # the operator wants heads of 8 features, or of 16
        inputs, outputs = (
            tuple(text.replace(f", {WIDTH}]", f", {2 * WIDTH}]") for text in texts) for texts in (inputs, outputs)
        )
    if states:
        inputs, outputs = (*inputs, *OF_STATES), (*outputs, *KEPT_OF_STATES)
    graph = _graph_in_place(inputs, outputs) if in_place else _graph(inputs, outputs, rows)
    onnx.save(graph, folder / "model.onnx")
    np.savez(folder / GOLDEN)
    path = folder / "model.onnx"
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        scheme="toy:text-generation",
        family="module",
        params={},
        mode="dynamic",
        method=None,
        positions=None,
        max_len=8,
        dtype="float32",
        opset=18,
        opset_reason="made by hand",
        ir_version=8,
        loads_on="ONNX Runtime >= 1.15",
        inputs=parse_ports(inputs),
        outputs=parse_ports(outputs),
        artifacts=(Artifact("onnx", path.name, path.stat().st_size, sha256(path), None),),
        files=(file_of(folder, folder / GOLDEN),),
        generations=tuple(_generation(prompts) for prompts in (PROMPTS[:1], PROMPTS[1:2], PROMPTS) if generations),
        cases=(Case("two", {"batch_size": 2, "seq": 3, "past": 2, **({"cached": 1, "fresh": 1} if states else {})}),),
        trace={},
        reference="NumPy",
        versions={},
        not_tried=(),
        notes=(),
        rotary_op="decomposed",
        half_safe="",
        id=ID,
        origin={},
    )
    write_json(folder / MANIFEST, manifest.to_json())


def _generation(prompts: tuple[tuple[int, ...], ...]) -> Generation:
    return Generation(prompts, tuple(tuple(written(prompt, 20)) for prompt in prompts))


def _graph(inputs: tuple[str, ...], outputs: tuple[str, ...], rows: int) -> onnx.ModelProto:
    tensors = {"queries": QUERIES, "keys": KEYS, "values": VALUES, "places": PLACES, "head": HEAD}
    numbers = {"one": np.array([1]), "1.0": np.float32(1), "1e9": np.float32(1e9)}
    nodes = []
    texts = NODES
    if len(inputs) > len(INPUTS):
        texts = NODES.replace("MatMul(mixed, head) -> logits", "") + NODES_OF_STATES
        tensors |= {"state_keys": STATE_KEYS, "state_values": STATE_VALUES}
        numbers |= {"two": np.array([2]), "end": np.array([2**60])}
    if rows:  # the last of them: any other would do
        tensors["last"] = np.array(rows - 1)
        nodes.append(helper.make_node("Gather", ["position_ids", "last"], ["position_row"]))
    for text in texts.replace("\n", ";").split(";"):
        if text.strip():
            call, output = text.strip().split(" -> ")
            operator, _, given = call.rstrip(")").partition("(")
            taken = ["position_row" if rows and name == "position_ids" else name for name in given.split(", ")]
            nodes.append(helper.make_node(operator, taken, [output], **ATTRIBUTES.get(operator, {})))
    if outputs[: len(OUTPUTS)] != OUTPUTS:
        tensors["end"] = np.array([-1])
        nodes[-1].output[0] = "every"
        nodes.append(helper.make_node("Gather", ["every", "end"], ["logits"], axis=1))
    made = [numpy_helper.from_array(np.asarray(array), name) for name, array in {**tensors, **numbers}.items()]
    graph = helper.make_graph(nodes, "toy", _values(inputs), _values(outputs), made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    helper.set_model_props(model, {f"{PREFIX}id": ID})
    return model


NODES_IN_PLACE = """
    Gather(queries, input_ids) -> q; Gather(places, position_ids) -> place; Add(q, place) -> q_placed
    Gather(keys, input_ids) -> k; Add(k, place) -> k_placed; Gather(values, input_ids) -> v
    Shape(attention_mask) -> sizes; Gather(sizes, text) -> texts; Gather(sizes, one) -> all; Cast(all) -> total
    Sub(total, least) -> last; Expand(last, texts) -> places_of_last
    Cast(attention_mask) -> seen; Sub(seen, 1.0) -> hidden; Mul(hidden, 1e9) -> away; Unsqueeze(away, axes) -> aside
    Shape(input_ids) -> queries_sizes; Gather(queries_sizes, one) -> count; Concat(count, one) -> rows
    Expand(aside, rows) -> bias
"""


def _graph_in_place(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> onnx.ModelProto:
    tensors = {"queries": QUERIES, "keys": KEYS, "values": VALUES, "places": PLACES}
    wide = {name: np.pad(array, [(0, 0), (0, WIDTH)]) for name, array in tensors.items()}
    numbers = {"one": np.array([1]), "text": np.array([0]), "least": np.array([1], np.int32), "axes": np.array([1, 2])}
    floats = {"1.0": np.float32(1), "1e9": np.float32(1e9), "head": np.pad(HEAD, [(0, WIDTH), (0, 0)])}
    nodes = []
    for text in NODES_IN_PLACE.replace("\n", ";").split(";"):
        if text.strip():
            call, output = text.strip().split(" -> ")
            operator, _, given = call.rstrip(")").partition("(")
            of_cast = {"to": TensorProto.INT32 if output == "total" else TensorProto.FLOAT}
            known: Mapping[str, Mapping[str, Any]] = {"Cast": of_cast, "Concat": {"axis": 0}}
            attributes = known.get(operator, {})
            nodes.append(helper.make_node(operator, given.split(", "), [output], **attributes))
    past = ["past_key_values.0.key", "past_key_values.0.value"]
    taken = ["q_placed", "k_placed", "v", *past, "places_of_last", "total", "", "", "", "bias"]
    given_out = ["mixed", "present.0.key", "present.0.value"]
    attention = helper.make_node("GroupQueryAttention", taken, given_out, domain="com.microsoft", num_heads=1)
    attention.attribute.extend([helper.make_attribute("kv_num_heads", 1), helper.make_attribute("scale", 1.0)])
    nodes.append(attention)
    nodes.append(helper.make_node("MatMul", ["mixed", "head"], ["logits"]))
    made = [numpy_helper.from_array(np.asarray(array), name) for name, array in {**wide, **numbers, **floats}.items()]
    graph = helper.make_graph(nodes, "toy", _values(inputs), _values(outputs), made)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    helper.set_model_props(model, {f"{PREFIX}id": ID})
    return model


def _values(texts: Sequence[str]) -> list[onnx.ValueInfoProto]:
    kinds = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT}
    return [
        helper.make_tensor_value_info(port.name, kinds[port.dtype], [axis.size or axis.name for axis in port.axes])
        for port in parse_ports(tuple(texts))
    ]
