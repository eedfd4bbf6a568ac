"""Which bundles does the page of `posenc serve` prove? A script, run by hand after a change of the page.

    python runtime_tests/scripts/proofs.py FOLDER    # a folder of bundles, as browsers.py leaves it

Each bundle is served, and the button is pressed in the real browser. One line a bundle, and the seconds that it took.
"""

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.browser import browser
from helpers.served import serving
from helpers.visits import visited
from posenc_export.show.serving.library import find_library


def main(folder: Path) -> None:
    """Prove every bundle of a folder, and count what came of them."""
    library, counts = find_library(None), Counter[str]()
    with browser() as chromium:
        for bundle in sorted(path.parent for path in folder.glob("*/manifest.json")):
            start = time.monotonic()
            with serving(bundle, library) as server, visited(chromium, server.door.url) as visit:
                visit.prove()
                words = "; ".join(f"{row[0]} {row[1]}" for row in visit.rows) or visit.status
                reasons = [line for line in visit.lines if line.startswith(("PE", "not run"))]
                print(bundle.name, f"{time.monotonic() - start:.1f} s", words, *reasons, sep=": ", flush=True)
                counts.update(f"{row[0]} {row[1]}" for row in visit.rows)
                counts.update(visit.said)
    print(dict(sorted(counts.items())))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
