"""The pages in a real Chromium: what they show, what they do, and how they follow changes."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from openclaw_taskmem.cli.client import LinkError
from tests.pages.conftest import ServedPages
from tests.support.showcase import Showcase


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
    expect(row(page, "Nightly backup")).to_contain_text("The safe refuses the key")
    expect(row(page, "Test the checkout")).to_contain_text("Which browser shall the tests use?")
    expect(row(page, "Deploy coursefolio")).to_contain_text('Last line: "page 4 of 8"')


def test_a_new_line_on_a_target_appears_by_itself(page: Page, showcase: Showcase) -> None:
    with showcase.log.open("a") as log:
        log.write("page 5 of 8\n")
    expect(row(page, "Deploy coursefolio")).to_contain_text('"page 5 of 8"')


def test_a_wait_shows_its_terminal_live(page: Page, pages: ServedPages, showcase: Showcase) -> None:
    page.goto(f"{pages.root}wait?id={showcase.wait}")
    expect(page.locator(".terminal")).to_contain_text("page 4 of 8")
    with showcase.log.open("a") as log:
        log.write("<b>page 6 of 8</b>\n")
    expect(page.locator(".terminal")).to_contain_text("<b>page 6 of 8</b>")


def test_a_task_shows_what_was_made_and_its_proof(
    page: Page, pages: ServedPages, showcase: Showcase
) -> None:
    page.goto(f"{pages.root}task?id={showcase.tasks['certificates']}")
    made = page.get_by_role("region", name="What was made")
    expect(made).to_contain_text("fullchain.pem")
    expect(made).to_contain_text("proved")
    expect(made).to_contain_text("33")


def test_the_story_of_a_task_is_filtered_by_kind(
    page: Page, pages: ServedPages, showcase: Showcase
) -> None:
    page.goto(f"{pages.root}task?id={showcase.tasks['deploy']}")
    story = page.locator(".timeline .entry:visible")
    expect(story.filter(has_text="Waits for")).to_have_count(1)
    page.get_by_label("wait", exact=True).uncheck()
    expect(story.filter(has_text="Waits for")).to_have_count(0)
    expect(story.filter(has_text="exec")).to_have_count(1)


def test_the_slider_shows_a_task_as_it_was(
    page: Page, pages: ServedPages, showcase: Showcase
) -> None:
    page.goto(f"{pages.root}task?id={showcase.tasks['deploy']}")
    expect(page.locator(".plan .done")).to_have_count(1)
    slider = page.locator("#slider")
    slider.focus()
    slider.press("Home")
    expect(page.locator("#h-replay")).to_contain_text("As it was on")
    expect(page.locator(".plan .done")).to_have_count(0)
    slider.press("End")
    expect(page.locator("#h-replay")).to_contain_text("As it is now")
    expect(page.locator(".plan .done")).to_have_count(1)


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
    expect(page.locator("#live")).to_have_text("live")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next and previous row")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    expect(page.locator("main h2").first).to_contain_text("Needs you")


@pytest.mark.parametrize("width", [360, 800, 3840])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_its_window(
    page: Page, pages: ServedPages, showcase: Showcase, width: int, scheme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for path in (
        "",
        f"task?id={showcase.tasks['certificates']}",
        f"wait?id={showcase.wait}",
        "health",
    ):
        page.goto(pages.root + path)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, path


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
    expect(page.locator("#toast")).to_contain_text("its agent is told your answer")
    expect(page.locator(".list.needs_you")).not_to_contain_text("Test the checkout")
    messages = showcase.daemon.ask("show", id=showcase.tasks["browser"])["messages"]
    assert ("user", "Firefox") in [(m["role"], m["content"]) for m in messages]


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
    page: Page, pages: ServedPages, showcase: Showcase
) -> None:
    task = showcase.daemon.register("Acted on")
    page.goto(f"{pages.root}task?id={task}")
    for verb, status in (
        *(("Pause", "paused"), ("Resume", "active")),
        *(("Cancel", "cancelled"), ("Resume", "active")),
    ):
        press_and_confirm(page, verb)
        expect(page.locator(".title .state")).to_have_text(status)
        expect(page.locator("#toast")).to_contain_text("Acted on")


def test_a_review_is_sent_back_with_words(
    page: Page, pages: ServedPages, showcase: Showcase
) -> None:
    session = "agent:main:sent-back"
    task = showcase.begin("sent_back", "Poster", session, "Draw it")
    showcase.call(session, "task_handoff", task_id=task)
    page.goto(f"{pages.root}task?id={task}")
    page.get_by_role("button", name="Send back").click()
    expect(page.get_by_label("What is to be changed")).to_be_focused()
    page.keyboard.type("More blue, please.")
    page.keyboard.press("Enter")
    expect(page.locator("#toast")).to_contain_text("sent back, with your words")
    expect(page.locator(".timeline")).to_contain_text("More blue, please.")


def test_what_is_not_proved_is_accepted_by_the_user(
    page: Page, pages: ServedPages, showcase: Showcase
) -> None:
    missing = str(showcase.folder / "missing.md")
    given = {"name": "By post", "plan": ["Send it"], "metadata": {"artifacts": [missing]}}
    task = showcase.daemon.register(**given)
    with pytest.raises(LinkError, match="is not completed yet"):
        showcase.daemon.call("task_update", task_id=task, status="completed")
    page.goto(pages.root)
    expect(row(page, "By post")).to_contain_text("not proved")
    row(page, "By post").get_by_role("button", name="Accept without proof").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Accept without proof").click()
    expect(page.locator("#toast")).to_contain_text("completed, as you say")
    page.goto(f"{pages.root}task?id={task}")
    expect(page.locator(".timeline")).to_contain_text("Accepted by you")


def test_a_wait_is_cancelled_on_its_page(
    page: Page, pages: ServedPages, showcase: Showcase
) -> None:
    page.goto(f"{pages.root}wait?id={showcase.wait}")
    page.get_by_role("button", name="Cancel the wait").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the wait").click()
    expect(page.locator(".title .state")).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Cancel the wait")).to_have_count(0)


def test_of_two_people_the_second_is_told(
    page: Page, pages: ServedPages, showcase: Showcase
) -> None:
    page.goto(f"{pages.root}task?id={showcase.tasks['guide']}")
    page.evaluate("document.hidden || Object.defineProperty(document, 'hidden', {value: true})")
    showcase.daemon.ask("act", id=showcase.tasks["guide"], action="cancel")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("#toast")).to_contain_text("is cancelled now, so you cannot pause it")


def test_the_page_survives_a_restart_of_the_daemon(page: Page, showcase: Showcase) -> None:
    showcase.daemon.restart()
    expect(page.locator("#live")).to_have_text("live")
    task = showcase.daemon.register("After the restart")
    expect(row(page, "After the restart")).to_have_count(1)
    showcase.daemon.ask("act", id=task, action="cancel")


def test_health_shows_every_link(page: Page, pages: ServedPages) -> None:
    page.goto(f"{pages.root}health")
    expect(page.locator(".check").filter(has_text="database")).to_have_count(1)
    expect(page.locator(".checks")).to_contain_text(["daemon", "sqlmodel"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_no_page_has_a_fault_of_accessibility(
    page: Page, pages: ServedPages, showcase: Showcase, scheme: str, width: int
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    tasks = (f"task?id={showcase.tasks[name]}" for name in ("deploy", "certificates", "backup"))
    for path in ("", *tasks, f"wait?id={showcase.wait}", "waits", "health", "search?q=zzz"):
        page.goto(pages.root + path)
        expect(page.locator("#live")).to_have_text("live")
        found = Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
