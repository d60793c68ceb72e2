"""Read which steps a message says are done, or not done after all.

Only a small set of whole phrases marks a step; docs/notes.md lists them. Anything else
marks nothing, and at most earns a hint how to mark. Source: ruling "narration".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from openclaw_taskmem.domain.plan import identity
from taskmem_hookspecs import Value


class StepMarks(Value):
    """What a message says of the steps of a plan; steps are counted from 0."""

    done: frozenset[int] = frozenset()
    reopened: frozenset[int] = frozenset()
    """Steps that it says are not done after all."""
    denied: frozenset[int] = frozenset()
    """Steps that it calls failed or not done."""
    named: frozenset[int] = frozenset()
    """Every step that it names by its number."""
    all_done: bool = False
    """Whether it says "All done", which marks every step where the task completes."""
    sounds_like_progress: bool = False
    """Decides only whether a message without marks is answered with a hint."""


# --- how a step is named --------------------------------------------------------
# A reference to steps is rewritten as ‹1,2,3›, so that phrases need not read numbers.

_WORDS: Final = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
_ORDINALS: Final = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"),
    *("ninth", "tenth"),
)
_N: Final = rf"(?:[0-9]{{1,3}}|{'|'.join(_WORDS)})(?!\w|\.[0-9])"
_SPAN: Final = rf"{_N}(?: ?(?:[-–]|\bto\b|\bthrough\b|\bthru\b) ?{_N})?"
_REFERENCE: Final = re.compile(
    r"\b(?:(?:all (?:of )?)?(?:the )?steps?[ -]?(?:#|no\.? ?|number )?"
    rf"(?P<list>{_SPAN}(?:(?:,? and |, ?| ?& ?)(?:steps? )?{_SPAN})*)"
    rf"(?:(?: ?/ ?| (?:out )?of )(?P<total>{_N}))?(?!\([a-z]\)|[—|(][0-9])"
    rf"|(?:the )?(?P<ordinal>{'|'.join(_ORDINALS)}|final|last) step\b"
    rf"|(?:all (?:of )?(?:the )?(?:(?P<count>{_N}) )?steps|every (?:single )?step)\b)"
    r"(?: (?:of|in|on) (?:the|this|my|our) (?:plan|task)\b)?"
)
_REF: Final = r"‹([0-9,]+)›"


def _rewrite(text: str, size: int, done: Collection[int] = ()) -> str:
    """Return a text whose references to a plan's steps read ‹1,2,3›."""

    def write(match: re.Match[str]) -> str:
        given, total, ordinal, count = match.group("list", "total", "ordinal", "count")
        steps = [*range(1, size + 1)]
        # "The last step" may be the one before, unless it alone is open.
        if ordinal == "last" and not set(done) >= set(range(size - 1)):
            return match[0]
        if ordinal in ("last", "final"):
            steps = steps[-1:]
        elif ordinal:
            steps = [_ORDINALS.index(ordinal) + 1]
        elif given:
            steps = _listed(given)
        wrong = any(each and _number(each) != size for each in (total, count))
        if wrong or not steps or not set(steps) <= set(range(1, size + 1)):
            return match[0]
        return f"‹{','.join(map(str, steps))}›"

    return _REFERENCE.sub(write, text)


def _listed(text: str) -> list[int]:
    """Return the numbers of `1, 2 and 4-6`; a range that runs backwards has none."""
    steps: list[int] = []
    for span in re.finditer(_SPAN, text):
        ends = [_number(each) for each in re.findall(_N, span[0])]
        steps += range(ends[0], ends[-1] + 1)
    return steps


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _WORDS.index(word) + 1


def _steps(text: str) -> set[int]:
    lists = re.findall(_REF, text)
    return {int(number) - 1 for each in lists for number in each.split(",")}


def find_step_numbers(text: str, size: int) -> frozenset[int]:
    """Return which of a plan's `size` steps a text names by number, from 0."""
    lowered = text.lower()
    if "step" not in lowered:
        return frozenset()
    return frozenset(_steps(_rewrite(_plain(lowered), size)))


# --- what is said of it ---------------------------------------------------------

_TICK: Final = r"(?:[✅☑✔✓]\ufe0f?|\[x\])"
_DONE: Final = rf"(?:(?:done|completed?|finished|skipped)(?!\w)|{_TICK})"
_ADVERBS: Final = r"(?: (?:now|already|also|all|both|fully|just|finally|successfully))*"
_TAIL: Final = (
    r"(?: (?:now|already|today|too|successfully|cleanly|as planned"
    r"|with(?:out(?: any)?| no) (?:errors|issues|problems)"
    rf"|in [0-9.]+ ?(?:m?s|sec(?:onds)?|min(?:utes)?|m|h|hours?)|[🎉🚀👍]|{_TICK}))*"
)
_END: Final = r"(?= ?(?:$|[.!…,:()|—–]|-+ | and | but | so ))"
_BULLET: Final = r"(?:[-*+•#]+ |[0-9]{1,3}[.)] )*"
_START: Final = (
    rf"(?:^{_BULLET}(?:{_TICK} )?(?:(?:status|progress|update|summary)[a-z ]*: )?"
    r"|[,—–(|] ?| - |(?= (?:and|but|so) ))"
    r"(?: ?(?:and|but|so|now|then|also|finally|yes|ok|okay|great)[,:]? )*"
)
_SAID_DONE: Final = (
    re.compile(
        rf"{_START}{_REF}(?: ?(?:[:=–—→]|-+) ?"
        rf"|(?: (?:is|are|was|were|has been|have been|got))?{_ADVERBS} )"
        rf"{_DONE}{_TAIL}{_END}"
    ),
    re.compile(
        rf"{_START}(?:(?:i|we)(?:'ve| have)? |(?:i'm|i am|we're|we are|have) (?=done))?"
        r"(?:(?:just|now|already|also|successfully|finally) )*"
        r"(?:(?:done|completed|finished|skipped) ?: ?|done with |finished (?:with )?"
        rf"|completed |skipped |(?:got|marked) (?={_REF} (?:as )?{_DONE}))"
        rf"{_REF}(?: (?:as )?{_DONE})?{_TAIL}{_END}"
    ),
    re.compile(rf"^{_BULLET}{_TICK} {_BULLET}{_REF}{_END}"),
)
_ALL_DONE: Final = re.compile(rf"^{_BULLET}(?:{_TICK} )?all done{_TAIL}{_END}")
_SAID_UNDONE: Final = re.compile(
    r"^(?:(?:actually|correction|oops|sorry|no|wait)[,:]? )*"
    rf"{_REF} (?:is|are|was|were)(?: actually| really)?(?:n't| not)"
    rf"(?: actually| really)? (?:done|completed?|finished)(?: after all)?{_END}"
)
_PLAINLY: Final = re.compile(
    r"actually|really|after all|correction|oops|sorry|^no|wait"
)
# Before a phrase, these make it supposed, wished, asked for, or said by others ...
_DOUBT: Final = re.compile(
    r"[%\"]|'(?:ll|d)\b|n't\b|\b(?:if|unless|until|till|once|when\w*|before|after"
    r"|assum\w+|suppos\w+|should|would|could|might|may|must|can|cannot|will|shall"
    r"|need\w*|want\w*|lets?|tr(?:y|ies|ying)|going|hop(?:e|es|ing|efully)|maybe"
    r"|perhaps|probably|seems?|looks|think\w*|believe\w*|guess|doubt\w*|claim\w*"
    r"|sa(?:y|ys|id)|reads?|logs?|reports?|reported|told|asked|that|wish|goals?|todo"
    r"|next|plan|target|example|remaining|pending|open|missing|left|ensure|not|never"
    r"|no|get|criteri\w+|definition|requires?|depends?|according)\b"
)
# ... and after it, these take it back or tie it to something.
_OBJECTION: Final = re.compile(
    r"[ ,:(—–|.-]*(?:(?:and|but|or) )?(?:(?:if|unless|until|till|once|when|provided|by"
    r"|assuming|pending|except|apart|save|minus|hopefully|maybe|perhaps|probably|but"
    r"|almost|nearly|mostly|partly|partially|tomorrow|tonight|soon|later|or|as soon"
    r"|though|although|however|yet|not(?! (?:needed|necessary|required))|never|no|still"
    r"|false|actually|oops|fail\w*|undone|i (?:think|hope|guess|believe))\b"
    r"|[❌✗✘]|[0-9.]+ ?%"
    r"|[^,.]*\b(?:though|only|dry[ -]run|sa(?:y|ys|id)|claims?|according)\b)"
)
_DENIAL: Final = re.compile(
    r"n't\b|[❌✗✘]|\b(?:not|never|neither|cannot|un(?:done|finished)|incomplete|redo\w*"
    r"|re-?open\w*|revert\w*|fail\w*|broken?|block\w*|abort\w*|stuck)\b"
)
# Who speaks of step 0 counts from 0, and means another step by each number.
_UNSURE: Final = re.compile(
    r"\bstep[ -]?#?(?:0|zero)\b|(?:^|[.!…\n] *)(?:oops|nope|scratch that|just kidding"
    r"|never ?mind|not (?:really|yet)|hopefully|maybe|almost|i (?:think|guess)\b"
    r"|(?:no|wait|actually),? (?:no|not|wait|that|it)\b)"
)
_TROUBLED: Final = (
    r"(?:fail|block|crash|deni|refus|reject|need|requir|expect|suppos|tim|abort|revert"
    r"|interrupt|disconnect|kill|start|look|tri|check|notic|investigat|decid|want|ask"
    r"|wait|us|call|nam|plann|unchang|unfinish)ed\b"
)
_PROGRESS: Final = re.compile(
    rf"(?<!not )(?<!n't )\b(?:done|complete|finished|ok|okay|ready|live|works|passes|up"
    r"|succeeds|built|sent|wrote|made|ran|did|got|set|put|found|green"
    rf"|(?!{_TROUBLED})[a-z]{{2,}}ed)\b|\b[0-9]+ ?/ ?[0-9]+\b|{_TICK}"
)
_ONGOING: Final = re.compile(r"\W*(?!marking|everything|nothing)[a-z]{2,}ing\b")
_READ: Final = 400
"""Characters of a sentence that are read."""
_QUOTED: Final = re.compile(r"`[^`]*`|\"[^\"]*\"|https?://\S+")
_CLAUSE: Final = re.compile(r", |[—–|()]| -+ | and | but ")


def parse_step_marks(
    message: str, plan: Sequence[str], done: Collection[int] = ()
) -> StepMarks:
    """Return what a message says of a plan's steps; `done` are those marked before."""
    own = [identity(step) for step in plan]
    told, reopened, denied, named = set[int](), set[int](), set[int](), set[int]()
    all_done = False
    for sentence in _sentences(_plain(message)):
        unquoted = _QUOTED.sub('"', sentence.lower())
        said = _rewrite(unquoted, len(plan), done).rstrip(".!… ")
        told |= _find_done(said)
        denied |= _find_failed(said)
        reopened |= _find_undone(said)
        named |= _steps(said)
        match = _ALL_DONE.match(said)
        all_done |= match is not None and not _OBJECTION.match(said[match.end() :])
        step = _find_own_words(sentence, own)
        if step is not None and _steps(said) <= {step}:
            told.add(step)
        elif step is not None:
            denied |= _steps(said)
    unsure = _UNSURE.search(_plain(message).lower()) is not None
    return StepMarks(
        done=frozenset() if unsure else frozenset(told - denied - reopened),
        reopened=frozenset(reopened),
        denied=frozenset(denied),
        named=frozenset(named),
        all_done=all_done and not unsure,
        sounds_like_progress=sounds_like_progress(message),
    )


def sounds_like_progress(message: str) -> bool:
    """Whether a message may tell of progress; generous, and in English."""
    return any(
        _PROGRESS.search(_QUOTED.sub('"', sentence))
        for sentence in _sentences(_plain(message).lower())
        if not _ONGOING.match(sentence)
    )


def _plain(text: str) -> str:
    text = re.sub(r"```(?:(?!```)[\s\S])*(?:```)?|[‹›]|\*\*|__", "", text)
    return text.translate(str.maketrans("“”„«»‘’\t", '"""""\'\' '))


def _sentences(text: str) -> Iterator[str]:
    """Yield the statements: no questions, no list under a doubtful heading."""
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?…]) |\n|;", paragraph):
            words = " ".join(sentence.split())
            if words.endswith(":") and _DOUBT.search(words.lower()):
                break
            if words.endswith("?"):
                continue
            # What a phrase marks stands early; the "x" keeps a cut from ending one.
            yield words if len(words) <= _READ else f"{words[:_READ]}x"


def _find_done(said: str) -> set[int]:
    told: set[int] = set()
    for phrase in _SAID_DONE:
        for match in phrase.finditer(said):
            before, after = said[: match.start()], said[match.end() :]
            clause = _CLAUSE.split(after.lstrip(" ,:(—–|-"), maxsplit=1)[0]
            objected = _OBJECTION.match(after) and not re.search(_REF, clause)
            if not objected and not _DOUBT.search(before):
                told |= _steps(match[0])
    return told


def _find_failed(said: str) -> set[int]:
    clauses = _CLAUSE.split(said)
    return {step for each in clauses if _DENIAL.search(each) for step in _steps(each)}


def _find_undone(said: str) -> set[int]:
    match = _SAID_UNDONE.match(said)
    if match is None or _OBJECTION.match(said[match.end() :]):
        return set()
    return _steps(match[0]) if _PLAINLY.search(match[0]) else set()


_OPENED: Final = re.compile(
    rf"{_BULLET}(?:{_TICK}\s|(?:done|completed|finished)\s*[:–—-]\s*)", re.IGNORECASE
)
_CLOSED: Final = re.compile(
    r"(?:\s*(?::|=|→|[–—]|-+\s)\s*|\s+(?:(?:is|are|was)\s+)?(?:now\s+)?)"
    rf"{_DONE}{_TAIL}[.!\s]*$",
    re.IGNORECASE,
)


def _find_own_words(sentence: str, own: Sequence[tuple[str, ...]]) -> int | None:
    """Return the step that a sentence names in its own words and calls done.

    None: there is none, or more than one step has these words.
    """
    opened = _OPENED.match(sentence)
    rest = sentence[opened.end() :] if opened else sentence
    for cut in re.finditer(r"(?= ?[,:(—–]| - |$)", rest):
        words, after = rest[: cut.start()], rest[cut.start() :]
        closed = _CLOSED.search(words)
        if not (opened or closed) or _OBJECTION.match(after.lower()):
            continue
        bare = (words[: closed.start()] if closed else words).strip()
        if (
            bare
            and not _REFERENCE.fullmatch(bare.lower())
            and own.count(identity(bare)) == 1
        ):
            return own.index(identity(bare))
    return None
