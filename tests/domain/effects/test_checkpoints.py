"""What tool calls leave: written as deltas, read back, and never trusted blindly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry, PastCall
from openclaw_taskmem.domain.effects.side_effects import Effect
from openclaw_taskmem.domain.text.odd_words import MASK
from openclaw_taskmem.domain.text.texts import count_json_bytes
from taskmem_hookspecs import Checkpoint
from taskmem_hookspecs.packet import ConversationMessage
from taskmem_hookspecs.testing import DAWN, a_checkpoint
from tests.support.row_strategies import texts

SHORT: Final = st.text('ab é😀"\\\n', max_size=12)
SECRETS: Final = {
    "openai": "sk-" + "a1B2" * 8,
    "github": "ghp_" + "a1B2" * 8,
    "gitlab": "glpat-" + "a1B2" * 5,
    "slack": "xoxb-" + "1234567890-abc",
    "aws": "AKIA" + "A1B2" * 4,
    "google": "AIza" + "a1B2" * 9,
    "npm": "npm_" + "a1B2" * 9,
    "hugging-face": "hf_" + "a1B2" * 9,
    "jwt": "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
}
"""Shapes of credentials, as they stand alone."""
IN_TEXT: Final = {
    **{name: (f"curl -H 'X: {text}' x", text) for name, text in SECRETS.items()},
    "url": ("git clone https://me:hunter22@example.org/x", "hunter22"),
    "bearer": ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
    "password": ("mysql --password=hunter22 x", "hunter22"),
    "environment": ("GITHUB_TOKEN=" + "0a1b" * 10 + " make x", "0a1b"),
    "json": ('{"user": "bob", "password": "my horse, battery"}', "battery"),
    "cut-json": ('{"user": "bob", "password": "my horse, batt', "batt"),
    "key-block": (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
        "MIIEow",
    ),
}


def a_call_start(call: str = "call_1", **changes: object) -> CallStartEntry:
    """A call of `exec` that has begun, so changed."""
    fields = {"call_id": call, "tool": "exec", "about": "make"}
    return CallStartEntry.model_validate(fields | changes)


def a_call_end(call: str = "call_1", **changes: object) -> CallEndEntry:
    """A call of `exec` that has ended well, so changed."""
    fields = {"call_id": call, "tool": "exec", "about": "make", "outcome": "built"}
    return CallEndEntry.model_validate({"ok": True, **fields} | changes)


def assistant_messages(*words: str) -> tuple[ConversationMessage, ...]:
    return tuple(ConversationMessage(role="assistant", text=text) for text in words)


def write_checkpoints(*entries: CallStartEntry | CallEndEntry) -> list[Checkpoint]:
    """The checkpoints of entries that came one second after the other."""
    return [
        checkpoints.build_checkpoint("run_1", number, entry, DAWN + timedelta(seconds=number))
        for number, entry in enumerate(entries, start=1)
    ]


def raw(body: str, number: int = 1) -> Checkpoint:
    """A checkpoint of any body, with the checksum that fits."""
    proof = checkpoints.compute_checksum("run_1", number, body)
    return a_checkpoint(number=number, body=body, checksum=proof)


def list_calls(history: checkpoints.History | None) -> list[tuple[str, bool | None]]:
    assert history is not None
    return [(call.about, call.ok) for call in history.calls]


# --- written --------------------------------------------------------------------


def test_checkpoint_is_a_small_delta_with_its_run_and_number() -> None:
    made = checkpoints.build_checkpoint("run_1", 7, a_call_end(step=2, exit_code=0), DAWN)

    assert (made.run_id, made.number, made.at) == ("run_1", 7, DAWN)
    assert json.loads(made.body) == {
        "kind": "ended",
        "call_id": "call_1",
        "tool": "exec",
        "about": "make",
        "outcome": "built",
        "ok": True,
        "exit_code": 0,
        "step": 2,
    }
    assert len(made.checksum) == 32
    assert " " not in made.body


@pytest.mark.parametrize("huge", ["x" * 100_000, "é" * 50_000, '"\\\n' * 9_000])
def test_what_is_kept_of_a_call_is_cut_to_its_size(huge: str) -> None:
    (made,) = write_checkpoints(
        a_call_end(
            about=huge, outcome=huge, said=assistant_messages(*(f"{n} {huge}" for n in range(20)))
        )
    )

    kept = json.loads(made.body)
    assert count_json_bytes(kept["about"]) <= checkpoints.ABOUT_BYTES
    assert count_json_bytes(kept["outcome"]) <= checkpoints.OUTCOME_BYTES
    assert [each["text"].split()[0] for each in kept["said"]] == [str(n) for n in range(12, 20)]
    assert all(count_json_bytes(each["text"]) <= checkpoints.MESSAGE_BYTES for each in kept["said"])
    (begun,) = write_checkpoints(a_call_start(about=huge))
    assert count_json_bytes(json.loads(begun.body)["about"]) <= checkpoints.ABOUT_BYTES


@pytest.mark.parametrize("name", IN_TEXT)
@pytest.mark.parametrize("field", ["about", "outcome", "said"])
def test_no_credential_is_written_wherever_it_stands(field: str, name: str) -> None:
    text, secret = IN_TEXT[name]
    changes: dict[str, Any] = {
        field: assistant_messages("before", text) if field == "said" else text
    }

    (made,) = write_checkpoints(a_call_end(**changes))

    assert secret not in made.body
    assert MASK in made.body
    if field == "about":
        assert secret not in write_checkpoints(a_call_start(about=text))[0].body


@given(
    name=st.sampled_from(sorted(SECRETS)),
    before=st.text("ab \n=:", max_size=300).map("{} ".format),
    after=st.text("ab \n", max_size=300).map(" {}".format),
)
def test_a_credential_at_the_cut_is_removed_before_it_is_cut(
    name: str, before: str, after: str
) -> None:
    secret = SECRETS[name]

    (made,) = write_checkpoints(a_call_end(about=before + secret + after))

    assert secret[:12] not in made.body


# --- read -----------------------------------------------------------------------


def test_of_no_checkpoints_nothing_is_known() -> None:
    assert checkpoints.parse_history([]) is None


def test_what_was_written_is_read_back() -> None:
    history = checkpoints.parse_history(
        write_checkpoints(
            a_call_start(),
            a_call_end(
                ok=False, outcome="broke", exit_code=2, step=1, said=assistant_messages("Look")
            ),
            a_call_start("call_2", tool="write", about="a.md", step=1),
        )
    )

    assert history == checkpoints.History(
        calls=(
            PastCall(
                tool="exec",
                about="make",
                ok=False,
                outcome="broke",
                exit_code=2,
                step=1,
                number=2,
                at=DAWN + timedelta(seconds=2),
            ),
            PastCall(
                tool="write",
                about="a.md",
                ok=None,
                step=1,
                number=3,
                at=DAWN + timedelta(seconds=3),
            ),
        ),
        corrupt=0,
    )


def test_a_call_whose_end_was_never_seen_is_unknown() -> None:
    history = checkpoints.parse_history(
        write_checkpoints(a_call_start("a", about="first"), a_call_start("b"), a_call_end("b"))
    )

    assert history is not None
    assert [call.about for call in history.calls if call.ok is None] == ["first"]


def test_a_call_of_an_id_that_comes_again_is_another_call() -> None:
    entries = [a_call_start(about="build"), a_call_end(about="build"), a_call_start(about="deploy")]

    found = checkpoints.parse_history(write_checkpoints(*entries))

    assert list_calls(found) == [("build", True), ("deploy", None)]


def test_what_is_told_twice_is_one_call() -> None:
    assert list_calls(
        checkpoints.parse_history(
            write_checkpoints(a_call_start(), a_call_start(), a_call_end(), a_call_end())
        )
    ) == [("make", True)]


def test_calls_that_were_made_together_come_as_they_began() -> None:
    entries = [
        a_call_start("a", about="a"),
        a_call_start("b", about="b"),
        a_call_end("a", about="a"),
    ]

    assert list_calls(checkpoints.parse_history(write_checkpoints(*entries))) == [
        ("a", True),
        ("b", None),
    ]


calls: Final = st.lists(
    st.tuples(
        SHORT, st.none() | st.booleans(), st.lists(SHORT, max_size=4), st.none() | st.integers(0, 9)
    ),
    min_size=1,
    max_size=20,
)


@given(calls)
def test_checkpoints_return_calls_in_order_and_last_eight_texts(
    drawn: list[tuple[str, bool | None, list[str], int | None]],
) -> None:
    entries: list[CallStartEntry | CallEndEntry] = []
    for number, (about, ok, words, step) in enumerate(drawn):
        call = f"call_{number}"
        entries.append(a_call_start(call, about=about, step=step))
        if ok is not None:
            more = {"step": step, "ok": ok, "outcome": about, "said": assistant_messages(*words)}
            entries.append(a_call_end(call, about=about, **more))

    made = write_checkpoints(*entries)
    history = checkpoints.parse_history(made)

    assert history is not None
    assert [(call.about, call.ok, call.step) for call in history.calls] == [
        (about, ok, step) for about, ok, _, step in drawn
    ]
    spoken = [text for _, ok, words, _ in drawn if ok is not None for text in words]
    assert [each.text for each in checkpoints.read_conversation(made)] == spoken[-8:]
    assert history.corrupt == 0


# --- corrupt --------------------------------------------------------------------


def flip_character(checkpoint: Checkpoint, place: int) -> Checkpoint:
    characters = list(checkpoint.body)
    at = place % len(characters)
    characters[at] = chr(ord(characters[at]) ^ 1)
    return checkpoint.model_copy(update={"body": "".join(characters)})


def cut_body(checkpoint: Checkpoint, place: int) -> Checkpoint:
    body = checkpoint.body[: place % len(checkpoint.body)]
    return checkpoint.model_copy(update={"body": body})


def change_number(checkpoint: Checkpoint, place: int) -> Checkpoint:
    number = checkpoint.number + 1 + place
    return checkpoint.model_copy(update={"number": number})


def replace_run(checkpoint: Checkpoint, place: int) -> Checkpoint:
    theirs = checkpoints.build_checkpoint("run_2", checkpoint.number, a_call_start(), checkpoint.at)
    return checkpoint.model_copy(update={"body": theirs.body, "checksum": theirs.checksum})


def replace_proof(checkpoint: Checkpoint, place: int) -> Checkpoint:
    proof = list(checkpoint.checksum)
    at = place % len(proof)
    proof[at] = "0" if proof[at] != "0" else "1"
    return checkpoint.model_copy(update={"checksum": "".join(proof)})


DAMAGES: Final = (flip_character, cut_body, change_number, replace_run, replace_proof)


@pytest.mark.parametrize("damage", DAMAGES)
@given(which=st.integers(0, 4), place=st.integers(0, 10_000))
def test_a_single_corrupt_checkpoint_is_passed_over_and_counted(
    damage: Any, which: int, place: int
) -> None:
    sound = write_checkpoints(*(a_call_end(f"call_{n}", about=str(n)) for n in range(5)))
    damaged = [*sound]
    damaged[which] = damage(sound[which], place)

    history = checkpoints.parse_history(damaged)

    assert list_calls(history) == [(str(n), True) for n in range(5) if n != which]
    assert history is not None
    assert history.corrupt == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_where_the_two_newest_are_corrupt_nothing_is_known(damage: Any) -> None:
    sound = write_checkpoints(*(a_call_end(f"call_{n}") for n in range(5)))
    damaged = [*sound[:3], *(damage(each, 3) for each in sound[3:])]

    assert checkpoints.parse_history(damaged) is None
    assert checkpoints.parse_history([*damaged[:3], sound[3], damaged[4]]) is not None
    assert checkpoints.parse_history([*damaged[:3], damaged[3], sound[4]]) is not None


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_checkpoint_that_is_corrupt_is_none(damage: Any) -> None:
    assert checkpoints.parse_history([damage(write_checkpoints(a_call_end())[0], 3)]) is None


def test_older_ones_that_are_corrupt_cost_nothing_but_themselves() -> None:
    sound = write_checkpoints(*(a_call_end(f"call_{n}", about=str(n)) for n in range(6)))
    damaged = [*(flip_character(each, 3) for each in sound[:4]), *sound[4:]]

    history = checkpoints.parse_history(damaged)

    assert list_calls(history) == [("4", True), ("5", True)]
    assert history is not None
    assert history.corrupt == 4


WRONG: Final = {
    "empty": "",
    "null": "null",
    "a-number": "7",
    "a-list": "[]",
    "no-fields": "{}",
    "no-kind": '{"call_id":"a","tool":"b","about":"c"}',
    "another-kind": '{"kind":"other","call_id":"a","tool":"b","about":"c"}',
    "one-field-more": '{"kind":"began","call_id":"a","tool":"b","about":"c","x":1}',
    "a-wrong-type": '{"kind":"began","call_id":7,"tool":"b","about":"c"}',
    "no-number": '{"kind":"began","call_id":"a","tool":"b","about":"c","step":NaN}',
    "a-huge-number": "9" * 5000,
    "deep": "[" * 100_000,
    "cut": '{"kind":"began","call_id":"a","to',
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_checkpoint_is_skipped_despite_a_valid_checksum(name: str) -> None:
    (sound,) = write_checkpoints(a_call_end())

    history = checkpoints.parse_history([raw(WRONG[name], 0), sound])

    assert list_calls(history) == [("make", True)]
    assert history is not None
    assert history.corrupt == 1


@settings(max_examples=200)
@given(
    st.lists(
        st.text()
        | texts.map(json.dumps)
        | st.text('{}[]":,0eE-.\\ud83dntrufalse kind', max_size=60),
        max_size=5,
    ),
    st.booleans(),
)
def test_no_body_whatever_makes_reading_fail(bodies: Sequence[str], fits: bool) -> None:
    made = [
        raw(body, number) if fits else a_checkpoint(number=number, body=body)
        for number, body in enumerate(bodies)
    ]

    assert checkpoints.parse_history(made) is None


# --- digests --------------------------------------------------------------------


def test_digests_differ_for_different_texts_only() -> None:
    assert checkpoints.digest_text("a") == checkpoints.digest_text("a")
    assert checkpoints.digest_text("a") != checkpoints.digest_text("b")
    assert len(checkpoints.digest_text("\ud800")) == 12


# --- pages and effects ----------------------------------------------------------


@st.composite
def interleave_calls(draw: st.DrawFn) -> list[CallStartEntry | CallEndEntry]:
    """Calls that begin and end in any order; the ends of some were never seen."""
    left = [f"call_{n}" for n in range(draw(st.integers(0, 12)))]
    running: list[str] = []
    entries: list[CallStartEntry | CallEndEntry] = []
    while left or running:
        if left and (not running or draw(st.booleans())):
            running.append(left.pop(0))
            entries.append(a_call_start(running[-1]))
        else:
            call = running.pop(draw(st.integers(0, len(running) - 1)))
            if draw(st.integers(0, 4)):
                entries.append(a_call_end(call))
    return entries


@given(interleave_calls(), st.integers(1, 5))
def test_pages_together_show_each_call_once_and_newest_first(
    entries: list[CallStartEntry | CallEndEntry], most: int
) -> None:
    every = write_checkpoints(*entries)
    whole = checkpoints.parse_history(every)
    found: list[PastCall] = []
    before = len(every) + 1
    while before > 1:
        page = checkpoints.cut_page(
            every[: before - 1],
            most,
            lambda call, number: checkpoints.has_end(every, call, number),
        )
        assert len(page.calls) <= most
        assert page.before is not None
        assert page.before < before
        found += page.calls
        before = page.before

    numbers = [call.number for call in found]
    assert numbers == sorted(numbers, reverse=True)
    calls = whole.calls if whole else ()
    assert sorted(numbers) == sorted(call.number for call in calls)


def test_an_end_that_was_told_twice_is_one_call_of_a_page() -> None:
    page = checkpoints.cut_page(
        write_checkpoints(a_call_start(), a_call_end(), a_call_end()), 9, lambda *_: False
    )

    assert [call.number for call in page.calls] == [3]


def test_a_page_leaves_out_what_is_damaged() -> None:
    first, second = write_checkpoints(a_call_end("call_1"), a_call_end("call_2"))
    damaged = second.model_copy(update={"body": second.body.replace("make", "mace")})

    page = checkpoints.cut_page([first, damaged], 9, lambda *_: False)

    assert [call.number for call in page.calls] == [1]


@given(texts, st.sampled_from(Effect))
def test_the_mark_of_an_effect_is_found_by_and_cannot_be_forged(text: str, effect: Effect) -> None:
    forged = f'{text}{{"kind":"ended","effect":"{effect}"'
    over, begun = (
        a_call_end(about=forged, effect=effect),
        a_call_start(about=forged, effect=effect),
    )
    plain = a_call_end(about=forged, outcome=forged)
    bodies = [each.body for each in write_checkpoints(over, begun, plain)]

    ends = checkpoints.format_effect_filter(effect, ended=True)
    both = checkpoints.format_effect_filter(effect, ended=False)
    assert [ends in body for body in bodies] == [True, False, False]
    assert [both in body for body in bodies] == [True, True, False]


@given(texts)
def test_only_what_tells_of_the_conversation_holds_its_mark(text: str) -> None:
    forged = f'{text}"said":[{{'
    bodies = [
        each.body
        for each in write_checkpoints(
            a_call_end(about=forged, said=assistant_messages("Hello")), a_call_end(about=forged)
        )
    ]

    assert [checkpoints.HOLDING_SAID in body for body in bodies] == [True, False]


def test_last_messages_of_spread_checkpoints_are_read_in_order() -> None:
    made = write_checkpoints(
        a_call_start(), *(a_call_end(said=assistant_messages(f"{n}", f"{n}b")) for n in range(6))
    )

    found = [each.text for each in checkpoints.read_conversation(made)]

    assert found == ["2", "2b", "3", "3b", "4", "4b", "5", "5b"]
