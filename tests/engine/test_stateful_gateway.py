"""The engine under a gateway whose starts and turns come in any order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import consumes, invariant, precondition, rule

from openclaw_taskmem.domain.callers import GatewayPresence
from openclaw_taskmem.domain.wakes.outbox import Delivery
from openclaw_taskmem.engine import gateway_reports
from taskmem_hookspecs import Wake, WakeCause, WakeState
from tests.engine.stateful import NewStore, patience, play, stores
from tests.engine.test_stateful import Crash, Engine

PLUGIN = "openclaw-plugin"
FATES = st.sampled_from([None, "before", "after"])
OPEN = (WakeState.DUE, WakeState.SENT)


class Gateway(Engine):
    """Some wakes go to a plug-in, which tells what becomes of them, or is restarted."""

    def __init__(self, new_store: NewStore) -> None:
        super().__init__(new_store)
        self.boots = 1
        self.in_hand: dict[str, str | None] = {}
        """What the plug-in has taken and told nothing of yet: the session of each."""
        self.ended: dict[str, WakeState] = {}

    def say(self, fate: str | None, change: Any, *given: Any) -> None:
        """Report something; a daemon that dies meanwhile is told again."""
        self.store.fate = fate
        try:
            change(self.world.context, *given)
        except Crash:
            self.restart()
            change(self.world.context, *given)
        self.store.fate = None

    def in_state(self, state: WakeState) -> set[str]:
        return {wake.wake_id for wake in self.world.wakes(state)}

    def wakes_of_delivery(self, delivery_id: str) -> list[Wake]:
        return [w for w in self.world.wakes() if w.delivery_id == delivery_id]

    @rule(delivery=consumes(Engine.claimed), fate=FATES)
    def plugin_takes(self, delivery: Delivery, fate: str | None) -> None:
        self.in_hand[delivery.delivery_id] = delivery.message.session_key
        self.confirm_delivery(delivery, PLUGIN, fate)

    @rule(boots=st.integers(0, 1), age=st.integers(0, 20), fate=FATES)
    def gateway_comes(self, boots: int, age: int, fate: str | None) -> None:
        """It has started anew, or has only found its daemon again."""
        self.boots += boots
        before = self.in_state(WakeState.ACKNOWLEDGED)
        presence = GatewayPresence(
            boot=f"boot_{self.boots}",
            transport=PLUGIN,
            version="1",
            started_at=self.clock.now() - timedelta(seconds=age),
            main_session="s",
        )
        self.say(fate, gateway_reports.handle_gateway_start, presence)
        if boots:
            self.in_hand.clear()
            lost = [w for w in self.world.wakes(WakeState.SENT) if w.transport == PLUGIN]
            assert lost == []
        assert self.in_state(WakeState.ACKNOWLEDGED) == before

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data(), error=st.sampled_from([None, "503"]), fate=FATES)
    def turn_ends(self, data: Any, error: str | None, fate: str | None) -> None:
        """A turn took a message; its model answered, or did not."""
        delivery_id = data.draw(st.sampled_from(sorted(self.in_hand)))
        session = self.in_hand.pop(delivery_id) or "agent:main:main"
        self.end_turn(session, delivery_id, error, fate)

    @rule(delivery=Engine.claimed, error=st.sampled_from([None, "503"]), fate=FATES)
    def turn_is_quicker_than_the_receipt(
        self, delivery: Delivery, error: str | None, fate: str | None
    ) -> None:
        session = delivery.message.session_key or "agent:main:main"
        self.end_turn(session, delivery.delivery_id, error, fate)

    def end_turn(self, session: str, delivery_id: str, error: str | None, fate: str | None) -> None:
        answered = self.in_state(WakeState.ACKNOWLEDGED)
        carried = self.wakes_of_delivery(delivery_id)
        self.say(fate, gateway_reports.settle_turn_wakes, session, [delivery_id], error)
        now = {wake.wake_id: wake for wake in self.world.wakes()}
        if error is not None:
            assert self.in_state(WakeState.ACKNOWLEDGED) == answered
        for wake in carried:
            after = now[wake.wake_id]
            if wake.state is WakeState.SENT and error is None:
                assert after.state is WakeState.ACKNOWLEDGED
            elif wake.state is WakeState.SENT:
                assert after.state is WakeState.DUE
                assert "503" in (after.last_error or "")
            elif wake.state is not WakeState.DUE:
                assert after == wake

    # --- what always holds ------------------------------------------------------

    @invariant()
    def every_wake_is_on_its_way_or_at_an_end(self) -> None:
        for wake in self.world.wakes():
            if wake.state is WakeState.DUE:
                # What was sent, and is owed again, says why until it is claimed again.
                again = wake.attempts > wake.sends
                assert wake.due_at is not None
                assert wake.sends == 0 or wake.last_error is not None or again
            elif wake.state is WakeState.SENT:
                assert wake.last_error is None or wake.cause is WakeCause.WAIT
                assert (wake.due_at is None) is (wake.cause is WakeCause.STUCK)
            else:
                assert wake.due_at is None

    @invariant()
    def what_has_ended_stays_so(self) -> None:
        for wake in self.world.wakes():
            before = self.ended.get(wake.wake_id)
            if before is WakeState.SUPERSEDED:
                # The receipt of what was seen to arrive may come later.
                assert wake.state in (before, WakeState.ACKNOWLEDGED)
            elif before is not None:
                assert wake.state is before
            if wake.state not in OPEN:
                self.ended[wake.wake_id] = wake.state

    @invariant()
    def no_task_is_owed_two_alerts(self) -> None:
        open_ = [wake.task_id for wake in self.world.wakes(*OPEN) if wake.cause is WakeCause.STUCK]
        assert len(open_) == len(set(open_))


@stores
@patience
def test_wakes_keep_their_rules_under_a_gateway(new_store: NewStore) -> None:
    play(Gateway, new_store)
