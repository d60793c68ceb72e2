"""Looks at what agents say they made: files, and what answers at a URL."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from taskmem_hookspecs import EvidenceVerifier, hookimpl

if TYPE_CHECKING:
    from taskmem_evidence.urls import UrlVerifier


@hookimpl(trylast=True)
def evidence_verifier(kind: str) -> EvidenceVerifier | None:
    """Look at claims of the kinds `file` and `url`."""
    match kind:
        case "file":
            from taskmem_evidence.files import FileVerifier

            return FileVerifier()
        case "url":
            return _load_url_verifier()
        case _:
            return None


@cache
def _load_url_verifier() -> UrlVerifier:
    """Return the one of this process: what it trusts is read once."""
    from taskmem_evidence.urls import UrlVerifier

    return UrlVerifier()
