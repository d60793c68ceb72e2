"""The words of conditions: phrases by their meaning, and units.

Every word of a form is in one of these tables. `docs/conditions.md` lists them; a test compares the
two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskmem_hookspecs.conditions import Answer, Comparison, State

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
SHOW_VERBS: Final = parse_phrases(
    "shows|prints|displays|says|contains|outputs|logs|reports|reads|includes|has|writes"
)
HIDE_VERBS: Final = parse_phrases("no longer shows|no longer says|no longer contains|stops showing")
APPEAR_VERBS: Final = parse_phrases(
    "appears|appear|shows up|show up|comes up|is shown|are shown|is printed|"
    "are printed|"
    "is displayed|are displayed|is logged|are logged|is visible|are visible|is there|"
    "has appeared|have appeared|was printed|is output|is seen|occurs|is written|"
    "is found|matches|match|is reported|are reported"
)
NEW_WORDS: Final = parse_phrases(
    "new|newly|another|next|from now on|after now|since now|from here on|again|anew"
)
"""Words with which only what was not there before counts."""
GONE_PHRASES: Final = parse_phrases(
    "is gone|are gone|disappears|disappear|has disappeared|have disappeared|vanishes|"
    "goes away|go away|is no longer shown|are no longer shown|is no longer visible|"
    "no longer appears|is not shown any more"
)
PLACE_PHRASES: Final = parse_phrases(
    "in output|in terminal|in log|in file|in window|in title|in console|on screen|"
    "on terminal|on page|on line|on one line|on its own line|in line|on console"
)
END_VERBS: Final = parse_phrases(
    "exits|exit|ends|finishes|finish|completes|terminates|stops|closes|is over|is done|"
    "is finished|is complete|is completed|is closed|has finished|has ended|has exited|"
    "has completed|has stopped|has closed|are done|are over|are finished|have finished"
)
CLOSE_VERBS: Final = parse_phrases("exits|exit|has exited|closes|is closed|has closed|terminates")
"""The verbs of those that say that a window closes."""
SUCCESS_VERBS: Final = parse_phrases(
    "succeeds|succeed|passes|pass|exits successfully|ends successfully|"
    "finishes successfully|completes successfully|has succeeded|have passed|"
    "is successful"
)
FAILURE_VERBS: Final = parse_phrases(
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
RETURN_VERBS: Final = parse_phrases(
    "returns|is back|comes back|appears|reappears|is shown|has returned|is there"
)
ASK_VERBS: Final[Mapping[Answer, Phrases]] = {
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
QUIET_PHRASES: Final = parse_phrases(
    "quiet for|is quiet for|goes quiet for|has been quiet for|stays quiet for|"
    "silent for|is silent for|has been silent for|no output for|no new output for|"
    "nothing new for|nothing is printed for|nothing new is printed for|"
    "nothing new is shown for|nothing changes for|prints nothing for|"
    "no new lines for|no new line for|nothing new appears for|nothing appears for"
)
PROGRESS: Final = parse_phrases("everything|progress|percentage|progress bar")
"""Words for what reaches a percentage, besides the command."""
REACH_VERBS: Final = parse_phrases(
    "reaches|is at|hits|gets to|shows|is|reaches at least|is at least|at least|passes"
)
REACHED_PHRASES: Final = parse_phrases(
    "is reached|is shown|appears|done|complete|completed|is done|is complete|or more|"
    "is displayed|is printed|reached|progress"
)
COMPARISON_PHRASES: Final[Mapping[Comparison, Phrases]] = {
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
STATE_VERBS: Final[Mapping[State, Phrases]] = {
    State.THERE: parse_phrases(
        "appears|exists|shows up|created|written|present|available|has appeared|comes back|back"
    ),
    State.GONE: parse_phrases(
        "gone|disappears|has disappeared|goes away|removed|deleted|no longer exists|"
        "does not exist|does not exist any more"
    ),
    State.CHANGED: parse_phrases(
        "changes|changed|has changed|modified|updated|touched|changes again"
    ),
}
"""Phrases for each state of a target that shows no text, without "is" before them."""
HAS_BEEN: Final = parse_phrases("has been|have been|gets|got")
SIZES: Final[Mapping[Comparison, Phrases]] = {
    Comparison.LESS: parse_phrases("<|below|less than|smaller than|under"),
    Comparison.AT_MOST: parse_phrases("<=|≤|at most"),
    Comparison.MORE: parse_phrases(">|above|more than|larger than|bigger than|over|exceeds"),
    Comparison.AT_LEAST: parse_phrases(">=|≥|at least|reaches|grows to|has"),
    Comparison.EQUAL: parse_phrases("==|=|exactly|equals"),
}
"""Phrases that compare a size, without "is" before them."""
SIZE_WORDS: Final = parse_phrases("size|file size|size in bytes")
BYTES: Final[Mapping[str, float]] = {
    **dict.fromkeys(("b", "byte", "bytes"), 1.0),
    **{f"{letter}b": 1000.0**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024.0**power for power, letter in enumerate("kmgt", 1)},
}
"""Bytes by unit, in lower case."""
THING: Final = parse_phrases("it|this|file|folder|directory|path|lock|lock file|socket")
"""Words for such a target."""
PAGE: Final = parse_phrases("it|page|url|site|website|server|service|endpoint|address|host")
"""Words for a page."""
PAGE_VERBS: Final[Mapping[State, Phrases]] = {
    State.THERE: parse_phrases(
        "answers|responds|up|back up|back|online|back online|comes back online|goes online|"
        "reachable|available|loads|comes up|comes back|"
        "ready|healthy|live|works"
    ),
    State.GONE: parse_phrases(
        "down|goes down|gone|offline|unreachable|stops answering|stops responding|fails|"
        "does not answer"
    ),
    State.CHANGED: parse_phrases("changes|changed|has changed|modified|updated"),
}
"""Phrases for each state of a page, without "is" before them."""
STATUS_WORDS: Final = parse_phrases(
    "status|status code|http|http status|returns|returns status|answers|answers with|"
    "answers with status|responds with|responds with status|gives"
)
CERTIFICATE_WORDS: Final = parse_phrases(
    "certificate expires in|certificate expires within|certificate ends in|certificate days"
)
"""Phrases before the number of days for which a page's certificate is still good."""
BEHIND_NUMBERS: Final = parse_phrases("day|days|ok")
"""Phrases behind a page's status, and behind days."""
STATUS_NAMES: Final = parse_phrases("status|status code|http status|exit status|exit code")
PRICE_NAMES: Final = parse_phrases("price")
"""Names of what changes, besides fields."""
FIELD_VERBS: Final = parse_phrases("is|==|=|equals|becomes|turns|is equal to|is exactly")
"""Phrases between a field and its value."""
INSTANT: Final = parse_phrases("it|time|instant|moment")
INSTANT_VERBS: Final = parse_phrases("comes|has come|due|reached|strikes|arrives|time")
TASK: Final = parse_phrases("it|this|task|this task|that task|other task|work")
"""Words for another task."""
TASK_VERBS: Final[Mapping[State, Phrases]] = {
    State.COMPLETED: parse_phrases(
        "completes|complete|completed|done|finished|finishes|succeeds|completes successfully|"
        "has completed|has finished|has succeeded|marked completed|marked complete"
    ),
    State.ENDED: parse_phrases("ends|ended|has ended|over|no longer open|closes|closed"),
    State.FAILED: parse_phrases("fails|failed|has failed|marked failed|given up|aborted"),
    State.CANCELLED: parse_phrases("cancelled|canceled|called off"),
    State.BLOCKED: parse_phrases("blocked|becomes blocked|waiting for user|waits for user"),
    State.CHANGED: parse_phrases("changes|changed|has changed|updated|makes progress"),
}
"""Phrases for each state of a task, without "is" before them."""
STEP: Final = parse_phrases("step|step number")
STEP_VERBS: Final = parse_phrases(
    "done|complete|completed|completes|finished|finishes|ends|ticked|ticked off|marked done|"
    "has finished|has completed"
)
"""Phrases that say that a step is done, without "is" before them."""
STEP_ENDS: Final = parse_phrases("completes|finishes|has finished|has completed|has done")
"""Phrases that say it of the task, with the step behind them."""
SESSION: Final = parse_phrases(
    "it|this|session|child session|agent|child agent|sub-agent|subagent|sub agent|child|worker|"
    "helper|run|work|last words|answer|reply"
)
"""Words for a session whose work another waits for."""
SESSION_VERBS: Final[Mapping[State, Phrases]] = {
    State.ENDED: parse_phrases(
        "ends|ended|has ended|over|finishes|finished|has finished|finishes work|"
        "has finished work|done|returns|has returned|returns result|returns answer|answers|"
        "has answered|reports back|closes|closed|stops|stopped|has stopped|stops running|"
        "no longer running|exits|exited|has exited|terminates|terminated|has terminated"
    ),
    State.COMPLETED: parse_phrases(
        "completes|complete|completed|has completed|completes work|has completed work|succeeds|"
        "succeeded|has succeeded|completes successfully|ends well|ends successfully|"
        "finishes successfully|finished successfully|has finished successfully"
    ),
    State.FAILED: parse_phrases(
        "fails|failed|has failed|aborted|killed|errors|errors out|times out|has timed out|crashes|"
        "crashed|dies|has died"
    ),
    State.LOST: parse_phrases("lost|gets lost|vanishes|has vanished"),
}
"""Phrases for each state of a session, without "is" before them."""
LIMIT: Final = parse_phrases("it|this|limit|usage limit|rate limit|limit of use|quota")
"""Words for a host's limit of use."""
LIMIT_VERBS: Final = parse_phrases(
    "over|ends|ended|has ended|resets|reset|has reset|lifts|lifted|lifted again|gone|passed|"
    "has passed|available|available again|is over"
)
"""Phrases that say that it is over, without "is" before them."""
SAY_VERBS: Final = parse_phrases("say|answers|answered|replies|replied|contain|mention|mentions")
"""Phrases before a text in a session's last words, besides those of any text."""
LAST_WORDS: Final = parse_phrases("in last words|in answer|in reply|in result")
"""Phrases behind such a text."""
UNITS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
"""Seconds by unit."""
PERCENT: Final = frozenset(("%", "percent"))
NO_NAMES: Final = parse_phrases(
    "about|above|after|almost|approaches|approaching|around|at|before|below|beyond|by|crosses|"
    "down|drops|exceeds|exceeding|falls|from|greater|just|less|more|most|nearly|never|not|of|only|over|"
    "passed|past|reached|reaching|roughly|some|than|through|to|under|up|within|without|"
    "all|backup|clone|compilation|copy|deployment|download|downloads|export|import|install|"
    "installation|migration|overall|restore|sync|task|training|transfer|update|upgrade|upload|"
    "uploads|whole|work"
)
"""Words before a percentage that name no bar unless they are quoted."""
TABLES: Final = (
    COMMAND,
    PLACE,
    OBJECT,
    SHOW_VERBS,
    HIDE_VERBS,
    APPEAR_VERBS,
    NEW_WORDS,
    GONE_PHRASES,
    PLACE_PHRASES,
    END_VERBS,
    SUCCESS_VERBS,
    FAILURE_VERBS,
    EXITS_WITH,
    PROMPT,
    RETURN_VERBS,
    QUIET_PHRASES,
    PROGRESS,
    REACH_VERBS,
    REACHED_PHRASES,
    *ASK_VERBS.values(),
    *COMPARISON_PHRASES.values(),
    *STATE_VERBS.values(),
    THING,
    HAS_BEEN,
    PAGE,
    *PAGE_VERBS.values(),
    STATUS_WORDS,
    CERTIFICATE_WORDS,
    BEHIND_NUMBERS,
    STATUS_NAMES,
    PRICE_NAMES,
    FIELD_VERBS,
    INSTANT,
    INSTANT_VERBS,
    TASK,
    *TASK_VERBS.values(),
    SESSION,
    *SESSION_VERBS.values(),
    SAY_VERBS,
    LAST_WORDS,
    STEP,
    STEP_VERBS,
    STEP_ENDS,
    *SIZES.values(),
    SIZE_WORDS,
)
"""All tables of phrases, for the documentation."""
