"""Web hosts that know nothing of this project: Python's own server of a folder."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def any_host(folder: Path) -> Iterator[str]:
    """Yield the address of a folder that Python's own server shows."""
    words = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            port = re.search(r"port (\d+)", process.stdout.readline())
            assert port is not None
            yield f"http://127.0.0.1:{port[1]}/"
        finally:
            process.terminate()
