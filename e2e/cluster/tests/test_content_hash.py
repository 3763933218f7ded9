from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from workslice_cluster.content_hash import content_hash, source_files


def write(root: Path, **contents: str) -> list[Path]:
    root.mkdir(exist_ok=True)
    for name, content in contents.items():
        (root / name).write_text(content)
    return [root / name for name in contents]


def test_the_same_content_at_another_place_has_the_same_hash(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    first = content_hash(write(here, a="1", b="2"), root=here, also=["x"])
    second = content_hash(reversed(write(there, a="1", b="2")), root=there, also=["x"])
    assert first == second


def test_a_changed_byte_a_renamed_file_a_mode_and_an_added_text_change_the_hash(tmp_path: Path) -> None:
    files = write(tmp_path, a="1", b="2")
    seen = [content_hash(files, root=tmp_path)]
    write(tmp_path, b="3")
    seen.append(content_hash(files, root=tmp_path))
    (tmp_path / "b").chmod(0o755)
    seen.append(content_hash(files, root=tmp_path))
    (tmp_path / "b").rename(tmp_path / "c")
    seen.append(content_hash([tmp_path / "a", tmp_path / "c"], root=tmp_path))
    seen.append(content_hash([tmp_path / "a", tmp_path / "c"], root=tmp_path, also=["x"]))
    assert len(set(seen)) == len(seen)


@given(left=st.lists(st.text(max_size=4), max_size=4), right=st.lists(st.text(max_size=4), max_size=4))
def test_two_lists_of_texts_have_one_hash_only_when_they_are_equal(left: list[str], right: list[str]) -> None:
    root = Path("/")
    assert (content_hash([], root=root, also=left) == content_hash([], root=root, also=right)) == (left == right)


def test_byte_code_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    write(tmp_path / "__pycache__", compiled="x")
    (module,) = write(tmp_path, module="x")
    assert source_files(tmp_path) == [module]
