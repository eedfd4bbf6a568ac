"""`posenc serve`: a bundle's page, with its proof in the visitor's own browser."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from posenc_export.cli.declared import number, path
from posenc_export.cli.options import SETTINGS, guarded
from posenc_export.cli.output.helping import Command, epilog
from posenc_export.common.errors import BadInput, decoded


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Show a bundle in a browser, and prove it there.",
    epilog=epilog(
        [
            "posenc serve sinusoidal-dynamic",
            "posenc serve sinusoidal-dynamic --port 8000",
            "posenc serve sinusoidal-dynamic --site public",
        ],
        {0: "the site is written", 3: "onnxruntime-web is not here"},
    ),
)
@click.argument("bundle", type=click.Path(path_type=Path))
@number("--port", "The port on 127.0.0.1; 0: a free one.  [default: 0]", least=0, end=65535)
@path("--ort-web", "The npm package onnxruntime-web.  [default: that in NODE_PATH]", "DIR")
@path("--site", "Write the page and all it takes as static files for any web host, and serve nothing.", "DIR")
@guarded
def serve(bundle: Path, port: int | None, ort_web: Path | None, site: Path | None) -> None:
    """Serve the page of BUNDLE on this machine until Ctrl-C; a browser proves the bundle by onnxruntime-web.

    The address is printed, and has a secret part. Only the visitor's browser runs the bundle's graph. Only files that
    the manifest lists are served.
    """
    from posenc_export.show.serving import Server, check_site, find_library, offer_of, serve_until_stopped, write_site

    if site is not None and port is not None:
        raise BadInput("--site writes files, and serves nothing on --port: give one of them")
    if site is not None:
        check_site(site)
    library = find_library(ort_web)
    offer = offer_of(bundle, library)
    if site is not None:
        size = write_site(offer, library, site)
        show = f"python -m http.server --bind 127.0.0.1 --directory {shlex.quote(str(site))}"
        click.echo(f"wrote {decoded(str(site))}: {size:,} bytes; {show} shows it")
        return
    server = Server(port or 0, offer.resources, offer.policy)
    serve_until_stopped(server, lambda url: click.echo(f"{url} shows {decoded(str(bundle))}, until Ctrl-C"))
