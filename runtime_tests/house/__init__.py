"""The house: schemes that ship to nobody, a file each; a proof that a new one needs no file of the project changed.

To import a file registers its scheme. `RECORDS` holds the records, taken out of the registry at once: other tests,
collected in the same process, go through all that is registered.
"""

import importlib
import pkgutil
from collections.abc import Mapping

from posenc.scheme import SCHEMES, Scheme


def _own() -> Mapping[str, Scheme]:
    """Import the files of this folder, and take what they register out again."""
    shipped = list(SCHEMES)
    for file in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{file.name}")
    return {name: SCHEMES._items.pop(name) for name in list(SCHEMES) if name not in shipped}


RECORDS = _own()
