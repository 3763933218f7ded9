"""API keys from a mounted Secret: salted hashes by caller's name, re-read when the Secret changes. Makes keys, too:
`python -m workslice_router.api_keys NAME`.
"""

import hashlib
import hmac
import logging
import re
import secrets
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Final

from workslice_router.openai_errors import Reason, Refused, refusal

log = logging.getLogger(__name__)

KEY_PREFIX: Final = "wsk-"
_NAME: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
_HASH: Final = re.compile(r"^sha256:([0-9a-f]{16,128}):([0-9a-f]{64})$")
_LONGEST_KEY: Final = 512
_REMEMBERED: Final = 4096


class ApiKeys:
    """Who may call. Without a directory everybody may; with one that is empty or unreadable nobody may."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._hashes: dict[str, tuple[bytes, bytes]] = {}
        self._verified: OrderedDict[bytes, str] = OrderedDict()
        self._fingerprint: object = None
        self._secret = secrets.token_bytes(32)
        if directory is not None:
            self._fingerprint = _fingerprint(directory)
            self._load(directory)

    def authenticate(self, authorization: bytes | None) -> str:
        """Name of the caller, "" when no keys are configured.

        Raises:
            Refused: 401, the header is missing or its key is not one of ours.
        """
        if self._directory is None:
            return ""
        if authorization is None:
            raise _unauthorized("The request carries no API key.")
        scheme, _, key = authorization.strip().partition(b" ")
        key = key.strip()
        if scheme.lower() != b"bearer" or not key or len(key) > _LONGEST_KEY:
            raise _unauthorized("The Authorization header is not of the form 'Bearer KEY'.")
        # Keyed, so that neither the table in memory nor the time of a look-up says anything about keys.
        remembered = hmac.digest(self._secret, key, "sha256")
        name = self._verified.get(remembered)
        if name is None:
            name = self._find(key)
            if name is None:
                raise _unauthorized("The API key is not valid.")
            self._verified[remembered] = name
            if len(self._verified) > _REMEMBERED:
                self._verified.popitem(last=False)
        else:
            self._verified.move_to_end(remembered)
        return name

    def reload_if_changed(self) -> None:
        """Read the directory again when a file came, went or changed; call it every few seconds."""
        if self._directory is None:
            return
        fingerprint = _fingerprint(self._directory)
        if fingerprint != self._fingerprint:
            self._fingerprint = fingerprint
            self._load(self._directory)

    def _find(self, key: bytes) -> str | None:
        found = None
        for name, (salt, digest) in self._hashes.items():
            if hmac.compare_digest(hashlib.sha256(salt + key).digest(), digest):
                found = name
        return found

    def _load(self, directory: Path) -> None:
        hashes: dict[str, tuple[bytes, bytes]] = {}
        try:
            for path in sorted(directory.iterdir()):
                if path.name.startswith(".") or not path.is_file():
                    continue  # a mounted Secret keeps its versions in ..data and the like
                try:
                    match = _HASH.match(path.read_text(encoding="ascii").strip())
                except (OSError, UnicodeDecodeError):
                    match = None
                if match is None or not _NAME.match(path.name):
                    log.error("API key %r is not of the form sha256:SALT:DIGEST and is ignored", path.name)
                    continue
                hashes[path.name] = (bytes.fromhex(match.group(1)), bytes.fromhex(match.group(2)))
        except (OSError, ValueError) as error:
            log.error("cannot read the API keys in %s: %s", directory, error)
        self._hashes = hashes
        self._verified.clear()
        if hashes:
            log.info("read %d API keys", len(hashes))
        else:
            log.error("no valid API key in %s: every request is answered 401 until one is there", directory)


def hash_key(key: str, salt: bytes) -> str:
    """The Secret's value for a key."""
    return f"sha256:{salt.hex()}:{hashlib.sha256(salt + key.encode()).hexdigest()}"


def _fingerprint(directory: Path) -> object:
    """Changes whenever a file of the directory does; follows the links of a mounted Secret."""
    try:
        return tuple((path.name, _version(path)) for path in sorted(directory.iterdir()))
    except OSError as error:
        return str(error)


def _version(path: Path) -> object:
    try:
        status = path.stat()
    except OSError as error:  # a link whose target has just gone: the other files must still be seen to change
        return str(error)
    return status.st_mtime_ns, status.st_size, status.st_ino


def _unauthorized(detail: str) -> Refused:
    return Refused(refusal(Reason.INVALID_API_KEY, detail=detail))


def main(arguments: list[str]) -> int:
    """Make a key for a caller and print it once, with the value that belongs into the Secret."""
    if len(arguments) != 1 or not _NAME.match(arguments[0]):
        print("usage: python -m workslice_router.api_keys NAME", file=sys.stderr)
        print(
            "NAME: letters, digits, '.', '_' and '-', at most 63; it is the caller in logs and metrics.",
            file=sys.stderr,
        )
        return 2
    name = arguments[0]
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    print(f"key (shown only now; give it to the caller): {key}")
    print(f"value for the Secret, under the name {name!r}: {hash_key(key, secrets.token_bytes(16))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
