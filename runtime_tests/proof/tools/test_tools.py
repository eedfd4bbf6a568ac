"""Plots are pictures of the right kind, made of what files compute."""

import io
from pathlib import Path

import numpy as np
import pytest

from helpers.shared import ROOT, Cli


@pytest.mark.parametrize("kind", ["heatmap", "clock", "error"])
@pytest.mark.parametrize(
    ("scheme", "param"),
    [("sinusoidal", "d_model=32"), ("rope", "head_dim=32"), ("mrope", "sections=20,22,22"), ("rope_2d", "head_dim=32")],
)
def test_a_plot_of_every_kind(cli: Cli, scheme: str, param: str, kind: str) -> None:
    args = ["-p", param, "--max-len", "16" if kind != "error" else "3000"]
    result = cli("plot", scheme, "--kind", kind, "-o", "picture.png", *args)
    assert result.exit_code == 0, result.output
    assert Path("picture.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_heatmap_has_titled_axes_a_colour_bar_and_every_position() -> None:
    from matplotlib.figure import Figure

    from posenc_export.show.plots.heat import heatmap

    figure = Figure()
    heatmap(figure, "sinusoidal", 128, {"d_model": 512})
    table, bar = figure.axes
    assert table.get_xlabel() == "dimension: even ones are sines, odd ones cosines"
    assert (table.get_ylabel(), bar.get_ylabel()) == ("position", "value")
    values = table.images[0].get_array()
    assert values is not None
    assert values.shape == (128, 512)
    assert figure.get_suptitle() == "sinusoidal, d_model 512: 128 positions"


@pytest.mark.parametrize(
    ("scheme", "parameters", "columns", "position", "title"),
    [
        (
            "sinusoidal",
            {"d_model": 8, "layout": "halves"},
            "dimension: 0 to 3 are sines, 4 to 7 cosines",
            "position",
            "",
        ),
        ("rope", {"head_dim": 8}, "dimension of cos (0 to 3), then of sin (4 to 7)", "position", "rope, head_dim 8: "),
        ("rope_2d", {"head_dim": 8}, "dimension of cos (0 to 3)", "position p, on each of 2 axes: (p, p)", ""),
        ("mrope", {}, "then of sin (64 to 127)", "position p, on each of 3 axes: (p, p, p)", "mrope: "),
        ("learned", {"d_model": 8}, "dimension", "position", "learned, d_model 8: "),
    ],
)
def test_a_heatmap_says_which_columns_are_sines_and_what_a_position_is(
    scheme: str, parameters: dict[str, object], columns: str, position: str, title: str
) -> None:
    from matplotlib.figure import Figure

    from posenc_export.show.plots.heat import heatmap

    figure = Figure()
    heatmap(figure, scheme, 16, parameters)
    axes = figure.axes[0]
    assert columns in axes.get_xlabel()
    assert (axes.get_xlabel() == "dimension") == (scheme == "learned")
    assert axes.get_ylabel() == position
    assert figure.get_suptitle().startswith(title)


@pytest.mark.parametrize(
    ("scheme", "length"), [("sinusoidal", 128), ("sinusoidal", 3), ("rope", 100), ("sinusoidal", 3000)]
)
def test_each_cell_of_a_heatmap_has_as_many_pixels_as_every_other(scheme: str, length: int) -> None:
    from matplotlib.figure import Figure

    from posenc_export.show.plots.heat import heatmap

    figure = Figure()
    heatmap(figure, scheme, length, {})
    axes = figure.axes[0]
    axes.set_axis_off()  # what lies over the cells at the edges
    for line in axes.lines:
        line.remove()
    drawn = io.BytesIO()
    figure.savefig(drawn, format="raw", dpi=figure.dpi)
    width, height = (round(inches * figure.dpi) for inches in figure.get_size_inches())
    x0, y0, x1, y1 = (round(edge) for edge in axes.get_window_extent().extents)
    assert np.allclose(axes.get_window_extent().extents, (x0, y0, x1, y1), atol=1e-6)
    pixels = np.frombuffer(drawn.getvalue(), np.uint8).reshape(height, width, 4)[::-1][y0:y1, x0:x1]
    cells = axes.images[0].get_array()
    assert cells is not None
    rows, columns = cells.shape
    assert rows <= 1024
    of_cells = pixels.reshape(rows, (y1 - y0) // rows, columns, (x1 - x0) // columns, 4)
    assert (of_cells == of_cells[:, :1, :, :1]).all()


def test_thinning_keeps_what_is_slow_and_shows_no_waves_that_are_not_there() -> None:
    from posenc_export.show.plots.heat import thinned

    positions = np.arange(4096)
    frequencies = np.array([1.0, 2 * np.pi / 4 - 0.01, 2 * np.pi / 8 * 3, 1e-2, 1e-3])
    waves = np.cos(positions[:, None] * frequencies)
    thin = thinned(waves, 1024)
    assert np.abs(waves[::4] - waves[0])[:, 1].max() > 1.9  # each fourth row alone would show a slow wave
    middles = 4 * np.arange(2, len(thin) + 2)[:, None] - 0.5
    assert np.abs(thin[:, :3]).max() < 0.02
    assert np.abs(thin[:, 3:] - np.cos(middles * frequencies[3:])).max() < 0.01
    assert thinned(waves, 4096) is waves
    assert 990 < len(thinned(waves[:4001], 1024)) <= 1024


def test_the_error_plot_compares_three_sincos_methods_on_log_scales() -> None:
    from matplotlib.figure import Figure

    from posenc_export.show.plots.curves import error

    figure = Figure()
    error(figure, "sinusoidal", 5000, {"d_model": 32})
    (axes,) = figure.axes
    labels = [str(line.get_label()) for line in axes.lines]
    options = ("--baked: ", "--dynamic --method exact: ", "--dynamic --method trig: ")
    assert all(label.startswith(option) for label, option in zip(labels, options, strict=True))
    table, addition, trig = (np.asarray(line.get_ydata()).max() for line in axes.lines)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert table <= 3e-8 < addition <= 3e-7 < trig
    assert all(min(np.asarray(line.get_xdata())) == 1 for line in axes.lines)  # 0 has no place on a log scale
    assert all(min(np.asarray(line.get_ydata())) > 1e-8 for line in axes.lines)
    positions, curve = (np.asarray(part) for part in (axes.lines[1].get_xdata(), axes.lines[1].get_ydata()))
    assert curve[positions < 2000].max() <= 3e-8  # stored
    # Each multiple of 64 is exact to half an ulp: points that hit one by chance were spikes.
    assert curve[positions > 2100].min() > 0.5 * curve.max()


@pytest.mark.exhaustive
def test_the_picture_of_the_readme_is_made_by_a_command(cli: Cli) -> None:
    words = ["plot", "sinusoidal", "-p", "d_model=16", "--kind", "exported", "--max-len", "5000", "-o"]
    pictures = []
    for name in ("once.svg", "again.svg"):
        assert cli(*words, name).exit_code == 0
        pictures.append(Path(name).read_bytes())
    assert pictures[0] == pictures[1]  # no date, no ids made up
    assert len((ROOT / "docs" / "pictures" / "exported.svg").read_bytes()) < 150_000


@pytest.mark.exhaustive
@pytest.mark.parametrize(("scheme", "parameters"), [("rope", {"head_dim": 8}), ("sinusoidal", {"d_model": 8})])
def test_a_plain_export_drifts_and_in_half_loses_its_positions(scheme: str, parameters: dict[str, object]) -> None:
    from posenc_export.show.plots.exported import curves_of

    worst = {curve.label: curve.errors.max() for curve in curves_of(scheme, 5000, parameters)}
    assert 2e-5 < worst["plain export, float32"] < 1e-3
    assert worst["ours, float32"] < 1e-6
    assert worst["plain export, converted to half"] > 1.5
    assert worst["ours, converted to half"] < 4e-3


@pytest.mark.exhaustive
def test_a_curve_ends_where_outputs_are_not_finite() -> None:
    from posenc_export.show.plots.exported import curves_of

    plain, *_, ours = curves_of("rope", 2**17, {"head_dim": 4})
    assert plain.not_finite_from is not None
    assert plain.positions.max() < 65520 <= plain.not_finite_from < 66000
    assert ours.not_finite_from is None
    assert np.isfinite(ours.errors).all()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["sinusoidal", "-o", "p.gif"], "the picture must be one of .png, .svg, .pdf"),
        (["sinusoidal", "-o", "no/p.png"], "no is no folder that is there: make it, or give another path with -o"),
        (["sinusoidal", "-o", "p.png", "--kind", "error", "--max-len", "1"], "need --max-len of at least 2"),
        (["learned", "-o", "p.png", "--kind", "clock"], "learned has none"),
        (["sinusoidal", "-o", "p.png", "--kind", "clock", "-p", "d_model=1"], "a d_model of at least 2"),
        (["xpos", "-o", "p.png", "--kind", "error"], "xpos has no rows at positions: --kind heatmap draws what it has"),
        pytest.param(
            ["mrope", "-o", "p.png", "--kind", "exported"],
            "compares with the usual module, and mrope has none",
            marks=pytest.mark.exhaustive,
        ),
        (["sinusodial", "-o", "p.png"], "did you mean 'sinusoidal'"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(cli: Cli, args: list[str], text: str) -> None:
    result = cli("plot", *args)
    assert (result.exit_code, text in result.output) == (2, True), result.output
