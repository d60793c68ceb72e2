"""The phrases of each form of condition.

`docs/conditions.md` prints these tables; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskmem_hookspecs.conditions import Answer, Comparison

Phrases = frozenset[tuple[str, ...]]


def parse_phrases(text: str) -> Phrases:
    """Parse a table of phrases, separated by bars."""
    return frozenset(tuple(phrase.split()) for phrase in text.split("|"))


COMMAND: Final = parse_phrases(
    "it|command|process|program|script|build|job|run|tests|window|dialog"
)
"""Words for the command or the window."""
PLACE: Final = parse_phrases(
    "it|output|terminal|screen|console|log|file|window|title|page|dialog|command|"
    "process|program|script|build|job|run|tests|last line"
)
"""Words for what shows a text."""
OBJECT: Final = parse_phrases(
    "text|word|words|string|phrase|message|line|lines|text that says|message saying|"
    "line with|line containing|line matching|line that says|line that matches|output|"
    "output matching|something matching|anything matching"
)
"""Words for a text."""
SHOWS: Final = parse_phrases(
    "shows|prints|displays|says|contains|outputs|logs|reports|reads|includes|has|writes"
)
HIDES: Final = parse_phrases("no longer shows|no longer says|no longer contains|stops showing")
APPEARS: Final = parse_phrases(
    "appears|appear|shows up|show up|comes up|is shown|are shown|is printed|"
    "are printed|"
    "is displayed|are displayed|is logged|are logged|is visible|are visible|is there|"
    "has appeared|have appeared|was printed|is output|is seen|occurs|is written|"
    "is found|matches|match|is reported|are reported"
)
GONE: Final = parse_phrases(
    "is gone|are gone|disappears|disappear|has disappeared|have disappeared|vanishes|"
    "goes away|go away|is no longer shown|are no longer shown|is no longer visible|"
    "no longer appears|is not shown any more"
)
PLACED: Final = parse_phrases(
    "in output|in terminal|in log|in file|in window|in title|in console|on screen|"
    "on terminal|on page|on line|on one line|on its own line|in line|on console"
)
ENDS: Final = parse_phrases(
    "exits|exit|ends|finishes|finish|completes|terminates|stops|closes|is over|is done|"
    "is finished|is complete|is completed|is closed|has finished|has ended|has exited|"
    "has completed|has stopped|has closed|are done|are over|are finished|have finished"
)
SUCCEEDS: Final = parse_phrases(
    "succeeds|succeed|passes|pass|exits successfully|ends successfully|"
    "finishes successfully|completes successfully|has succeeded|have passed|"
    "is successful"
)
FAILS: Final = parse_phrases(
    "fails|fail|crashes|has failed|have failed|exits with error|ends with error|"
    "exits with failure|exits non-zero|exits nonzero|exits with non-zero status|"
    "exits with nonzero status|exits with non-zero code|exits with non-zero exit code|"
    "exits with non-zero exit status|exits unsuccessfully"
)
EXITS_WITH: Final = parse_phrases(
    "exits with|ends with|finishes with|terminates with|returns|exits with status|"
    "exits with code|exits with exit code|exits with exit status|ends with status|"
    "finishes with status|returns status|returns exit code|returns code"
)
PROMPT: Final = parse_phrases("prompt|shell prompt|shell's prompt|command prompt")
RETURNS: Final = parse_phrases(
    "returns|is back|comes back|appears|reappears|is shown|has returned|is there"
)
ASKS: Final[Mapping[Answer, Phrases]] = {
    Answer.PASSWORD: parse_phrases(
        "asks for password|asks for passphrase|prompts for password|"
        "prompts for passphrase|is asking for password|wants password"
    ),
    Answer.YES_NO: parse_phrases(
        "asks yes/no|asks y/n|asks yes/no question|asks y/n question|"
        "asks for confirmation|asks to confirm|asks for yes/no|asks for y/n"
    ),
    Answer.ANY: parse_phrases(
        "asks for input|asks something|asks anything|asks question|asks for anything|"
        "asks|waits for input|is waiting for input|prompts for input|needs input|"
        "asks for answer"
    ),
}
QUIET: Final = parse_phrases(
    "quiet for|is quiet for|goes quiet for|has been quiet for|stays quiet for|"
    "silent for|is silent for|has been silent for|no output for|no new output for|"
    "nothing new for|nothing is printed for|nothing new is printed for|"
    "nothing new is shown for|nothing changes for|prints nothing for|"
    "no new lines for|no new line for|nothing new appears for|nothing appears for"
)
PROGRESS: Final = parse_phrases("progress|percentage|progress bar")
"""Words for what reaches a percentage, besides the command."""
REACHES: Final = parse_phrases(
    "reaches|is at|hits|gets to|shows|is|reaches at least|is at least|at least|passes"
)
REACHED: Final = parse_phrases(
    "is reached|is shown|appears|done|complete|completed|is done|is complete|or more|"
    "is displayed|is printed|reached|progress"
)
COMPARED: Final[Mapping[Comparison, Phrases]] = {
    Comparison.LESS: parse_phrases(
        "<|is below|is less than|drops below|falls below|is under|goes below"
    ),
    Comparison.AT_MOST: parse_phrases("<=|is at most|≤"),
    Comparison.MORE: parse_phrases(
        ">|is above|is more than|is greater than|exceeds|goes above|is over|rises above"
    ),
    Comparison.AT_LEAST: parse_phrases(">=|≥|is at least|reaches|reaches at least|hits|gets to"),
    Comparison.EQUAL: parse_phrases("==|=|equals|is equal to|is exactly"),
}
UNITS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
"""Seconds by unit."""
PERCENT: Final = frozenset(("%", "percent"))
TABLES: Final = (
    *(COMMAND, PLACE, OBJECT, SHOWS, HIDES, APPEARS, GONE, PLACED, ENDS, SUCCEEDS),
    *(FAILS, EXITS_WITH, PROMPT, RETURNS, QUIET, PROGRESS, REACHES, REACHED),
    *ASKS.values(),
    *COMPARED.values(),
)
"""All tables of phrases, for the documentation."""
FORMS: Final = (
    '"text" appears',
    '"text" is gone',
    "/regex/ appears",
    "exits",
    "succeeds",
    "fails",
    "exits with N",
    "prompt returns",
    "asks for a password",
    "asks yes or no",
    "asks for input",
    "quiet for N s",
    "N %",
    "NAME >= N",
)
"""The forms, as a refusal lists them."""
ARTICLES: Final = frozenset(("a", "an", "the", "its", "any"))
