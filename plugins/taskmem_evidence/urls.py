"""Verify claims that a URL responds.

Only the response is proven: a URL does not show since when it has responded.

Only addresses that `is_askable` allows are requested, also behind redirects.

A claim is refuted by what is known to be absent: a page, or a server. A denial (a status that
refuses access, a sign-in page, a network that does not lead there) says nothing of the page, nor
does slowness: the claim is unproven then.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import Final

import httpx

from taskmem_evidence.commits import is_on_remote
from taskmem_evidence.findings import (
    ClaimDoubted,
    ClaimRefuted,
    ClaimUnchecked,
    build_verified_finding,
)
from taskmem_hookspecs import Claim, Finding
from taskmem_program.web_access import (
    PrivateAddress,
    Reach,
    WebClient,
    WebFailure,
    format_url,
    parse_url,
)

TOTAL_SECONDS: Final = 1.6
"""Time limit for name lookup, redirects and body together. A hook has 2 s. Seconds."""
CONNECT_SECONDS: Final = 0.7
"""Time limit to connect to one address; it leaves time for a second address. Seconds."""
LARGEST_BODY_BYTES: Final = 1 << 20
"""Maximum size of a body that is read. Bytes."""
_ABSENT_STATUSES: Final = (404, 410, *range(500, 511))
"""Statuses that say that nothing is there, or that the server is broken. All other errors deny
access, or want another kind of request, and say nothing about the content."""
_NOT_FOUND: Final = 404
_EMPTY_STATUSES: Final = (204, 205)
"""Successes that never have a body."""
_SIGN_IN: Final = frozenset(
    ("auth", "authorize", "login", "oauth2", "saml", "signin", "sign_in", "sign-in", "sso")
)
"""Parts of paths behind which servers let people sign in."""


class UrlVerifier:
    """Verifies by GET that a URL responds with content; follows redirects, also to other hosts."""

    def __init__(self) -> None:
        self._web = WebClient(TOTAL_SECONDS, CONNECT_SECONDS)

    async def verify(self, claim: Claim) -> Finding:
        """Verify a claim; the finding contains none of the body."""
        try:
            return await self._verify_url(claim)
        except WebFailure as error:
            doubt = ClaimRefuted if error.is_absent else ClaimUnchecked
            return doubt(str(error)).finding
        except ClaimDoubted as error:
            return error.finding

    async def _verify_url(self, claim: Claim) -> Finding:
        url = parse_url(claim.subject)
        allowed = os.environ.get("TASKMEM_EVIDENCE_URLS", "").strip() or "all"
        if allowed == "none":
            raise ClaimUnchecked(
                f"{format_url(url)} is not asked: TASKMEM_EVIDENCE_URLS is none. Claim a file "
                "or a recorded command."
            )
        reach: Reach = "public" if allowed == "public" else "all"
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                async with self._web.open_answer(url, reach, _refuse_sign_in) as (page, answer):
                    return await _judge_answer(claim, page, answer)
        except TimeoutError:
            sentence = f"{format_url(url)} did not answer within {TOTAL_SECONDS:g} s."
            raise ClaimUnchecked(sentence) from None
        except PrivateAddress as error:
            raise ClaimUnchecked(
                f"{str(error).removesuffix('.')}, and is not asked: TASKMEM_EVIDENCE_URLS is "
                "public. Claim a file or a recorded command."
            ) from None


def _refuse_sign_in(url: httpx.URL, target: httpx.URL) -> None:
    """Raise `ClaimUnchecked` for a redirect to where people sign in."""
    if not _SIGN_IN.isdisjoint(target.path.lower().split("/")):
        raise ClaimUnchecked(
            f"{format_url(url)} redirects to {format_url(target)}, to sign in first: it may not "
            "be seen from here."
        )


async def _judge_answer(claim: Claim, url: httpx.URL, answer: httpx.Response) -> Finding:
    """Return the finding for a response.

    Raises:
        ClaimRefuted: The response is not as claimed.
        ClaimUnchecked: Access is denied, or the response broke off.
    """
    status = answer.status_code
    is_challenge = answer.headers.get("cf-mitigated") == "challenge"
    if status in _ABSENT_STATUSES and not is_challenge:
        if status == _NOT_FOUND and is_on_remote(claim.folder or "", url.host, url.path):
            raise ClaimUnchecked(
                f"{format_url(url)} answers with status {status} to who is not signed in. It "
                "belongs to the remote of the task's repository, which may be private."
            )
        raise ClaimRefuted(f"{format_url(url)} answers with status {status}.")
    if not answer.is_success:
        raise ClaimUnchecked(
            f"{format_url(url)} answers with status {status}: it may not be seen from here."
        )
    checksum, size, whole = await _hash_body(url, answer)
    if size == 0 and status not in _EMPTY_STATUSES:
        raise ClaimRefuted(f"{format_url(url)} answers with status {status} and nothing.", size=0)
    if not whole and claim.checksum is not None:
        raise ClaimUnchecked(
            f"{format_url(url)} is larger than {LARGEST_BODY_BYTES:,} bytes, too large to be"
            " summed; claim it without a checksum."
        )
    part = "" if whole else "the first "
    return build_verified_finding(
        claim,
        checksum,
        size,
        f"{format_url(url)} answers with status {status}; {part}{size:,} bytes were read.",
    )


async def _hash_body(url: httpx.URL, answer: httpx.Response) -> tuple[str, int, bool]:
    """Return the SHA-256 and size of the body that was read, and whether that is all of it."""
    content, size = hashlib.sha256(), 0
    try:
        async for chunk in answer.aiter_raw():
            kept = chunk[: LARGEST_BODY_BYTES - size]
            content.update(kept)
            size += len(kept)
            if len(kept) < len(chunk):
                return content.hexdigest(), size, False
    except httpx.TimeoutException as error:
        raise TimeoutError from error
    except httpx.HTTPError:
        raise ClaimUnchecked(f"{format_url(url)} broke off its answer.") from None
    return content.hexdigest(), size, True
