"""Questions about pictures, put together: against a Gemini played over HTTP."""

import asyncio

import pytest

from taskmem_hookspecs import JudgeUnavailable, Met, NoAnswer
from taskmem_vision.picture_judge import MOST_CONDITIONS, QuestionBatcher, Scene
from taskmem_vision.pictures import Shot
from taskmem_vision.reader_questions import DECOYS, PromptInjectionSuspected
from tests.plugins.vision.fake_gemini import NO, YES, looks
from tests.plugins.vision.painted import Easel


@pytest.fixture
def asker(gemini):
    return QuestionBatcher(gemini)


@pytest.fixture
def scene():
    return Scene(shots=(Shot(Easel().look(0), []),))


def other_scene():
    return Scene(shots=(Shot(Easel().look(5, (9, 9, 99, 99)), []),))


async def test_a_picture_goes_inline_and_in_colour(asker, server, scene):
    whole = [scene.shots[0].whole]
    server.answer = looks(lambda words, shown: "there" in words and shown == whole)
    verdict, answered = await asker.ask("It is there.", scene)
    assert answered.reader == "gemini"
    assert verdict.met is Met.YES
    [request] = server.requests
    kinds = [p["inlineData"]["mime_type"] for p in request.parts if "inlineData" in p]
    assert kinds == ["image/jpeg"]


async def test_those_who_ask_about_one_scene_ask_at_once(asker, server, scene):
    server.answer = looks(lambda words, _: words == "B")
    verdicts = await asyncio.gather(*(asker.ask(each, scene) for each in "ABC"))
    assert [each.met for each, _ in verdicts] == [Met.NO, Met.YES, Met.NO]
    [request] = server.requests
    assert len(request.pictures) == 1
    assert [*request.conditions.values()][:3] == ["A", "B", "C"]


async def test_those_who_ask_about_different_scenes_do_not(asker, server, scene):
    server.answer = looks(lambda *_: False)
    await asyncio.gather(asker.ask("A", scene), asker.ask("A", other_scene()))
    assert len(server.requests) == 2


async def test_who_asks_later_asks_anew(asker, server, scene):
    server.answer = looks(lambda *_: False)
    await asker.ask("A", scene)
    await asker.ask("A", scene)
    assert len(server.requests) == 2


async def test_who_wants_to_be_alone_is(asker, server, scene):
    server.answer = looks(lambda *_: False)
    await asyncio.gather(
        asker.ask("A", scene, alone=True), asker.ask("B", scene, alone=True), asker.ask("C", scene)
    )
    assert len(server.requests) == 3


async def test_too_many_conditions_are_asked_in_turns(asker, server, scene):
    server.answer = looks(lambda *_: False)
    many = [f"condition {number}" for number in range(MOST_CONDITIONS + 3)]
    await asyncio.gather(*(asker.ask(each, scene) for each in many))
    asked = [words for each in server.requests for words in each.conditions.values()]
    assert sorted(set(asked) - set(DECOYS)) == sorted(many)
    assert len(server.requests) == 2


async def test_a_model_that_says_yes_to_everything_is_not_believed(asker, server, scene):
    server.answer = looks(lambda *_: True)
    with pytest.raises(PromptInjectionSuspected, match="swayed"):
        await asker.ask("A", scene)


async def test_what_never_holds_is_asked_about_every_time(asker, server, scene):
    server.answer = looks(lambda *_: False)
    for _ in range(4):
        await asker.ask("A", scene)
    lies = [[*each.conditions.values()][-1] for each in server.requests]
    assert set(lies) <= set(DECOYS)
    assert len(set(lies)) > 1


async def test_a_condition_that_is_left_out_gets_no_verdict(asker, server, scene):
    server.script.append({"verdicts": [{**YES, "id": "1"}]})
    answers = await asyncio.gather(
        asker.ask("A", scene), asker.ask("B", scene), return_exceptions=True
    )
    assert answers[0][0].met is Met.YES
    assert isinstance(answers[1], NoAnswer)


async def test_answer_without_a_verdict_on_the_decoy_is_accepted(asker, server, scene):
    server.script.append({"verdicts": [{**NO, "id": "1"}]})
    assert (await asker.ask("A", scene))[0].met is Met.NO


@pytest.mark.parametrize("step", [{"status": 500}, {"text": "yes"}])
async def test_whatever_goes_wrong_goes_wrong_for_all_and_is_told(asker, server, scene, step):
    server.script.append(step)
    answers = await asyncio.gather(
        asker.ask("A", scene), asker.ask("B", scene), return_exceptions=True
    )
    assert all(isinstance(each, JudgeUnavailable) for each in answers)
    assert len({str(each) for each in answers}) == 1


async def test_who_gives_up_does_so_alone(asker, server, scene):
    server.answer = looks(lambda *_: False)
    first = asyncio.create_task(asker.ask("A", scene))
    second = asyncio.create_task(asker.ask("B", scene))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second)[0].met is Met.NO
