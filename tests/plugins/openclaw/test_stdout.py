import asyncio
import io
import os
import sys
import threading
from contextlib import suppress

import pytest

from taskmem_hookspecs import WakeUndelivered
from taskmem_hookspecs.testing import TransportSuite, a_wake
from taskmem_openclaw.transports.stdout import Stdout


class TestStdout(TransportSuite):
    def make_transport(self, tmp_path):
        self.out = io.StringIO(newline="\n")
        return Stdout(self.out)

    def make_failing(self, tmp_path):
        closed = io.StringIO()
        closed.close()
        return Stdout(closed)

    def list_received(self, tmp_path):
        return self.out.getvalue().split("\n")[:-1]


def deliver(transport):
    return asyncio.run(transport.deliver(a_wake(text="wake up")))


def test_it_prints_on_what_is_the_standard_output_at_the_time(capsys):
    transport = Stdout()
    deliver(transport)
    assert capsys.readouterr().out == "wake up\n"


def test_each_wake_is_there_at_once(tmp_path):
    with (tmp_path / "out").open("w") as out:
        deliver(Stdout(out))
        assert (tmp_path / "out").read_text() == "wake up\n"


def test_without_an_output_nothing_is_delivered(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(WakeUndelivered, match=r"cannot be written \(there is none\)"):
        deliver(Stdout())


def test_where_nobody_reads_any_more_nothing_is_delivered():
    reader, writer = os.pipe()
    os.close(reader)
    out = os.fdopen(writer, "w")
    try:
        with pytest.raises(WakeUndelivered, match="Broken pipe"):
            deliver(Stdout(out))
    finally:
        with suppress(BrokenPipeError):
            out.close()


def test_a_text_that_the_output_cannot_show_is_not_delivered(tmp_path):
    with (tmp_path / "out").open("w", encoding="ascii") as out:
        with pytest.raises(WakeUndelivered, match="ascii"):
            asyncio.run(Stdout(out).deliver(a_wake(text="é")))
        deliver(Stdout(out))
    assert (tmp_path / "out").read_text() == "wake up\n"


class CrowdedOutput(io.StringIO):
    """An output that sees whether two write at once."""

    def __init__(self):
        super().__init__()
        self.both = threading.Barrier(2)
        self.met = False

    def write(self, text):
        with suppress(threading.BrokenBarrierError):
            self.both.wait(0.1)
            self.met = True
        return super().write(text)


async def test_one_wake_is_printed_after_the_other():
    out = CrowdedOutput()
    transport = Stdout(out)
    await asyncio.gather(*(transport.deliver(a_wake(text=text)) for text in "ab"))
    assert not out.met
    assert sorted(out.getvalue()) == ["\n", "\n", "a", "b"]


class StuckOutput(io.StringIO):
    """An output whose reader has stopped reading."""

    def __init__(self):
        super().__init__()
        self.begun, self.over = threading.Event(), threading.Event()

    def write(self, text):
        self.thread = threading.current_thread()
        self.begun.set()
        self.over.wait()
        return super().write(text)


def test_a_reader_that_stopped_does_not_hold_up_the_end():
    out = StuckOutput()

    async def begin():
        delivery = asyncio.create_task(Stdout(out).deliver(a_wake(text="late")))
        await asyncio.to_thread(out.begun.wait)
        delivery.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delivery

    try:
        asyncio.run(begin())
        assert out.thread.daemon
    finally:
        out.over.set()
        out.thread.join(30)
    assert out.getvalue() == "late\n"
