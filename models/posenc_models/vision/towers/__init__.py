"""Vision towers of transformers as they can be traced: sizes of images stay numbers in tensors, and no axis depends on them.

`places` has the arithmetic of patches, `grid_functions` what takes the place of the functions of transformers that read
grids into lists, `ragged` what takes the place of splitting, and `traceable` puts both there.
"""

from posenc_models.vision.towers.traceable import traceable_towers

__all__ = ["traceable_towers"]
