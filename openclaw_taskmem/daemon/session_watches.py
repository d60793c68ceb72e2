"""Watch what hosts tell of their sub-agents and limits of use, and judge how these stand."""

from __future__ import annotations

from openclaw_taskmem.daemon.commit_watches import CommitSensor
from openclaw_taskmem.domain.conditions import session_states, usage_limits
from openclaw_taskmem.domain.conditions.session_states import SessionState
from openclaw_taskmem.engine import sub_agents
from openclaw_taskmem.engine.usage_limits import read_limit
from taskmem_hookspecs import Frame, TargetGone


class SessionSensor(CommitSensor):
    """Implements `Sensor` for sub-agents."""

    refuse_condition = staticmethod(session_states.refuse_condition)
    is_met = staticmethod(session_states.is_met)

    def look(self, name: str, start: str | None) -> Frame:
        """Return how a sub-agent stands; its last words are there once its work has ended."""
        del start
        agent = sub_agents.find_sub_agent(self._context(), name)
        if agent is None:
            raise TargetGone(f"{name} is no longer known: its work ended long ago.")
        has_ended = agent.state is not SessionState.RUNNING
        note = session_states.describe_state(agent)
        return Frame(
            seen_at=self.clock.now(),
            place=f"{agent.state} {agent.changed_at.isoformat()}",
            states=session_states.list_states(agent),
            text=agent.words if has_ended else None,
            note=note,
            gone=note if has_ended else None,
        )


class LimitSensor(CommitSensor):
    """Implements `Sensor` for the limits of use of hosts."""

    refuse_condition = staticmethod(usage_limits.refuse_condition)
    is_met = staticmethod(session_states.is_met)

    def look(self, name: str, start: str | None) -> Frame:
        """Return whether a host's limit is over."""
        del name, start
        limit = read_limit(self._context())
        return Frame(
            seen_at=self.clock.now(),
            place=str(limit and (limit.over_at or limit.reached_at)),
            states=usage_limits.list_states(limit),
            note=usage_limits.describe_limit(limit),
        )
