"""Learned tables as models have them: rows before position 0, padding of a mask, and several tables of a token."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, GPT2Config, RobertaConfig
from transformers.models.bart.modeling_bart import BartLearnedPositionalEmbedding
from transformers.models.bert.modeling_bert import BertEmbeddings
from transformers.models.gpt2.modeling_gpt2 import GPT2Model
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

import posenc
from helpers.learned_tables import saved, tables
from helpers.shared import Cli
from posenc.spec import Spec, UnsupportedSpec

__all__ = ["tables"]

MASKS = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
"""No padding, left, right, one token, none."""
KEYS = "p,x,y,x,y"


def rows_at(positions: Any, weights: str, *given: Tensor, max_len: int, **params: Any) -> Tensor:
    spec = Spec(positions=positions, max_len=max_len, position_offset=params.pop("position_offset", 0))
    module = posenc.build("learned", spec, weights=weights, output="rows", **params).module
    rows: Tensor = module(*given)
    return rows.detach()


# ---- rows before that of position 0, and padding ---------------------------------------------------------------------


def test_opt(tmp_path: Path) -> None:
    theirs = OPTLearnedPositionalEmbedding(20, 4)
    weights = saved(tmp_path, w=theirs.weight)
    ones, x = torch.ones(1, 7, dtype=torch.int64), torch.zeros(1, 7, 4)
    assert torch.equal(rows_at("implicit", weights, x, max_len=20, offset=2), theirs(ones))
    last = rows_at("offset", weights, x[:, :3], torch.tensor([17]), max_len=20, offset=2)
    assert torch.equal(last, theirs(torch.ones(1, 20, dtype=torch.int64), 17))
    given = torch.tensor([[0, 19, 3]])
    assert torch.equal(rows_at("explicit", weights, given, max_len=20, offset=2), theirs(given, 0, given))
    assert torch.equal(rows_at("mask", weights, MASKS, max_len=20, offset=2), theirs(MASKS))
    assert torch.equal(rows_at("mask", weights, MASKS, max_len=22, position_offset=2), theirs(MASKS))


def test_all_rows_of_opt_are_positions(tmp_path: Path) -> None:
    weights = saved(tmp_path, w=OPTLearnedPositionalEmbedding(20, 4).weight)
    spec = Spec(positions="mask", max_len=20)
    module = posenc.build("learned", spec, weights=weights, offset=2).module
    assert module(torch.zeros(1, 20, 4), torch.ones(1, 20, dtype=torch.int64)).shape == (1, 20, 4)
    with pytest.raises(IndexError):
        module(torch.zeros(1, 21, 4), torch.ones(1, 21, dtype=torch.int64))


def test_bart(tmp_path: Path) -> None:
    theirs = BartLearnedPositionalEmbedding(20, 4)
    weights = saved(tmp_path, w=theirs.weight)
    ours = rows_at("implicit", weights, torch.zeros(1, 20, 4), max_len=20, offset=2)
    assert torch.equal(ours[0], theirs(torch.zeros(1, 20)).squeeze(0))


def test_roberta_puts_padding_on_its_own_row(tmp_path: Path) -> None:
    config = RobertaConfig(hidden_size=8, max_position_embeddings=22, vocab_size=12, type_vocab_size=1, pad_token_id=1)
    theirs = RobertaEmbeddings(config)
    nn.init.normal_(theirs.position_embeddings.weight)
    weights = saved(tmp_path, w=theirs.position_embeddings.weight)
    ids = torch.where(MASKS == 1, 7, 1)
    at = theirs.create_position_ids_from_input_ids(ids, 1)
    rows = rows_at("mask", weights, MASKS, max_len=22, position_offset=2)
    assert torch.equal(rows, theirs.position_embeddings(at))
    assert torch.equal(rows[MASKS == 0], theirs.position_embeddings.weight[1].expand(int((MASKS == 0).sum()), -1))
    without = rows_at("implicit", weights, torch.zeros(1, 20, 8), max_len=20, offset=2)
    assert torch.equal(without[0], theirs.position_embeddings.weight[2:])


def test_an_offset_and_a_position_offset_add_up(tmp_path: Path) -> None:
    table = torch.randn(12, 4)
    rows = rows_at("mask", saved(tmp_path, w=table), MASKS, max_len=9, offset=2, position_offset=3)
    assert torch.equal(rows[0], table[5:10])
    assert torch.equal(rows[1], table[[4, 4, 5, 6, 7]])


def test_bert_and_gpt_2(tmp_path: Path) -> None:
    bert = BertEmbeddings(BertConfig(hidden_size=8, max_position_embeddings=20, vocab_size=12))
    gpt2 = GPT2Model(GPT2Config(n_embd=8, n_positions=20, vocab_size=12, n_layer=1, n_head=2))
    weights = saved(tmp_path, **{"bert.w": bert.position_embeddings.weight, "wpe.weight": gpt2.wpe.weight})
    for key, embedding in (("bert.w", bert.position_embeddings), ("wpe.weight", gpt2.wpe)):
        at = torch.tensor([[0, 5, 19], [3, 4, 5]])
        assert torch.equal(rows_at("explicit", weights, at, max_len=20, key=key), embedding(at))
        assert torch.equal(
            rows_at("implicit", weights, torch.zeros(1, 20, 8), max_len=20, key=key)[0], embedding.weight
        )


# ---- what is refused -------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Mapping[str, Any], Mapping[str, Any], str]] = [
    ({}, {"offset": -1}, "offset must be at least 0 and below the 20 rows of .*, got -1"),
    ({}, {"offset": 20}, "offset must be at least 0 and below the 20 rows of .*, got 20"),
    ({"max_len": 19}, {"offset": 2}, "max_len must be at most the 18 rows of .* behind offset 2, got 19"),
    ({"max_len": 31}, {"key": "p,x"}, "max_len must be at most the 30 rows of .*, got 31"),
    ({"max_len": 30}, {"key": "p,z"}, "it has no 'z'; key is one of "),
    ({"max_len": 30}, {"key": "p,"}, "it has no ''; key is one of "),
]


@pytest.mark.parametrize(("form", "params", "text"), REFUSED)
def test_what_is_refused(tables: str, form: Mapping[str, Any], params: Mapping[str, Any], text: str) -> None:
    spec = Spec(**{"max_len": 9, "positions": "explicit", **form})
    with pytest.raises(ValueError, match=text) as raised:
        posenc.build("learned", spec, **{"weights": tables, "key": "p", **params})
    assert "\n" not in str(raised.value)


def test_tables_that_cannot_be_added_up_are_refused(tmp_path: Path) -> None:
    weights = saved(tmp_path, a=torch.zeros(5, 4), b=torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"rows are added up have as many columns, those of .*: a 4, b 3"):
        posenc.build("learned", Spec(positions="explicit", max_len=5), weights=weights, key="a,b")


@pytest.mark.parametrize("positions", ["implicit", "offset", "mask"])
def test_several_tables_take_explicit_positions(tables: str, positions: Any) -> None:
    with pytest.raises(UnsupportedSpec, match=f"2 tables have no {positions} form: .* use --positions explicit"):
        posenc.build("learned", Spec(positions=positions, max_len=9), weights=tables, key="p,x")


def test_max_len_is_by_default_what_the_longest_table_has_behind_the_offset(tables: str) -> None:
    rows = posenc.scheme.SCHEMES["learned"].rows
    assert rows({"weights": tables, "key": "p", "offset": 2}) == 18
    assert rows({"weights": tables, "key": KEYS}) == 30
    assert rows({"weights": tables, "key": "p", "offset": 40}) == 1
    assert rows({}) is None


def test_what_is_wrong_is_one_line_of_the_command(cli: Cli, tables: str) -> None:
    for wrong in (("key=p", "offset=20"), ("key=p,x",), ("key=p", "offset=x")):
        result = cli("export", "learned", *(part for one in (f"weights={tables}", *wrong) for part in ("-p", one)))
        assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
