"""Watch tasks for those who wait for them, and judge how they stand."""

from __future__ import annotations

from openclaw_taskmem.daemon.commit_watches import CommitSensor
from openclaw_taskmem.domain.conditions import task_states
from openclaw_taskmem.engine import lookup
from taskmem_hookspecs import Frame, TargetGone, TaskNotFound
from taskmem_hookspecs.conditions import State


class TaskSensor(CommitSensor):
    """Implements `Sensor` for tasks."""

    refuse_condition = staticmethod(task_states.refuse_condition)
    is_met = staticmethod(task_states.is_met)

    def look(self, name: str, start: str | None) -> Frame:
        """Return how a task stands."""
        context = self._context()
        try:
            facts = context.store.read_task(name)
        except TaskNotFound as missing:
            raise TargetGone(str(missing)) from missing
        task, run = facts.task, facts.run
        place = f"{task.status} {task.updated_at.isoformat()}"
        if run is not None:
            place = f"{place} {run.state} {run.changed_at.isoformat()}"
        states = task_states.list_states(task, run)
        if start is not None and place != start:
            states |= {State.CHANGED}
        note = task_states.describe_state(task, run, lookup.find_failure(context, task, None))
        return Frame(
            seen_at=self.clock.now(),
            place=place,
            states=states,
            numbers=task_states.list_steps(task),
            note=note,
            gone=note if task.status.terminal else None,
        )
