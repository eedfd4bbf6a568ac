"""Every key of a config is accounted for: read, without effect, or not read, and then refused or listed."""

import inspect
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.shared import Cli
from posenc_models import Reading, load_config, read_config
from posenc_models.config.accounts import fields_of_class, is_neutral, speaks_of_positions
from posenc_models.config.encodings import ENCODINGS
from posenc_models.config.encodings.diffusion import DIFFUSION
from posenc_models.config.unread import keys_of

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e4}
UNKNOWN = {**LLAMA, "model_type": "unheard_of"}
YARN = {"original_max_position_embeddings": 16384, "factor": 16, "apply_scale": True, "beta": 32, "alpha": 1}
PARAMS = {
    **{"dim": 5120, "n_layers": 40, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8},
    **{"rope_theta": 1e6, "norm_eps": 1e-05, "vocab_size": 131072, "max_position_embeddings": 262144, "yarn": YARN},
}
HUNYUAN = {
    **{"model_type": "hunyuan_v1_dense", "head_dim": 16, "hidden_size": 32, "num_attention_heads": 2},
    **{"rope_theta": 10000.0, "rope_scaling": {"alpha": 1000.0, "factor": 1.0, "mscale": 1.0, "type": "dynamic"}},
}


def read(config: dict[str, Any], **overrides: object) -> Reading:
    return read_config(config, overrides=overrides)


@pytest.mark.parametrize(
    "key",
    """rope_ratio use_dynamic_ntk use_logn_attn use_scaled_rope yarn alpha llama_4_scaling long_mscale ropeScaling
    RotaryBase alibi_starting_size rotary_scaling_factor position_encoding""".split(),  # noqa: SIM905  (a list)
)
@pytest.mark.parametrize("config", [LLAMA, UNKNOWN], ids=["known", "unknown"])
def test_keys_that_speak_of_positions_are_refused(config: dict[str, Any], key: str) -> None:
    value: object = {"factor": 4} if key == "yarn" else 5
    with pytest.raises(ValueError, match=rf"{key} .*: not read, and may change positions; .*model_type '") as error:
        read({**config, key: value}, layout="halves")
    assert "leave" not in str(error.value)
    assert "-p" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope_ratio", 1),
        ("use_dynamic_ntk", False),
        ("use_mrope", False),
        ("yarn", None),
        ("rotary_pct", 1.0),
        ("rotary_emb_base", 10000),
        ("position_embedding_xdrope", False),
        ("use_rotary_pos_emb", True),
        ("position_embedding_type", "rope"),
    ],
)
def test_values_that_change_nothing_are_read_past(key: str, value: object) -> None:
    for config in (LLAMA, UNKNOWN):
        assert read({**config, key: value}, layout="halves").scheme == "rope"


def test_other_keys_are_listed_for_a_known_type_and_refused_for_an_unknown_one() -> None:
    config = {"made_up": 3, "made_up_too": {"size": 5}}
    assert read({**LLAMA, **config}).origin["not read"] == "made_up, made_up_too"
    assert "not read" not in read({**LLAMA, "vocab_size": 9, "hidden_act": "silu"}).origin
    with pytest.raises(ValueError, match=r"made_up [(]3[)], made_up_too [(].*[)]: not read, and may change positions"):
        read({**UNKNOWN, **config}, layout="halves")


def test_a_type_that_is_not_known_gets_no_advice_and_a_note() -> None:
    with pytest.raises(ValueError, match=r"'unheard_of' is not known, and so neither which .* code does$"):
        read(UNKNOWN)
    (note,) = read(UNKNOWN, layout="halves").notes
    assert note.startswith(
        "model_type 'unheard_of' is not known: what is read holds where its code does as the keys say"
    )
    with pytest.raises(ValueError, match=r"model_type 'jamba' of transformers has no rope settings"):
        read({**UNKNOWN, "model_type": "jamba"}, layout="halves")


def test_remote_code_is_said_of_rotary_types_and_refused_of_tables() -> None:
    remote = {"auto_map": {"AutoModel": "modeling_x.X"}}
    assert "names code of its own (auto_map)" in read({**LLAMA, **remote}).notes[0]
    for table in ({"model_type": "bert"}, {"model_type": "xlm-roberta"}, {"model_type": "vit"}):
        with pytest.raises(ValueError, match=r"names code of its own [(]auto_map[)], which is never run"):
            read({**table, **remote})


@pytest.mark.parametrize("kind", ["rotary", "alibi", "relative_key", "relative_key_query"])
def test_another_encoding_than_that_of_the_table_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=rf"position_embedding_type [(]'{kind}'[)]: not read"):
        read({"model_type": "xlm-roberta", "position_embedding_type": kind})
    assert read({"model_type": "xlm-roberta", "position_embedding_type": "absolute"}).scheme == "learned"


@pytest.mark.parametrize("layout", [{}, {"layout": "interleaved"}, {"head_dim": 8, "rope_theta": 9.0}])
@pytest.mark.parametrize(
    "name",
    [
        "HunyuanVideoTransformer3DModel",
        "Flux2Transformer2DModel",
        "LTX2VideoTransformer3DModel",
        "Unheard3DModel",
        "HunyuanImageTransformer2DModel",
        "BriaTransformer2DModel",
        "Krea2Transformer2DModel",
    ],
)
def test_a_class_of_diffusers_counts_before_a_rotary_key(name: str, layout: dict[str, object]) -> None:
    config = {"_class_name": name, "rope_theta": 256.0, "attention_head_dim": 128, "num_attention_heads": 24}
    words = "its rotary pairs go by the frame" if "Unheard" not in name else "this class is not read"
    with pytest.raises(ValueError, match=words):
        read({**config, "rope_axes_dim": [16, 56, 56]}, **layout)


def test_mistral_s_params_json_is_read() -> None:
    reading = read({**PARAMS, "llama_4_scaling": {"original_max_position_embeddings": 16384, "beta": 0.1}})
    yarn = {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1, "layout": "interleaved"}
    assert yarn.items() <= reading.parameters.items()
    assert "attention_factor" not in reading.parameters  # 0.1 ln(factor) + 1
    assert reading.origin["beta_fast"] == "yarn.beta"
    assert reading.notes[0].startswith("llama_4_scaling: the model scales queries")
    unscaled = read({**PARAMS, "yarn": {**YARN, "apply_scale": False}})
    assert unscaled.parameters["attention_factor"] == 1.0
    assert read({**PARAMS, "yarn": None}).parameters["rope_type"] == "default"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"yarn": {**YARN, "gamma": 1}}, "yarn.gamma is not read, and may change the angles"),
        ({"yarn": {"factor": 16}}, "yarn.original_max_position_embeddings is missing"),
        ({"yarn": 16}, "yarn must be an object, got 16"),
        ({"use_scaled_rope": True}, "this is a params.json, not a config.json: use_scaled_rope is not read"),
        ({"head_dim": 128, "rope_theta": 1e6, "ntk": 4}, "ntk is not read, and may change positions"),
    ],
)
def test_params_json_that_is_not_clear_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read({**PARAMS, **change}, layout="interleaved")


def test_meta_s_params_json_is_refused() -> None:
    meta = {"dim": 4096, "n_layers": 32, "n_heads": 32, "rope_theta": 5e5, "use_scaled_rope": True}
    with pytest.raises(ValueError, match=r"a params.json, .*: use_scaled_rope .* give the config.json of the same"):
        read(meta, layout="interleaved")


@pytest.mark.parametrize("kind", ["hunyuan_v1_dense", "hunyuan_v1_moe"])
def test_alpha_stretches_the_base_once(kind: str) -> None:
    found = read({**HUNYUAN, "model_type": kind}).parameters
    assert (found["rope_type"], found["rope_theta"]) == ("default", 10000.0 * 1000.0 ** (16 / 14))


def test_what_validation_passes_over_is_read_past_for_that_type_alone() -> None:
    config = {"rope_theta": 1e6, "rope_scaling": {"interleaved": True, "mrope_section": [24, 20, 20], "type": "mrope"}}
    assert read({"model_type": "qwen3_omni_moe_text", "head_dim": 128, **config}).scheme == "mrope"
    with pytest.raises(ValueError, match=r"rope_scaling.interleaved is not read, and may change the angles"):
        read({"model_type": "qwen2_vl", "hidden_size": 1024, "num_attention_heads": 8, **config})


@pytest.mark.parametrize(
    ("rope", "note"),
    [
        (
            {"type": "yarn", "factor": 4.0, "beta_fast": 1, "beta_slow": 32},
            "beta_fast [(]1[)] is below beta_slow [(]32",
        ),
        ({"type": "yarn", "factor": 4.0, "beta_slow": 64}, "beta_fast [(]32[)] is below beta_slow [(]64"),
        ({"type": "linear", "factor": 0.5}, "factor is 0.5: transformers warns of factors below 1"),
        ({"type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0}, "is not above low_freq"),
    ],
)
def test_what_transformers_warns_of_is_a_note(rope: dict[str, Any], note: str) -> None:
    context = {} if rope["type"] == "linear" else {"original_max_position_embeddings": 64}
    reading = read({**LLAMA, "max_position_embeddings": 256, "rope_scaling": {**context, **rope}})
    assert len(reading.notes) == 1
    assert re.search(note, reading.notes[0])


def test_a_yarn_without_factor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rope_scaling.factor is missing: rope type yarn needs it"):
        read({**LLAMA, "max_position_embeddings": 256, "rope_scaling": {"type": "yarn"}})


def test_tables_that_begin_again_in_each_cell_are_refused() -> None:
    with pytest.raises(ValueError, match=r"its positions begin again in each cell of a table"):
        read({"model_type": "tapas"})
    assert read({"model_type": "tapas", "reset_position_index_per_cell": False}).scheme == "learned"


@pytest.mark.parametrize(
    ("kind", "key"),
    [("distilbert", "sinusoidal_pos_embds"), ("xlm", "sinusoidal_embeddings"), ("flaubert", "sinusoidal_embeddings")],
)
def test_tables_of_sines_before_training(kind: str, key: str) -> None:
    assert read({"model_type": kind, key: True}).scheme == "sinusoidal"
    assert read({"model_type": kind, key: False}).scheme == "learned"
    assert read({"model_type": kind}).scheme == "learned"


def test_a_stranger_s_key_stays_in_its_line() -> None:
    for config in ({**LLAMA, "rope\nError: forged": 5}, {"dim": 1, "n_layers": 1, "n_heads": 1, "rope\n\x1b[31m": 2}):
        with pytest.raises(ValueError, match=r"not read|names no rope_theta") as error:
            read({**config, "head_dim": 8} if "dim" in config else config)
        assert str(error.value).isprintable()
    assert read({**LLAMA, "made\nup": 5, "x" * 999: 1}).origin["not read"] == "made\\nup, " + "x" * 80 + "..."


def test_names_and_values() -> None:
    assert all(map(speaks_of_positions, ("rope_theta", "useScaledRope", "alpha", "num_position_embeddings", "n_ntk")))
    assert not any(map(speaks_of_positions, ("composition", "hidden_size", "europe", "use_cache", "moe_layer_freq")))
    assert is_neutral("rope_ratio", 1.0)
    assert not is_neutral("rope_dims", 1)


@pytest.mark.exhaustive
def test_the_report_lists_what_was_not_read(cli: Cli, tmp_path: Any) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "made_up": 3}), encoding="utf-8")
    assert load_config(path)["made_up"] == 3
    result = cli("export", "--from-hf", str(path), "--dynamic", "-f", "onnx", "--runtime", "ort-cpu")
    assert "; not read: made_up" in result.stdout


@pytest.mark.parametrize(
    "name",
    [name for name, rows in DIFFUSION.items() if all(row.lacks for row in rows)],
    ids=lambda name: str(name)[:20],
)
def test_no_class_of_diffusers_whose_pairs_go_by_several_axes_is_read(name: str) -> None:
    config = {"_class_name": name, "rope_theta": 256.0, "attention_head_dim": 128, "num_attention_heads": 2}
    for given in ({}, {"layout": "halves", "head_dim": 64, "rope_theta": 1.0}):
        with pytest.raises(ValueError, match="its rotary pairs go by the frame, the row and the column of a patch"):
            read({**config, "theta": 10000, "rope_axes_dim": [16, 56, 56]}, **given)


READ = [name for name, rows in DIFFUSION.items() if not all(row.lacks for row in rows)]
"""Classes of diffusers of which an encoding is read."""
OF_PAIRS = {"axes_dims_rope", "use_layer3d_rope", "rope_max_seq_len", "pos_embed_seq_len"}
"""Their keys of positions that are not read: each is of pairs that go by several axes, which no reading takes."""


@pytest.mark.parametrize("name", READ)
def test_keys_of_a_class_of_diffusers_are_read_or_are_its_own(name: str) -> None:
    taken = set(fields_of_class(name))
    left = {key for key in taken - set(keys_of(DIFFUSION[name])) if speaks_of_positions(key)}
    assert left <= OF_PAIRS
    part = "patches" if name.startswith(("SD3", "PixArt", "DiT", "CogVideoX")) else "timestep"
    config = {"_class_name": name, "_diffusers_version": "0.42.1"}
    for key, value in (("use_dynamic_ntk", True), ("pos_embed_scaling", 2.0)):
        words = (
            rf"^{key} \(.*\): not read, and may change positions; what _class_name '{name}' does with it is not known"
        )
        with pytest.raises(ValueError, match=words):
            read_config({**config, key: value}, part=part)
    assert read_config({**config, "made_up": 3}, part=part).origin["not read"] == "made_up"


@pytest.mark.parametrize("name", READ)
def test_the_keys_are_those_of_diffusers(name: str) -> None:
    diffusers = pytest.importorskip("diffusers")
    assert set(inspect.signature(getattr(diffusers, name)).parameters) <= set(fields_of_class(name))


@pytest.mark.parametrize("pad", [0, 2])
def test_weights_of_other_rows_than_the_config_says_are_refused(pad: int, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    import torch

    kind, name = ("opt", "model.decoder.embed_positions") if pad else ("bert", "bert.embeddings.position_embeddings")
    config = {"model_type": kind, "hidden_size": 8, "max_position_embeddings": 128}
    file = tmp_path / "model.safetensors"
    safetensors.save_file({f"{name}.weight": torch.zeros(512 + pad, 8)}, str(file))
    with pytest.raises(ValueError, match=rf"has {512 + pad} rows, and the config says {128 + pad} \(max_position_emb"):
        read(config, weights=str(tmp_path))
    safetensors.save_file({f"{name}.weight": torch.zeros(128 + pad, 8)}, str(file))
    assert read(config, weights=str(tmp_path)).scheme == "learned"
    np.save(tmp_path / "rows.npy", np.zeros((512, 8), np.float32))
    with pytest.raises(ValueError, match=rf"has 512 rows, and the config says {128 + pad}"):
        read(config, weights=str(tmp_path / "rows.npy"))


def test_a_model_that_rotates_nothing_disagrees_with_a_rope() -> None:
    pytest.importorskip("transformers")
    from posenc_models.asking.model import Disagrees, Question
    from posenc_models.asking.rotary import traced_model

    config = {"model_type": "nemotron_h", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    config |= {
        "head_dim": 16,
        "num_hidden_layers": 2,
        "hybrid_override_pattern": "M*",
        "vocab_size": 60,
        "n_groups": 2,
        "rope_theta": 1e4,
    }
    config |= {"mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 8, "intermediate_size": 64}
    with pytest.raises(Disagrees, match=r"NemotronHModel of transformers .* was called whole, and rotates nothing"):
        traced_model(Question(config, "", None, Reading("rope", {"head_dim": 16}, {}), (), ()))
    with pytest.raises(ValueError, match="no layer of it has a rotary encoding"):
        read(config, layout="halves")


def test_what_is_asked_differs_in_every_input_that_a_part_reads() -> None:
    pytest.importorskip("transformers")
    from helpers.hf.asked import judge
    from posenc_models.config.encodings import tables

    config = {"model_type": "tapas", "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    config |= {"intermediate_size": 32, "vocab_size": 60, "max_position_embeddings": 64}
    assert judge({**config, "reset_position_index_per_cell": False})[0] == "right"
    with pytest.MonkeyPatch.context() as patch:
        # as it was read before: a table like that of BERT
        patch.setitem(ENCODINGS, "tapas", (replace(tables._tapas()[0], when=()),))
        assert judge({**config, "reset_position_index_per_cell": True})[0] == "wrong"
