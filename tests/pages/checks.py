"""What the pages promise, each as a test. `run.py` sets the browser and the servers."""

import base64
import json
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from webdriver import ENTER, TAB, wait

TOKEN = "a-token-of-the-tests"
HOSTILE = [json.loads(line) for line in (Path(__file__).parent / "hostile.jsonl").read_text().splitlines()]
EVERYTHING = "?q=Marie+Curie&k=100"

# Text as the page shows it, with every box turned back into the character that it stands for.
RAW = """
const raw = (node) => node.nodeType === 3 ? node.data
  : node.classList.contains('control') ? String.fromCodePoint(parseInt(node.title.slice(2), 16))
  : [...node.childNodes].map(raw).join('');
"""

# Plants an answer in place of the server's; `window.asked` holds what the page sent.
PLANT = """
const [status, headers, body] = arguments;
window.asked = [];
window.fetch = async (path, options) => {
  window.asked.push({ path: String(path), headers: options.headers, body: options.body });
  if (status === 0) throw new TypeError('Failed to fetch');
  return new Response(body, { status, headers });
};
"""


class Page(unittest.TestCase):
    """Opens pages, and after each test looks for what no page may do."""

    browser = None
    servers = {}
    pictures = None
    refusals = False  # whether the test makes the server refuse something, which Chromium logs as an error
    planted = False  # whether the test breaks the content security policy on purpose

    def setUp(self):
        self.server = self.servers["open"]
        self.browser.look()
        self.browser.open("about:blank")
        self.browser.log("browser")
        self.browser.log("performance")

    def tearDown(self):
        self.assertIsNone(self.browser.dialog(), "a dialog was opened")
        self.assertIsNone(self.browser.run("return window.attacked ?? null"), "a script of a passage ran")
        for entry in self.browser.log("browser"):
            if self.planted or (self.refusals and entry["source"] == "network"):
                continue
            self.assertNotIn(entry["level"], ("SEVERE", "WARNING"), entry["message"])
        own = (*(server + "/" for server in self.servers.values()), "data:", "about:")
        for url in self.requests():
            self.assertTrue(url.startswith(own), f"a request went to {url}")

    def requests(self):
        """What was asked of the network since the last call, without what the policy stopped."""
        asked = {}
        for entry in self.browser.log("performance"):
            message = json.loads(entry["message"])["message"]
            parameters = message["params"]
            if message["method"] == "Network.requestWillBeSent":
                asked[parameters["requestId"]] = parameters["request"]["url"]
            elif message["method"] == "Network.loadingFailed" and parameters.get("blockedReason") == "csp":
                asked.pop(parameters["requestId"], None)
        return asked.values()

    def go(self, path, server=None):
        self.browser.open(f"{server or self.server}/{path}")

    def api(self, path, body=None):
        """Status and JSON of a call made without the browser."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.server}/{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def search(self, query, top_k=10):
        status, answer = self.api("v1/search", {"query": query, "top_k": top_k})
        self.assertEqual(status, 200, answer)
        return answer["results"][0]["hits"]

    def wait_hits(self, query=None):
        """Waits for passages (of this query, if one is given) and returns them as the page shows them."""
        found = self.browser.run
        done = "return document.querySelectorAll('.hit').length > 0 && document.getElementById('progress').hidden"
        wait(lambda: found(done) and (query is None or found("return document.title").startswith(query)), 15, "passages")
        return found(RAW + """return [...document.querySelectorAll('.hit')].map((hit) => ({
            rank: hit.querySelector('.rank').textContent, title: raw(hit.querySelector('.title')),
            text: raw(hit.querySelector('.text')), id: raw(hit.querySelector('.meta bdi')),
            score: hit.querySelector('.score').title.replace('Score ', '') }))""")

    def wait_failure(self):
        wait(lambda: self.browser.visible("#failure"), 15, "a failure to be shown")
        return self.browser.text("#failure")

    def picture(self, name):
        if self.pictures:
            Path(self.pictures).mkdir(parents=True, exist_ok=True)
            (Path(self.pictures) / f"{name}.png").write_bytes(base64.b64decode(self.browser.screenshot()))


class Searching(Page):
    def test_a_typed_query_shows_ranked_passages_with_scores_and_timing(self):
        self.go("")
        self.assertTrue(self.browser.visible("#empty"))
        self.picture("empty")
        self.browser.type("#query", "Who named polonium?" + ENTER)
        shown = self.wait_hits("Who named polonium?")
        expected = self.search("Who named polonium?")
        self.assertEqual([hit["id"] for hit in shown], [hit["id"] for hit in expected])
        self.assertEqual([hit["rank"] for hit in shown], [str(place + 1) for place in range(len(expected))])
        for hit, other in zip(shown, expected):
            self.assertAlmostEqual(float(hit["score"]), other["score"], places=5)
            self.assertEqual(hit["title"], other["title"] or "Untitled")
        scores = [float(hit["score"]) for hit in shown]
        self.assertEqual(scores, sorted(scores, reverse=True))
        for word in ("queue", "embed", "search", "total", " ms"):
            self.assertIn(word, self.browser.text("#timings"))
        for word in ("model", "generation", "passage", "request"):
            self.assertIn(word, self.browser.text("#index"))
        self.assertIn(f"{len(shown)} passage", self.browser.text("#status"))

    def test_the_button_searches_too(self):
        self.go("")
        self.browser.type("#query", "radium")
        self.browser.click("#submit")
        self.assertTrue(self.wait_hits("radium"))

    def test_reload_back_and_forward_keep_the_query(self):
        self.go("?q=radium")
        first = self.wait_hits("radium")
        self.browser.type("#query", "a painter & a=poet #1?" + ENTER)
        second = self.wait_hits("a painter & a=poet #1?")
        self.assertIn("?q=a+painter+%26+a%3Dpoet+%231%3F", self.browser.url())
        self.browser.reload()
        self.assertEqual(self.wait_hits("a painter"), second)
        self.browser.back()
        self.assertEqual(self.wait_hits("radium"), first)
        self.assertEqual(self.browser.run("return document.getElementById('query').value"), "radium")
        self.browser.forward()
        self.assertEqual(self.wait_hits("a painter"), second)

    def test_as_many_passages_as_asked_for(self):
        self.go("")
        self.browser.type("#top-k", "2")
        self.browser.type("#query", "radium" + ENTER)
        self.assertEqual(len(self.wait_hits("radium")), 2)
        self.assertIn("k=2", self.browser.url())

    def test_an_empty_query_asks_nothing(self):
        self.go("")
        self.browser.run(PLANT, 200, {}, "{}")
        self.browser.type("#query", "   " + ENTER)
        self.assertEqual(self.browser.run("return window.asked.length"), 0)
        self.assertTrue(self.browser.visible("#empty"))

    def test_the_last_of_two_quick_searches_is_shown(self):
        self.go("")
        self.browser.run("""
            const real = window.fetch;
            window.fetch = async (path, options) => {
              if (options.body.includes('slow')) await new Promise((done) => setTimeout(done, 600));
              return real(path, { ...options, signal: undefined });
            };""")
        self.browser.type("#query", "slow" + ENTER)
        self.browser.type("#query", "radium" + ENTER)
        first = self.wait_hits("radium")
        self.browser.run("return new Promise((done) => setTimeout(done, 900))")
        self.assertEqual(self.wait_hits("radium"), first)


class Hostile(Page):
    def setUp(self):
        super().setUp()
        ids = {hit["id"] for hit in self.search("Marie Curie", 100)}
        if not ids.issuperset(passage["id"] for passage in HOSTILE):
            self.skipTest("the index does not hold the passages of hostile.jsonl")

    def test_passages_stay_text(self):
        self.go(EVERYTHING)
        shown = {hit["id"]: hit for hit in self.wait_hits()}
        for passage in HOSTILE:
            title, text = passage["contents"].split("\n", 1)
            hit = shown[passage["id"]]
            self.assertEqual((hit["title"], hit["text"]), (title[1:-1], text))
        foreign = "script, img, svg, iframe, object, link, style, base, meta, form, input, a"
        self.assertEqual(self.browser.run("return document.querySelectorAll('#hits :is(' + arguments[0] + ')').length", foreign), 0)
        self.picture("hostile")

    def test_hidden_characters_are_visible(self):
        self.go(EVERYTHING)
        self.wait_hits()
        hidden = r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}]/u"
        self.assertFalse(self.browser.run(f"return {hidden}.test(document.body.textContent + document.title)"))
        boxes = self.browser.run("return [...document.querySelectorAll('.control')].map((box) => box.textContent)")
        for name in ("NUL", "ESC", "RLO", "PDI", "ZWSP", "DEL", "CR", "U+E0069"):
            self.assertIn(name, boxes)

    def test_a_query_in_the_address_stays_text(self):
        query = "<img src=x onerror=\"window.attacked='query'\">\u202e</title><script>window.attacked=1</script>"
        self.go("?" + urllib.parse.urlencode({"q": query}))
        self.wait_hits()
        self.assertEqual(self.browser.run("return document.getElementById('query').value"), query)
        self.assertIn("[U+202E]", self.browser.run("return document.title"))

    def test_a_long_passage_comes_in_parts_and_fits_a_phone(self):
        if not any(hit["id"] == "long" for hit in self.search("Marie Curie", 100)):
            self.skipTest("the index does not hold the long passage")
        self.browser.look(width=390, height=844)
        self.go(EVERYTHING)
        self.wait_hits()
        length = "return [...document.querySelectorAll('.hit')].find((hit) => hit.querySelector('bdi').textContent === 'long').querySelector('.text').textContent.length"
        before = self.browser.run(length)
        self.assertLess(before, 5000)
        self.browser.click(".text .more")
        self.assertGreater(self.browser.run(length), before + 10_000)
        self.assertEqual(self.browser.run("return document.scrollingElement.scrollWidth - innerWidth"), 0)


class Failing(Page):
    refusals = True

    def test_a_refusal_shows_code_message_and_request(self):
        self.go("?q=radium&k=5000")
        shown = self.wait_failure()
        status, answer = self.api("v1/search", {"query": "radium", "top_k": 5000})
        for word in (answer["code"], answer["message"], str(status), "Request "):
            self.assertIn(word, shown)
        self.assertEqual(self.browser.run("return document.querySelectorAll('.hit').length"), 0)
        self.picture("refused")

    def test_overload_says_when_to_come_back_and_the_button_tries_again(self):
        self.go("")
        body = {"code": "overloaded", "message": "Too much to do \u202e", "request_id": "r-1"}
        self.browser.run("window.real = window.fetch;" + PLANT, 503, {"Retry-After": "7"}, json.dumps(body))
        self.browser.type("#query", "radium" + ENTER)
        shown = self.wait_failure()
        for word in ("overloaded", "503", "Too much to do RLO", "7 seconds", "r-1"):
            self.assertIn(word, shown)
        self.browser.run("window.fetch = window.real")
        self.browser.click("#failure button")
        self.assertTrue(self.wait_hits("radium"))
        self.assertFalse(self.browser.visible("#failure"))

    def test_no_server_and_nonsense_are_told(self):
        self.go("")
        for status, body, word in ((0, "", "unreachable"), (502, "<html>", "502"), (200, "[]", "unexpected"), (200, "{\"results\": 7}", "unexpected"), (500, "null", "500")):
            self.browser.run(PLANT, status, {}, body)
            self.browser.type("#query", "radium" + ENTER)
            wait(lambda: word in self.browser.text("#failure"), 10, f"`{word}` in the failure")

    def test_an_answer_without_passages_says_so(self):
        self.go("")
        self.browser.run(PLANT, 200, {}, json.dumps({"results": [{"hits": [], "truncated": True}], "timings": {"total_ms": 1}}))
        self.browser.type("#query", "radium" + ENTER)
        wait(lambda: "No passage found" in self.browser.text("#status"), 10, "the empty answer")
        self.assertIn("longer than the model reads", self.browser.text("#status"))

    def test_a_token_is_asked_for_and_stays_in_the_tab(self):
        if "closed" not in self.servers:
            self.skipTest("the server that is tested was not started with a token")
        self.go("?q=radium", self.servers["closed"])
        wait(lambda: self.browser.visible("#authorise"), 15, "the token's field")
        self.picture("token")
        self.browser.type("#token", "wrong" + ENTER)
        wait(lambda: not self.browser.visible("#progress") and self.browser.visible("#authorise"), 10, "a second refusal")
        self.browser.type("#token", TOKEN + ENTER)
        self.assertTrue(self.wait_hits("radium"))
        self.assertFalse(self.browser.visible("#authorise"))
        self.browser.reload()
        self.assertTrue(self.wait_hits("radium"))
        kept = self.browser.run("return [localStorage.length, document.cookie, location.href, document.documentElement.outerHTML]")
        self.assertEqual(kept[:2], [0, ""])
        self.assertNotIn(TOKEN, kept[2] + kept[3])
        self.browser.run("sessionStorage.clear()")


class Policy(Page):
    planted = True

    def test_the_header_allows_own_files_only(self):
        for path in ("", "docs"):
            with urllib.request.urlopen(f"{self.server}/{path}", timeout=10) as answer:
                policy = answer.headers["Content-Security-Policy"]
            rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";") if rule.strip()}
            self.assertEqual(rules["default-src"], ["'none'"])
            self.assertEqual((rules["script-src"], rules["style-src"], rules["connect-src"]), (["'self'"],) * 3)
            for rule in ("base-uri", "form-action", "frame-ancestors"):
                self.assertEqual(rules[rule], ["'none'"])

    def test_a_planted_script_does_not_run(self):
        for path in ("", "docs"):
            self.go(path)
            violations = self.browser.run("""
                const seen = [];
                document.addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
                const script = document.createElement('script');
                script.textContent = "window.attacked = 'inline'";
                const box = document.createElement('div');
                document.body.append(script, box);
                box.innerHTML = `<img src="https://attacker.invalid/x.png" onerror="window.attacked = 'handler'"><p style="color: red">x</p>`;
                for (const to of ['https://attacker.invalid/', 'ws://attacker.invalid/']) {
                  try { if (to.startsWith('ws')) new WebSocket(to); else fetch(to).catch(() => {}); } catch {}
                }
                return new Promise((done) => setTimeout(() => done(seen), 700));""")
            for directive in ("script-src-elem", "script-src-attr", "img-src", "style-src-attr", "connect-src"):
                self.assertIn(directive, violations)
            self.assertIsNone(self.browser.run("return window.attacked ?? null"))


class Docs(Page):
    def setUp(self):
        super().setUp()
        _, self.described = self.api("openapi.json")
        self.go("docs")
        wait(lambda: self.browser.run("return document.querySelectorAll('.operation').length"), 15, "operations")

    def test_every_operation_is_listed_under_its_tag(self):
        listed = self.browser.run("""return [...document.querySelectorAll('.operation')].map((one) =>
            [one.dataset.path, one.querySelector('.method').textContent.toLowerCase(), one.closest('.tag').querySelector('h2').textContent])""")
        methods = ("get", "post", "put", "patch", "delete", "head", "options")
        expected = [[path, method, (item[method].get("tags") or ["Other"])[0]] for path, item in self.described["paths"].items() for method in methods if method in item]
        self.assertEqual(sorted(listed), sorted(expected))
        self.picture("docs")

    def test_every_operation_opens_with_answers_and_a_curl_line(self):
        opened = self.browser.run("""
            const all = [...document.querySelectorAll('.operation')];
            for (const one of all) one.open = true;
            return new Promise((done) => setTimeout(() => done(all.map((one) => [one.dataset.path,
              one.querySelectorAll('.response').length, one.querySelector('.copyable pre')?.textContent ?? ''])), 500));""")
        for path, answers, curl in opened:
            self.assertGreater(answers, 0, path)
            self.assertTrue(curl.startswith("curl ") and self.server in curl, f"{path}: {curl}")

    def test_try_it_sends_what_the_box_holds(self):
        one = '.operation[data-path="/v1/search"]'
        self.browser.click(f"{one} summary")
        wait(lambda: self.browser.visible(f"{one} textarea"), 10, "the box")
        self.browser.type(f"{one} textarea", '{"query": "it\'s radium", "top_k": 1}')
        self.assertIn("it'\\''s radium", self.browser.text(f"{one} .copyable pre"))
        self.browser.click(f"{one} form button")
        wait(lambda: "200" in self.browser.text(f"{one} .answer p"), 15, "the answer")
        self.assertEqual(len(json.loads(self.browser.text(f"{one} .answer pre"))["results"][0]["hits"]), 1)
        self.picture("docs-open")

    def test_the_filter_narrows_and_a_link_opens(self):
        self.browser.type("#filter", "/v1/search")
        paths = "return [...document.querySelectorAll('.operation:not([hidden])')].map((one) => one.dataset.path)"
        wait(lambda: "/v1/search" in self.browser.run(paths), 5, "the filter")
        self.assertNotIn("/metrics", self.browser.run(paths))
        self.browser.open("about:blank")
        self.go("docs#post-v1-search")
        wait(lambda: self.browser.visible('.operation[data-path="/v1/search"] textarea'), 10, "the operation to open")


class ClosedDocs(Page):
    refusals = True

    def test_the_description_is_shown_once_the_token_is_given(self):
        if "closed" not in self.servers:
            self.skipTest("the server that is tested was not started with a token")
        self.go("docs", self.servers["closed"])
        self.assertIn("unauthorized", self.wait_failure())
        self.browser.type("#token", TOKEN + ENTER)
        wait(lambda: self.browser.visible(".operation"), 15, "the operations")
        self.assertFalse(self.browser.visible("#failure"))
        self.browser.run("sessionStorage.clear()")


class Access(Page):
    """What a reader with a keyboard, a screen reader, a phone or a dark room needs."""

    PAGES = (EVERYTHING, "docs#post-v1-search")

    DRAWN = ".hit, .operation .try"

    def ready(self, path):
        self.browser.open("about:blank")
        self.go(path)
        wait(lambda: self.browser.visible(self.DRAWN), 15, "the page to be drawn")

    def name(self, path):
        return "docs" if "docs" in path else "hits"

    def test_every_control_has_a_name(self):
        for path in self.PAGES:
            self.ready(path)
            nameless = self.browser.run("""return [...document.querySelectorAll('input, textarea, select, button, a')]
                .filter((one) => !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim())).map((one) => one.outerHTML)""")
            self.assertEqual(nameless, [])
            self.assertEqual(self.browser.run("return [document.querySelectorAll('h1').length, document.documentElement.lang, document.querySelectorAll('main').length]"), [1, "en", 1])
            twice = self.browser.run("const ids = [...document.querySelectorAll('[id]')].map((one) => one.id); return ids.filter((id, place) => ids.indexOf(id) !== place)")
            self.assertEqual(twice, [])

    def test_the_keyboard_reaches_everything_and_shows_where_it_is(self):
        self.ready(EVERYTHING)
        seen = []
        self.browser.run("document.activeElement.blur(); document.querySelector('h1 a').focus()")
        for _ in range(4):
            self.browser.press(TAB)
            seen.append(self.browser.run("const one = document.activeElement; return [one.id || one.textContent, getComputedStyle(one).outlineStyle]"))
        self.assertEqual([name for name, _ in seen], ["API", "query", "submit", "top-k"])
        self.assertEqual({outline for _, outline in seen}, {"solid"})

    def test_text_stands_out_from_its_background(self):
        for dark in (False, True):
            self.browser.look(dark=dark)
            for path in self.PAGES:
                self.ready(path)
                faint = self.browser.run("""
                    const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
                    const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
                    const ground = (one) => { for (; one; one = one.parentElement) { const c = rgb(getComputedStyle(one).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
                    const faint = [];
                    for (const one of document.querySelectorAll('body *')) {
                      if (![...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) || !one.getClientRects().length) continue;
                      const [a, b] = [light(rgb(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
                      const ratio = (a + 0.05) / (b + 0.05);
                      if (ratio < 4.5) faint.push([one.className, one.textContent.slice(0, 30), ratio]);
                    }
                    return faint;""")
                self.assertEqual(faint, [], f"dark: {dark}, {path}")
                self.picture(f"{self.name(path)}-{'dark' if dark else 'light'}")

    def test_nothing_is_wider_than_a_phone(self):
        for width in (320, 390):
            self.browser.look(width=width, height=800)
            for path in self.PAGES:
                self.ready(path)
                self.assertEqual(self.browser.run("return document.scrollingElement.scrollWidth - innerWidth"), 0, f"{path} at {width}")
                self.picture(f"{self.name(path)}-{width}")
