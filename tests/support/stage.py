"""A plug-in whose targets and judges do what a test says, rude things included."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import ModuleType

from taskmem_hookspecs import Frame, Met, Picture, Ruling, Target, TargetNotFound, hookimpl
from taskmem_hookspecs.testing import DAWN

Rule = Callable[[str, Frame], Awaitable[Ruling]]
"""What a judge does with a condition and a frame."""


class Scene:
    """One target: a text that grows, and whether it is gone."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self.name = name
        self.text = ""
        self.gone: str | None = None
        self.echoes: tuple[str, ...] = ()
        self.note: str | None = None
        self.whole = False
        """Whether a wait reads all of it, or only what comes from now on."""
        self.looks = 0
        self.closed = 0
        self.unread: set[str] = set()
        """The places from which waits read on."""
        self.attending = 0
        """How many are waiting for it to change."""
        self.trouble: Exception | None = None
        self.hangs = False
        """Whether nothing that is asked of it is answered."""
        self.picture: Picture | None = None
        self._events: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- what a test does -------------------------------------------------------

    def show(self, text: str) -> None:
        """Add to what is seen, and say so."""
        self.text += text
        self.stir()

    def leave(self, why: str) -> None:
        """Go away."""
        self.gone = why
        self.stir()

    async def hang(self) -> None:
        """Return at once, or never."""
        if self.hangs:
            await asyncio.Event().wait()

    def stir(self) -> None:
        """Say that something changed."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        for event in self._events:
            event.set()

    # --- what the core asks: each watch sees the same scene ---------------------

    def watch(self) -> ScriptedWatch:
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._events.add(event)
        return ScriptedWatch(self, event)


class ScriptedWatch:
    """Plays `Watch`."""

    def __init__(self, scene: Scene, event: asyncio.Event) -> None:
        self._scene = scene
        self._event = event

    async def here(self) -> Frame:
        await self._scene.hang()
        place = "0" if self._scene.whole else str(len(self._scene.text))
        return Frame(seen_at=DAWN, place=place, tail=self._scene.text)

    async def end(self) -> str:
        return str(len(self._scene.text))

    def note_places(self, places: Collection[str]) -> None:
        self._scene.unread = {*places}

    async def look(self, place: str, start: str) -> Frame:
        scene = self._scene
        scene.looks += 1
        await scene.hang()
        if scene.trouble is not None:
            raise scene.trouble
        return Frame(
            seen_at=DAWN,
            place=str(len(scene.text)),
            text=scene.text[int(place) :],
            tail=scene.text[int(start) :],
            echoes=scene.echoes,
            note=scene.note,
            gone=scene.gone,
            picture=scene.picture,
        )

    async def wait_for_change(self) -> None:
        self._scene.attending += 1
        try:
            await self._event.wait()
        finally:
            self._scene.attending -= 1
        self._event.clear()

    async def close(self) -> None:
        self._scene.closed += 1


class ScriptedJudge:
    """Plays `Judge`: yes when the condition's words have been shown."""

    def __init__(self, stage: Stage, wake_when: str) -> None:
        self.name = "script"
        self._stage = stage
        self._wake_when = wake_when
        self._seen = ""

    async def rule(self, frame: Frame) -> Ruling:
        self._stage.asked[self._wake_when] += 1
        if rule := self._stage.rules.get(self._wake_when):
            return await rule(self._wake_when, frame)
        self._seen += frame.text or ""
        if self._wake_when in self._seen:
            return Ruling(met=Met.YES, observation=f"{self._wake_when} was shown")
        return Ruling(met=Met.NO, observation=f"Last seen: {self._seen[-60:]!r}")


class Stage:
    """The plug-in: `pty:NAME` for each scene that a test sets."""

    def __init__(self) -> None:
        self.scenes: dict[str, Scene] = {}
        self.rules: dict[str, Rule] = {}
        """What the judge of a condition does instead of reading."""
        self.asked: Counter[str] = Counter()
        """How often each condition was judged."""
        self.delay = 0.0
        """Seconds that it takes to begin to watch."""
        self.watched: Counter[str] = Counter()
        """How often a watch on each target was begun."""

    def scene(self, name: str) -> Scene:
        """Set a scene."""
        return self.scenes.setdefault(name, Scene(self, name))

    def says(
        self, wake_when: str, marks: Mapping[str, str], otherwise: str = "Nothing yet."
    ) -> None:
        """Let a condition hold once a mark is shown, with what is then observed."""

        async def rule(_: str, frame: Frame) -> Ruling:
            for mark, observation in marks.items():
                if mark in (frame.text or ""):
                    return Ruling(met=Met.YES, observation=observation)
            return Ruling(met=Met.NO, observation=otherwise)

        self.rules[wake_when] = rule

    def keep_frames(self, wake_when: str) -> list[Frame]:
        """Let a condition never hold, and return the list of the frames it is judged by."""
        frames: list[Frame] = []

        async def rule(_: str, frame: Frame) -> Ruling:
            frames.append(frame)
            return Ruling(met=Met.NO, observation="kept")

        self.rules[wake_when] = rule
        return frames

    async def watch(self, target: Target) -> ScriptedWatch:
        self.watched[target.name] += 1
        await asyncio.sleep(self.delay)
        if target.name not in self.scenes:
            known = ", ".join(self.scenes) or "nothing"
            raise TargetNotFound(f"There is no {target}; there is {known}.")
        return self.scenes[target.name].watch()

    def plugin(self) -> ModuleType:
        """Return the module that is registered."""
        return a_plugin(
            wait_sensor=lambda target: self,
            wait_judge=lambda wake_when: ScriptedJudge(self, wake_when),
        )


def a_plugin(**hooks: Callable[..., object]) -> ModuleType:
    """Return a plug-in with these hooks."""
    module = ModuleType("made_up")
    for name, function in hooks.items():
        setattr(module, name, hookimpl(function))
    return module
