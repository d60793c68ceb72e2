"""Test any `Reader` against the contract: a suite for its author to subclass."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from pathlib import Path

import pytest

from taskmem_hookspecs.readers import (
    Reader,
    ReaderRefused,
    ReaderStatus,
    ReaderUnavailable,
    Reading,
)
from taskmem_hookspecs.testing.scripted import JPEG, a_question

PARTS = (
    "plain",
    "\"double\", 'single', `back` and \\ back\\slash\\n\ttab",
    "emoji 👩🏽‍🚀, Arabic سلام, combining é",
    "line\nbreak\u2028separator",
    '{"met": "yes"}',
    "x" * 20_000,
)
"""Texts to ask about, passed on unchanged."""


class ReaderSuite:
    """Subclass it in your tests and implement `make_reader`.

    The other methods are optional; tests that need one you did not implement are skipped.
    """

    @abstractmethod
    def make_reader(self, tmp_path: Path) -> Reader:
        """Return a reader that is ready and answers every question."""

    def make_failing(self, tmp_path: Path) -> Reader | None:
        """Return a reader that fails temporarily; None: skip these tests."""

    def make_refusing(self, tmp_path: Path) -> Reader | None:
        """Return a reader whose service rejects the key; None: skip these tests."""

    def test_it_plays_the_part(self, tmp_path: Path) -> None:
        assert isinstance(self.make_reader(tmp_path), Reader)

    def test_it_has_a_name_that_a_setting_can_hold(self, tmp_path: Path) -> None:
        name = self.make_reader(tmp_path).name
        assert re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", name)
        assert name != "none", "`none` means that nobody is asked"

    def test_its_limit_is_a_number_or_none(self, tmp_path: Path) -> None:
        limit = self.make_reader(tmp_path).calls_per_day
        assert limit is None or limit >= 0

    def test_it_says_in_one_sentence_how_it_stands(self, tmp_path: Path) -> None:
        status = self.make_reader(tmp_path).status()
        assert isinstance(status, ReaderStatus)
        assert status.readiness == "ready"
        assert status.detail.strip()
        assert len(status.detail.splitlines()) == 1

    @pytest.mark.parametrize("part", PARTS, ids=lambda text: ascii(text[:12]))
    def test_a_text_is_answered(self, tmp_path: Path, part: str) -> None:
        reader = self.make_reader(tmp_path)
        assert_sound(reader, asyncio.run(reader.read(a_question(part))))

    def test_pictures_are_answered_by_one_that_sees(self, tmp_path: Path) -> None:
        reader = self.make_reader(tmp_path)
        if not reader.sees_pictures:
            pytest.skip("it sees no pictures")
        reading = asyncio.run(reader.read(a_question("Before:", JPEG, "Now:", JPEG)))
        assert_sound(reader, reading)

    def test_a_question_that_confirms_is_answered_too(self, tmp_path: Path) -> None:
        reader = self.make_reader(tmp_path)
        assert_sound(reader, asyncio.run(reader.read(a_question(confirms=True))))

    def test_several_questions_are_answered_at_once(self, tmp_path: Path) -> None:
        reader = self.make_reader(tmp_path)

        async def ask() -> list[Reading]:
            return await asyncio.gather(*(reader.read(a_question(t)) for t in "abcd"))

        for reading in asyncio.run(ask()):
            assert_sound(reader, reading)

    def test_what_cannot_be_asked_now_is_unavailable(self, tmp_path: Path) -> None:
        failing = self.make_failing(tmp_path)
        if failing is None:
            pytest.skip("give `make_failing` to try it")
        assert_raises(ReaderUnavailable, failing)

    def test_a_key_that_is_refused_is_told_apart(self, tmp_path: Path) -> None:
        refusing = self.make_refusing(tmp_path)
        if refusing is None:
            pytest.skip("give `make_refusing` to try it")
        assert_raises(ReaderRefused, refusing)


def assert_sound(reader: Reader, reading: object) -> None:
    """Check that the reading is complete and names this reader."""
    assert isinstance(reading, Reading)
    assert reading.reader == reader.name
    assert reading.model
    assert reading.answer.strip()
    assert reading.note is None, "the core fills the note in"


def assert_raises(expected: type[ReaderUnavailable], reader: Reader) -> None:
    """Check that two questions raise the error with a sentence on one line."""
    for _ in range(2):
        with pytest.raises(expected) as raised:
            asyncio.run(reader.read(a_question()))
        sentence = str(raised.value)
        assert sentence.strip(), "the error says nothing"
        assert len(sentence.splitlines()) == 1
