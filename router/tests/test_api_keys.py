"""API keys from a mounted Secret."""

import logging
from pathlib import Path

import pytest

from workslice_router.api_keys import ApiKeys, hash_key, main
from workslice_router.openai_errors import Reason, Refused

KEY = "wsk-secret-of-ada"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "ada").write_text(hash_key(KEY, b"salt of sixteen."))
    (tmp_path / "bob").write_text(hash_key("wsk-secret-of-bob", b"another 16 bytes") + "\n")
    return tmp_path


def refusal_of(keys: ApiKeys, authorization: bytes | None) -> bytes:
    with pytest.raises(Refused) as caught:
        keys.authenticate(authorization)
    assert caught.value.refusal.reason is Reason.INVALID_API_KEY
    assert caught.value.refusal.status == 401
    return caught.value.refusal.body


def test_without_a_directory_everyone_may_call() -> None:
    assert ApiKeys(None).authenticate(None) == ""
    assert ApiKeys(None).authenticate(b"Bearer whatever") == ""


def test_a_key_names_its_caller_the_second_time_too(directory: Path) -> None:
    keys = ApiKeys(directory)
    for _ in range(2):
        assert keys.authenticate(f"Bearer {KEY}".encode()) == "ada"
        assert keys.authenticate(b"bearer  wsk-secret-of-bob ") == "bob"


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic " + KEY.encode(),
        KEY.encode(),
        b"Bearer wrong",
        b"Bearer " + b"k" * 10_000,
    ],
)
def test_anything_else_is_refused_without_repeating_what_was_sent(directory: Path, header: bytes | None) -> None:
    body = refusal_of(ApiKeys(directory), header)
    assert b"Authorization: Bearer KEY" in body
    assert b"wrong" not in body
    assert KEY.encode() not in body


def test_a_changed_secret_counts_without_a_restart(directory: Path) -> None:
    keys = ApiKeys(directory)
    assert keys.authenticate(f"Bearer {KEY}".encode()) == "ada"
    (directory / "ada").unlink()
    (directory / "eve").write_text(hash_key("wsk-new", b"0123456789abcdef"))
    keys.reload_if_changed()
    refusal_of(keys, f"Bearer {KEY}".encode())
    assert keys.authenticate(b"Bearer wsk-new") == "eve"


def test_follows_the_links_of_a_mounted_secret(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    for version, key in (("..v1", "old"), ("..v2", "new")):
        (mount / version).mkdir(parents=True)
        (mount / version / "ada").write_text(hash_key(key, b"0123456789abcdef"))
    (mount / "..data").symlink_to("..v1")
    (mount / "ada").symlink_to("..data/ada")
    keys = ApiKeys(mount)
    assert keys.authenticate(b"Bearer old") == "ada"
    (mount / "..next").symlink_to("..v2")
    (mount / "..next").rename(mount / "..data")
    keys.reload_if_changed()
    refusal_of(keys, b"Bearer old")
    assert keys.authenticate(b"Bearer new") == "ada"


def test_a_link_to_nothing_hides_no_change_of_the_other_files(directory: Path) -> None:
    (directory / "gone").symlink_to("..data/gone")
    keys = ApiKeys(directory)
    assert keys.authenticate(f"Bearer {KEY}".encode()) == "ada"
    (directory / "ada").unlink()
    keys.reload_if_changed()
    refusal_of(keys, f"Bearer {KEY}".encode())


@pytest.mark.parametrize("make", [True, False])
def test_an_empty_or_missing_directory_lets_nobody_in_and_says_so(
    tmp_path: Path, make: bool, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "keys"
    if make:
        directory.mkdir()
    with caplog.at_level(logging.ERROR):
        keys = ApiKeys(directory)
    assert "every request is answered 401" in caplog.text
    refusal_of(keys, f"Bearer {KEY}".encode())
    directory.mkdir(exist_ok=True)
    (directory / "ada").write_text(hash_key(KEY, b"0123456789abcdef"))
    keys.reload_if_changed()
    assert keys.authenticate(f"Bearer {KEY}".encode()) == "ada"


@pytest.mark.parametrize("content", ["", KEY, "sha256:zz:00", "md5:00:00", "sha256:00112233:" + "0" * 64])
def test_a_file_that_is_no_hash_is_ignored_and_its_content_is_not_logged(
    directory: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (directory / "mallory").write_text(content)
    with caplog.at_level(logging.INFO):
        keys = ApiKeys(directory)
    assert "'mallory'" in caplog.text
    assert KEY not in caplog.text
    assert keys.authenticate(f"Bearer {KEY}".encode()) == "ada"


def test_the_tool_makes_a_key_that_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ada"]) == 0
    output = capsys.readouterr().out.splitlines()
    key, value = (line.rsplit(": ", 1)[1] for line in output)
    (tmp_path / "ada").write_text(value)
    assert ApiKeys(tmp_path).authenticate(f"Bearer {key}".encode()) == "ada"
    assert key not in value


@pytest.mark.parametrize("arguments", [[], ["two", "names"], ["../etc"], [""]])
def test_the_tool_refuses_a_name_that_cannot_be_a_caller(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "usage" in capsys.readouterr().err
