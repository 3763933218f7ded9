"""Logs as one JSON object a line, with the key of the object they speak of."""

import json
import logging
import sys
from datetime import UTC, datetime

_NOISY = ("kopf", "aiohttp", "asyncio", "httpx", "httpcore", "kubernetes", "urllib3")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """time, level, logger, message and every `extra` (such as key) of a record."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the record holds."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {
            name: value
            for name, value in vars(record).items()
            if name not in _STANDARD and isinstance(value, str | int | float | bool)
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def configure_logging(level: str) -> None:
    """Send all logs to stderr as JSON; libraries speak from warning on, unless the level is debug."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(level.upper())
    if level != "debug":
        for name in _NOISY:
            logging.getLogger(name).setLevel(logging.WARNING)
