"""Asking verifiers, each in an event loop of its own, under the hooks' limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from openclaw_taskmem.seams import parts
from openclaw_taskmem.seams.seams import PluginHost
from taskmem_hookspecs import Claim, Finding

T = TypeVar("T")


def collect_findings(seams: PluginHost, claim: Claim) -> tuple[Finding, ...]:
    """Return what all verifiers of a claim's kind found; who failed found nothing."""
    found: list[Finding] = []
    for verifier in seams.find_verifiers(claim.kind):
        call = verifier.verify

        def verify() -> Finding:
            return parts.require_finding(asyncio.run(_await_answer(call(claim))))  # noqa: B023 - called at once

        answer = seams.call_part(verifier, "verify", verify)
        if answer is not None:
            found.append(answer)
    return tuple(found)


async def _await_answer(answer: Awaitable[T]) -> T:
    return await answer
