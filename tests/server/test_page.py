"""The page in a real browser: teach, try, put right, inbox, reload; by keyboard, on a phone, offline."""

from __future__ import annotations

import shutil
import socket
import threading
import time

import pytest
import uvicorn

from scail.server.app import make_app
from scail.server.desk import desk_of
from scail.server.settings import ServerSettings
from tests.server.serving import encoded

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
EVIL = "<img src=x onerror='window.broken = 1'>"
LONG = 60_000  # milliseconds: other tests may want the machine, too


@pytest.fixture(scope="module")
def browser():
    camera = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *camera])
        yield browser
        browser.close()


@pytest.fixture
def serve(model):
    """Begins a server in a thread, and gives its address."""
    running = []

    def begin(**given) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(make_app(ServerSettings(model, **given)), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        running.append((server, thread, listening))
        while not server.started:
            time.sleep(0.02)
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield begin
    for server, thread, listening in running:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def page(browser):
    """A page whose errors are the test's, and that asks nobody but its server."""
    context = browser.new_context(viewport={"width": 1100, "height": 900}, permissions=["camera"])
    page, wrong = context.new_page(), []
    page.set_default_timeout(LONG)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: said.type == "error" and "401" not in said.text and wrong.append(said.text))
    page.on(
        "request", lambda asked: asked.url.startswith(("http://127.0.0.1", "blob:", "data:")) or wrong.append(asked.url)
    )
    yield page
    assert page.evaluate("window.broken") is None
    context.close()
    assert wrong == []


def files(kind: str, count: int, seed: int = 800) -> list[dict]:
    return [
        {"name": f"{kind}-{n}.png", "mimeType": "image/png", "buffer": encoded(kind, seed + n)} for n in range(count)
    ]


def test_teach_try_put_right_rename_forget_reload(serve, page):
    page.goto(serve())
    page.wait_for_selector(".class-card")
    assert "It knows 3 classes" in page.text_content("#facts")
    assert page.is_disabled("#teach-go")
    # Teach, with a name that is markup elsewhere
    page.set_input_files("#teach input[multiple]", files("dots", 5))
    page.click("#teach .thumbs-list button >> nth=4")
    page.fill("#teach-name", EVIL)
    page.click("#teach-go")
    page.wait_for_selector("#lesson h3")
    assert EVIL in page.text_content("#lesson h3") and "Left out one by one" in page.text_content("#lesson")
    assert page.locator(".class-card").count() == 4
    # Try: its reason is one of the pictures that were just learned
    page.set_input_files(
        "#try input[multiple]", [*files("dots", 1, 900), {"name": "b.png", "mimeType": "image/png", "buffer": b"bad"}]
    )
    page.wait_for_selector(".answer >> nth=1")
    answers = page.locator(".answer").all_text_contents()
    assert any("cannot be read" in text for text in answers) and any(EVIL in text for text in answers)
    assert page.locator(".answer .near img").count() == 3
    # Put right: rename it, move a picture, forget another class
    page.locator(".class-card").last.click()
    page.fill("#class-dialog input[aria-label='New name']", "dots")
    page.keyboard.press("Enter")
    page.wait_for_selector(".class-card:has-text('dots')")
    page.wait_for_selector("#class-dialog", state="hidden")
    page.locator(".class-card:has-text('dots')").click()
    page.check("#class-dialog .pick input >> nth=0")
    page.fill("#class-dialog input[aria-label^='Class that']", "red")
    page.click("#class-dialog button:has-text('Move them')")
    page.wait_for_selector(".class-card:has-text('red'):has-text('7 pictures')")
    page.wait_for_selector("#class-dialog", state="hidden")
    page.locator(".class-card:has-text('green')").click()
    page.click("#class-dialog button:has-text('Forget this class')")
    page.click("#class-dialog button:has-text('Yes, forget it')")
    page.wait_for_selector("#change:has-text('Nothing of it is left')")
    # Reload: all of it is the model's
    page.reload()
    page.wait_for_selector(".class-card")
    assert page.locator(".class-card b").all_text_contents() == ["red", "blue", "dots"]
    page.click("#undo")
    page.wait_for_selector("#change .note")  # a forget cannot be taken back, and that is said
    assert "nothing of what is forgotten is kept" in page.text_content("#change .note")


@pytest.mark.soak
def test_the_inbox_is_named_learned_and_dragged(serve, page, model):
    address = serve(inbox=20)
    page.set_viewport_size({"width": 1100, "height": 2600})  # nothing has to be scrolled while it is dragged
    page.goto(address)
    page.wait_for_selector("#inbox-link")
    for n in range(4):
        page.request.post(f"{address}/v1/predict", data=encoded("dots", 700 + n), headers={"content-type": "image/png"})
    page.request.post(f"{address}/v1/predict", data=encoded("dots", 710), headers={"content-type": "image/png"})
    while len(list((desk_of(model) / "inbox").glob("*.json"))) < 5:
        time.sleep(0.05)
    page.reload()
    page.wait_for_selector("#groups .pick >> nth=4")
    assert page.text_content("#inbox-link") == "Inbox (5)"
    first = page.locator("#groups article").first
    count = first.locator(".pick").count()
    if count == 5:
        first.locator(".pick input").last.uncheck()
    named = min(count, 4)
    first.locator("input[type=text]").fill("dots")
    page.keyboard.press("Enter")
    page.wait_for_selector(f".class-card:has-text('dots'):has-text('{named} picture')")
    for more in range(named + 1, 6):  # what is left is dragged to the class
        page.wait_for_selector("#groups .pick")
        page.locator("#groups .pick input:checked").nth(0).wait_for()
        for box in page.locator("#groups article").first.locator(".pick input").all()[1:]:
            box.uncheck()
        page.drag_and_drop("#groups .pick", ".class-card:has-text('dots')")
        page.wait_for_selector(f".class-card:has-text('dots'):has-text('{more} pictures')")
    page.wait_for_selector("#inbox-hint:has-text('Nothing waits here')")


@pytest.mark.soak
def test_the_camera_the_keyboard_and_the_token(serve, page):
    page.goto(serve(token="a-token"))
    page.wait_for_selector("#sign-in[open]")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("#sign-in-error:not([hidden])")
    page.fill("#token", "a-token")
    page.keyboard.press("Enter")
    page.wait_for_selector(".class-card")
    page.click("#try button:has-text('Camera')")
    page.wait_for_selector("#answers .live")
    page.click("#try button:has-text('Close the camera')")
    page.click("#teach button:has-text('Camera')")
    page.click("#teach button:has-text('Take a picture')")
    page.wait_for_selector("#teach .thumbs-list img")
    page.click("#teach button:has-text('Close the camera')")
    page.locator("body").press("Home")
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(25):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "document.activeElement.id || document.activeElement.className || document.activeElement.textContent"
            )
        )
    assert {"theme", "teach-name", "class-card", "undo"} <= reached
    page.locator(".class-card").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#class-dialog[open] .picks img")
    page.keyboard.press("Escape")
    page.wait_for_selector("#class-dialog", state="hidden")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_and_quickly(serve, browser, scheme):
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(LONG)
    address = serve(inbox=5)
    for path in ("/", "/docs"):
        page.goto(address + path)
        page.wait_for_selector(".class-card, details.card")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(int(n) for n in paper[4:-1].split(",")) > 380) == (scheme == "light")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper
    context.close()
