"""What the page of `hindsearch view` promises, each as a test. `run.py` sets the file, the viewer and the browser."""

import json
import re
import urllib.parse

import checks
from checks import RAW, Page
from webdriver import ENTER, TAB, wait

RUN = None  # the file that is shown
RECORDS = []  # what it holds, a record a line
ESCAPE = "\ue00c"
FOREIGN = "script, img, svg, iframe, object, link, style, base, meta, form, input, textarea"
HIDDEN = r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}]/u"


def line_of(condition):
    """The line of the first record for which this holds."""
    return next(number for number, record in enumerate(RECORDS, 1) if condition(record))


def last_plays():
    """Lines and records without those that were played again."""
    last = {(record["task"], record["sample"]): number for number, record in enumerate(RECORDS, 1)}
    return [(number, record) for number, record in enumerate(RECORDS, 1) if last[record["task"], record["sample"]] == number]


def masks(record):
    """Policy mask and query mask, a value a token, from the record alone."""
    policy, query = [], []
    for place, span in enumerate(record["spans"]):
        tokens, ends = span.get("tokens", []), span.get("ends", [])
        policy += [span["author"] == "policy"] * len(tokens)
        asked = [turn["content"] for turn in record["turns"] if turn["span"] == place and turn["action"]["kind"] == "search" and "found" in turn and "content" in turn]
        known = ends if len(ends) == len(tokens) else []
        first, last = 0, 0
        for end in known:
            # Of a character that is spread over several tokens each has all bytes.
            is_spread = end == last and not span["text"].encode()[:end].decode(errors="replace")[-1:].isascii()
            first, last = (first, last) if is_spread else (last, end)
            start = first
            query.append(any(start < one["end"] and one["start"] < end for one in asked))
        query += [False] * (len(tokens) - len(known))
    return policy, query


class Viewing(Page):
    def list(self, query=""):
        """Opens the list and waits for it."""
        self.go(query)
        self.wait_list()

    def wait_list(self):
        wait(lambda: self.browser.visible("#list") and not self.browser.visible("#progress"), 15, "the list")

    def rows(self):
        return self.browser.run("return [...document.querySelectorAll('#rows .line')].map((cell) => Number(cell.textContent))")

    def wait_rows(self, expected, what):
        wait(lambda: self.rows() == expected, 15, what)

    def one(self, line, more=""):
        self.browser.open("about:blank")
        self.go(f"?line={line}{more}")
        self.wait_one(line)

    def wait_one(self, line):
        wait(lambda: self.browser.visible("#detail") and f"line {line}" in self.browser.text("#detail header .facts"), 15, f"line {line}")

    def shown(self, selector):
        """The texts of elements, with every box turned back into the character that it stands for."""
        return self.browser.run(RAW + "return [...document.querySelectorAll(arguments[0])].map(raw)", selector)


class List(Viewing):
    def test_all_are_there_and_counted_a_hundred_a_page(self):
        self.list()
        lines = [number for number, _ in last_plays()]
        self.assertEqual(self.rows(), lines[:100])
        status = self.browser.text("#status")
        failed = sum("error" in record for _, record in last_plays())
        self.assertIn(f"{len(lines)} trajectories · {failed} with an error · 1 played again since", status)
        chips = self.browser.run("return Object.fromEntries([...document.querySelectorAll('.chip')].map((chip) => chip.textContent.match(/^(.*) ([\\d,]+)$/).slice(1)))")
        stops = [record.get("stop") for _, record in last_plays()]
        expected = {"all": len(stops), "answer": stops.count("answer"), "ended": stops.count("end"), "no turns left": stops.count("turns"),
                    "context full": stops.count("context"), "not over": stops.count(None)}
        self.assertEqual(chips, {name: str(count) for name, count in expected.items()})
        self.picture("list")
        self.browser.click("#pager a:nth-last-child(2)")
        self.wait_rows(lines[100:200], "the second page")
        self.browser.click("#pager a:last-child")
        self.wait_rows(lines[len(lines) // 100 * 100:], "the last page")
        self.browser.back()
        self.wait_rows(lines[100:200], "the second page again")

    def test_text_that_is_typed_filters_and_stays_in_the_address(self):
        self.list()
        self.browser.type("#text", "PLANET sun")
        expected = [number for number, record in last_plays() if "planet" in json.dumps(record["question"]).lower() and "sun" in record["question"].lower()]
        self.assertTrue(expected)
        self.wait_rows(expected, "the filter")
        self.assertIn("text=PLANET+sun", self.browser.url())
        self.browser.reload()
        self.wait_list()
        self.assertEqual(self.rows(), expected)
        self.assertEqual(self.browser.run("return document.getElementById('text').value"), "PLANET sun")
        self.browser.type("#text", "no such words anywhere")
        self.wait_rows([], "nothing")
        self.assertTrue(self.browser.visible("#none"))
        self.browser.click("#clear")
        self.wait_rows([number for number, _ in last_plays()][:100], "all again")

    def test_stop_reward_error_and_critique_filter_together(self):
        self.list()
        self.browser.click(".chip:nth-of-type(2)")
        self.browser.type("#least", "0.5")
        self.browser.type("#most", "1.15")
        self.browser.run("const one = document.getElementById('critique'); one.value = 'true'; one.dispatchEvent(new Event('input', { bubbles: true }))")
        self.browser.run("const one = document.getElementById('error'); one.value = 'false'; one.dispatchEvent(new Event('input', { bubbles: true }))")
        expected = [number for number, record in last_plays()
                    if record.get("stop") == "answer" and 0.5 <= record.get("reward", {"total": -9})["total"] <= 1.15 and "critique" in record and "error" not in record]
        self.assertTrue(0 < len(expected) < 100, expected)
        self.wait_rows(expected, "the filters")
        self.list("?error=true")
        self.wait_rows([number for number, record in last_plays() if "error" in record], "those with an error")
        self.assertEqual(set(self.browser.run("return [...document.querySelectorAll('#rows .badge.bad')].map((one) => one.textContent)")), {"error"})

    def test_the_mean_reward_is_that_of_the_filtered(self):
        self.list("?stop=turns")
        rewards = [record["reward"]["total"] for _, record in last_plays() if record.get("stop") == "turns"]
        self.assertIn(f"mean reward {round(sum(rewards) / len(rewards), 4):g}", self.browser.text("#rewards"))

    def test_columns_sort_both_ways(self):
        self.list("?text=planet")
        rewards = lambda: [one for one in self.browser.run("return [...document.querySelectorAll('#rows .reward')].map((one) => one.textContent)")]
        self.browser.click("th.reward a")
        wait(lambda: self.browser.run("return document.querySelector('th.reward').getAttribute('aria-sort')") == "descending", 10, "the order")
        numbers = [float(one) for one in rewards() if one != "none"]
        self.assertEqual(numbers, sorted(numbers, reverse=True))
        self.browser.click("th.reward a")
        wait(lambda: self.browser.run("return document.querySelector('th.reward').getAttribute('aria-sort')") == "ascending", 10, "the other order")
        self.assertEqual([float(one) for one in rewards() if one != "none"], sorted(numbers))

    def test_what_a_run_adds_comes_with_reload(self):
        added = {**RECORDS[-1], "task": "added", "question": "Was this added?"}
        before = RUN.read_bytes()
        try:
            self.list("?sort=line&descending=true")
            with RUN.open("a") as file:
                file.write(json.dumps(added) + "\n" + json.dumps(added)[:100])
            self.browser.click("#reload")
            wait(lambda: self.rows()[0] == len(RECORDS) + 1, 10, "the line that was added")
            self.assertIn("Was this added?", self.browser.text("#rows tr .question"))
        finally:
            RUN.write_bytes(before)

    def test_the_plays_of_a_task_are_one_link_away(self):
        self.one(line_of(lambda record: record["task"] == "sample_1-0"))
        self.browser.click("#detail header .facts a")
        self.wait_list()
        self.wait_rows([number for number, record in last_plays() if record["task"] == "sample_1-0"], "the plays")


class Keys(Viewing):
    def test_the_list_and_the_single_one_are_walked_by_keys(self):
        self.list("?text=planet")
        lines = self.rows()
        for _ in range(2):
            self.browser.press("j")
        self.browser.press(ENTER)
        self.wait_one(lines[1])
        self.assertEqual(self.browser.text("#where"), f"2 of {len(lines)}")
        self.browser.press("j")
        self.wait_one(lines[2])
        self.browser.press("k")
        self.wait_one(lines[1])
        self.browser.press("\ue012")  # to the left
        self.wait_one(lines[0])
        self.browser.press("k")  # there is none before
        self.browser.press("m")
        wait(lambda: self.browser.visible(".legend .trained"), 10, "the masks")
        self.browser.press("j")
        self.wait_one(lines[1])
        self.assertTrue(self.browser.visible(".legend .trained"))
        self.browser.press(ESCAPE)
        self.wait_list()
        self.assertEqual(self.rows(), lines)
        self.browser.press("/")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "text")
        self.browser.press("j")  # is text there
        self.assertEqual(self.browser.run("return document.getElementById('text').value"), "planetj")

    def test_back_and_forward_go_where_they_were(self):
        self.list("?text=planet")
        lines = self.rows()
        self.browser.click("#rows tr:nth-child(3)")
        self.wait_one(lines[2])
        self.browser.back()
        self.wait_list()
        self.assertEqual(self.rows(), lines)
        self.browser.forward()
        self.wait_one(lines[2])
        self.browser.reload()
        self.wait_one(lines[2])


class Single(Viewing):
    def test_every_span_has_its_author_and_its_text(self):
        for line in (1, 2, 3, 6, line_of(lambda record: len(record["turns"]) > 2 and record["task"].startswith("sample"))):
            record = RECORDS[line - 1]
            self.one(line, "&raw=1")
            authors = self.browser.run("return [...document.querySelectorAll('.block')].map((one) => one.dataset.author)")
            self.assertEqual(authors, [span["author"] for span in record["spans"]])
            self.assertEqual(self.shown(".block .text"), [span["text"] for span in record["spans"]])

    def test_an_observation_can_be_read_and_be_seen_as_the_policy_saw_it(self):
        means = {"&lt;": "<", "&#91;": "[", "&amp;": "&"}
        seen = [span["text"] for span in RECORDS[0]["spans"] if span["author"] == "environment"]
        readable = [re.sub("&(?:lt|#91|amp);", lambda form: means[form[0]], text) for text in seen]
        self.assertNotEqual(seen, readable)
        self.one(1)
        self.assertEqual(self.shown(".environment .text"), readable)
        replaced = self.browser.run("return [...document.querySelectorAll('.escaped')].map((one) => one.title)")
        self.assertEqual(len(replaced), sum(len(re.findall("&(?:lt|#91|amp);", text)) for text in seen))
        self.picture("readable")
        self.browser.press("r")
        wait(lambda: self.shown(".environment .text") == seen, 10, "the text as it was seen")

    def test_masks_are_counted_and_coloured_token_by_token(self):
        searched = line_of(lambda record: record["task"].startswith("sample") and sum("found" in turn for turn in record["turns"]) == 2 and "tokens" in record["spans"][0])
        for line in (searched, 6):
            record = RECORDS[line - 1]
            self.one(line, "&mask=1")
            policy, query = masks(record)
            self.assertTrue(any(query))
            counts = self.browser.run("return [...document.querySelectorAll('.share dd')].map((one) => Number(one.dataset.count))")
            self.assertEqual(counts, [len(policy), sum(policy), sum(query)])
            tokens = self.browser.run("return [...document.querySelectorAll('.token')].map((one) => [one.classList.contains('trained'), one.classList.contains('query')])")
            known = []
            start = 0
            for span in record["spans"]:
                end = start + len(span.get("tokens", []))
                if len(span.get("ends", [])) == end - start:
                    known += [list(pair) for pair in zip(policy[start:end], query[start:end])]
                start = end
            self.assertEqual(tokens, known)
            self.assertEqual(self.shown(".block .text"), [span["text"] for span in record["spans"]])
            self.picture(f"masks-{line}")
        self.one(6, "&mask=1")
        pieces = self.browser.run("return [...document.querySelectorAll('.block:nth-of-type(2) .token')].map((one) => [one.textContent, one.title])")
        self.assertEqual(pieces, [["é", "token 1, log-probability -0.500"], ["🎉", "token 2, log-probability -1.000"], ["", "token 3, log-probability -2.000"], ["x", "token 4, log-probability -0.250"]])
        for words in ("where they end is not recorded", "Turns of which the record holds no text", "Ended without an answer"):
            self.assertIn(words, self.browser.text(".transcript"))

    def test_text_without_tokens_says_so(self):
        self.one(line_of(lambda record: record["task"].startswith("sample") and "tokens" not in record["spans"][0]), "&mask=1")
        self.assertIn("no tokens recorded", self.browser.text(".block h3"))
        self.assertIn("spans have text alone", self.browser.text(".panel.tokens"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('.token').length"), 0)

    def test_queries_stand_with_their_passages(self):
        line = line_of(lambda record: any(turn.get("truncated") for turn in record["turns"]))
        record = RECORDS[line - 1]
        self.one(line)
        searches = [turn for turn in record["turns"] if turn["action"]["kind"] == "search"]
        self.assertEqual(self.shown(".outcome q.asked"), [query for turn in searches for query in turn["action"]["queries"]])
        found = [one for turn in searches for ranking in turn["found"] for one in ranking]
        rows = self.browser.run(RAW + """return [...document.querySelectorAll('.passages tbody tr')].map((row) =>
            [raw(row.querySelector('.id')), row.querySelector('.score').textContent, row.querySelector('.seen').textContent])""")
        self.assertEqual(rows, [[one["id"], f"{one['score']:.4f}", "shown" if one["shown"] else "left out"] for one in found])
        self.assertIn("left out or shortened", self.browser.text(".transcript"))
        asked = self.shown(".policy .text .asked")
        self.assertEqual([text.strip() for text in asked], [query for turn in searches for query in turn["action"]["queries"]])
        self.picture("passages")

    def test_rewards_stand_term_by_term(self):
        line = line_of(lambda record: len(record.get("reward", {"terms": []})["terms"]) == 3 and record["reward"]["terms"][2]["value"] > 0)
        reward = RECORDS[line - 1]["reward"]
        self.one(line)
        rows = self.browser.run("return [...document.querySelectorAll('.terms tr')].map((row) => [row.querySelector('bdi').textContent, row.querySelector('.how')?.textContent ?? null, Number(row.querySelector('td').textContent)])")
        expected = [[term["name"], f"{term['value']:g} × {term['weight']:g}", round(term["value"] * term["weight"], 4)] for term in reward["terms"]]
        self.assertEqual(rows, [*expected, ["total", None, round(reward["total"], 4)]])

    def test_a_critique_an_error_and_an_end_are_told(self):
        line = line_of(lambda record: "critique" in record and record["task"].startswith("sample"))
        self.one(line)
        self.assertEqual(self.shown(".panel.critique .prose"), [RECORDS[line - 1]["critique"]])
        self.picture("critique")
        line = line_of(lambda record: record.get("error", "").startswith("model:"))
        self.one(line)
        self.assertFalse(self.browser.visible(".panel.critique"))
        self.assertIn(RECORDS[line - 1]["error"], self.browser.text(".transcript .failure"))
        self.assertIn("not scored", self.browser.text(".panel.reward"))
        self.picture("error")
        self.one(line_of(lambda record: record.get("stop") == "context"))
        self.assertIn("context full", self.browser.text("#detail header .facts"))
        self.one(line_of(lambda record: any(turn.get("cut_off") for turn in record["turns"])))
        self.assertIn("cut off by its limit", self.browser.text(".transcript"))
        self.assertIn("No action: no action", self.browser.text(".outcome.invalid"))

    def test_experience_is_told_where_it_was_shown(self):
        line = line_of(lambda record: record.get("experience") and record["turns"][0].get("experience") and record["task"].startswith("sample"))
        self.one(line)
        self.assertEqual(self.shown(".panel.experience .advice q"), ["Rule of the prompt."])
        searches = sum(turn["action"]["kind"] == "search" for turn in RECORDS[line - 1]["turns"])
        self.assertEqual(self.shown(".outcome .advice q"), ["Advice behind passages."] * searches)
        self.assertIn("0123456789abcdef, 0.8750", self.browser.text(".outcome .advice"))
        self.picture("experience")

    def test_a_play_that_was_played_again_says_so(self):
        again = RECORDS[-1]
        self.one(line_of(lambda record: (record["task"], record["sample"]) == (again["task"], again["sample"])))
        self.assertIn("played again since", self.browser.text("#detail header .facts"))
        self.assertIn("not among those filtered", self.browser.text("#where"))


class Hostile(Viewing):
    def test_nothing_becomes_markup(self):
        self.list("?text=attacked")
        self.assertEqual(self.browser.run("return document.querySelectorAll('#rows :is(' + arguments[0] + ')').length", FOREIGN), 0)
        self.picture("hostile-list")
        for line in range(1, 7):
            for view in ("", "&mask=1", "&raw=1"):
                self.one(line, view)
                self.assertEqual(self.browser.run("return document.querySelectorAll('#detail :is(' + arguments[0] + ')').length", FOREIGN), 0)
                self.assertFalse(self.browser.run(f"return {HIDDEN}.test(document.body.textContent + document.title)"), f"line {line}{view}")
        record = RECORDS[2]
        self.one(3)
        self.assertEqual(self.shown("#question"), [record["question"]])
        self.assertEqual(self.shown("#detail header .facts bdi"), [record["task"], record["source"], record["preset"]])
        self.assertEqual(self.shown(".panel.critique .prose"), [record["critique"]])
        self.assertEqual(self.shown(".terms .term bdi"), [record["reward"]["terms"][0]["name"]])
        self.assertEqual(self.shown(".passages .id"), [record["turns"][0]["found"][0][0]["id"]])
        self.picture("hostile")

    def test_an_address_stays_text(self):
        text = "<img src=x onerror=\"window.attacked='query'\">\u202e<script>window.attacked=1</script>"
        self.list("?" + urllib.parse.urlencode({"text": text, "task": text}))
        self.assertEqual(self.browser.run("return document.getElementById('text').value"), text)
        self.assertIn("of the task", self.browser.text("#status"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('main img, main script').length"), 0)

    def test_long_texts_come_in_parts_and_fit_a_phone(self):
        self.browser.look(width=390, height=844)
        for view in ("", "&mask=1"):
            self.one(5, view)
            length = lambda: self.browser.run("return document.querySelectorAll('.policy .text')[1].textContent.length")
            before = length()
            self.assertLess(before, 21_000)
            self.browser.run("document.querySelectorAll('.policy .text')[1].querySelector('.more').click()")
            self.assertGreater(length(), before + 10_000)
            self.assertEqual(self.browser.run("return document.querySelectorAll('.passages tbody tr').length"), 50)
            self.browser.run("document.querySelector('.passages .more').click()")
            self.assertEqual(self.browser.run("return document.querySelectorAll('.passages tbody tr').length"), 120)
            self.assertEqual(self.browser.run("return document.scrollingElement.scrollWidth - innerWidth"), 0)


class Failing(Viewing):
    refusals = True

    def test_a_wrong_address_is_told_and_can_be_left(self):
        for query, words in (("?stop=never", ("invalid_request", "never")), ("?line=999999", ("not_found", "999999")), ("?least=x", ("least",))):
            self.go(query)
            shown = self.wait_failure()
            for word in words:
                self.assertIn(word, shown)
        self.picture("failure")
        self.browser.click("#failure a")
        self.wait_list()
        self.assertFalse(self.browser.visible("#failure"))

    def test_a_file_that_turns_bad_is_told_by_line(self):
        before = RUN.read_bytes()
        try:
            self.list()
            with RUN.open("ab") as file:
                file.write(b"no trajectory\n")
            self.browser.click("#reload")
            self.assertIn(f"line {len(RECORDS) + 1}", self.wait_failure())
        finally:
            RUN.write_bytes(before)
        self.browser.click("#failure button")
        wait(lambda: not self.browser.visible("#failure"), 10, "the list again")


class Policy(Viewing):
    planted = True

    def test_a_planted_script_does_not_run_and_markup_is_refused(self):
        for query in ("", "?line=3"):
            self.go(query)
            seen = self.browser.run("""
                const seen = [];
                document.addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
                const box = document.createElement('div');
                document.body.append(box);
                let refused = '';
                try { box.innerHTML = '<img src=x onerror="window.attacked=1">'; } catch (error) { refused = error.name; }
                const script = document.createElement('script');
                try { script.textContent = "window.attacked = 'inline'"; } catch {}
                script.append("window.attacked = 'appended'");
                const style = document.createElement('p');
                style.setAttribute('style', 'color: red');
                const image = document.createElement('img');
                image.src = 'https://attacker.invalid/x.png';
                const button = document.createElement('button');
                try { button.setAttribute('onclick', "window.attacked = 'handler'"); } catch {}
                document.body.append(script, style, image, button);
                button.click();
                fetch('https://attacker.invalid/').catch(() => {});
                return new Promise((done) => setTimeout(() => done([refused, seen]), 500));""")
            self.assertEqual(seen[0], "TypeError")
            for directive in ("require-trusted-types-for", "style-src-attr", "img-src", "connect-src"):
                self.assertIn(directive, seen[1])
            self.assertIsNone(self.browser.run("return window.attacked ?? null"))


class Access(checks.Access):
    """What a reader with a keyboard, a screen reader, a phone or a dark room needs."""

    PAGES = ("", "?text=attacked", "?line=3", "?line=1&mask=1", "?line=12")
    DRAWN = "#rows tr, .transcript .block"

    def name(self, path):
        return "access-" + (re.sub(r"\W+", "-", path).strip("-") or "all")

    def test_the_keyboard_reaches_everything_and_shows_where_it_is(self):
        self.ready("")
        seen = []
        self.browser.run("document.activeElement.blur(); document.querySelector('h1 a').focus()")
        for _ in range(15):
            self.browser.press(TAB)
            seen.append(self.browser.run("const one = document.activeElement; return [one.id || one.textContent.split(' ')[0], getComputedStyle(one).outlineStyle]"))
        names = [name for name, _ in seen]
        self.assertEqual(names[:8], ["keys-button", "reload", "text", "least", "most", "error", "critique", "clear"])
        self.assertEqual(names[8:11], ["all", "answer", "ended"])
        self.assertEqual({outline for _, outline in seen}, {"solid"})
