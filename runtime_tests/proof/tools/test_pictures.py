"""What a heat map shows of an encoding goes by what its ports carry and by the kinds of axes, whatever its family."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from posenc import build
from posenc.encoding import SAME_BITS, Encoding
from posenc.ports import BATCH, SEQ, Axis, Mask, Port, Values, fixed
from posenc.scheme import SCHEMES, scheme
from posenc.spec import Spec
from posenc_export.show.plots.encodings import argument_of, called, drawn, encoding_of
from posenc_export.show.plots.heat import SMALL, Canvas, heatmap
from posenc_export.show.plots.kinds import BIASES, FEATURES, ROTARY, TABLES, kind_of, kind_of_encodings
from posenc_export.show.plots.sheet import sheet_of

HEIGHT, WIDTH, SEQ_K = Axis("height", "grid"), Axis("width", "grid"), Axis("seq_k", "length")


class Made(nn.Module):
    """A module of a function of tensors."""

    def __init__(self, function: Callable[..., Tensor | tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.forward = function


def encoding(
    function: Callable[..., Tensor | tuple[Tensor, ...]], inputs: tuple[Port, ...], *outputs: Port
) -> Encoding:
    """An encoding of which nothing is known but its ports, under a family's name that nobody has heard of."""
    drawn = build("learned", Spec(max_len=8), d_model=4)
    return replace(
        drawn,
        family="unheard",
        module=Made(function),
        inputs=inputs,
        outputs=outputs,
        eager_tolerance=lambda _: SAME_BITS,
    )


def port(name: str, *axes: Axis) -> Port:
    return Port(name, axes, "float32")


def test_a_bias_is_a_map_of_queries_and_keys_for_each_head() -> None:
    heads, dim = fixed(12, "heads"), fixed(16)

    def bias(q: Tensor, k: Tensor) -> Tensor:
        distance = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
        return (torch.arange(12.0)[:, None, None] * distance)[None]

    q, k = port("q", BATCH, heads, SEQ, dim), port("k", BATCH, heads, SEQ_K, dim)
    made = encoding(bias, (q, k), port("bias", fixed(1, "batch"), heads, SEQ, SEQ_K))
    sheet = sheet_of(called(made, None))
    assert kind_of_encodings([made]) == BIASES
    assert [panel.title for panel in sheet.panels] == [f"head {i}" for i in (0, 1, 3, 4, 6, 7, 9, 11)]
    assert (sheet.down, sheet.across, sheet.amount, sheet.square) == ("query", "key", "query 64 x key 64", True)
    assert sheet.panels[-1].values[63, 0] == 11 * 63


def test_what_probabilities_give_is_drawn_by_query_of_even_ones() -> None:
    heads, even = fixed(1, "heads"), Values(0.0, 1.0, probabilities=True)
    p = replace(port("p", BATCH, heads, SEQ, SEQ_K), carries=even)
    rows = torch.arange(4.0)
    made = encoding(lambda p: p.sum(3, keepdim=True) * rows, (p,), port("added", BATCH, heads, SEQ, fixed(4)))
    assert argument_of(made) is None
    (panel,) = sheet_of(called(made, None)).panels
    np.testing.assert_allclose(panel.values, np.broadcast_to(np.arange(4), panel.values.shape), atol=1e-6)


def test_rows_of_distances_are_for_scores() -> None:
    q, k = port("q", BATCH, SEQ, fixed(2)), port("k", BATCH, SEQ_K, fixed(2))
    length = Axis("seq+seq_k", "length")

    def rows(q: Tensor, k: Tensor) -> Tensor:
        return torch.arange(q.shape[1] + k.shape[1])[None, :, None].expand(1, -1, 2)

    made = encoding(rows, (q, k), port("rows", fixed(1, "batch"), length, fixed(2)))
    sheet = sheet_of(called(made, None))
    assert kind_of_encodings([made]) == BIASES
    assert (sheet.down, sheet.amount) == ("row, one for each distance", "128 rows")
    assert kind_of_encodings([encoding(lambda q: q, (q,), q)]) == TABLES


def test_what_is_added_to_scores_is_drawn_without_them() -> None:
    scores = port("scores", BATCH, Axis("heads", "heads"), SEQ, SEQ_K)

    def biased(scores: Tensor) -> Tensor:
        return scores - torch.arange(scores.shape[3])

    (panel,) = sheet_of(called(encoding(biased, (scores,), replace(scores, name="biased")), 5)).panels
    assert (panel.title, panel.values.shape) == ("", (5, 5))
    assert (panel.values == -np.arange(5)).all()


def test_a_grid_is_a_map_for_each_feature_wherever_features_lie() -> None:
    mask = Port("mask", (BATCH, HEIGHT, WIDTH), "bool", Mask())

    def rows_then_columns(mask: Tensor) -> Tensor:
        ones = mask.float()
        return torch.stack([ones.cumsum(1), ones.cumsum(2)], 1)

    made = encoding(rows_then_columns, (mask,), port("y", BATCH, fixed(2), HEIGHT, WIDTH))
    sheet = sheet_of(called(made, None))
    assert kind_of_encodings([made]) == TABLES
    assert (sheet.down, sheet.across, sheet.amount) == ("height", "width", "height 24 x width 32")
    assert [panel.title for panel in sheet.panels] == ["feature 0", "feature 1"]
    assert (sheet.panels[0].values[:, 0] == np.arange(1, 25)).all()
    assert (sheet.panels[1].values[0] == np.arange(1, 33)).all()


def test_a_grid_of_three_axes_is_places_by_features() -> None:
    x = port("x", BATCH, Axis("time", "grid"), HEIGHT, WIDTH, fixed(4))
    made = encoding(lambda x: x + torch.arange(x.shape[3])[:, None], (x,), replace(x, name="y"))
    sheet = sheet_of(called(made, None))
    assert (sheet.down, sheet.panels[0].values.shape) == ("time by height by width", (4 * 6 * 8, 4))
    assert (sheet.panels[0].values[:, 0] == np.tile(np.arange(8), 24)).all()


@pytest.mark.parametrize(
    ("axes", "values", "first", "last", "count"),
    [
        ((BATCH,), Values(), 0, 127, 128),
        ((BATCH,), Values(-1000, 1000), 0, 127, 128),
        ((BATCH,), Values(0, 1), 0, 1, 128),
        ((BATCH, SEQ, fixed(3)), Values(), -1, 1, 128),
    ],
)
def test_features_of_numbers_are_drawn_over_the_numbers(
    axes: tuple[Axis, ...], values: Values, first: float, last: float, count: int
) -> None:
    x = Port("t", axes, "float32", values)

    def features(t: Tensor) -> Tensor:
        return (t if t.ndim == 1 else t[..., 0])[..., None].expand(*t.shape[:2], 5) * 2

    made = encoding(features, (x,), port("y", *axes[:2], fixed(5)))
    assert argument_of(made) is x
    assert kind_of_encodings([made]) == FEATURES
    sheet = sheet_of(called(made, None))
    down = "t" if len(axes) == 1 else "t: every coordinate"
    assert (sheet.down, sheet.ends, sheet.amount) == (down, (first, last), f"{count} values")
    np.testing.assert_allclose(sheet.panels[0].values[:, 4], 2 * np.linspace(first, last, count), rtol=1e-6)


def test_a_window_is_drawn_as_it_was_trained_and_one_number_a_row_as_steps() -> None:
    window = drawn("swin_bias", None, {"heads": 3, "window": (2, 3)})
    assert {array.shape[-2:] for _, array in window.outputs} == {(6, 6)}
    figure = Figure()
    heatmap(figure, "attention_temperature", None, {"step": 8})
    (axes,) = figure.axes
    assert (axes.get_xlabel(), len(axes.lines), len(axes.images)) == ("position", 1, 0)
    heights = np.asarray(axes.lines[0].get_ydata(), np.float64)
    assert (len(heights), heights.min()) == (128, 1.0)


def test_the_usual_window_is_drawn_as_a_scheme_has_it() -> None:
    assert {array.shape[-2:] for _, array in drawn("swin_bias", None, {}).outputs} == {(49, 49)}


def test_factors_that_grow_after_thousands_of_positions_are_drawn_up_to_where_they_grow() -> None:
    figure = Figure()
    heatmap(figure, "attention_temperature", None, {})
    (axes,) = figure.axes
    heights = np.asarray(axes.lines[0].get_ydata(), np.float64)
    assert len({*heights}) == 16
    assert axes.get_title() == "attention_temperature: 131,072 positions"
    few = Figure()
    heatmap(few, "attention_temperature", 128, {})
    assert np.shape(few.axes[0].lines[0].get_ydata()) == (128,), "as many as were asked for"


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("canvas", [None, SMALL])
def test_no_word_of_a_picture_is_cut(name: str, canvas: Canvas | None) -> None:
    """Neither of the picture on a page, nor of that of the command below it."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    heatmap(figure, name, None, SCHEMES[name].samples[0] if canvas else {}, canvas)
    figure.savefig(BytesIO(), dpi=figure.dpi)
    width, height = figure.get_size_inches() * figure.dpi
    texts = [*figure.texts, *(text for one in figure.axes for text in (one.title, one.xaxis.label, one.yaxis.label))]
    boxes = {text.get_text(): text.get_window_extent() for text in texts if text.get_text()}
    cut = [words for words, box in boxes.items() if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height]
    assert cut == []
    assert "{" not in "".join(boxes)


def test_what_is_multiplied_is_drawn_of_ones_and_outputs_lie_side_by_side() -> None:
    q, k = (port(name, BATCH, Axis(head, "heads"), SEQ, fixed(2)) for name, head in (("q", "head"), ("k", "head_kv")))
    made = encoding(lambda q, k: (2 * q, 3 * k), (q, k), replace(q, name="q2"), replace(k, name="k3"))
    call = called(made, 7)
    sheet = sheet_of(call)
    assert call.fill == 1
    assert (sheet.panels[0].values == [2, 2, 3, 3]).all()
    assert sheet.panels[0].values.shape == (7, 4)
    assert (sheet.splits, sheet.across) == ((2,), "dimension of q2 (0 to 1), then of k3 (2 to 3)")


@pytest.mark.parametrize(("family", "kind"), [("rotary", ROTARY), ("cos_sin", ROTARY), ("unheard", TABLES)])
def test_what_rotates_says_so_by_its_family(family: str, kind: str) -> None:
    q = port("q", BATCH, SEQ, fixed(2))
    assert kind_of_encodings([replace(encoding(lambda q: q, (q,), q), family=family)]) == kind


def test_a_form_that_takes_positions_alone_is_preferred() -> None:
    rope = SCHEMES["rope"]
    assert [p.name for p in encoding_of(rope, None, {}).inputs] == ["positions"]
    assert [p.name for p in encoding_of(rope, None, {"output": "rotate"}).inputs] == ["q", "k", "positions"]
    with pytest.raises(ValueError, match="rotary_dim must be an even number"):
        encoding_of(rope, None, {"rotary_dim": 3})


def test_a_form_of_any_length_is_preferred_to_one_of_one_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCHEMES, "_items", {name: SCHEMES[name] for name in SCHEMES})

    @scheme("window", paper="none", samples=({},))
    def window(spec: Spec) -> Encoding:
        """One size baked, any dynamic."""
        height, width = (Axis(n, "grid", 3 if spec.mode == "baked" else None) for n in ("height", "width"))
        x = port("x", BATCH, height, width, fixed(2))
        return encoding(lambda x: x + 1, (x,), replace(x, name="y"))

    assert called(encoding_of(SCHEMES["window"], None, {}), None).outputs[0][1].shape == (1, 24, 32, 2)
    assert kind_of(SCHEMES["window"]) == TABLES
    assert [kind_of(SCHEMES[name]) for name in ("rope", "sinusoidal")] == [ROTARY, TABLES]


def test_what_must_be_given_is_taken_from_the_smallest_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCHEMES, "_items", {name: SCHEMES[name] for name in SCHEMES})

    @scheme("needing", paper="none", samples=({"d_model": 6},))
    def needing(spec: Spec, *, d_model: int) -> Encoding:
        """Nothing new."""
        return build("sinusoidal", spec, d_model=d_model)

    assert encoding_of(SCHEMES["needing"], None, {}).outputs[0].axes[-1].size == 6
    with pytest.raises(ValueError, match="d_model must be at least 1"):
        encoding_of(SCHEMES["needing"], None, {"d_model": 0})
