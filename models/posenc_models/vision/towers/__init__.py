"""Vision towers of transformers as they can be traced: sizes of images stay numbers in tensors.

`places` has the arithmetic of patches that come in a row, `frames` of those that come with padding. `grid_functions` is
what takes the place of the functions of transformers that read grids into lists, `parts` and `padded` of methods that
loop over images, `whole_rows` of splitting. `traceable` puts all of it there. `sound_blocks` and `sound_windows`
are of towers that read sounds.
"""

from posenc_models.vision.towers.sound_blocks import sounds_in_blocks
from posenc_models.vision.towers.sound_windows import sounds_in_windows
from posenc_models.vision.towers.traceable import traceable_towers

__all__ = ["sounds_in_blocks", "sounds_in_windows", "traceable_towers"]
