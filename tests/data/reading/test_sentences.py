"""Sentences: nothing lost whatever the text, cut where a reader would, and every piece short enough."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.data.reading import sentences
from regard.data.reading.sentences import Sentence, fit, join, split
from regard.errors import SettingError

# What texts are made of where the rules bite: stops, spaces, quotes, abbreviations, clusters.
MORSELS = [".", "...", "…", "!", "?", "。", "！", "．", " ", "  ", "\u00a0", "\u202f", "\n", "\r\n", "\u2028", '"', "”",
           "«", "»", "(", ")", ",", ";", ":", "、", "–", " - ", "Dr", "M", "e.g", "U.S", "etc", "The", "Il", "word",
           "Éa", "3", "14", "好", "は", "と", "ا", "ß", "👍🏽", "👨‍👩‍👧", "🇫🇷", "e\u0301", "\u0301", "\u200d", "한",
           "\x00", "http://a.b/c?d"]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(MORSELS), max_size=40).map("".join))
LANGS = st.sampled_from(["", "fr", "de", "zh-CN", "ja"])


# ---------------------------------------------------------------------------------------------- the laws


def nothing_is_lost(text: str, lang: str) -> None:
    pieces = split(text, lang)
    assert join(pieces) == text == "".join(piece.text + piece.after for piece in pieces)
    for place, piece in enumerate(pieces):
        assert piece.text == piece.text.strip() and not piece.after.strip()
        assert piece.text or place == 0
    assert bool(pieces) == bool(text)


def everything_fits(text: str, lang: str, limit: int, unit: str) -> None:
    measure = {"characters": len, "words": lambda text: len(text.split()), "uneven": uneven}[unit]
    pieces = split(text, lang)
    parts = fit(pieces, Patient(measure), limit, lang)
    assert join(parts) == text and set(ends(pieces)) <= set(ends(parts))
    assert all(measure(part.text) <= limit and part.text == part.text.strip() for part in parts)
    if all(measure(piece.text) <= limit for piece in pieces):
        assert parts == pieces


@given(TEXTS, LANGS)
@example("  lead and trail \n", "")
def test_the_pieces_joined_are_the_text(text, lang):
    nothing_is_lost(text, lang)


@given(TEXTS, LANGS, st.integers(4, 15), st.sampled_from(["characters", "words", "uneven"]))
def test_every_piece_fits_and_nothing_is_lost_or_put_together(text, lang, limit, unit):
    everything_fits(text, lang, limit, unit)


@pytest.mark.parametrize("seed", range(10))
def test_the_laws_hold_on_long_made_up_texts(seed):
    rng = random.Random(seed)
    for _ in range(60):
        text = "".join(rng.choices(MORSELS, k=rng.randint(1, 80)))
        lang, unit = rng.choice(["", "fr", "de", "zh", "ja"]), rng.choice(["characters", "words", "uneven"])
        nothing_is_lost(text, lang)
        everything_fits(text, lang, rng.randint(4, 30), unit)


class Patient:
    """A measure that fails where it is asked for ever."""

    def __init__(self, measure):
        self.measure, self.left = measure, 10_000

    def __call__(self, text: str) -> int:
        self.left -= 1
        assert self.left
        return self.measure(text)


def uneven(text: str) -> int:
    """A measure like that of tokens: some characters take four, and a letter may join the one before it."""
    return sum(4 if char > "\uffff" else 2 if char > "\x7f" else 1 for char in text) - text.count("word")


def ends(pieces: list[Sentence]) -> list[int]:
    total, found = 0, []
    for piece in pieces:
        total += len(str(piece))
        found.append(total)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_clusters_are_not_cut_where_they_fit(seed):
    whole = ["👨‍👩‍👧", "👍🏽", "🇫🇷", "e\u0301"]
    text = "".join(random.Random(seed).choices(whole, k=30))
    for part in fit([Sentence(text)], len, 5):
        left = part.text
        while left:
            cluster = next((one for one in whole if left.startswith(one)), None)
            assert cluster is not None, ascii(part.text)
            left = left[len(cluster):]


def test_a_loss_would_be_seen(monkeypatch):
    monkeypatch.setattr(sentences, "_skip_space", lambda text, at: at + len(text[at:]) - len(text[at:].lstrip(" ")) + 1)
    with pytest.raises(AssertionError):
        nothing_is_lost("One. Two. Three", "")


# ------------------------------------------------------------------------------------------------- split


def cut(text: str, lang: str = "") -> list[str]:
    return [piece.text for piece in split(text, lang)]


@pytest.mark.parametrize("text, count", [
    ("One. Two! Three? Four.", 4),
    ("He paid 3.14 euros for 1.000.000 of them. Cheap!", 2),
    ("Dr. Smith and Mrs. Jones left. Prof. Lee stayed.", 2),
    ("J. K. Rowling wrote it. J.R.R. Tolkien did not.", 2),
    ("Fruit, e.g. Apples, i.e. This kind. Good.", 2),
    ("He lives in the U.S. Army camp. It is far.", 2),
    ("He lives in the U.S. The camp is far.", 2),
    ("I like R & B. You're shy.", 2),
    ("Apples, pears, etc. are fruit. So are plums, etc. Enough.", 3),
    ("See p. 12, fig. 3 and no. 5. Then stop.", 2),
    ("He said no. Then he left.", 2),
    ("Acme Inc. Shares fell. Acme Inc. The end.", 3),
    ("Go to https://example.com/a.b?c=d!e. Or write to a.b@c.org. Done.", 3),
    ("Wait... what? No... Never. Rien… du tout.", 4),
    ('"What?" he said. "Stop!" The man stopped. (Really.) Yes.', 5),
    ("He left at 5 p.m. Then she came.", 2),
    ("1. Open the lid. 2. Close it. IV. A chapter.", 3),
    ("... And then it rained. . . . Never mind.", 2),
    ("What?! No way!!! Yes.", 3),
    ("No space.Here is none. Here is.", 2),
    ("Yes! 😀 Great!😀 So it is. 👍", 3),
    ("¿Qué? ¡No! Sí.", 3),
    ("هل أنت هنا؟ نعم. لا۔ شكرا", 4),
    ("यह एक है। यह दो है।", 2),
])
def test_sentences_end_where_a_reader_says(text, count):
    assert len(cut(text)) == count, cut(text)


@pytest.mark.parametrize("text, found", [
    ("M. Dupont est là. Mme. Martin aussi.", ["M. Dupont est là.", "Mme. Martin aussi."]),
    ("M. Le Goff dort. MM. A et B aussi.", ["M. Le Goff dort.", "MM. A et B aussi."]),
    ("Vraiment ? Oui ! Bien : c'est dit ; assez.", ["Vraiment ?", "Oui !", "Bien : c'est dit ; assez."]),
    ("« Quoi ? » dit-il. « Bonjour ! » Il partit.", ["« Quoi ? » dit-il.", "« Bonjour ! »", "Il partit."]),
    ("Oh\u202f! Ah\u202f? «\u00a0Non.\u00a0» Bon.", ["Oh\u202f!", "Ah\u202f?", "«\u00a0Non.\u00a0»", "Bon."]),
    ("Où vas-tu ? demanda-t-elle. Loin.", ["Où vas-tu ? demanda-t-elle.", "Loin."]),
    ("En 50 av. J.-C. César vint. L'homme dort.", ["En 50 av. J.-C. César vint.", "L'homme dort."]),
    ("Me. Durand plaide. Dis-le-moi. Me voici.", ["Me. Durand plaide.", "Dis-le-moi.", "Me voici."]),
])
def test_french_sentences(text, found):
    assert cut(text, "fr") == found


def test_languages_that_do_it_their_own_way():
    assert cut("Am 3. Mai kam er. »Ja.« Dann ging er.", "de-AT") == ["Am 3. Mai kam er.", "»Ja.«", "Dann ging er."]
    assert cut("We were 3. May came.", "en") == ["We were 3.", "May came."]
    assert cut("Es ist z.B. Holz bzw. Stein. „Nein.“ Gut.", "de") == ["Es ist z.B. Holz bzw. Stein.", "„Nein.“", "Gut."]
    assert cut("今天很好。明天呢？“好！”他说。圆周率是３．１４。", "zh") == [
        "今天很好。", "明天呢？", "“好！”", "他说。", "圆周率是３．１４。"]
    assert cut("「はい。」と言った。元気です！そうか。", "ja") == ["「はい。」と言った。", "元気です！", "そうか。"]


def test_a_text_without_capitals_is_cut_at_its_stops():
    assert cut("hello! how are you? i am fine, e.g. today etc. and so on. bye") == [
        "hello!", "how are you?", "i am fine, e.g. today etc. and so on.", "bye"]
    assert cut('"what?" he said. "no!" she said.') == ['"what?" he said.', '"no!" she said.']


def test_lines_end_sentences_and_keep_their_spaces():
    assert split("A title \n\n  Dr.\nSmith. Yes.\r\n") == [
        Sentence("A title", " \n\n  "), Sentence("Dr.", "\n"), Sentence("Smith.", " "), Sentence("Yes.", "\r\n")]
    assert split("") == [] and split(" \n ") == [Sentence("", " \n ")]
    assert split("\n a") == [Sentence("", "\n "), Sentence("a")]


# --------------------------------------------------------------------------------------------------- fit


def fitted(text: str, limit: int, measure=len) -> list[str]:
    return [piece.text for piece in fit([Sentence(text)], measure, limit)]


def test_what_is_too_long_is_cut_at_the_best_place_nearest_the_middle():
    words = lambda text: len(text.split())                                              # noqa: E731
    assert fitted("one, two three four; five six seven", 5, words) == ["one, two three four;", "five six seven"]
    assert fitted("one. two, three four five six", 5, words) == ["one.", "two, three four five six"]
    assert fitted("one two three four five six", 5, words) == ["one two three", "four five six"]
    assert fitted("1,000,000 at 12:30 is-it", 12) == ["1,000,000 at", "12:30 is-it"]
    assert fitted("abcdefgh", 3) == ["ab", "cde", "fgh"]
    assert fitted("甲乙丙，丁戊己、庚辛", 4) == ["甲乙丙，", "丁戊己、", "庚辛"]
    assert fitted("a, bcdefghijk lm", 6) == ["a,", "bcdef", "ghijk", "lm"]
    assert fitted("avant – après - puis", 12) == ["avant –", "après - puis"]


def test_three_lengths_make_three_pieces_and_the_space_after_is_kept():
    text = " ".join(["word"] * 59)                                                      # 294 characters
    parts = fit([Sentence(text, "\n"), Sentence("short", " ")], len, 100)
    assert [len(part.text) for part in parts] == [99, 99, 94, 5]
    assert [part.after for part in parts] == [" ", " ", "\n", " "]


def test_mistakes_have_one_clear_line():
    with pytest.raises(SettingError, match="the longest sentence allowed is 0: it must be at least 1"):
        fit([], len, 0)
    with pytest.raises(SettingError, match="the longest sentence allowed is 2, and '😀' alone takes 4"):
        fit([Sentence("a😀b")], lambda text: len(text.encode()), 2)


# -------------------------------------------------------------------------------------------------- join


def test_translations_take_the_places_of_their_pieces():
    pieces = split("Bonjour.  Ça va ?\n\nOui.\n")
    assert join(pieces, ["Hello.", "How are you?", "Yes."], "en") == "Hello.  How are you?\n\nYes.\n"
    with pytest.raises(ValueError):
        join(pieces, ["Hello."])


def test_sentences_get_the_space_that_the_other_language_wants():
    chinese = split("你好。“好！”他说。再见", "zh")
    assert join(chinese, ["Hello.", '"Good!"', "He said.", "Bye"], "en") == 'Hello. "Good!" He said. Bye'
    assert join(chinese, ["Hello.", '"Good!"', "He said.", "Bye"]) == 'Hello."Good!"He said.Bye'
    assert join(split("Hello. Bye.\nYes."), ["你好。", "再见。", "是。"], "zh") == "你好。再见。\n是。"
    assert join(fit([Sentence("x" * 8)], len, 4), ["a", "b"], "en") == "ab"                # no space within a word


# --------------------------------------------------------------------------------------------- hostile text

MEGABYTE = 1 << 20
HOSTILE = {
    "dots": "." * MEGABYTE, "dots and a letter": "." * MEGABYTE + "x", "spaces": " " * MEGABYTE,
    "one word": "a" * MEGABYTE, "spaced dots": ". " * (MEGABYTE // 4), "initials": "A. " * (MEGABYTE // 8),
    "quotes": '."' * (MEGABYTE // 4), "a long tail": "a." + '"' * MEGABYTE + "x", "closed": "a. »" * (MEGABYTE // 8),
    "lines": " \n" * (MEGABYTE // 2), "a gap": "a" + " " * MEGABYTE + "b", "commas": ", " * (MEGABYTE // 4),
    "accents": "a" + "\u0301" * MEGABYTE, "flags": "🇫🇷" * (MEGABYTE // 2), "wide stops": "好。" * (MEGABYTE // 8),
    "clause marks": "，" * (MEGABYTE // 2),
}


class Work:
    """A measure that counts how often it is asked, and about how much."""

    def __init__(self):
        self.calls = self.characters = 0

    def __call__(self, text: str) -> int:
        self.calls += 1
        self.characters += len(text)
        return len(text)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_cut_with_little_work(name):
    """Anything quadratic would not come back from this."""
    text = HOSTILE[name]
    pieces, work = split(text), Work()
    parts = fit(pieces, work, 4096)
    assert join(pieces) == join(parts) == text and all(len(part.text) <= 4096 for part in parts)
    assert work.calls <= 2 * len(parts) + len(pieces)
    assert work.characters <= 16 * len(text)                # log2(MEGABYTE / 4096) is 8
