"""Files are written whole or not at all."""

import os

import pytest

from arl_mini.files import write_whole


def test_a_file_and_its_folder_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "new.bin"
    write_whole(path, lambda file: file.write(b"123"))
    assert path.read_bytes() == b"123" and list(path.parent.iterdir()) == [path]


def test_an_old_file_is_replaced(tmp_path):
    path = tmp_path / "old.bin"
    path.write_bytes(b"long old content")
    write_whole(str(path), lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(28, "no space left")])
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "old.bin"
    path.write_bytes(b"old")

    def half(file):
        file.write(b"half of the new")
        file.flush()
        raise error

    with pytest.raises(type(error)):
        write_whole(path, half)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "old.bin"
    path.write_bytes(b"old")
    seen = []

    def slowly(file):
        for part in (b"a", b"b"):
            file.write(part)
            file.flush()
            seen.append(path.read_bytes())

    write_whole(path, slowly)
    assert seen == [b"old", b"old"] and path.read_bytes() == b"ab"


def test_the_bytes_are_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    """Otherwise a power cut could leave an empty file under the right name."""
    order = []
    for name in ("fsync", "replace"):
        plain = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, plain=plain, name=name: order.append(name) or plain(*a))
    write_whole(tmp_path / "one", lambda file: file.write(b"1"))
    assert order == ["fsync", "replace"]


def test_a_file_is_as_open_as_any_other(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_whole(tmp_path / "ours", lambda file: file.write(b"1"))
    modes = [oct((tmp_path / name).stat().st_mode) for name in ("plain", "ours")]
    assert modes[0] == modes[1]


def test_two_writers_at_once_leave_one_whole_file(tmp_path):
    path = tmp_path / "shared"

    def outer(file):
        file.write(b"outer")
        write_whole(path, lambda inner: inner.write(b"inner"))
        assert path.read_bytes() == b"inner"

    write_whole(path, outer)
    assert path.read_bytes() == b"outer" and list(tmp_path.iterdir()) == [path]
