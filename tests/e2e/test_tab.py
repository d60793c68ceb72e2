"""The tab in OpenClaw's Control UI, in a real browser: live, and with buttons that work."""

from __future__ import annotations

from collections.abc import Iterator
from shutil import which

import pytest
from playwright.sync_api import FrameLocator, Page, expect, sync_playwright

from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Story
from tests.support.required import do_without

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True
MILLIS = 60_000


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a real Chromium."""
    program = which("chromium") or do_without("No Chromium is here; install the package chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-background-networking", "--disable-component-update"],
        )
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(MILLIS)
        yield page
        browser.close()


def open_tab(page: Page, story: Story) -> FrameLocator:
    """Open the Control UI as its user does, and the tab in it."""
    gateway = story.house.gateway
    page.goto(f"http://127.0.0.1:{gateway.port}/task-memory#token={gateway.token}")
    return page.frame_locator("iframe.plugin-tab-embed__frame")


def test_the_tab_follows_a_task_and_a_button_resumes_its_session(story: Story, page: Page):
    def works(request: ModelRequest) -> Reply:
        turn = request.turn
        if "Please" in turn.words:
            if not turn.results:
                return [
                    Call("task_register", {"name": "Tidy the attic", "plan": ["Sort", "Sweep"]})
                ]
            if len(turn.results) == 1:
                ask = {"ask": "Keep the old lamp?", "ask_options": ["Keep it", "Sell it"]}
                return [Call("task_update", {"task_id": story.task["task_id"], **ask})]
            return "I wait for your word."
        if "Sell it" in turn.text:
            report = {"completed_steps": [1, 2], "status": "completed"}
            given = {"task_id": story.task["task_id"], **report}
            return "Sold." if turn.results else [Call("task_update", given)]
        return "So be it."

    expect.set_options(timeout=MILLIS)
    story.follow(works)
    tab = open_tab(page, story)
    expect(tab.locator("#live")).to_have_text("page is live")
    story.say("Please tidy up.")

    row = tab.locator(".row", has_text="Tidy the attic")
    expect(row).to_contain_text("asks: Keep the old lamp?")
    row.get_by_role("button", name="Sell it").click()
    tab.get_by_role("dialog").get_by_role("button", name="Sell it").click()

    story.ends()
    expect(tab.locator(".list.ended")).to_contain_text("Tidy the attic")
    tab.get_by_role("link", name="Tidy the attic").click()
    expect(tab.locator(".plan .done")).to_have_count(2)
    expect(tab.locator("#live")).to_have_text("page is live")  # it hears clicks
    tab.locator(".session").first.click()
    page.wait_for_url(lambda url: "/chat" in url or "session" in url)
