"""The suites for sensors and for judges find what they are there to find."""

import asyncio
from pathlib import Path

import pytest

from taskmem_hookspecs import Frame, Met, NotAllowed, Ruling, Target, TargetGone, TargetNotFound
from taskmem_hookspecs.testing import DAWN, JudgeSuite, SensorSuite
from tests.contract.breaking import broken_rules


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """What never comes is not waited for long."""
    monkeypatch.setattr("taskmem_hookspecs.testing.watching.PATIENCE", 0.1)
    monkeypatch.setattr("taskmem_hookspecs.testing.watching.REFUSAL_SECONDS", 0.1)


# --- sensors ----------------------------------------------------------------------


class Log:
    """A watch that keeps every rule, on a list of lines."""

    def __init__(self, lines):
        self.lines = lines

    def build_frame(self, place, **fields):
        return Frame(seen_at=DAWN, place=place, **fields)

    async def here(self):
        return self.build_frame(await self.end(), tail="\n".join(self.lines))

    async def end(self):
        return str(len(self.lines))

    async def look(self, place, start):
        if self.lines[-1:] == ["gone"]:
            return self.build_frame(place, gone="It was closed.")
        return self.build_frame(await self.end(), text="\n".join(self.lines[int(place) :]))

    async def wait_for_change(self):
        await asyncio.Event().wait()

    async def close(self):
        pass


class Lost(Log):
    """It raises where it has gone away, which is allowed."""

    async def look(self, place, start):
        if self.lines[-1:] == ["gone"]:
            raise TargetGone("It was closed.")
        return await super().look(place, start)


class Once(Log):
    """It shows each line once, whatever the place."""

    shown = 0

    async def look(self, place, start):
        frame = await super().look(str(self.shown), start)
        self.shown = len(self.lines)
        return frame


class InMemory(Log):
    """Its places are numbers of its own."""

    def __init__(self, lines):
        super().__init__(lines)
        self.places = {"0": 0}

    async def end(self):
        self.places[f"{id(self)}.{len(self.lines)}"] = len(self.lines)
        return [*self.places][-1]

    async def look(self, place, start):
        return await super().look(str(self.places.get(place, len(self.lines))), start)


class Blind(Log):
    async def look(self, place, start):
        return self.build_frame(place, text="")


class Behind(Log):
    """Its end lies behind what is still to come."""

    async def end(self):
        return str(len(self.lines) + 1)

    async def here(self):
        return self.build_frame(str(len(self.lines)))

    async def look(self, place, start):
        frame = await super().look(place, start)
        return frame.model_copy(update={"place": str(len(self.lines))})


class Odd(Log):
    async def end(self):
        return f"\x1e{len(self.lines)}"


class Surrogate(Log):
    async def end(self):
        return f"{len(self.lines)}\udcff"


class Stubborn(Log):
    async def wait_for_change(self):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)


class Wordless(Log):
    async def look(self, place, start):
        frame = await super().look(place, start)
        return frame.model_copy(update={"gone": frame.gone and " "})


class NoSensor:
    """It has no `watch`."""


class Everything:
    """It finds whatever is asked for."""

    def __init__(self, lines, kind=Log):
        self.lines = lines
        self.kind = kind

    async def watch(self, target):
        return self.kind(self.lines)


class Finder(Everything):
    async def watch(self, target):
        if target.name == "missing":
            raise TargetNotFound("There is no such thing.")
        return await super().watch(target)


class Renaming(Finder):
    """It knows its targets by another name, which is allowed."""

    async def watch(self, target):
        watch = await super().watch(target)
        return Target(scheme="x", name="other") if target.name == "log" else watch


class Curt(Everything):
    async def watch(self, target):
        if target.name == "missing":
            raise TargetNotFound("")
        return await super().watch(target)


class File(Log):
    """A watch on the lines of a file."""

    def __init__(self, path):
        super().__init__(path.read_text().splitlines())


class Open:
    """It shows any file that an agent names."""

    async def watch(self, target):
        return File(Path(target.name))


class Closed(Open):
    """It shows an agent no file at all."""

    async def watch(self, target):
        if target.within is not None or Path(target.name).name in (".env", "link"):
            raise NotAllowed("That may not be looked at.")
        return await super().watch(target)


class Following(Open):
    """It shows whatever its name leads to by now."""

    async def watch(self, target):
        watch = await super().watch(target)
        watch.here = lambda: File(Path(target.name)).here()
        return watch


RULES_OF_FILES = (
    "an_agent_sees_no_file_outside_its_folders",
    "a_file_with_secrets_is_shown_to_nobody",
    "a_link_that_comes_later_shows_no_secret",
)


def suite_of_files(sensor):
    class Suite(suite_of_sensor(sensor).__class__):
        def make_target(self, tmp_path):
            (tmp_path / "log").touch()
            return Target(scheme="x", name=str(tmp_path / "log"))

    return Suite()


@pytest.mark.parametrize(
    ("sensor", "rules"),
    [(Open, {*RULES_OF_FILES[:2]}), (Following, {*RULES_OF_FILES}), (Closed, set())],
)
def test_a_sensor_that_shows_any_file_fails(tmp_path, sensor, rules):
    broken = broken_rules(suite_of_files(lambda _: sensor()), tmp_path)
    assert broken & {*RULES_OF_FILES} == rules


def test_what_is_shown_otherwise_is_told_by_the_suite(tmp_path):
    class Counted(Log):
        async def look(self, place, start):
            frame = await super().look(place, start)
            return frame.model_copy(update={"text": f"{len(self.lines)} lines"})

    suite = suite_of_sensor(lambda lines: Finder(lines, Counted))
    assert "what_comes_after_a_wait_began_is_shown" in broken_rules(suite, tmp_path)
    suite.is_shown = lambda frame, text: frame.text == f"{len(suite.lines)} lines"
    assert broken_rules(suite, tmp_path) == set()


def suite_of_sensor(build):
    class Suite(SensorSuite):
        def begin(self):
            self.lines = []

        def make_sensor(self, tmp_path):
            return build(self.lines)

        def make_target(self, tmp_path):
            return Target(scheme="x", name="log")

        def show(self, tmp_path, text):
            self.lines.append(text)

        def make_missing(self, tmp_path):
            return Target(scheme="x", name="missing")

        def remove(self, tmp_path):
            self.lines.append("gone")
            return True

    return Suite()


@pytest.mark.parametrize(
    "build", [Finder, Renaming, lambda lines: Finder(lines, Lost)], ids=["log", "renames", "raises"]
)
def test_a_sensor_that_keeps_every_rule_passes(tmp_path, build):
    assert broken_rules(suite_of_sensor(build), tmp_path) == set()


@pytest.mark.parametrize(
    ("build", "rule"),
    [
        (lambda _: NoSensor(), "it_plays_the_part"),
        (Everything, "what_is_missing_is_refused_in_a_sentence"),
        (Curt, "what_is_missing_is_refused_in_a_sentence"),
        (lambda lines: Finder(lines, Blind), "what_comes_after_a_wait_began_is_shown"),
        (lambda lines: Finder(lines, Odd), "what_comes_after_a_wait_began_is_shown"),
        (lambda lines: Finder(lines, Surrogate), "what_comes_after_a_wait_began_is_shown"),
        (lambda lines: Finder(lines, Once), "a_look_from_the_same_place_shows_the_same"),
        (lambda lines: Finder(lines, Once), "two_waits_read_from_places_of_their_own"),
        (lambda lines: Finder(lines, InMemory), "a_place_means_the_same_after_a_restart"),
        (lambda lines: Finder(lines, Behind), "what_comes_after_the_end_is_shown"),
        (lambda lines: Finder(lines, Stubborn), "waiting_for_a_change_can_be_given_up"),
        (lambda lines: Finder(lines, Wordless), "what_goes_away_says_so_in_a_sentence"),
    ],
)
def test_a_sensor_that_breaks_a_rule_fails_it(tmp_path, build, rule):
    assert rule in broken_rules(suite_of_sensor(build), tmp_path)


# --- judges -----------------------------------------------------------------------


class Fair:
    """A judge that keeps every rule."""

    name = "fair"

    def holds(self, frame):
        return "done" in (frame.text or "")

    async def rule(self, frame):
        met = Met.YES if self.holds(frame) else Met.NO
        return Ruling(met=met, observation="It was looked at.")


class Unsure(Fair):
    async def rule(self, frame):
        return Ruling(met=Met.UNSURE, observation="")


class Nameless(Fair):
    name = " "


class Lettered(Fair):
    sides = ("a",)


class Eager(Fair):
    def holds(self, frame):
        return True


class Hopeful(Fair):
    def holds(self, frame):
        return not frame.text or super().holds(frame)


class Sharing(Fair):
    seen = set()  # noqa: RUF012 - that is the fault

    def holds(self, frame):
        self.seen.add(super().holds(frame))
        return True in self.seen


class Impatient(Fair):
    shown = 0

    def holds(self, frame):
        self.shown += 1
        return self.shown > 1


class Upset(Fair):
    def holds(self, frame):
        assert frame.gone is None
        return super().holds(frame)


class NoJudge:
    """It has no `rule`."""

    name = "none"


def suite_of_judge(kind):
    class Suite(JudgeSuite):
        def begin(self):
            Sharing.seen.clear()

        def make_judge(self, tmp_path):
            return kind()

        def make_met(self, tmp_path):
            return [self.build_frame("busy"), self.build_frame("done")]

        def make_unmet(self, tmp_path):
            return [self.build_frame("busy")]

        def build_frame(self, text):
            return Frame(seen_at=DAWN, place="0", text=text, tail=text)

    return Suite()


def test_a_judge_that_keeps_every_rule_passes(tmp_path):
    assert broken_rules(suite_of_judge(Fair), tmp_path) == set()


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (NoJudge, "it_plays_the_part"),
        (Nameless, "it_plays_the_part"),
        (Lettered, "its_sides_are_numbers_of_sides"),
        (Unsure, "what_holds_is_met"),
        (Eager, "what_does_not_hold_is_not_met"),
        (Hopeful, "a_target_that_shows_nothing_does_not_meet_it"),
        (Upset, "the_end_of_a_target_is_judged"),
        (Impatient, "a_frame_may_be_shown_again"),
        (Sharing, "two_waits_are_judged_apart"),
    ],
)
def test_a_judge_that_breaks_a_rule_fails_it(tmp_path, kind, rule):
    assert rule in broken_rules(suite_of_judge(kind), tmp_path)
