"""Each attention is accounted for: queries and keys are turned alike, once, token by token, and values are left."""

import json
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

from helpers.foreign.files import foreign_files
from helpers.foreign.read import inspected
from helpers.shared import one_of_each
from helpers.small_decoders import Decoder, neighbours, saved, unsigned
from posenc_export.read.comparing.config import compare_config
from posenc_export.read.inspection import Inspection

CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
}


def said(inspection: Inspection, name: str = "sides") -> list[str]:
    """The errors of one name, in words."""
    return [entry.detail for entry in inspection.findings if entry.name == name and entry.severity == "error"]


class QueryOnly(Decoder):
    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.rotate(q, self.angles(positions)), k, v


class KeyOnly(Decoder):
    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return q, self.rotate(k, self.angles(positions)), v


class KeysTwice(Decoder):
    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angles = self.angles(positions)
        return self.rotate(q, angles), self.rotate(self.rotate(k, angles), angles), v


class KeysFurtherOn(Decoder):
    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.rotate(q, self.angles(positions)), self.rotate(k, self.angles(positions + 1)), v


class KeysOfAnotherBase(Decoder):
    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angles = self.angles(positions)
        return self.rotate(q, angles), self.rotate(k, angles * 0.5), v


class KeysBackward(Decoder):
    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.rotate(q, self.angles(positions)), self.rotate(k, self.angles(-positions)), v


class Values(Decoder):
    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angles = self.angles(positions)
        return self.rotate(q, angles), self.rotate(k, angles), self.rotate(v, angles)


class Heads(Decoder):
    """Each head is turned by its own number."""

    def angles(self, positions: Tensor) -> Tensor:
        angles = torch.arange(self.heads)[:, None, None].float() * self.inv_freq  # type: ignore[operator]
        return torch.cat([angles, angles], -1) + 0 * positions[:, None, :, None]


class Warped(Decoder):
    """Turned by a power of the position, which no scheme has."""

    def angles(self, positions: Tensor) -> Tensor:
        angles = positions[:, None, :, None].float() ** 1.5 * self.inv_freq  # type: ignore[operator]
        return torch.cat([angles, angles], -1)


class Mixed(Decoder):
    """Cosines are laid out as halves, features as neighbours."""

    turn = staticmethod(neighbours)


class MixedBack(Decoder):
    layout = "interleaved"


class Unsigned(Decoder):
    turn = staticmethod(unsigned)


class HalfOfTheKeys(Decoder):
    """Half of the features of keys are turned, and all of those of queries."""

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angles = self.angles(positions)
        turned = self.rotate(k, angles)
        return self.rotate(q, angles), torch.cat([turned[..., :8], k[..., 8:]], -1), v


WRONG: dict[str, tuple[Decoder, str]] = {
    "query-only": (QueryOnly(), "layers 0-1: queries are turned, and keys are not"),
    "key-only": (KeyOnly(), "layers 0-1: keys are turned, and queries are not"),
    "twice": (KeysTwice(), "layers 0-1: keys are turned twice"),
    "further-on": (KeysFurtherOn(), "other angles than queries: keys are 1 position further on"),
    "base": (KeysOfAnotherBase(), "layers 0-1: keys are turned by other angles than queries"),
    "backward": (KeysBackward(), "other angles than queries: in the other direction"),
    "values": (Values(), "layers 0-1: values are turned: only queries and keys should be"),
    "heads": (Heads(), "queries are turned alike at every token: angles go along an axis that is not that of tokens"),
    "heads-of-six": (Heads(heads=6), "queries are turned alike at every token"),
    "mixed": (Mixed(), "the two features of a pair are turned by two angles"),
    "mixed-back": (MixedBack(), "the two features of a pair are turned by two angles"),
    "unsigned": (Unsigned(), "sines have one sign in both features of a pair"),
    "half-of-the-keys": (HalfOfTheKeys(), "layers 0-1: queries are turned, and keys are not in 8 of 16 features"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_an_attention_is_an_error(name: str, tmp_path: Path) -> None:
    model, words = WRONG[name]
    found = said(inspected(saved(model, tmp_path / "wrong.onnx")))
    assert any(words in text for text in found), found


class Partial(Decoder):
    """Queries and keys, of which half of the features pass."""

    def __init__(self) -> None:
        super().__init__(width=8)


class Normed(Decoder):
    """Norms after the rotation, as HunYuan has them."""

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().sides(q, k, v, positions)
        q, k = (x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() for x in (q, k))
        return q, k, v


class Grouped(Decoder):
    """Keys of one head, which all queries share."""

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angles = self.angles(positions)
        k, v = self.rotate(k[:, :1], angles), v[:, :1]
        return self.rotate(q, angles), k.expand(-1, self.heads, -1, -1), v.expand(-1, self.heads, -1, -1)


class Shared(Decoder):
    """Multi-head latent attention: a part of each head has no positions, and keys share the part that is turned."""

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angles = self.angles(positions)
        shared = self.rotate(k[:, :1], angles).expand(-1, self.heads, -1, -1)
        return torch.cat([q, self.rotate(q, angles)], -1), torch.cat([k, shared], -1), v


class Scattered(Decoder):
    """Keys whose parts are written into an empty tensor, as DeepSeek has them."""

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angles = self.angles(positions)
        queries = torch.cat([q, self.rotate(q, angles)], -1)
        keys = torch.empty_like(queries)
        keys[..., : self.head] = k
        keys[..., self.head :] = self.rotate(k[:, :1], angles)
        return queries, keys, v


class Nope(Decoder):
    """Every second layer has no positions."""

    count = 0

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.count += 1
        return super().sides(q, k, v, positions) if self.count % 2 else (q, k, v)


class Packed(Decoder):
    """Queries, keys and values are one tensor, of which the first two thirds are turned."""

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        turned = self.rotate(torch.cat([q, k], 1), self.angles(positions))
        packed = torch.cat([turned, v], 1)
        return tuple(packed.split(self.heads, 1))


class Written(Decoder):
    """Keys lie behind others that were there before."""

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().sides(q, k, v, positions)
        return q, torch.cat([k[:, :, :1] * 0, k], 2), torch.cat([v[:, :, :1] * 0, v], 2)


class Across(Decoder):
    """The second attention takes the keys of tokens that have no positions."""

    count = 0

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.count += 1
        return super().sides(q, k, v, positions) if self.count % 2 else (q, k.flip(2), v)


class Neighbours(Decoder):
    turn = staticmethod(neighbours)
    layout = "interleaved"


class Weighted(Decoder):
    """Queries are scaled by their position, as Llama 4 does."""

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().sides(q, k, v, positions)
        return q * (1 + 0.1 * torch.log1p(positions.float()))[:, None, :, None], k, v


RIGHT: dict[str, Decoder] = {
    "plain": Decoder(),
    "partial": Partial(),
    "norms": Normed(),
    "grouped": Grouped(),
    "latent": Shared(),
    "scattered": Scattered(),
    "nope": Nope(),
    "packed": Packed(),
    "written": Written(),
    "across": Across(),
    "neighbours": Neighbours(),
    "scaled": Weighted(),
}


@pytest.mark.parametrize("newer", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["old", "new"])
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_has_no_error(name: str, newer: bool, tmp_path: Path) -> None:
    if name == "scattered" and not newer:
        pytest.skip("the exporter of old fixes the batch of a tensor that is written into")
    inspection = inspected(saved(RIGHT[name], tmp_path / "right.onnx", newer=newer))
    assert [entry for entry in inspection.findings if entry.severity == "error"] == []
    assert inspection.attended[0].queries
    assert inspection.attended[0].keys
    assert not any(entry.values for entry in inspection.attended)


def test_an_attention_says_which_nodes_turn_it(tmp_path: Path) -> None:
    (first, second) = inspected(saved(Decoder(), tmp_path / "right.onnx")).attended
    assert (first.layer, second.layer) == (0, 1)
    assert len({*first.queries, *first.keys, *second.queries, *second.keys}) == 4


def test_heads_turned_by_their_own_number_are_an_error(tmp_path: Path) -> None:
    """The numbers are those of rope, and they go along heads."""
    inspection = inspected(saved(Heads(), tmp_path / "heads.onnx"))
    errors = [e.detail for e in inspection.findings if e.severity == "error"]
    assert len(errors) == 2
    assert all("turned alike at every token: angles go along an axis that is not that of tokens" in e for e in errors)


def test_a_rotation_that_is_not_recognised_is_an_error_with_a_config(tmp_path: Path) -> None:
    """What was not judged is no pass where a config says what should be there."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    inspection = inspected(saved(Warped(), tmp_path / "warped.onnx"))
    (absent,) = [e for e in compare_config(inspection, tmp_path)[0] if e.name == "parameter"]
    assert (absent.severity, "not judged" in absent.detail) == ("error", True)


MODELS = ("llama", "gptj", "gpt_neox", "qwen2", "smollm3", "roformer")


@pytest.mark.parametrize(
    ("model", "optimizers"), one_of_each([("llama", ("",)), *((model, None) for model in MODELS)], lambda _: None)
)
def test_files_of_other_exporters_turn_queries_and_keys(model: str, optimizers: tuple[str, ...] | None) -> None:
    """Every exporter, and every optimizer: no false finding, and as many attentions as layers."""
    for path, truth in foreign_files([model], optimizers=optimizers, faulty=False):
        inspection = inspected(path)
        assert said(inspection) == [], truth.file
        turned = [bool(e.queries) == bool(e.keys) for e in inspection.attended]
        assert all(turned), truth.file


def test_nodes_that_no_output_needs_encode_nothing(tmp_path: Path) -> None:
    """A rotation whose result nobody takes, as a broken optimizer leaves it, is none."""
    path = saved(Decoder(), tmp_path / "dead.onnx")
    before = inspected(path)
    model = onnx.load(path)
    takes = {name: node for node in model.graph.node for name in node.input}
    sums = [node for node in model.graph.node if node.op_type == "Add" and takes.get(node.output[0])]
    turned = {name for entry in before.attended for name in (*entry.queries, *entry.keys)}
    multiplied = {node.output[0]: node for node in model.graph.node if node.name in turned}
    for entry in sums:
        if entry.input[0] in multiplied:
            source = multiplied[entry.input[0]].input[0]
            for node in model.graph.node:
                node.input[:] = [source if name == entry.output[0] else name for name in node.input]
    onnx.save(model, path)
    assert [e for e in inspected(path).encodings if e.family == "rotary"] == []


class PutTogether(Decoder):
    """Keys are written feature by feature into an empty tensor, as DeepSeek has them: a part of them is turned."""

    part = 8

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angles = self.angles(positions)
        queries = torch.cat([q, self.rotate(q, angles)], -1)
        keys = k.new_empty(*k.shape[:-1], 2 * self.head)
        keys[..., : self.head] = k
        keys[..., self.head :] = self.rotate(k, angles) if self.part else k
        return queries, keys, v


class PutWithoutTurning(PutTogether):
    part = 0


@pytest.mark.parametrize("newer", [False, True], ids=["old", "new"])
def test_keys_that_are_put_together_from_two_parts_are_followed(newer: bool, tmp_path: Path) -> None:
    right = inspected(saved(PutTogether(), tmp_path / "right.onnx", newer=newer))
    assert [entry.detail for entry in right.findings if entry.name == "sides"] == []
    wrong = said(inspected(saved(PutWithoutTurning(), tmp_path / "wrong.onnx", newer=newer)))
    assert any("queries are turned, and keys are not" in text for text in wrong), wrong


class SummedByLetters(Decoder):
    """Queries and keys are (batch, tokens, heads, features), and an Einsum says what is summed, as Keras has it."""

    later = 0

    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        x: Tensor = self.words(input_ids)
        for layer in self.layers:
            q, k, v = layer(x).unflatten(-1, (3, self.heads, self.head)).unbind(2)
            q, k = (
                self.rotate(part, self.angles(position_ids + more).transpose(1, 2))
                for part, more in ((q, 0), (k, self.later))
            )
            scores = torch.einsum("btnh,bsnh->bnts", q, k).softmax(-1)
            x = x + torch.einsum("bnts,bsnh->btnh", scores, v).flatten(2)
        return x


class SummedFurtherOn(SummedByLetters):
    later = 1


def test_tokens_of_an_einsum_stand_where_its_letters_say(tmp_path: Path) -> None:
    right = inspected(saved(SummedByLetters(), tmp_path / "right.onnx"))
    assert (said(right), [entry.layers for entry in right.encodings]) == ([], [(0, 1)])
    wrong = said(inspected(saved(SummedFurtherOn(), tmp_path / "wrong.onnx")))
    assert wrong
    assert all("keys are turned by other angles than queries: keys are 1 position further on" in one for one in wrong)


class Scaled(Decoder):
    """Products with cosines and sines are multiplied by one number each, as x-transformers has it."""

    def rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * angles.cos() * 1.25 + torch.cat([-second, first], -1) * angles.sin() * 1.25


class SideBySide(Decoder):
    """Cosines and sines are stored pair by pair, (rows, pairs, 2), as torchtune has them."""

    turn = staticmethod(neighbours)

    def __init__(self) -> None:
        super().__init__()
        angles = torch.arange(48)[:, None] * self.get_buffer("inv_freq")
        self.register_buffer("cache", torch.stack([angles.cos(), angles.sin()], -1))

    def rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        rows = self.get_buffer("cache")[angles.long().flatten()].unflatten(0, angles.shape)
        pairs = x.unflatten(-1, (-1, 2))
        first, second = pairs[..., 0], pairs[..., 1]
        cos, sin = rows[..., 0], rows[..., 1]
        return torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)

    def angles(self, positions: Tensor) -> Tensor:
        return positions[:, None]


def test_products_that_are_scaled_are_a_rotation(tmp_path: Path) -> None:
    (encoding,) = inspected(saved(Scaled(), tmp_path / "scaled.onnx")).encodings
    assert (encoding.family, encoding.layers, encoding.parameters["attention_factor"]) == ("rotary", (0, 1), 1.25)


def test_a_table_of_pairs_has_its_rows(tmp_path: Path) -> None:
    (encoding,) = inspected(saved(SideBySide(), tmp_path / "pairs.onnx")).encodings
    assert (encoding.family, encoding.rows, encoding.parameters["layout"]) == ("rotary", 48, "interleaved")


class Routed(Decoder):
    """Behind each attention a router chooses among experts, token by token: its Softmax is no attention."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, 4)

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().sides(q, k, v, positions)
        share = self.router(v.transpose(1, 2).flatten(2)).softmax(-1)
        return q, k, v * share[..., :1][:, None]


def test_routers_of_experts_are_no_layers(tmp_path: Path) -> None:
    inspection = inspected(saved(Routed(), tmp_path / "routed.onnx"))
    assert (inspection.attentions, [entry.layers for entry in inspection.encodings]) == (2, [(0, 1)])
