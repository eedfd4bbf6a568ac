"""Tensors in files beside a model: read one at a time, from the model's folder alone."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from helpers.written_graphs import graph, node, outside, refused, save
from posenc_export.read.graph.read import read_graph


class TestExternalData:
    def file(self, folder: Path, *tensors: onnx.TensorProto) -> Path:
        nodes = [node("Sum", " ".join(item.name for item in tensors), "y")]
        return save(folder / "m.onnx", graph(nodes, "", "y", tensors))

    def test_a_tensor_is_read_alone_when_it_is_asked_for(self, tmp_path: Path) -> None:
        path = self.file(tmp_path, outside("a", "w/a.data"), outside("b", "w/a.data", offset="16", length="16"))
        assert read_graph(path).missing == ("w/a.data",)
        (tmp_path / "w").mkdir()
        (tmp_path / "w/a.data").write_bytes(np.arange(8, dtype=np.float32).tobytes())
        read = read_graph(path)
        assert read.missing == ()
        assert [read.constants[name].load().tolist() for name in "ab"] == [[0, 1, 2, 3], [4, 5, 6, 7]]

    def test_missing_and_truncated_files_are_named(self, tmp_path: Path) -> None:
        read = read_graph(self.file(tmp_path, outside("a", "a.data", offset="8"), outside("b", "a.data", length="12")))
        with pytest.raises(ValueError, match=r"'a' is in 'a\.data', which is missing: put the file beside the model"):
            read.constants["a"].load()
        (tmp_path / "a.data").write_bytes(bytes(20))
        with pytest.raises(ValueError, match=r"ends at byte 24 of 'a\.data', which has 20: the file is truncated"):
            read.constants["a"].load()
        with pytest.raises(ValueError, match=r"'b' takes 16 bytes and has a length of 12 in 'a\.data'"):
            read.constants["b"].load()

    @pytest.mark.parametrize(
        "location", ["/etc/passwd", "../m.onnx", "a/../../b", "", "C:\\x", "\\\\host\\x", "a\\..\\b"]
    )
    def test_a_location_outside_of_the_folder_is_refused(self, tmp_path: Path, location: str) -> None:
        assert "external data must lie inside the model's folder" in refused(
            self.file(tmp_path, outside("a", location))
        )

    @pytest.mark.parametrize("entry", ["-1", "1.5", "x", "9" * 30, "1_0", " 1"])
    @pytest.mark.parametrize("key", ["offset", "length"])
    def test_an_offset_or_a_length_that_is_no_number_is_refused(self, tmp_path: Path, key: str, entry: str) -> None:
        assert f"has {entry!r} for the {key}" in refused(self.file(tmp_path, outside("a", "a.data", **{key: entry})))

    def test_links_out_of_the_folder_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_bytes(bytes(16))
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "a.data").symlink_to("../secret")
        assert "a link out of the model's folder" in refused(self.file(folder, outside("a", "a.data")))

    def test_links_of_a_download_cache_are_followed(self, tmp_path: Path) -> None:
        blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots"
        blobs.mkdir()
        snapshot.mkdir()
        (blobs / "2").write_bytes(bytes(16))
        self.file(blobs, outside("a", "a.data")).rename(blobs / "1")
        for name, blob in (("m.onnx", "1"), ("a.data", "2")):
            (snapshot / name).symlink_to(f"../blobs/{blob}")
        assert read_graph(snapshot / "m.onnx").constants["a"].load().tolist() == [0, 0, 0, 0]

    def test_locations_that_no_system_has_are_missing(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        long = "x" * 3000  # no system has names of so many letters
        assert read_graph(self.file(tmp_path, outside("v", long))).missing == (long,)
        assert "a link out of the model's folder" in refused(self.file(tmp_path, outside("v", "a")))

    def test_a_folder_in_the_place_of_a_file_is_missing(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        assert read_graph(self.file(tmp_path, outside("v", "a"))).missing == ("a",)

    def test_tensors_of_graphs_inside_are_held_to_the_same(self, tmp_path: Path) -> None:
        def branching(location: str) -> Path:
            inside = graph([node("Neg", "v", "b")], "", "b", [outside("v", location)])
            around = graph([node("If", "d", "b", then_branch=inside, else_branch=inside)], "", "b")
            nodes = [node("If", "c", "y", then_branch=around, else_branch=around), node("Neg", "x", "d")]
            return save(tmp_path / "m.onnx", graph(nodes, "x c", "y"))

        assert read_graph(branching("v.data")).missing == ("v.data",)
        assert "must lie inside the model's folder" in refused(branching("../v.data"))
