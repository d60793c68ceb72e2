"""What a third party writes; it must type-check, and is never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Sequence
from datetime import UTC, datetime

from taskmem_hookspecs import (
    Checkup,
    DoctorCheck,
    DoctorRow,
    DoctorState,
    QueryFacts,
    Question,
    Reader,
    ReaderStatus,
    ReaderUnavailable,
    Readiness,
    Reading,
    ResumeFacts,
    ResumePacket,
    StuckVerdict,
    Task,
    Wake,
    WakeReceipt,
    WakeTransport,
    WakeUndelivered,
    hookimpl,
)
from taskmem_hookspecs.testing import TransportSuite, check_plugin


class Ntfy:
    name = "ntfy"

    async def deliver(self, wake: Wake) -> WakeReceipt:
        if not wake.text:
            raise WakeUndelivered("nothing to say")
        return WakeReceipt(delivered_at=datetime.now(UTC), note=wake.key)


@hookimpl
def wake_transport(name: str) -> WakeTransport | None:
    return Ntfy() if name in ("auto", "ntfy") else None


@hookimpl
def on_stuck(task: Task, verdict: StuckVerdict) -> None:
    steps: list[str] = [step.text for step in task.steps]
    assert len(steps) < verdict.idle_seconds


@hookimpl(wrapper=True)
def build_resume_packet(facts: ResumeFacts) -> Generator[None, ResumePacket, ResumePacket]:
    packet = yield
    return packet.model_copy(update={"extra": {"branch": facts.task.metadata["b"]}})


class Server:
    name = "ntfy"
    costs = False

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        waits = await checkup.ask("waits", {"all": True})
        state = DoctorState.OK if checkup.status else DoctorState.WARN
        yield DoctorRow(id="ntfy.waits", state=state, detail=f"There are {waits}.")


@hookimpl
def health_checks() -> Sequence[DoctorCheck]:
    return [Server()]


class Llama:
    name = "llama"
    model = "llama-9"
    sees_pictures = False
    calls_per_day = None

    def status(self) -> ReaderStatus:
        return ReaderStatus(readiness=Readiness.READY, detail="It runs here.")

    async def read(self, question: Question) -> Reading:
        if question.has_pictures:
            raise ReaderUnavailable("It sees no pictures.", retry_seconds=60)
        return Reading(answer="{}", reader=self.name, model=self.model)


@hookimpl
def reader() -> Reader:
    return Llama()


class Oracle:
    def answer(self, facts: QueryFacts, query: str) -> str | None:
        return f"{facts.task.name}: {query}" if facts.waits else None


class TestNtfy(TransportSuite):
    def make_transport(self, tmp_path: object) -> WakeTransport:
        return Ntfy()


def test_my_hooks() -> None:
    import third_party_plugin

    check_plugin(third_party_plugin)
