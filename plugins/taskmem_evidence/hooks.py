"""Hook of the evidence plug-in: verifiers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from taskmem_hookspecs import EvidenceVerifier, hookimpl

if TYPE_CHECKING:
    from taskmem_evidence.urls import UrlVerifier


@hookimpl(trylast=True)
def evidence_verifier(kind: str) -> EvidenceVerifier | None:
    """Return the verifier for claims of kind `file`, `url` or `commit`; None for other kinds."""
    match kind:
        case "file":
            from taskmem_evidence.files import FileVerifier

            return FileVerifier()
        case "url":
            return _load_url_verifier()
        case "commit":
            from taskmem_evidence.commits import CommitVerifier

            return CommitVerifier()
        case _:
            return None


@cache
def _load_url_verifier() -> UrlVerifier:
    """Return the process's verifier: the trusted certificates are read once."""
    from taskmem_evidence.urls import UrlVerifier

    return UrlVerifier()
