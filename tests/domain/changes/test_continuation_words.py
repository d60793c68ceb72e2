"""What the end of a turn says: a question to the user, or a provider that refuses."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from openclaw_taskmem.domain.changes import continuation
from openclaw_taskmem.domain.changes.continuation import ProviderFailureKind

QUESTIONS = {
    "plain": "Shall I deploy it now?",
    "after-statements": "The build is done. It took 3 min. Shall I deploy it?",
    "line-end": "Shall I deploy it?\n\n",
    "space-before": "On continue ?",
    "twice": "Shall I??",
    "bold": "**Shall I deploy it?**",
    "italic": "_Shall I deploy it?_",
    "struck": "~~Shall I?~~",
    "code": "Shall I run `make deploy`?",
    "in-code": "`Shall I?`",
    "heading": "## Next\n\nWhich of both?",
    "list": "- Ship it?",
    "quoted": '"Shall I deploy it?"',
    "curly-quotes": "“Shall I deploy it?”",
    "guillemets": "« On continue ? »",
    "german-quotes": "„Soll ich?“",
    "brackets": "(Shall I deploy it?)",
    "bold-and-quotes": '**"Shall I?"**',
    "emoji": "Shall I deploy it? 🚀",
    "emoji-sequence": "Shall I deploy it? 👩‍💻👍🏽",
    "emoji-variant": "Deploy? ✅️",
    "zero-width": "Deploy?\u200b\u2060",
    "direction-mark": "Deploy?\u200f",
    "non-breaking": "Deploy\u202f?\xa0",
    "japanese": "続けてもいいですか？",
    "japanese-quotes": "「続けますか？」",
    "chinese": "要继续吗？",
    "arabic": "هل أتابع؟",
    "hebrew": "האם להמשיך?",
    "spanish": "¿Sigo con el paso 3?",
    "russian": "Продолжать?",
    "amharic": "ልቀጥል፧",
    "alone": "?",
}
STATEMENTS = {
    "nothing": "",
    "spaces": " \n\t",
    "only-marks": "** _ **",
    "only-emoji": "🚀",
    "plain": "The build is done.",
    "no-full-stop": "The build is done",
    "question-before": "Shall I deploy it? I think so.",
    "question-before-and-emoji": "Shall I? Yes. 🚀",
    "question-before-no-stop": "Shall I? I do it now",
    "answered-by-a-list": "Which one?\n- the first\n- the second",
    "exclamation": "Done!",
    "ellipsis": "Going on…",
    "dots": "Going on...",
    "colon": "Next:",
    "japanese": "終わりました。",
    "japanese-exclamation": "終わりました！",
    "quoted-question": 'The user asked "shall I?".',
    "question-in-brackets": "It is done (is it?).",
    "bold-full-stop": "**Is it? It is.**",
    "a-number": "Did it work? 42",
    "a-query-in-a-link": "See https://example.org/?q=1",
    "a-comma": "Well?,",
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_turn_that_ends_in_a_question_mark_asks(name: str) -> None:
    assert continuation.has_closing_question(QUESTIONS[name])


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_turn_that_ends_in_anything_else_asks_nothing(name: str) -> None:
    assert not continuation.has_closing_question(STATEMENTS[name])


@given(st.text(), st.sampled_from([".", "。", "!", "…", ". 🚀", ".**", '."', ".)"]))
def test_a_statement_never_asks_whatever_came_before(before: str, end: str) -> None:
    assume(not (end == "!" and before.endswith(continuation._QUESTION_MARKS)))  # "?!" asks
    assert not continuation.has_closing_question(before + end)


@given(st.text(), st.text("*_`~\"'”’»)]}> \n\u200b🚀", max_size=9))
def test_a_question_asks_whatever_decorates_it(before: str, after: str) -> None:
    assert continuation.has_closing_question(f"{before}?{after}")


# --- providers ------------------------------------------------------------------

FOR_THE_USER = {
    "401": "HTTP 401: authentication_error: invalid x-api-key",
    "403": "403 Forbidden",
    "unauthorised": "Unauthorised",
    "unauthorized": "Request was Unauthorized",
    "no-key": 'No API key found for provider "anthropic"',
    "incorrect-key": "Incorrect API key provided: sk-***",
    "credit": "Your credit balance is too low to access the API",
    "quota": "insufficient_quota",
    "billing": "A billing problem: payment is due",
    "402": "402 Payment Required: add more credits",
}
FOR_NOBODY = {
    "400": "HTTP 400: messages: roles must alternate",
    "bad-request": "Bad Request",
    "rejected": "LLM request failed: provider rejected the request schema.",
    "404": "404 no such model",
    "model": "model_not_found: gpt-9",
    "invalid-request": "invalid_request: max_tokens",
}
PASSING = {
    "429": "HTTP 429: rate limit reached",
    "429-of-a-key": "429 rate limit for this api key; check your plan and billing",
    "a-time": "it timed out after 400 seconds",
    "500": "500 internal server error",
    "502": "502 bad gateway",
    "503": "503 service unavailable",
    "529": "529 overloaded_error: Overloaded",
    "timeout": "The request timed out after 60000 ms",
    "reset": "read ECONNRESET",
    "408": "408 request timeout",
    "part-of-a-number": "request 18401 of 4010 failed after 14000 ms",
    "empty": "",
}


@pytest.mark.parametrize("name", FOR_THE_USER)
def test_a_key_or_a_bill_is_for_the_user_to_mend(name: str) -> None:
    assert continuation.classify_failure(FOR_THE_USER[name]) is ProviderFailureKind.CREDENTIALS


@pytest.mark.parametrize("name", FOR_NOBODY)
def test_a_request_that_is_wrong_will_be_wrong_again(name: str) -> None:
    assert continuation.classify_failure(FOR_NOBODY[name]) is ProviderFailureKind.REFUSED


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_neither(name: str) -> None:
    assert continuation.classify_failure(PASSING[name]) is ProviderFailureKind.PASSING


@pytest.mark.parametrize(
    ("reason", "trouble"),
    [
        ("credentials", ProviderFailureKind.CREDENTIALS),
        ("refused", ProviderFailureKind.REFUSED),
        ("passing", ProviderFailureKind.PASSING),
    ],
)
def test_what_the_gateway_calls_it_counts_before_the_words(
    reason: str, trouble: ProviderFailureKind
) -> None:
    assert continuation.classify_failure("429 or 401 or 400", reason) is trouble
    assert (
        continuation.classify_failure("HTTP 400: no", "something new")
        is ProviderFailureKind.REFUSED
    )
