"""Asks daemons over HTTP whether they are well."""

import ssl
import urllib.error
import urllib.request


def answers_well(url: str, timeout: float = 2) -> bool:
    """Say whether the URL answers 200 within `timeout` seconds."""
    # Some daemons make their own serving certificate at start, and nothing secret is sent: no verification.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # No proxy: the addresses exist on this machine only.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=timeout) as answer:
            return int(answer.status) == 200
    except (urllib.error.URLError, OSError):
        return False
