"""The section of a page that proves its bundle in the visitor's browser: its markup, its data and its rules."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from posenc_export.bundle.manifest import Artifact, Manifest
from posenc_export.bundle.rules import rules_of
from posenc_export.common.limit import TIMEOUT
from posenc_export.proof.checks.catalogue import code_of
from posenc_export.proof.judging.verdict import AGREES, MODEL
from posenc_export.proof.report.rows import AGAINST_MODEL, MARKS, MEANINGS, RUN_COLUMNS
from posenc_export.proof.runtimes import RUNTIMES, Missing
from posenc_export.proof.runtimes.onnxruntime_web import PACKAGE, check_takes
from posenc_export.proof.runtimes.web_browser import NO_DOUBLE
from posenc_export.show.pages.page import Addition
from posenc_export.show.pages.shown import OUTCOMES
from posenc_export.show.pages.tried import TRIED, WORDS
from posenc_export.show.serving.library import Library
from posenc_export.show.serving.resources import BUNDLE, LIBRARY, WEB

TITLE = "In this browser"
RUNTIME_OF: Mapping[str, str] = {"wasm": "browser-wasm", "webgpu": "browser-webgpu"}
"""The runtime whose promises hold for a build of onnxruntime-web."""
FOREIGN = "the page does not know which rows of another program's outputs nobody reads: posenc validate does"
"""Why the bundle of a proof of a foreign file against a user's module is not run: rows of masked tokens would fail."""
SOURCES: Mapping[str, tuple[str, ...]] = {
    "script-src": ("'self'", "'wasm-unsafe-eval'"),
    "connect-src": ("'self'",),
    "worker-src": ("'self'",),
}
"""What the page may load: from where it came from alone."""
SCRIPT = f"""import {{ offer }} from "./{WEB}button.mjs";
offer(JSON.parse(document.getElementById("addition-data").textContent));
"""
STYLE = """
.proof button { font: inherit; padding: .5rem 1rem; border: 1px solid var(--line); border-radius: 8px; }
.proof #proof-begin { background: var(--link); color: var(--paper); border-color: var(--link); }
.proof #proof-begin:disabled { background: var(--sunk); color: var(--soft); border-color: var(--line); }
"""


def section_of(manifest: Manifest, graph: Artifact, library: Library) -> Addition:
    """Return the section, and what it may load.

    Args:
        manifest: The manifest of the bundle.
        graph: Its ONNX file.
        library: onnxruntime-web.
    """
    columns = columns_of(manifest)
    html = MARKUP.format(
        library=f"{PACKAGE} {library.version}",
        licence=library.licence,
        heads=Markup("").join(HEAD.format(MEANINGS.get(column, ""), column) for column in columns),
    )
    return Addition(
        title=TITLE,
        html=html,
        data=proof_of(manifest, graph, library),
        styles=(STYLE,),
        scripts=(SCRIPT,),
        modules=True,
        sources=SOURCES,
    )


HEAD = Markup('<th scope="col" title="{}">{}</th>')
MARKUP = Markup("""<div class="proof">
<p>Your browser fetches the graph and its golden cases from here, runs them, and compares what comes out with what
PyTorch and the float64 reference gave, by the rules of <code>posenc validate</code>. It runs {library}
(licence: {licence}), in WebAssembly and, where it has an adapter, on WebGPU. Nothing is sent anywhere.</p>
<p><button type="button" id="proof-begin" disabled>Prove it in this browser</button>
<button type="button" id="proof-stop" hidden>Stop</button></p>
<noscript><p>The proof takes JavaScript, which is off here.</p></noscript>
<p id="proof-status" role="status"></p>
<div id="proof-table" class="scroll" role="region" aria-label="proof in this browser" tabindex="0" hidden>
<table>
<thead><tr>{heads}</tr></thead>
<tbody id="proof-rows"></tbody>
</table>
</div>
<ul class="lines" id="proof-lines"></ul>
</div>""")


def columns_of(manifest: Manifest) -> tuple[str, ...]:
    """Return the columns of the table: those of a report."""
    has_model = any(case.model_tolerance is not None for case in manifest.cases)
    return tuple(column for column in RUN_COLUMNS if has_model or column != AGAINST_MODEL)


def proof_of(manifest: Manifest, graph: Artifact, library: Library) -> dict[str, object]:
    """Return what the page's modules must know beside the bundle itself, as JSON values: see web/prove.mjs."""
    golden = next(file for file in manifest.files if file.file == "golden.npz")
    listed = [{"file": file.file, "bytes": file.bytes, "sha256": file.sha256} for file in (graph, golden)]
    return {
        "bundle": BUNDLE,
        "files": listed,
        "library": {"folder": LIBRARY, "version": library.version},
        "runtimes": [_runtime(build, manifest) for build in RUNTIME_OF],
        "rules": {"known_refusals": rules_of(manifest.family).known_refusals},
        "columns": list(columns_of(manifest)),
        "marks": MARKS,
        "outcomes": OUTCOMES,
        "calls": WORDS,
        "tried": TRIED,
        "codes": {check: code_of(check) for check in (AGREES, "refusal", MODEL)},
        "no_double": NO_DOUBLE,
        "timeout": TIMEOUT,
    }


def _runtime(build: str, manifest: Manifest) -> dict[str, object]:
    runtime = RUNTIMES[RUNTIME_OF[build]]
    return {
        "build": build,
        "name": runtime.name,
        "same_bits": runtime.same_bits,
        "lenient": runtime.lenient,
        "unable": _why_unable(manifest),
    }


def _why_unable(manifest: Manifest) -> str:
    """Return why no browser can run a bundle, or nothing."""
    if manifest.foreign and not rules_of(manifest.family).derived_tolerances:
        return FOREIGN
    try:
        # the same reasons as for the runtimes of browsers
        check_takes(manifest)
    except Missing as missing:
        return str(missing)
    return ""
