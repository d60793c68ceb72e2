"""The pages in a real Chromium: what they show, what they do, and how they follow changes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from io import BytesIO
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, expect

from openclaw_taskmem.cli.client import LinkError
from openclaw_taskmem.daemon.snapshots import SnapshotMoment, SnapshotStore
from tests.pages.conftest import serve_pages
from tests.support.showcase import Showcase

PADDING, LINE = 8, 24
"""Pixels that are free around the text of a row at least, and those of a line."""


def row(page: Page, name: str):
    return page.locator(".row", has=page.get_by_role("link", name=name))


def test_what_needs_the_user_stands_first(page: Page) -> None:
    headings = page.locator("main h2").all_inner_texts()
    assert [re.sub(r"\s*\d+$", "", each) for each in headings] == [
        *("Needs you", "At work", "Waiting", "Ended in the last day"),
    ]
    assert page.locator(".list.needs_you .name").all_inner_texts() == [
        *("Nightly backup", "Test the checkout", "Quarterly report"),
    ]
    assert page.title() == "(3) Task memory"
    expect(row(page, "Nightly backup")).to_contain_text("The safe refuses the key")
    expect(row(page, "Nightly backup")).to_contain_text("Stopped at step 2 of 2")
    expect(row(page, "Nightly backup")).to_contain_text("rsync error: unexplained error (code 255)")
    expect(row(page, "Translate the guide")).to_contain_text(
        "main in OpenClaw, session guide: at work. Step 2 of 4: Translate"
    )
    doing = re.compile(r"Runs now, for \d+ minutes?: pandoc chapter1.md")
    expect(row(page, "Translate the guide")).to_contain_text(doing)
    expect(row(page, "Test the checkout")).to_contain_text("Which browser shall the tests use?")
    expect(row(page, "Deploy coursefolio")).to_contain_text(
        'Last line: "#11 13.2 rendered page 4 of 8"'
    )


def test_a_new_line_on_a_target_appears_by_itself(page: Page, showcase: Showcase) -> None:
    with showcase.log.open("a") as log:
        log.write("page 5 of 8\n")
    expect(row(page, "Deploy coursefolio")).to_contain_text('"page 5 of 8"')


def test_a_change_fetches_the_page_once(page: Page, root: str, showcase: Showcase) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(root)
    task = showcase.daemon.register("Just begun")
    expect(row(page, "Just begun")).to_have_count(1)
    assert asked.count(root) == 2
    showcase.daemon.ask("act", id=task, action="cancel")


def test_waits_are_named_with_task_and_deadline(page: Page, root: str, showcase: Showcase) -> None:
    page.goto(f"{root}waits")
    wait = row(page, "build.log until")
    # The deadline may be on another day, which is told with it.
    told = re.compile(r"for Deploy coursefolio, until [\w -]*\d\d:\d\d at the latest")
    expect(wait).to_contain_text(told)
    card, text = wait.bounding_box(), wait.locator(".step").bounding_box()
    assert card is not None
    assert text is not None
    assert text["x"] - card["x"] >= PADDING
    assert text["y"] + text["height"] <= card["y"] + card["height"] - PADDING
    wait.get_by_role("link", name="Deploy coursefolio").click()
    expect(page.locator("h1")).to_have_text("Deploy coursefolio")


HEADS = """() => [...document.querySelectorAll(".what, .title")].map((head) =>
    [".dot", ".name, h1"].map((part) => head.querySelector(part).getBoundingClientRect().toJSON())
)"""
"""Gives where the dot and the name of each task are."""


@pytest.mark.parametrize("path", ["", "waits", "search", "task"])
def test_a_dot_stands_beside_a_name_however_long(
    page: Page, root: str, showcase: Showcase, path: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(root + (f"task?id={showcase.tasks['guide']}" if path == "task" else path))
    # In one step, for news may move them and bring the short names back.
    heads = page.evaluate(f"() => {{ ({MEASURE})(); return ({HEADS})(); }}")
    assert heads
    for dot, name in heads:
        assert name["y"] <= dot["y"] <= name["y"] + LINE
        assert dot["x"] + dot["width"] <= name["x"]


def test_a_wait_shows_its_terminal_live(page: Page, root: str, showcase: Showcase) -> None:
    page.goto(f"{root}wait?id={showcase.wait}")
    expect(page.locator(".terminal")).to_contain_text("page 4 of 8")
    with showcase.log.open("a") as log:
        log.write("<b>page 6 of 8</b>\n")
    expect(page.locator(".terminal")).to_contain_text("<b>page 6 of 8</b>")


def test_what_is_new_on_a_picture_is_outlined(page: Page, root: str, showcase: Showcase) -> None:
    kept, now = SnapshotStore(showcase.daemon.home.pictures, 7), datetime.now(UTC)
    for moment, words in (("first", ()), ("last", ("Build",)), ("deciding", ("Build", "finished"))):
        screen = Image.new("RGB", (960, 600), "white")
        for number, word in enumerate(words):
            ImageDraw.Draw(screen).text((100, 100 + 300 * number), word * 3, "black", font_size=30)
        jpeg = BytesIO()
        screen.save(jpeg, "JPEG", quality=80)
        kept.write(showcase.wait, SnapshotMoment(moment), jpeg.getvalue(), now)
    page.goto(f"{root}wait?id={showcase.wait}")
    outlined = "[data-moment={}] canvas[data-boxes='{}']"
    expect(page.locator(outlined.format("last", 1))).to_have_count(1)
    expect(page.locator(outlined.format("deciding", 2))).to_have_count(1)
    expect(page.locator("[data-moment=first] canvas")).to_have_count(0)
    picture, drawn = (page.locator(f"[data-moment=last] {each}") for each in ("img", "canvas"))
    assert picture.bounding_box() == drawn.bounding_box()
    with showcase.log.open("a") as log:
        log.write("page 5 of 8, seen with pictures\n")
    expect(page.locator(".terminal")).to_contain_text("seen with pictures")
    assert page.locator(outlined.format("deciding", 2)).count() == 1


def test_a_task_shows_what_was_made_and_its_proof(
    page: Page, root: str, showcase: Showcase
) -> None:
    page.goto(f"{root}task?id={showcase.tasks['certificates']}")
    made = page.get_by_role("region", name="Made")
    expect(made).to_contain_text("fullchain.pem")
    expect(made).to_contain_text("by Task memory")
    facts = "exists, created during the task, 3.3 KB"
    assert page.locator("main").inner_text().count(facts) == 1
    expect(made).to_contain_text(facts)
    expect(page.locator(".task > .made")).to_have_text(
        "made fullchain.pem, seen to exist; nobody judged the content"
    )
    page.goto(root)
    certificates = row(page, "Renew the certificates")
    expect(certificates).to_contain_text("made fullchain.pem, seen to exist")
    expect(certificates).to_contain_text(f"fullchain.pem {facts}, sha256 ")
    expect(certificates).to_contain_text("Only that was tested; nobody judged the content.")


def test_the_overview_offers_what_the_person_is_asked_for(page: Page, root: str) -> None:
    page.goto(root)
    pressed = page.locator(".needs_you button")
    assert sorted(pressed.all_inner_texts()) == sorted(
        ["Resume", "Seen", "Firefox", "Chromium", "Answer", "Approve", "Send back"]
    )


def test_a_task_at_work_says_who_does_what(page: Page, root: str, showcase: Showcase) -> None:
    green = "rgb(29, 107, 54)"
    guide = row(page, "Translate the guide")
    expect(guide.locator(".dot")).to_have_css("background-color", green)
    expect(guide.locator(".dot")).to_have_css("opacity", "1")
    assert guide.locator(".dot").evaluate("dot => dot.getAnimations().length") == 0
    page.goto(f"{root}task?id={showcase.tasks['guide']}")
    expect(page.locator(".dot")).to_have_css("background-color", green)
    said = "main in OpenClaw, session guide: at work. Step 2 of 4: Translate chapter 1"
    expect(page.locator(".task > .says")).to_have_text(said)
    expect(page.locator(".task > .activity")).to_contain_text(
        re.compile(r"Runs now, for \d+ minutes?: pandoc")
    )


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("backup", {"Resume": "First mend what made it fail; then its agent is told"}),
        (
            "browser",
            {
                "Firefox": "Its agent is told your answer, and goes on.",
                "Pause": "Its agent is not told to go on any more.",
                "Cancel": "The task ends; what was done so far is kept.",
            },
        ),
        (
            "report",
            {
                "Approve": "Its work is accepted, and the task is completed.",
                "Send back": "Its agent is told your words, and goes on.",
            },
        ),
        ("wait", {"Cancel the wait": "is not watched for it any more. Its task stays as it is."}),
    ],
)
def test_each_button_says_beside_it_what_it_brings_about(
    page: Page, root: str, showcase: Showcase, path: str, said: dict[str, str]
) -> None:
    wait = f"wait?id={showcase.wait}"
    page.goto(root + (wait if path == "wait" else f"task?id={showcase.tasks[path]}"))
    for name, effect in said.items():
        button = page.locator(".actions").get_by_role("button", name=name, exact=True)
        expect(button).to_have_accessible_description(re.compile(re.escape(effect)))
        expect(page.locator(".effect", has_text=effect)).to_be_visible()


def test_approving_and_sending_back_are_told_apart(page: Page) -> None:
    report = row(page, "Quarterly report")
    send, approve = (report.get_by_role("button", name=each) for each in ("Send back", "Approve"))
    look = "button => getComputedStyle(button).backgroundColor"
    assert send.evaluate(look) != approve.evaluate(look)
    send.click()
    expect(page.locator("#toast")).to_contain_text("Write it into the field first")
    expect(report.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("More blue.")
    approve.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("What you wrote (“More blue.”) is not sent.")
    dialog.get_by_role("button", name="Back").click()
    report.get_by_role("textbox").fill("")


AT = r"(?:\d+ [A-Z][a-z]+ )?\d\d:\d\d:\d\d"
"""An instant of the night, with its day if that was yesterday."""
WHOLE = 99
"""Percent of the axis that its only run reaches at least."""


def test_a_run_is_drawn_by_how_it_ended(page: Page, root: str, showcase: Showcase) -> None:
    for name, state, colour, told in (
        ("backup", "failed", "rgb(179, 38, 30)", "work that failed"),
        ("certificates", "completed", "rgb(29, 107, 54)", "work that was completed"),
    ):
        page.goto(f"{root}task?id={showcase.tasks[name]}")
        runs = page.get_by_role("region", name="Runs")
        drawn = runs.locator(".bars rect").last
        expect(drawn).to_have_css("fill", colour)
        assert drawn.evaluate("each => each.x.baseVal.value + each.width.baseVal.value") > WHOLE
        expect(runs.locator(".end")).to_contain_text(re.compile(rf"from {AT} to {AT}: {state}"))
        expect(runs.locator(".legend")).to_have_text(told)


def test_a_story_says_its_order_and_its_seconds(page: Page, root: str, showcase: Showcase) -> None:
    page.goto(f"{root}task?id={showcase.tasks['backup']}")
    story = page.get_by_role("region", name="What happened, the newest first")
    assert re.fullmatch(AT, story.locator(".at").first.inner_text())
    expect(story.locator(".told").last).to_contain_text("Registered with 2 steps")
    expect(story).not_to_contain_text("→")


def test_a_wait_is_named_by_what_it_waits_for(page: Page, root: str, showcase: Showcase) -> None:
    page.goto(f"{root}wait?id={showcase.wait}")
    expect(page.locator("h1")).to_have_text('Waits for build.log until "Build finished" appears')
    since = re.compile(r"For \d+ \w+, since (\d+ \w+ )?[\d:]+; until")
    expect(page.locator(".says")).to_contain_text(since)
    page.get_by_role("link", name="Deploy coursefolio").click()
    expect(page.locator("h1")).to_have_text("Deploy coursefolio")


def test_what_only_changed_in_the_folder_is_listed_apart(
    page: Page, root: str, showcase: Showcase
) -> None:
    page.goto(f"{root}task?id={showcase.tasks['report']}")
    made = page.get_by_role("region", name="Made")
    also = made.locator("details")
    expect(also).to_contain_text("Also changed in the folder meanwhile: 1 file")
    also.locator("summary").click()
    expect(also).to_contain_text("notes.txt")
    expect(made.locator(":scope > .proofs")).not_to_contain_text("notes.txt")
    assert Axe().run(page).violations_count == 0


def test_a_review_shows_the_note_and_opens_the_file(
    page: Page, root: str, showcase: Showcase
) -> None:
    page.goto(f"{root}task?id={showcase.tasks['report']}")
    review = page.get_by_role("region", name="To review")
    expect(review).to_contain_text("Please read the last two parts.")
    approve = page.get_by_role("button", name="Approve")
    told = "Its work is accepted, and the task is completed."
    expect(approve).to_have_accessible_description(re.compile(told))
    page.locator(".actions").get_by_role("link", name="report.md").click()
    expect(page.locator("pre.shown")).to_contain_text("# Third quarter")
    expect(page.locator(".sum")).to_contain_text("exists, created during the task")


def test_the_story_of_a_task_is_filtered_by_kind(page: Page, root: str, showcase: Showcase) -> None:
    page.goto(f"{root}task?id={showcase.tasks['deploy']}")
    story = page.locator(".timeline .entry:visible")
    expect(story.filter(has_text="Waits for")).to_have_count(1)
    page.get_by_label("waits", exact=True).uncheck()
    expect(story.filter(has_text="Waits for")).to_have_count(0)
    expect(story.filter(has_text="Command")).to_have_count(1)


def test_older_calls_are_on_a_page_of_their_own(page: Page, root: str, showcase: Showcase) -> None:
    session = "agent:main:many"
    task = showcase.begin("many", "Many calls", session, "Call")
    for number in range(32):
        showcase.report_tool_call(session, about=f"make part{number}")
    page.goto(f"{root}task?id={task}")
    expect(page.locator(".timeline .entry.call")).to_have_count(30)
    page.get_by_role("link", name="32 calls, page by page").click()
    expect(page.locator("h1")).to_have_text("Calls of Many calls")
    page.get_by_role("link", name="Earlier").click()
    expect(page.locator(".entry")).to_have_count(2)
    expect(page.locator(".entry").last).to_contain_text("make part0")
    showcase.daemon.ask("act", id=task, action="cancel")


def test_search_finds_tasks_by_what_was_said(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("dump.sql")
    page.keyboard.press("Enter")
    expect(page.locator(".row .name")).to_have_text(["Nightly backup"])


def test_keys_move_between_rows_and_open_them(page: Page) -> None:
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(".row.selected .name")).to_have_text("Test the checkout")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Nightly backup")
    expect(page.locator("#live")).to_have_text("page is live")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next and previous row")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    expect(page.locator("main h2").first).to_contain_text("Needs you")


def test_two_servers_do_not_get_in_each_others_way(showcase: Showcase, chromium: Browser) -> None:
    """Browsers send cookies to every port of a host; so nothing may depend on any."""
    with serve_pages(showcase.daemon) as one, serve_pages(showcase.daemon) as two:
        page = chromium.new_page()
        page.goto(one.link)
        expect(page.locator("#live")).to_have_text("page is live")
        first = page.url
        page.goto(two.link)
        expect(page.locator("#live")).to_have_text("page is live")
        page.goto(first)
        expect(page.locator("#live")).to_have_text("page is live")
        assert page.context.cookies() == []
        page.close()


def find_report(showcase: Showcase) -> str:
    """Where the page shows the file that is to be reviewed."""
    path = quote(str(showcase.folder / "quarter" / "report.md"))
    return f"file?id={showcase.tasks['report']}&path={path}"


MEASURE = """() => {
    for (const time of document.querySelectorAll("time")) time.textContent = "30 Nov 2025 23:59:59";
    for (const text of document.querySelectorAll(".name, h1, code, .session, .state"))
        text.textContent += "_0123456789abcdef".repeat(8);
    return document.documentElement.scrollWidth - innerWidth;
}"""
"""Gives a page its longest dates, long names and ids; returns the pixels that stand out of it."""


@pytest.mark.parametrize("width", [360, 800, 3840])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_its_window(
    page: Page, root: str, showcase: Showcase, width: int, scheme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    tasks = (f"task?id={showcase.tasks[name]}" for name in ("certificates", "backup", "report"))
    for path in ("", *tasks, find_report(showcase), f"wait?id={showcase.wait}", "health"):
        page.goto(root + path)
        assert page.evaluate(MEASURE) <= 0, path


def test_hostile_text_is_shown_as_text(page: Page, showcase: Showcase) -> None:
    name = "<img src=x onerror=\"document.title='gone'\"> \u202e{{ 7 * 7 }}"
    task = showcase.begin("hostile", name, "agent:main:hostile", "<script>alert(1)</script>")
    showcase.call("agent:main:hostile", "task_update", task_id=task, message=name)
    expect(row(page, "<img src=x")).to_contain_text("<script>alert(1)</script>")
    row(page, "<img src=x").get_by_role("link").click()
    expect(page.locator("h1")).to_contain_text("{{ 7 * 7 }}")
    assert page.locator("img").count() == 0
    assert "\u202e" not in page.content()


def test_a_question_is_answered_with_a_button(page: Page, showcase: Showcase) -> None:
    row(page, "Test the checkout").get_by_role("button", name="Firefox").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Answer “Firefox”?")
    expect(dialog).to_contain_text("Test the checkout asks: Which browser shall the tests use?")
    dialog.get_by_role("button", name="Firefox").click()
    expect(page.locator("#toast")).to_contain_text("its agent is told your answer")
    expect(page.locator(".list.needs_you")).not_to_contain_text("Test the checkout")
    messages = showcase.daemon.ask("show", id=showcase.tasks["browser"])["messages"]
    assert ("user", "Firefox") in [(m["role"], m["content"]) for m in messages]


def set_hidden(page: Page, *, hidden: bool) -> None:
    """Let the page believe that nobody looks, or that somebody does again."""
    given = f"{{value: {str(hidden).lower()}, configurable: true}}"
    page.evaluate(f"Object.defineProperty(document, 'hidden', {given})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_what_is_typed_is_no_answer_to_another_question(page: Page, showcase: Showcase) -> None:
    task = showcase.daemon.register("Move the shop")
    showcase.daemon.call("task_claim", task_id=task)
    showcase.daemon.call("task_update", task_id=task, ask="Which browser?")
    moved = row(page, "Move the shop")
    moved.get_by_role("textbox").fill("Yes, the new one")
    set_hidden(page, hidden=True)
    showcase.daemon.call("task_update", task_id=task, status="active", message="I chose one.")
    showcase.daemon.call("task_update", task_id=task, ask="Delete the old site?")
    set_hidden(page, hidden=False)
    expect(moved).to_contain_text("Delete the old site?")

    moved.get_by_role("button", name="Answer").click()

    expect(page.locator("#toast")).to_contain_text('asks you now: "Delete the old site?"')
    expect(moved.locator("[data-refused]")).to_have_count(0)  # the question of now is there
    moved.get_by_role("textbox").fill("No")
    moved.get_by_role("button", name="Answer").click()
    expect(page.locator("#toast")).to_contain_text("its agent is told your answer")


def test_an_act_is_done_only_once_it_is_confirmed(page: Page, showcase: Showcase) -> None:
    report = row(page, "Quarterly report")
    report.get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").get_by_role("button", name="Back").click()
    assert showcase.daemon.ask("show", id=showcase.tasks["report"])["status"] == "paused"
    report.get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(page.locator("#toast")).to_contain_text("approved, and completed")
    assert showcase.daemon.ask("show", id=showcase.tasks["report"])["status"] == "completed"


def press_and_confirm(page: Page, verb: str) -> None:
    """Press a button of the task's page, and agree."""
    page.locator(".actions").get_by_role("button", name=verb, exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()


def test_a_task_is_paused_resumed_cancelled_and_resumed(
    page: Page, root: str, showcase: Showcase
) -> None:
    task = showcase.daemon.register("Acted on")
    page.goto(f"{root}task?id={task}")
    for verb, status in (
        *(("Pause", "paused"), ("Resume", "at work")),
        *(("Cancel", "cancelled"), ("Resume", "at work")),
    ):
        press_and_confirm(page, verb)
        expect(page.locator(".title .state")).to_have_text(status)
        expect(page.locator("#toast")).to_contain_text("Acted on")


def test_a_review_is_sent_back_with_words(page: Page, root: str, showcase: Showcase) -> None:
    session = "agent:main:sent-back"
    task = showcase.begin("sent_back", "Poster", session, "Draw it")
    showcase.call(session, "task_handoff", task_id=task)
    page.goto(f"{root}task?id={task}")
    page.get_by_role("button", name="Send back").click()
    expect(page.get_by_label("What is to be changed")).to_be_focused()
    page.keyboard.type("More blue, please.")
    page.keyboard.press("Enter")
    expect(page.locator("#toast")).to_contain_text("sent back, with your words")
    expect(page.locator(".timeline")).to_contain_text("More blue, please.")


def test_what_is_not_proved_is_accepted_by_the_user(
    page: Page, root: str, showcase: Showcase
) -> None:
    missing = str(showcase.folder / "missing.md")
    given = {"name": "By post", "plan": ["Send it"], "metadata": {"artifacts": [missing]}}
    task = showcase.daemon.register(**given)
    with pytest.raises(LinkError, match="is not completed yet"):
        showcase.daemon.call("task_update", task_id=task, status="completed")
    page.goto(root)
    expect(row(page, "By post")).to_contain_text("not proved")
    row(page, "By post").get_by_role("button", name="Accept without proof").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Accept without proof").click()
    expect(page.locator("#toast")).to_contain_text("completed, as you say")
    page.goto(f"{root}task?id={task}")
    expect(page.locator(".timeline")).to_contain_text("Accepted by you")


def test_a_wait_is_cancelled_on_its_page(page: Page, root: str, showcase: Showcase) -> None:
    page.goto(f"{root}wait?id={showcase.wait}")
    page.get_by_role("button", name="Cancel the wait").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the wait").click()
    expect(page.locator(".title .state")).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Cancel the wait")).to_have_count(0)


def test_of_two_people_the_second_is_told(page: Page, root: str, showcase: Showcase) -> None:
    page.goto(f"{root}task?id={showcase.tasks['guide']}")
    page.evaluate("document.hidden || Object.defineProperty(document, 'hidden', {value: true})")
    showcase.daemon.ask("act", id=showcase.tasks["guide"], action="cancel")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("#toast")).to_contain_text("is cancelled now, so you cannot pause it")


def test_escape_confirms_nothing_after_an_earlier_yes(
    page: Page, root: str, showcase: Showcase
) -> None:
    task = showcase.daemon.register("Escaped")
    acts: list[str] = []
    page.on("request", lambda request: request.url.endswith("/act") and acts.append(request.url))
    page.goto(f"{root}task?id={task}")
    press_and_confirm(page, "Pause")
    expect(page.locator(".title .state")).to_have_text("paused")
    page.locator(".actions").get_by_role("button", name="Cancel", exact=True).click()
    page.evaluate("document.getElementById('confirm').close()")  # Escape, in older browsers
    press_and_confirm(page, "Resume")
    expect(page.locator(".title .state")).to_have_text("at work")
    assert len(acts) == len(["Pause", "Resume"])


def test_what_is_done_is_what_the_dialog_asked(page: Page, root: str, showcase: Showcase) -> None:
    task = showcase.daemon.register("Resumed by another")
    showcase.daemon.ask("act", id=task, action="pause")
    page.goto(f"{root}task?id={task}")
    page.locator(".actions").get_by_role("button", name="Resume", exact=True).click()
    showcase.daemon.ask("act", id=task, action="resume")
    expect(page.locator(".actions [data-action=pause]")).to_have_count(1)
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator("#toast")).to_contain_text("is active now, so you cannot resume it")
    showcase.daemon.ask("act", id=task, action="cancel")


def test_what_was_done_is_not_told_as_failed(page: Page, root: str, showcase: Showcase) -> None:
    task = showcase.daemon.register("Done, though not shown")
    page.goto(f"{root}task?id={task}")
    page.locator(".actions").get_by_role("button", name="Pause", exact=True).click()
    # Not before: a page that hears of a change is fetched anew, and could not be acted on then.
    page.route("**/task?id=*", lambda route: route.abort())
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#toast")).to_contain_text("paused")
    expect(page.locator("#live")).to_have_text("not connected")
    page.unroute("**/task?id=*")
    expect(page.locator(".title .state")).to_have_text("paused")
    expect(page.locator("#live")).to_have_text("page is live")


HIDE = "(hidden) => Object.defineProperty(document, 'hidden', {value: hidden, configurable: true})"


def test_a_page_that_was_hidden_shows_the_present(page: Page, showcase: Showcase) -> None:
    page.evaluate(HIDE, True)
    page.route("**/changes?*", lambda _: None)  # the page hears of one change, and no more
    with page.expect_response("**/changes?*"):
        task = showcase.daemon.register("While nobody looked")
    expect(row(page, "While nobody looked")).to_have_count(0)
    page.evaluate(HIDE, False)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(row(page, "While nobody looked")).to_have_count(1)
    expect(page.locator("#live")).to_have_text("page is live")
    page.unroute("**/changes?*")
    showcase.daemon.ask("act", id=task, action="cancel")


def test_the_page_survives_a_restart_of_the_daemon(page: Page, showcase: Showcase) -> None:
    showcase.daemon.stop()
    expect(page.locator("#live")).to_have_text("not connected")
    pressed = page.locator("main button").first
    expect(pressed).to_be_disabled()
    showcase.daemon.restart()
    expect(page.locator("#live")).to_have_text("page is live")
    expect(pressed).to_be_enabled()
    task = showcase.daemon.register("After the restart")
    expect(row(page, "After the restart")).to_have_count(1)
    showcase.daemon.ask("act", id=task, action="cancel")


def test_health_shows_every_link(page: Page, root: str) -> None:
    page.goto(f"{root}health")
    expect(page.locator(".check").filter(has_text="database")).to_have_count(1)
    expect(page.locator(".checks")).to_contain_text(["daemon", "sqlmodel"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_no_page_has_a_fault_of_accessibility(
    page: Page, root: str, showcase: Showcase, scheme: str, width: int
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    ids = [showcase.tasks[name] for name in ("deploy", "certificates", "backup", "report")]
    tasks = (f"task?id={each}" for each in ids)
    others = (f"calls?id={ids[0]}", find_report(showcase), f"wait?id={showcase.wait}")
    for path in ("", *tasks, *others, "waits", "health", "search?q=zzz"):
        page.goto(root + path)
        expect(page.locator("#live")).to_have_text("page is live")
        found = Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
