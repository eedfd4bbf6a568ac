"""Where would each form of each scheme run on CUDA? A script, run by hand after a change of graphs or of ONNX Runtime.

    python runtime_tests/scripts/placements.py    # the table goes into docs/reference/measured/files.md

It needs no GPU, and runs no kernel: `posenc cuda --placement` with the page in the place of --save.
"""

import datetime
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from scripts.compat_table import PAGE, PLACED


def measure() -> int:
    """Place every form and put the table into the page; return how many files leave more to the CPU than they say."""
    from posenc_export.common.machine import facts
    from posenc_export.common.markdown import table
    from posenc_export.proof.cuda.place import place
    from posenc_export.proof.cuda.plan import placements
    from posenc_export.proof.cuda.table import PLACED_COLUMNS, placed_headline, placed_rows

    placed = list(place(placements(), lambda text: print(text, flush=True)))
    machine = ", ".join(f"{name} {value}" for name, value in facts().items())
    day = datetime.datetime.now(datetime.UTC).date()
    head = f"Measured on {day}: {machine}. {placed_headline(placed)}."
    put_part(PAGE, PLACED, f"{head}\n\n{table(PLACED_COLUMNS, placed_rows(placed))}\n")
    return sum(one.failed for one in placed)


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    sys.exit(min(measure(), 1))
