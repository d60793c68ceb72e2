"""The core's own answers to hooks, behind everyone else's."""

from __future__ import annotations

from openclaw_taskmem.domain import packet
from taskmem_hookspecs import ResumeFacts, ResumePacket, hookimpl


class Core:
    """Is registered as a plug-in is, and asked behind all others."""

    @staticmethod
    @hookimpl(trylast=True)
    def build_resume_packet(facts: ResumeFacts) -> ResumePacket:
        """Answer with the packet that the domain builds."""
        return packet.build_packet(facts)
