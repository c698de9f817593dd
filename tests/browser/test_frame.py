"""The frame: what is fetched at first, tabs that come when they are opened, and a view that outlives its server."""

from tests.browser.conftest import serve_to
from tests.browser.waiting import until

TABS = ("read", "compute", "generate", "beam", "compare", "train", "lab")


def open_page(page, url):
    page.goto(url)
    page.wait_for_selector("#tabs button")


def test_the_first_view_needs_little_code_and_it_comes_packed(browser, served):
    """In a context of its own: the shared ones have the code in memory, and fetch nothing."""
    context = browser.new_context()
    first = context.new_page()
    fetched = {}
    first.on("response", lambda answer: fetched.update({answer.url.split("/")[-1]: answer}))
    open_page(first, f"{served}/#models=stories-ngram&text=Tom had a dog.")
    first.wait_for_selector("canvas")
    code = {name: answer for name, answer in fetched.items() if name.endswith((".js", ".css")) or name == ""}
    assert "app.js" in code and "tab_read.js" in code and "tab_train.js" not in code
    assert sum(len(answer.body()) for answer in code.values()) < 200_000
    assert all(answer.headers["content-encoding"] == "gzip" for answer in code.values())
    context.close()


def test_every_tab_opens_and_closes_by_the_keyboard_alone(page, served):
    open_page(page, f"{served}/#models=stories-ngram&text=Tom had a dog.&tab={TABS[0]}")
    page.focus("#tabs [aria-selected=true]")
    for name in (*TABS[1:], TABS[0]):
        page.keyboard.press("ArrowRight")
        until(page, f"document.getElementById('panel').dataset.tab === '{name}'")
        until(page, "document.getElementById('panel').children.length > 0")
        assert page.get_attribute("#tabs [aria-selected=true]", "id") == f"tab-{name}"


def test_a_request_to_another_machine_is_noticed(page):
    page.goto("data:text/html,<img src='http://example.org/seen.png' onerror='document.title = 1'>")
    until(page, "document.title === '1'")                  # it was not answered
    assert "asked for http://example.org/seen.png" in page.troubles
    page.troubles.clear()


def test_quick_changes_leave_the_last_tab_open(page, served):
    open_page(page, f"{served}/#models=stories-ngram&text=Tom had a dog.")
    for name in ("generate", "beam", "train", "lab", "compare"):
        page.evaluate(f"document.getElementById('tab-{name}').click()")
    until(page, "document.querySelector('#panel').textContent.includes('bits per character')"
                " || document.querySelector('#panel').textContent.length > 20")
    assert page.get_attribute("#panel", "data-tab") == "compare"
    assert page.locator("#panel .lab-card, #panel .gen-token").count() == 0


def test_a_copied_address_restores_the_view_after_a_restart(page, served, runs):
    asked = "#models=stories-transformer&text=Tom had a red kite.&layer=2&head=1&row=3&column=2"
    open_page(page, f"{served}/{asked}")
    page.wait_for_selector("canvas")
    until(page, "document.getElementById('said').textContent.includes('reads') || "
                "document.getElementById('panel').textContent.includes('reads')")
    seen = page.inner_text("#panel")
    with serve_to(page, runs / "stories-transformer") as other:
        page.goto("about:blank")
        open_page(page, f"{other}/{asked}")
        page.wait_for_selector("canvas")
        until(page, "document.getElementById('panel').textContent.includes('reads')")
        assert page.inner_text("#panel") == seen


def test_the_prompts_of_a_corpus_are_buttons_that_put_them_into_the_text(page, served):
    prompts = ["A A B A ->", "B A A A A A A ->"]

    def with_prompts(route):
        answer = route.fetch()
        told = answer.json()
        for model in told["models"]:
            model["examples"] = prompts if model["id"] == "stories-ngram" else []
        route.fulfill(response=answer, json=told)

    page.route("**/api/models", with_prompts)
    open_page(page, f"{served}/#models=stories-ngram&text=Tom had a dog.")
    buttons = page.locator("#input button[title]")
    assert [buttons.nth(at).inner_text() for at in range(2)] == ["A A B A … 5 words", "B A A A … 8 words"]
    buttons.nth(1).click()
    until(page, "document.getElementById('text').value === 'B A A A A A A ->'")
    assert buttons.count() == 2
