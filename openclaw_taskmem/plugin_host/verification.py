"""Asking verifiers, each in an event loop of its own, under the hooks' limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from openclaw_taskmem.plugin_host import validation
from openclaw_taskmem.plugin_host.facade import PluginHost
from taskmem_hookspecs import Claim, Finding

T = TypeVar("T")


def collect_findings(plugin_host: PluginHost, claim: Claim) -> tuple[Finding, ...]:
    """Return what all verifiers of a claim's kind found; who failed found nothing."""
    found: list[Finding] = []
    for verifier in plugin_host.find_verifiers(claim.kind):
        call = verifier.verify

        def verify() -> Finding:
            return validation.require_finding(asyncio.run(_await_answer(call(claim))))  # noqa: B023 - called at once

        answer = plugin_host.call_part(verifier, "verify", verify)
        if answer is not None:
            found.append(answer)
    return tuple(found)


async def _await_answer(answer: Awaitable[T]) -> T:
    return await answer
