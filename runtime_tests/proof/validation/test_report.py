"""What a report looks like: whole at every width, with how much was proved, and what is to be done of a failure."""

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from helpers.reports import BASIS, FAILED, FILE_CHECKS, REASONS, WRONG, compared, printed, report
from helpers.shared import Cli
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Manifest
from posenc_export.cli.output.tables import fitted, print_bench, print_proofs, print_report
from posenc_export.proof.benchmarks import BenchResult, LengthResult
from posenc_export.proof.checks.catalogue import CATALOGUE
from posenc_export.proof.cuda.plan import plans
from posenc_export.proof.cuda.prove import CudaProof
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.proof.report.printed import as_text, lines_above, lines_below
from posenc_export.proof.report.report import headline, not_run, read_from, report_markdown
from posenc_export.proof.runtimes import RUNTIMES


@pytest.fixture
def manifest(small_bundle: Path) -> Manifest:
    return Bundle.open(small_bundle).manifest


@pytest.mark.parametrize("verdicts", [report(), report(*FAILED)], ids=["passed", "failed"])
@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_longer_than_the_terminal_and_no_word_is_broken(
    manifest: Manifest, width: int, verdicts: list[Verdict]
) -> None:
    manifest = replace(manifest, notes=("a word " * 40,), not_tried=("takes 16,777,217 tokens in one call",))
    for verbose in (False, True):
        text = printed(manifest, verdicts, width, verbose=verbose)
        words = text.split()
        too_long = [line for line in text.splitlines() if len(line.rstrip()) > width]
        assert all(len(line.split()) == 1 for line in too_long)  # a digest is one word, and is kept whole
        lines = [*lines_above(manifest, verdicts), *lines_below(manifest, verdicts, BASIS, verbose)]
        assert all(word.strip() in words for line in lines for word in line.split())
        named = {v.subject for v in verdicts if v.status != "skip"}
        assert {*(FILE_CHECKS if verbose else ()), *(RUNTIMES if verbose else named)} <= {w.strip(",:") for w in words}


def squeezed(text: str) -> list[str]:
    """Lines whose words are one space apart."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_checks_that_passed_are_counted_and_those_that_failed_are_named(manifest: Manifest) -> None:
    lost = [Verdict("onnx", "lost-input", "fail", "no"), Verdict("onnx", "tables", "fail", "no")]
    short = squeezed(printed(manifest, [*report(), *lost], 120))
    assert "onnx FAIL lost-input, tables failed; 6 checks passed" in short
    assert "ort-cpu pass 2.4e-07, 32 ulp 2.4e-07 at position 16,777,215 1 2 checks passed" in short
    assert f"onnx pass {', '.join(FILE_CHECKS)}" in squeezed(printed(manifest, report(), 120, verbose=True))
    assert "2 checks passed" in as_text(manifest, report(), BASIS)
    assert "2 checks passed" not in report_markdown(manifest, report(), BASIS)


def test_a_runtime_that_fails_has_one_row(manifest: Manifest) -> None:
    wrong = (compared("eager", 1e-7, 1.0),)
    rows = [Verdict("ort-cpu", "agrees", "fail", WRONG, wrong), Verdict("ort-cpu", "provider", "pass")]
    short = squeezed(printed(manifest, rows, 120))
    assert [line for line in short if line.startswith("ort-cpu ")] == ["ort-cpu FAIL 1e-07, 1 ulp 1 1 check passed"]
    text = report_markdown(manifest, [*rows, Verdict("ort-cpu", "refusal", "fail", "no")], BASIS)
    assert "| ort-cpu | FAIL | 1e-07, 1 ulp |  | 1 | refusal failed; provider passed |" in text


def test_a_runtime_without_checks_of_its_own_counts_none(manifest: Manifest) -> None:
    text = printed(manifest, [Verdict("ort-cpu", "agrees", "pass", "", (compared("eager", 1e-7, 1.0),))], 120)
    assert "checks passed" not in text


def test_in_a_pipe_a_line_below_the_tables_is_one_line(manifest: Manifest) -> None:
    lines = printed(manifest, report(*FAILED), 120, terminal=False).splitlines()
    assert f"PE104 libtorch-cpp-cuda agrees: {WRONG}" in lines
    assert "PE106 torchscript lost-input: input 'mask' is not used" in lines
    assert "what that means, and what to do: posenc explain PE106, posenc explain PE104" in lines


def test_no_color_takes_the_colours_away_and_leaves_the_words(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        out = io.StringIO()
        print_report(
            Console(file=out, width=80, color_system="standard", force_terminal=True), manifest, report(), BASIS
        )
        texts.append(out.getvalue())
    colour = re.compile(r"\x1b\[[\d;]*m")
    assert "\x1b[32mpass" in texts[0]
    assert not re.search(r"\x1b\[(\d+;)*[34]\d", texts[1])
    assert colour.sub("", texts[0]) == colour.sub("", texts[1])


def test_what_does_not_run_is_one_line_for_each_reason(manifest: Manifest) -> None:
    verdicts = report()
    text = printed(manifest, verdicts, 200, verbose=True).partition("verdict: pass, or FAIL")[0]
    lines = [line for line in text.splitlines() if "not run: " in line]
    assert len(lines) == 2 == len(not_run(verdicts))
    skipped = [v for v in verdicts if v.status == "skip"]
    assert len(skipped) > 5
    for verdict in skipped:
        assert [verdict.detail in line for line in lines if verdict.subject in line.replace(":", ",").split(", ")] == [
            True
        ]
    assert len(text.splitlines()) < 2 * len(RUNTIMES)


def test_runtimes_that_are_not_here_are_counted_and_all_others_named(manifest: Manifest) -> None:
    """A runtime that the user named, or that a limit stopped, is news; one that is not installed is not."""
    absent = RUNTIMES["tract"]  # it takes longer, or is not installed
    late = Verdict("ort-cpu", "agrees", "skip", "no answer in 300 s")
    ran = Verdict("onnx-reference", "agrees", "pass")
    verdicts = [
        ran,
        late,
        Verdict(absent.name, "agrees", "skip", absent.left_out()),
        Verdict("onnx", "tables", "skip", "no"),
    ]
    named = [f"not run: ort-cpu: {late.detail}", "not run: onnx tables: no"]
    counted = "not run: 1 other runtime: posenc runtimes says how to get each, -v why"
    assert lines_below(manifest, verdicts, BASIS, False) == [*named, counted]
    asked = replace(BASIS, named=(absent.name,))
    of_absent = f"not run: {absent.name}: {absent.left_out()}"
    assert sorted(lines_below(manifest, verdicts, asked, False)) == sorted([*named, of_absent])
    assert of_absent in lines_below(manifest, verdicts, BASIS, True)
    # where nothing ran, the reasons are what one has to know
    assert of_absent in lines_below(manifest, verdicts[1:], BASIS, False)


def test_the_headline_says_how_much_was_proved(manifest: Manifest) -> None:
    one = Verdict("ort-cpu", "agrees", "pass")
    skipped, lost = Verdict("ort-cpp", "agrees", "skip", "no"), Verdict("torchscript", "lost-input", "skip", "no")
    whole, wrong = Verdict("onnx", "integrity", "pass"), Verdict("onnx", "purity", "fail", "it counts")
    end = f"; compared with {manifest.reference}"
    for verdicts, words in (
        ([], "not validated"),
        ([whole, one], f"passed: agrees on 1 runtime, all 2 checks{end}"),
        ([one, replace(one, subject="ort-cpp")], f"passed: agrees on 2 runtimes, all 2 checks{end}"),
        ([whole, skipped], f"agrees on no runtimes, all 1 check passed{end}"),
        ([one, skipped, lost], f"passed: agrees on 1 runtime, all 1 check; 1 check not run{end}"),
        ([one, wrong, skipped], f"FAILED: 1 of 2 checks; agrees on 1 runtime{end}"),
    ):
        assert headline(manifest, verdicts) == words


def test_parameters_are_said_by_the_place_in_the_config_that_they_have(manifest: Manifest) -> None:
    params = {"head_dim": 128, "rope_theta": 500000.0, "rope_type": "yarn", "factor": 4.0, "rotary_dim": 64}
    origin = {
        **{"config": "config.json", "rope_type": "rope_scaling.type", "head_dim": "head_dim"},
        **{"rope_theta": "rope_theta", "factor": "rope_scaling.factor", "rotary_dim": "rotary_pct 0.5 of head_dim 128"},
    }
    assert read_from(replace(manifest, params=params, origin=origin)) == (
        "read from config.json: rope_type yarn (rope_scaling.type), head_dim 128, rope_theta 500000.0, "
        "rotary_dim 64 (rotary_pct 0.5 of head_dim 128); of rope_scaling: factor 4.0"
    )


def test_the_legend_explains_the_checks_of_the_report_and_the_columns(manifest: Manifest) -> None:
    text = " ".join(printed(manifest, report(), 80, verbose=True).split())
    for entry in CATALOGUE.values():
        shown = f"{entry.code} {entry.name}: {entry.asks}" in text
        assert shown == (entry.name in {*FILE_CHECKS, "agrees", "provider", "refusal"}), entry.name
    assert "against float64: the largest difference" in text
    assert "against float64: the largest difference" not in " ".join(printed(manifest, report(), 80).split())


def test_the_markdown_report_has_the_tables_the_failures_and_what_did_not_run(manifest: Manifest) -> None:
    text = report_markdown(manifest, report(*FAILED), BASIS)
    assert "| torchscript | FAIL | lost-input failed |" in text
    assert "| ort-cpu | pass | 2.4e-07, 32 ulp | 2.4e-07 at position 16,777,215 | 1 | provider, refusal |" in text
    assert f"\n* PE104 libtorch-cpp-cuda agrees: {WRONG}\n" in text
    assert all(f": {reason}\n" in text for reason in REASONS)
    in_order = ("FAILED: ", "* PE104 ", "posenc explain PE104", "| file |", "| runtime |", "* opset:", "* not run: ")
    assert (places := [text.index(words) for words in in_order]) == sorted(places)


def test_columns_are_fitted_without_breaking_a_word() -> None:
    rows = (("name", "a detail"), ("ort-cpu", "one two three"))
    assert fitted(rows, 80) == [7, 13]
    assert fitted(rows, 16) == [7, 7]
    assert fitted(rows, 15) == [7, 6]
    assert fitted(rows, 14) is None


def test_a_real_report_fits_80_columns(cli: Cli, small_bundle: Path, manifest: Manifest) -> None:
    result = cli("validate", str(small_bundle), "--runtime", "ort-cpu")
    assert result.exit_code == 0, result.output
    head, _, rest = result.output.partition("\n\n")
    assert head == f"passed: agrees on 1 runtime, all 11 checks; 2 checks not run; compared with {manifest.reference}"
    tables = rest.rpartition("\n\n")[0]
    assert max(len(line.rstrip()) for line in tables.splitlines()) <= 80


def on_a_terminal(show: Callable[[Console], None], width: int = 80) -> list[str]:
    """Return the lines of what is shown on a terminal of a width, the colors left out."""
    file = io.StringIO()
    show(Console(file=file, force_terminal=True, width=width, highlight=False, color_system=None))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def assert_whole(lines: list[str], words: Iterable[str], width: int = 80) -> None:
    """No line is wider than the terminal, and every word stands in one line."""
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_times_are_whole_on_a_terminal(width: int) -> None:
    names = ("onnxruntime-web", "torchscript-cuda", "baseline rotate-half, torchscript-cpu", "copy of the same bytes")
    times = dict(zip(names, (1234.567, 0.219, 12345.678, 0.023), strict=True))
    ratios = dict.fromkeys(names[:2], 1234.56)
    result = BenchResult("rope", "dynamic", "exact", 1, (LengthResult(131072, times, ratios, ratios, ratios),))
    lines = on_a_terminal(lambda console: print_bench(console, result), width)
    assert_whole(lines, ("1234.567", "0.219", "12345.678", "1234.56", "torchscript-cuda", "baseline", "faster"), width)
    assert len(lines) <= 18


def test_proofs_are_whole_on_a_terminal() -> None:
    errors = (compared("eager", 1e-7, 1.0), compared("reference", 3e-7))
    checks = ("agrees", "refusal", "provider", "placement", "io-binding", "device-memory")
    schemes = ("conformer_relative", "rope")
    plan = {scheme: next(iter(plans([scheme]))) for scheme in schemes}
    proofs = [
        CudaProof(plan[scheme], Verdict(by, check, "pass", comparisons=errors))
        for scheme in schemes
        for by in ("torchscript-cuda", "ort-cpp-cuda")
        for check in checks
    ]
    proofs += [CudaProof(plan[scheme], Verdict("pt2-cuda", "agrees", "skip", REASONS[1])) for scheme in schemes]
    facts = {"GPU": "NVIDIA H200", "CPU": "AMD EPYC", "torch": "2.13.0", "onnxruntime-gpu": "1.31.1", "numpy": "2.4.6"}
    lines = on_a_terminal(lambda console: print_proofs(console, facts, proofs))
    assert_whole(
        lines, (*schemes, *checks, "torchscript-cuda", "3e-07", "not run", "onnxruntime-gpu 1.31.1", "float64")
    )
    assert [line for line in lines if line in schemes] == list(schemes)
    assert " ".join(lines).count(f"pt2-cuda, conformer_relative, rope: {REASONS[1]}") == 1
