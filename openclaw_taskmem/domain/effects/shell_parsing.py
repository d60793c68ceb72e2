"""Split the text of a command like a shell, without running anything.

Nothing is guessed: a text that cannot be split with certainty is marked.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_ENDS: Final = ";&|()\n"
_DISCARDS: Final = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")


class SimpleCommand(NamedTuple):
    """A program with its arguments, between two operators."""

    words: tuple[str, ...]
    """Without quotes; assignments come first, then the program."""
    writes: bool
    """True if its output is redirected into a file."""


class Script(NamedTuple):
    """A text, split like a shell does."""

    commands: tuple[SimpleCommand, ...]
    inner: tuple[str, ...]
    """Texts of substituted commands: `$(…)`, backticks, `<(…)`."""
    whole: bool
    """True if all of it was understood; False: a quote, bracket or here-document is not closed."""


def split_script(text: str) -> Script:
    """Split a text into commands; substituted commands are returned as texts."""
    return _Splitter(text).split()


class _Splitter:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.commands: list[SimpleCommand] = []
        self.inner: list[str] = []
        self.whole = True
        self.words: list[str] = []
        self.writes = False
        self.word: list[str] | None = None
        self.target: str | None = None
        """The operator whose file, or end of text, is the next word."""
        self.here: list[str] = []
        """The lines that end the texts which begin on the next line."""

    def split(self) -> Script:
        while self.at < len(self.text):
            self._read_character(self.text[self.at])
        self._end_command()
        return Script((*self.commands,), (*self.inner,), self.whole)

    def _read_character(self, character: str) -> None:
        if self._read_quotes(character):
            return
        after = self.text[self.at + 1 : self.at + 2]
        if character == "#" and self.word is None:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif character in "<>" or (character == "&" and after == ">"):
            self.at += character == "&"
            self._redirect()
        elif character in _ENDS:
            self._end_command()
            self.at += 1
            if character == "\n":
                self._skip_here_documents()
        elif character.isspace():
            self._end_word()
            self.at += 1
        else:
            self._add_text(character)
            self.at += 1

    def _read_quotes(self, character: str) -> bool:
        """Read a quoted or substituted part as a whole; False: there is none here."""
        after = self.text[self.at + 1 : self.at + 3]
        if character == "\\":
            if after[:1] != "\n":
                self._add_text(after[:1])
            self.at += 2
        elif character == "'":
            self._add_text(self._read_until("'", 1))
        elif character == '"':
            self._read_double_quotes()
        elif character == "`":
            self._add_text("")
            self.inner.append(self._read_until("`", 1))
        elif character == "$" and after == "((":
            self._add_text(self._read_until("))", 3))
        elif character in "$<>" and after[:1] == "(":
            self._add_text("")
            self.inner.append(self._read_substitution())
        else:
            return False
        return True

    def _add_text(self, text: str) -> None:
        self.word = [*(self.word or ()), text]

    def _read_until(self, end: str, skip: int) -> str:
        """Read up to an end mark, and continue after it."""
        start = self.at + skip
        found = self.text.find(end, start)
        if found < 0:
            self.whole = False
            found = len(self.text)
        self.at = found + len(end)
        return self.text[start:found]

    def _read_double_quotes(self) -> None:
        self.at += 1
        self._add_text("")
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return
            if character == "\\":
                self._add_text(self.text[self.at + 1 : self.at + 2])
                self.at += 2
            elif character == "`":
                self.inner.append(self._read_until("`", 1))
            elif self.text.startswith("$(", self.at):
                self.inner.append(self._read_substitution())
            else:
                self._add_text(character)
                self.at += 1
        self.whole = False

    def _read_substitution(self) -> str:
        """Read the text of a command in brackets, and continue after them."""
        start = self.at + 2
        inside = _Splitter(self.text)
        inside.at, depth = start, 1
        while inside.at < len(self.text):
            character = self.text[inside.at]
            depth += (character == "(") - (character == ")")
            if depth == 0:
                break
            inside._read_character(character)
        self.whole = self.whole and depth == 0
        self.at = inside.at + 1
        return self.text[start : inside.at]

    def _redirect(self) -> None:
        sign = self.text[self.at]
        if self.word and "".join(self.word).isdigit():
            self.word = None  # the number of the file descriptor
        self._end_word()
        end = self.at
        while end < len(self.text) and self.text[end] in "<>|":
            end += 1
        operator, self.at = self.text[self.at : end], end
        if self.text.startswith("&", self.at):
            self.at += 1
            rest = self.text[self.at : self.at + 2].strip()
            if rest[:1].isdigit() or rest[:1] == "-":
                self.at += 1
                return
        elif operator == "<<" and self.text.startswith("-", self.at):
            self.at += 1
        self.target = ">" if sign == ">" or ">" in operator else operator

    def _end_word(self) -> None:
        if self.word is None:
            return
        word, self.word = "".join(self.word), None
        target, self.target = self.target, None
        if target == ">":
            self.writes = self.writes or word not in _DISCARDS
        elif target == "<<":
            self.here.append(word)
        elif target is None:
            self.words.append(word)

    def _end_command(self) -> None:
        self._end_word()
        if self.words or self.writes:
            self.commands.append(SimpleCommand((*self.words,), self.writes))
        self.words, self.writes = [], False

    def _skip_here_documents(self) -> None:
        """Skip the here-documents that begin on this line."""
        for end in self.here:
            while self.at < len(self.text):
                line, _, _ = self.text[self.at :].partition("\n")
                self.at += len(line) + 1
                if line.strip() == end:
                    break
            else:
                self.whole = False
        self.here = []
