"""The page of a bundle as static files, for any host: what `posenc serve` serves, with what a host must know."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

from posenc_export.bundle.folder import MANIFEST
from posenc_export.bundle.listing import write_listing
from posenc_export.bundle.out_file import PlaceOption
from posenc_export.bundle.place import check_folder, digests_of
from posenc_export.bundle.replacement import install, staged
from posenc_export.common.errors import BadInput
from posenc_export.show.serving.library import Library
from posenc_export.show.serving.offer import Offer
from posenc_export.show.serving.resources import LIBRARY, PAGE, Changed, Resource
from posenc_export.show.serving.server import ALWAYS

SITE = PlaceOption("--site", "")
"""The option that takes the folder of a site; what another program wrote is never replaced."""
INDEX = "index.html"
HEADERS = ("Cross-Origin-Opener-Policy", "Cross-Origin-Embedder-Policy", "X-Content-Type-Options", "Referrer-Policy")
"""What a host should send with every file."""
LICENCE = "onnxruntime-web.LICENSE"
PART = 2**20


def check_site(target: Path) -> None:
    """Raise BadInput, before any work, where a site cannot be put."""
    check_folder(target, option=SITE)
    if (target / MANIFEST).exists():
        raise BadInput(f"{target} is a bundle, which no site replaces: {SITE.another}")
    bundle = next((folder for folder in target.resolve().parents if digests_of(folder / MANIFEST)), None)
    if bundle is not None:
        raise BadInput(f"{target} lies in the bundle {bundle}, into which no site is written: {SITE.another}")


def write_site(offer: Offer, library: Library, target: Path) -> int:
    """Write what is offered into a folder, whole or not at all; return how many bytes that is.

    Raises BadInput where the folder holds what this tool did not write, or a file is not as the manifest lists it.
    """
    check_site(target)
    with staged(target, SITE) as scratch:
        for path, resource in offer.resources.items():
            _write(scratch / (INDEX if path == PAGE else unquote(path)), resource)
        for name, text in _beside(library).items():
            (scratch / name).write_text(text, encoding="utf-8", newline="\n")
        write_listing(scratch)
        size = sum(path.stat().st_size for path in scratch.rglob("*") if path.is_file())
        install(scratch, target, option=SITE)
    return size


def _write(place: Path, resource: Resource) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if resource.folder is None:
        place.write_bytes(resource.text)
        return
    # digested while it is copied: what is written is what was compared
    digest = hashlib.sha256()
    try:
        with resource.open() as source, place.open("xb") as target:
            while part := source.read(PART):
                digest.update(part)
                target.write(part)
    except Changed as changed:
        raise BadInput(f"{resource.folder}: {changed}") from changed
    if resource.sha256 and digest.hexdigest() != resource.sha256:
        name = resource.folder / resource.name
        raise BadInput(f"{name} is not as the manifest lists it: `posenc validate` says more")


def _beside(library: Library) -> Mapping[str, str]:
    """Return the texts beside the page: for hosts, for people, and the licence of what is not ours."""
    # 1.30 has none in its package, though the licence asks for a copy
    own = library.folder / "LICENSE"
    stored = files("posenc_export.proof") / "web" / LICENCE
    licence = own.read_text(encoding="utf-8") if own.is_file() else stored.read_text(encoding="utf-8")
    lines = "".join(f"  {name}: {ALWAYS[name]}\n" for name in HEADERS)
    return {"_headers": f"/*\n{lines}", "README.txt": README, f"{LIBRARY}LICENSE": licence}


README = """\
These are static files: put the folder on any web host, and open index.html there. To look at it here:

    python -m http.server --bind 127.0.0.1

and open http://127.0.0.1:8000/. A page that is opened as a file can load no modules.

* index.html: the page. web/: its modules. bundle/: the bundle, which `posenc validate` takes as well.
* ort/: onnxruntime-web, under the licence beside it.
* _headers: what the host should send with each file; Netlify and Cloudflare Pages read it. Other hosts have settings of
  their own for that. Without these headers everything works, too: the proof takes a single thread.
* The host must send .mjs files as JavaScript (text/javascript), and .wasm files as application/wasm.
* WebGPU takes a page by https, or on this machine. Without either WebAssembly runs alone, and the digests of the
  bundle's files are not held.
* site.json: which files belong here. A later `posenc serve --site` replaces the folder only where it holds no others.
"""
