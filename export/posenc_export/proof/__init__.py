"""An export is planned, recorded, judged and reported; a file of another program is proved in the same way.

`exporter` goes from a target to a bundle on disk: it has `write` make the files, and the rest of this room judge them.

* `planning` says which calls are tried, by the ports alone. `recording` runs eager PyTorch and the float64 reference in
  each, which gives the golden data.
* `runtimes` load a file and run it, each in a file of its own. `checks` read a file without running it.
* `judging` compares outputs, `running` does all of that in order, in processes of its own (`apart`), and `report` says
  what came of it.
* `stored` holds every row of a stored tensor. `generation` writes tokens with a model, `loaded_model` lets users do so.
* `foreign` proves files that others wrote, `benchmarks` times, `cuda` goes through all schemes on a GPU.

A new runtime is a file in `runtimes`, a new check one in `checks`. A tolerance is derived, never tuned.
"""
