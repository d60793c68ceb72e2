"""Asking verifiers, each in an event loop of its own, under the hooks' limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from openclaw_taskmem.seams import parts
from openclaw_taskmem.seams.seams import Seams
from taskmem_hookspecs import Claim, Finding

T = TypeVar("T")


def findings(seams: Seams, claim: Claim) -> tuple[Finding, ...]:
    """Return what all verifiers of a claim's kind found; who failed found nothing."""
    found: list[Finding] = []
    for verifier in seams.verifiers(claim.kind):
        call = verifier.verify

        def verify() -> Finding:
            return parts.finding(asyncio.run(_awaited(call(claim))))  # noqa: B023 - called at once

        answer = seams.ask(verifier, "verify", verify)
        if answer is not None:
            found.append(answer)
    return tuple(found)


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
