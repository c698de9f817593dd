import gzip
import io
import json
import random
import struct
import sys
import tracemalloc

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.pairs import aligned, catalogs
from regard.data.pairs.pairs import PairSettings, TextPair, check_aligned, guess_langs, read_pairs
from regard.data.reading import two_fields
from regard.data.reading.tally import Tally
from regard.errors import DataError, SettingError

PAIRS = [("un chat", "a cat"), ("l'été arrive", "summer is coming"), ("où ?", "where?")]


def pairs(files, tally=None, **options):
    return [tuple(pair) for pair in read_pairs(PairSettings(tuple(files), **options), tally)]


def counted(files, **options):
    """The pairs, and what the tally says of them."""
    tally = Tally()
    found = pairs(files, tally, **options)
    assert tally.read == tally.kept + tally.dropped.total() and tally.kept == len(found)
    return found, tally.line()


def complaint(files, read=pairs, **options):
    with pytest.raises(DataError) as caught:
        read(files, **options)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 600
    return message


def lines(sides):
    return "".join(f"{side}\n" for side in sides)


def two_files(write, found=PAIRS):
    return [write("a.fr", lines(s for s, _ in found)), write("a.en", lines(t for _, t in found))]


def tsv(found=PAIRS):
    return lines("\t".join(pair) for pair in found)


def jsonl(found=PAIRS, names=("fr", "en")):
    return lines(json.dumps(dict(zip(names, pair, strict=True))) for pair in found)


def tmx(*units, head='<?xml version="1.0" encoding="UTF-8"?>'):
    return f'{head}\n<tmx version="1.4"><header srclang="fr"/><body>\n' + "\n".join(units) + "\n</body></tmx>\n"


def unit(*variants):
    return "<tu>" + "".join(f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in variants) + "</tu>"


def units(found=PAIRS):
    return [unit(("fr", source), ("en", target)) for source, target in found]


PO = '''# a comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: fr\\n"

msgid "a cat"
msgstr "un chat"

#, fuzzy
msgid "a dog"
msgstr "une dogue"

msgid "nothing yet"
msgstr ""

msgid "in two"
" lines\\n"
msgstr "en deux\\n"
"lignes\\n"

msgid "%d cat"
msgid_plural "%d cats"
msgstr[0] "%d chat"
msgstr[1] "%d chats"

#~ msgid "old"
#~ msgstr "vieux"
'''


# ------------------------------------------------------------------------------------------------ two aligned files


def test_two_files_are_read_line_beside_line(write):
    found, said = counted(two_files(write))
    assert found == PAIRS and said == "3 pairs read: 3 kept, 0 dropped"
    assert check_aligned(two_files(write)) == 3


def test_crlf_and_a_byte_order_mark_go_and_other_separators_stay(write):
    odd = "a\u2028b\u0085c\x0cd\x1de\rf"
    files = [write("a.fr", b"\xef\xbb\xbfun\r\n" + odd.encode() + b"\r\nfin"), write("a.en", f"one\n{odd}\nend\n")]
    assert pairs(files) == [("un", "one"), (odd, odd), ("fin", "end")]


def test_blank_lines_on_different_lines_drop_their_pairs_and_shift_nothing(write):
    files = [write("a.fr", "A\n\nC\nD\n \n"), write("a.en", "a\nb\n\nd\n\n")]
    assert counted(files) == ([("A", "a"), ("D", "d")], "5 pairs read: 2 kept, 3 dropped (3 empty side)")


def test_files_of_different_lengths_are_refused_before_the_first_pair(write):
    files = [write("a.fr", "A\nB\nC\n"), write("a.en", "a\nb\n")]
    reader = read_pairs(PairSettings(tuple(files)))
    with pytest.raises(DataError, match=r"3 lines and .* has 2 lines"):
        next(reader)
    assert "seem aligned until" in complaint(files, check_aligned)                 # of equal lengths nothing is known


def sentences(count, seed=0):
    draw = random.Random(seed)
    found = []
    for number in range(count):
        words = draw.randint(2, 30)
        found.append((f"phrase {number} " + "mot " * words, f"sentence {number} " + "word " * words))
    return found


@pytest.mark.parametrize("gone, within", [([40], 3), ([150, 151, 152], 3), ([60, 200], 10), ([290], 3)])
@pytest.mark.parametrize("side", [0, 1])
def test_the_line_where_two_files_part_is_named(write, gone, within, side):
    sides = [[pair[0] for pair in sentences(300)], [pair[1] for pair in sentences(300)]]
    sides[side] = [line for number, line in enumerate(sides[side], 1) if number not in gone]
    files = [write("a.fr", lines(sides[0])), write("a.en.gz", gzip.compress(lines(sides[1]).encode()))]
    message = complaint(files)
    assert f"{files[0]} has {len(sides[0])} lines and {files[1]} has {len(sides[1])} lines" in message
    named = int(message.split("near line ")[1].split()[0])
    assert abs(named - gone[0]) <= within, message
    assert "beside" in message and "nothing was read" in message


def test_the_place_is_found_by_the_lengths_of_the_lines_and_nothing_else(write, monkeypatch):
    sides = [[pair[0] for pair in sentences(300)], [pair[1] for pair in sentences(300)]]
    del sides[1][149]
    files = [write("a.fr", lines(sides[0])), write("a.en", lines(sides[1]))]
    assert "near line 15" in complaint(files)
    monkeypatch.setattr(aligned, "_lengths", lambda source: iter([9] * 299))
    assert "near line 15" not in complaint(files)


def test_an_empty_line_near_the_parting_is_the_one_named(write):
    sides = [[pair[0] for pair in sentences(100)], [pair[1] for pair in sentences(100)]]
    sides[0].insert(50, "")
    message = complaint([write("a.fr", lines(sides[0])), write("a.en", lines(sides[1]))])
    assert "near line 51 ('' beside 'sentence 50" in message


def test_a_file_cut_short_and_trailing_blank_lines_are_told_apart(write):
    sides = [[pair[0] for pair in sentences(100)], [pair[1] for pair in sentences(100)]]
    whole = write("a.fr", lines(sides[0]))
    message = complaint([whole, write("a.en", lines(sides[1][:70]))])
    assert "aligned until" in message and "from line 71 with lines without a translation" in message
    message = complaint([whole, write("a.en", lines(sides[1]) + "\n\n")])
    assert "from line 101 with empty lines" in message
    assert f"{write('none.en', '')} is empty" in complaint([whole, write("none.en", "")])


# ------------------------------------------------------------------------------------------------ the other formats


@pytest.mark.parametrize("name, content", [
    ("a.tsv", tsv()), ("a.jsonl", jsonl()), ("a.ndjson", jsonl(names=("source", "target"))),
    ("b.jsonl", lines(json.dumps({"id": 1, "translation": {"en": t, "fr": s}}) for s, t in PAIRS)),
    ("a.tmx", tmx(*units())), ("utf16.tmx", tmx(*units(), head='<?xml version="1.0"?>').encode("utf-16")),
    ("latin.tmx", tmx(*units(), head='<?xml version="1.0" encoding="ISO-8859-1"?>').encode("latin-1")),
])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("on_bad_text", ["fail", "replace", "drop"])
def test_every_format_gives_the_same_pairs(write, name, content, packed, on_bad_text):
    raw = content.encode() if isinstance(content, str) else content
    path = write(name + ".gz" * packed, gzip.compress(raw) if packed else raw)
    found, said = counted([path], langs="fr-en", on_bad_text=on_bad_text)
    assert found == PAIRS and said == "3 pairs read: 3 kept, 0 dropped"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_parquet_columns_or_one_column_of_translations(write, packed, nested):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"fr": s, "en": t} for s, t in [*PAIRS, (None, "no source")]]
    buffer = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist([{"translation": row} for row in rows] if nested else rows), buffer)
    path = write("a.parquet" + ".gz" * packed, gzip.compress(buffer.getvalue()) if packed else buffer.getvalue())
    assert counted([path], langs="fr-en") == (PAIRS, "4 pairs read: 3 kept, 1 dropped (1 empty side)")
    assert pairs([path], langs="en-fr") == [pair[::-1] for pair in PAIRS]
    assert "has no 'de' and 'en'" in complaint([path], langs="de-en")
    assert "is not a readable Parquet file" in complaint([write("bad.parquet", b"PAR1" + bytes(100))])


def test_parquet_without_pyarrow_names_the_extra(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'regard[parquet]'" in complaint([write("a.parquet", b"PAR1")])


def test_files_of_pairs_may_be_of_several_kinds(write):
    files = [write("a.tsv", tsv(PAIRS[:1])), write("a.jsonl", jsonl(PAIRS[1:]))]
    assert pairs(files, langs="fr-en") == PAIRS


def test_stdin_holds_tabs(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(tsv().encode())))
    assert pairs(["-"]) == PAIRS


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n"), min_size=1, max_size=12).filter(
    lambda side: not side.isspace())
drawn = st.lists(st.tuples(text, text), min_size=1, max_size=12, unique=True)


@given(drawn, st.booleans())
def test_pairs_written_as_tsv_or_jsonl_come_back_unchanged(tmp_path_factory, found, packed):
    folder = tmp_path_factory.mktemp("pairs")
    opened = gzip.open if packed else open
    end = ".gz" * packed
    with opened(folder / f"a.jsonl{end}", "wb") as file:
        file.write(jsonl(found).encode())
    assert pairs([folder / f"a.jsonl{end}"], langs="fr-en") == found
    flat = [tuple(side.replace("\t", " ").strip(" \r\ufeff") or "x" for side in pair) for pair in found]
    with opened(folder / f"a.tsv{end}", "wb") as file:
        file.write(tsv(flat).encode())
    with opened(folder / f"s{end}", "wb") as file:
        file.write(lines(s for s, _ in flat).encode())
    with opened(folder / f"t{end}", "wb") as file:
        file.write(lines(t for _, t in flat).encode())
    assert pairs([folder / f"a.tsv{end}"], drop_duplicates=False) == flat
    assert pairs([folder / f"s{end}", folder / f"t{end}"], drop_duplicates=False) == flat


# ------------------------------------------------------------------------------------------------ reasons to drop


def test_every_reason_is_counted(write):
    found = [("un", "one"), ("un", "one"), ("Paris", "Paris"), ("", "x"), ("mot " * 5, "word " * 11),
             ("x", "y" * 80), ("a", "a far too long answer"), ("z" * 90, "w" * 91)]
    options = dict(max_words=10, max_characters=90, max_ratio=4, drop_identical=True)
    kept, said = counted([write("a.tsv", tsv(found))], **options)
    assert kept == [("un", "one"), ("a", "a far too long answer")]
    assert said == ("8 pairs read: 2 kept, 6 dropped (1 duplicate, 1 empty side, 1 identical sides, 1 length ratio, "
                    "2 too long)")
    options = dict(max_words=0, max_characters=0, max_ratio=0, drop_duplicates=False)
    assert counted([write("a.tsv", tsv(found))], **options)[1] == "8 pairs read: 7 kept, 1 dropped (1 empty side)"


def test_only_exact_pairs_are_duplicates(write):
    found = [("un", "one"), ("un", "a"), ("une", "one"), ("un ", "one"), ("un", "one")]
    assert pairs([write("a.tsv", tsv(found))]) == found[:4]


def test_bad_bytes_fail_with_their_place_or_are_replaced_or_drop_both_sides(write):
    files = [write("a.fr", b"un\nd\xffeux\ntrois\n"), write("a.en", b"one\ntwo\nthr\xe9e\n")]
    assert f"{files[0]} line 2, byte 2 (0xff) is not UTF-8" in complaint(files)
    found, said = counted(files, on_bad_text="replace")
    assert found == [("un", "one"), ("d\ufffdeux", "two"), ("trois", "thr\ufffde")]
    assert said.endswith("mended: 2 with bad UTF-8 replaced")
    assert counted(files, on_bad_text="drop") == (
        [("un", "one")], "3 pairs read: 1 kept, 2 dropped (2 bad UTF-8)")


def test_nuls_and_line_breaks_inside_a_sentence_are_mended_and_counted(write):
    path = write("a.jsonl", jsonl([("un\r\n  deux", "one two"), ("b\0c", "d")]))
    found, said = counted([path], langs="fr-en")
    assert found == [("un deux", "one two"), ("bc", "d")]
    assert said.endswith("mended: 1 NUL characters removed, 1 line breaks inside a sentence made spaces")


@pytest.mark.parametrize("name", ["lines", "a.tsv", "a.jsonl", "a.tmx"])
def test_a_giant_line_is_dropped_and_never_held(write, monkeypatch, name):
    monkeypatch.setattr(two_fields, "LONGEST", 2**16)
    monkeypatch.setattr("regard.data.pairs.tmx.LONGEST", 2**16)
    giant = [("a", "b"), ("x" * 2**23, "y"), ("c", "d")]
    if name == "lines":
        files = two_files(write, giant)
    else:
        files = [write(name, {"a.tsv": tsv(giant), "a.jsonl": jsonl(giant), "a.tmx": tmx(*units(giant))}[name])]
    del giant
    tracemalloc.start()
    assert counted(files, langs="fr-en", max_characters=0, max_words=0, max_ratio=0) == (
        [("a", "b"), ("c", "d")], "3 pairs read: 2 kept, 1 dropped (1 too long)")
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


# ------------------------------------------------------------------------------------------------ mistakes


def test_wrong_names_are_one_clear_line(write, tmp_path):
    assert "no sentence pairs were given" in complaint([])
    assert "does not exist" in complaint([str(tmp_path / "nowhere.fr"), write("a.en", "x")])
    assert f"{tmp_path} is a folder: name two aligned text files" in complaint([str(tmp_path)])
    alone = write("a.txt", "x\n")
    assert f"{alone} is plain text and not sentence pairs by itself" in complaint([alone])
    assert "plain text" in complaint([alone, write("a.tsv", tsv())])
    assert "as source and as target" in complaint([alone, alone])
    assert "only two plain files" in complaint([write("a.tsv", tsv())], check_aligned)


def test_files_with_no_pairs_are_refused(write):
    for name in ("a.tsv", "a.jsonl", "a.po"):
        path = write(name, "")
        assert complaint([path]).startswith(f"there are no pairs left from {path} (0 pairs read")
    assert "no pairs left" in complaint([write("a.fr", "\n \n"), write("a.en", "\n\n")])
    assert "not well-formed XML (no element found)" in complaint([write("a.tmx", "")], langs="fr-en")
    assert "no pairs left" in complaint([write("a.tmx", tmx())], langs="fr-en")
    assert "not a .mo file" in complaint([write("a.mo", b"")])


BINARY = b"\x7fELF\x02\x01" + bytes(range(256)) * 20


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.tmx", "a.po", "a.mo", "a.parquet"])
@pytest.mark.parametrize("on_bad_text", ["fail", "replace", "drop"])
def test_binary_files_are_refused_whatever_their_name(write, name, on_bad_text):
    message = complaint([write(name, BINARY)], langs="fr-en", on_bad_text=on_bad_text)
    assert name in message


def test_binary_and_utf16_sides_are_refused(write):
    good = write("a.en", "x\n" * BINARY.count(b"\n"))
    assert "looks binary" in complaint([write("a.fr", BINARY), good])
    assert "is UTF-16" in complaint([write("a.fr", "un\ndeux\n".encode("utf-16")), write("b.en", "one\ntwo\n")])


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.tmx", "a.po", "a.mo", "a.parquet", "a.fr"])
def test_a_truncated_gzip_file_is_named(write, name):
    packed = gzip.compress(tmx(*units(sentences(500))).encode())
    path = write(f"{name}.gz", packed[: len(packed) // 2])
    files = [path, write("a.en", "x\n" * 3)] if name == "a.fr" else [path]
    message = complaint(files, langs="fr-en", on_bad_text="drop")
    assert f"{path} is not a whole gzip file" in message


def test_of_two_files_the_damaged_one_is_named(write):
    packed = gzip.compress(lines(source for source, _ in sentences(500)).encode())
    good, bad = write("a.en", "x\n" * 500), write("a.fr.gz", packed[:-20])
    for files in ([good, bad], [bad, good]):
        assert f"{bad} is not a whole gzip file" in complaint(files)


@pytest.mark.parametrize("options, named", [
    (dict(langs="fren"), "data.langs 'fren'"), (dict(langs="fr-CA-en"), "pt_BR-en"), (dict(langs="en-EN"), "twice"),
    (dict(max_words=-1), "data.max_words -1"), (dict(max_characters=-5), "data.max_characters -5"),
    (dict(max_ratio=0.5), "data.max_ratio 0.5"), (dict(max_ratio=float("nan")), "data.max_ratio nan"),
    (dict(on_bad_text="dorp"), "did you mean drop"),
])
def test_impossible_settings_are_refused(options, named):
    with pytest.raises(SettingError, match=named):
        PairSettings(("a.tsv",), **options)


def test_languages_come_from_the_setting_or_from_the_names_of_files():
    assert PairSettings((), langs="pt_BR-en").languages == ("pt_BR", "en") and PairSettings(()).languages is None
    assert guess_langs(["x/train.fr.gz", "x/train.EN"]) == "fr-en"
    assert guess_langs(["a.fr", "b.fr"]) == guess_langs(["a.tsv"]) == guess_langs(["source", "target"]) == ""


# ------------------------------------------------------------------------------------------------ .tsv and .jsonl


def test_a_header_of_a_tsv_names_the_columns_and_is_counted(write):
    path = write("a.tsv", "id\ten\tfr-FR\n1\ta cat\tun chat\n")
    assert counted([path], langs="fr-en") == ([("un chat", "a cat")], "2 pairs read: 1 kept, 1 dropped (1 header)")
    assert pairs([path]) == [("id", "en"), ("1", "a cat")]                 # nobody said what en is
    assert pairs([write("b.tsv", "Target\tSource\nb\ta\n")]) == [("a", "b")]


def test_a_tsv_line_with_too_few_or_too_many_columns_is_named_or_dropped(write):
    few, many = write("few.tsv", "a\tb\n\nalone\n"), write("many.tsv", "a\tb\nc\td\te\n")
    assert f"{few} line 3 has no tab" in complaint([few])
    assert f"{many} line 2 has 3 columns where the lines before have 2" in complaint([many])
    assert counted([few], on_bad_text="drop") == (
        [("a", "b")], "3 pairs read: 1 kept, 2 dropped (1 empty side, 1 wrong number of columns)")
    assert pairs([write("title.tsv", "My corpus\na\tb\nc\td\n")], on_bad_text="drop") == [("a", "b"), ("c", "d")]


def test_json_lines_without_both_languages_are_named_or_dropped(write):
    path = write("a.jsonl", lines(
        ['{"fr": "un", "en": "one"}', '{"fr": "deux", "e\\n": 2}', '{"fr": 3, "en": "x"}', "[1]", "{oops", ""]))
    message = complaint([path], langs="fr-en")
    assert f"{path} line 2 has no 'fr' and 'en' (it has: 'fr', 'e\\n')" in message
    assert "line 1 has no 'source' and 'target'" in complaint([path]) and "--langs fr-en" in complaint([path])
    assert counted([path], langs="fr-en", on_bad_text="drop") == ([("un", "one")], (
        "6 pairs read: 1 kept, 5 dropped (1 bad JSON, 1 empty side, 3 without both languages)"))
    assert "holds int 3 as 'fr'" in complaint([write("b.jsonl", '{"fr": 3, "en": "x"}')], langs="fr-en")
    assert "is not JSON" in complaint([write("c.jsonl", "[" * 100_000)], langs="fr-en")
    assert "half a surrogate pair (U+D800)" in complaint([write("d.jsonl", jsonl([("a\ud800", "b")]))], langs="fr-en")
    assert counted([write("d.jsonl", jsonl([("a\ud800", "b"), ("c", "d")]))], langs="fr-en", on_bad_text="drop")[1] == (
        "2 pairs read: 1 kept, 1 dropped (1 bad UTF-8)")


# ------------------------------------------------------------------------------------------------ .tmx


def test_tmx_languages_fall_back_to_a_region_and_prefer_the_exact_one(write):
    path = write("a.tmx", tmx(
        unit(("FR-ca", "tantôt"), ("fr", "bientôt"), ("en-GB", "soon"), ("de", "bald")),
        unit(("fr-FR", "un"), ("en", "one")), unit(("de", "nur"), ("en", "only"))))
    assert counted([path], langs="fr-en") == (
        [("bientôt", "soon"), ("un", "one")], "3 pairs read: 2 kept, 1 dropped (1 without both languages)")
    assert pairs([path], langs="en-fr_CA")[0] == ("soon", "tantôt")
    assert "has no unit in both 'it' and 'en' (it has: 'FR-ca', 'de', 'en', " in complaint([path], langs="it-en")
    assert "--langs fr-en" in complaint([path])


def test_tmx_inline_markup_is_taken_out_and_its_text_kept(write):
    source = ("\n  Le <hi>gros <hi>chat</hi></hi> &amp; <bpt i='1'>&lt;b></bpt>moi<ept i='1'>&lt;/b></ept>"
              "<ph>x<sub>y</sub>z</ph>,\n  \u00a0<![CDATA[<ici>]]>\u2028\n")
    path = write("a.tmx", tmx(unit(("fr", source), ("en", "<it/>me&#233;"))))
    assert pairs([path], langs="fr-en") == [("Le gros chat & moi, \u00a0<ici>\u2028", "meé")]


def test_tmx_of_the_older_standard_with_its_dtd_is_read_and_the_dtd_is_not(write, tmp_path):
    write("tmx11.dtd", "<!ENTITY x 'never read'>")
    body = tmx(*units([("un", "one")]), head="").replace("xml:lang", "lang")
    assert pairs([write("a.tmx", f'<!DOCTYPE tmx SYSTEM "tmx11.dtd">{body}')], langs="fr-en") == [("un", "one")]
    bad = body.replace("one", "&x;")
    assert "line 3 uses an unknown entity, 'x'" in complaint(
        [write("b.tmx", f'<!DOCTYPE tmx SYSTEM "tmx11.dtd">{bad}')], langs="fr-en")


BOMB = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
HOSTILE = {
    "bomb": f'<!DOCTYPE tmx [<!ENTITY e0 "ha">{BOMB}]><tmx>&e9;</tmx>',
    "quadratic": f'<!DOCTYPE tmx [<!ENTITY e "{"x" * 50_000}">]><tmx>{"&e;" * 50_000}</tmx>',
    "file": '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]><tmx>&x;</tmx>',
    "network": '<!DOCTYPE tmx SYSTEM "http://127.0.0.1:9/evil.dtd"><tmx/>',
    "public": '<!DOCTYPE tmx PUBLIC "x" "http://127.0.0.1:9/evil.dtd"><tmx/>',
    "parameter": '<!DOCTYPE tmx [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x">%p;]><tmx/>',
    "default": '<!DOCTYPE tmx [<!ATTLIST tuv xml:lang CDATA "fr">]><tmx/>',
    "deep": "<tmx>" + "<a>" * 100_000,
    "tag": f'<tmx a="{"x" * 2**22}"/>',
    "comment": f"<tmx><!--{'x' * 2**22}--></tmx>",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("on_bad_text", ["fail", "drop"])
def test_hostile_tmx_is_refused_in_one_line(write, name, on_bad_text):
    path = write("a.tmx", HOSTILE[name])
    tracemalloc.start()
    message = complaint([path], langs="fr-en", on_bad_text=on_bad_text)
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()
    assert message.startswith(f"{path} line 1 ") and "may be an attack" in message


def test_xml_that_is_not_tmx_or_is_broken_is_named_with_its_line(write):
    assert "is XML but not TMX (its first element is 'html')" in complaint([write("a.tmx", "<html/>")], langs="fr-en")
    broken = tmx(*units())[:-20]
    assert "line 5 is not well-formed XML" in complaint([write("b.tmx", broken)], langs="fr-en")


def test_bad_bytes_in_tmx_follow_the_setting(write):
    raw = tmx(*units([("un", "one"), ("deXux", "two"), ("a\ufffdb", "c")])).encode().replace(b"X", b"\xff")
    path = write("a.tmx", raw)
    assert "line 4 is not well-formed XML" in complaint([path], langs="fr-en")
    found, said = counted([path], langs="fr-en", on_bad_text="replace")
    assert found == [("un", "one"), ("de\ufffdux", "two"), ("a\ufffdb", "c")]
    assert said.endswith("mended: 1 with bad UTF-8 replaced")
    assert counted([path], langs="fr-en", on_bad_text="drop") == (
        [("un", "one"), ("a\ufffdb", "c")], "3 pairs read: 2 kept, 1 dropped (1 bad UTF-8)")


# ------------------------------------------------------------------------------------------------ .po and .mo


FROM_PO = [("un chat", "a cat"), ("en deux lignes", "in two lines"), ("%d chat", "%d cat"), ("%d chats", "%d cats")]


def test_a_po_file_gives_its_finished_messages_in_the_right_direction(write):
    path = write("a.po", PO)
    found, said = counted([path], langs="fr-en")
    assert found == FROM_PO
    assert said == ("8 pairs read: 4 kept, 4 dropped (1 empty side, 1 fuzzy, 1 header, 1 obsolete); "
                    "mended: 1 line breaks inside a sentence made spaces")
    assert pairs([path], langs="en-fr") == pairs([path]) == [pair[::-1] for pair in FROM_PO]
    assert ("une dogue", "a dog") in pairs([path], langs="fr-en", fuzzy=True)
    assert "is a translation into 'fr', which is neither 'de' nor 'en'" in complaint([path], langs="de-en")
    assert pairs([write("a.po.gz", gzip.compress(PO.encode()))], langs="fr-en") == FROM_PO


def test_a_mo_file_gives_what_its_po_does(write, tmp_path):
    catalog = polib.pofile(write("a.po", PO))
    catalog.save_as_mofile(str(tmp_path / "a.mo"))
    found, said = counted([tmp_path / "a.mo"], langs="fr-en")
    assert sorted(found) == sorted(FROM_PO)
    assert said.startswith("5 pairs read: 4 kept, 1 dropped (1 header)")


@pytest.mark.parametrize("forms, found, dropped", [
    (["tous"], [("many", "tous")], 0), (["un", "tous"], [("one", "un"), ("many", "tous")], 0),
    (["un", "deux", "tous"], [], 1)])
def test_plurals_are_paired_only_where_it_is_plain_which_is_which(write, forms, found, dropped):
    plural = 'msgid "one"\nmsgid_plural "many"\n' + lines(f'msgstr[{i}] "{form}"' for i, form in enumerate(forms))
    tally = Tally()
    assert pairs([write("a.po", f'msgid "x"\nmsgstr "y"\n\n{plural}')], tally) == [("x", "y"), *found]
    assert tally.dropped["with three or more plural forms"] == dropped


def test_other_encodings_of_po_are_read_and_odd_ones_refused(write):
    latin = PO.replace("UTF-8", "ISO-8859-1").replace("un chat", "été").encode("latin-1")
    assert pairs([write("a.po", latin)], langs="fr-en")[0] == ("été", "a cat")
    for name in ("punycode", "unicode_escape", "rot13", "klingon"):
        assert "says its encoding is" in complaint([write("b.po", PO.replace("UTF-8", name))])
    bad = PO.encode().replace(b"un chat", b"un \xffchat")
    assert "bytes that are not utf-8" in complaint([write("c.po", bad)])
    assert pairs([write("c.po", bad)], on_bad_text="replace")[0] == ("a cat", "un \ufffdchat")
    assert counted([write("c.po", bad)], on_bad_text="drop")[1].startswith(
        "8 pairs read: 3 kept, 5 dropped (1 bad UTF-8, 1 empty side")


def test_damaged_and_hostile_catalogs_are_refused(write, monkeypatch):
    assert "line 4 is not a .po file" in complaint([write("a.po", 'msgid "a"\nmsgstr "b"\n\nwhat is this\n')])
    assert "not a .po file" in complaint([write("name.po", "/etc/passwd")])
    endless = 'msgid "x"\nmsgstr ""\n' + '"y"\n' * 100_000
    assert "an entry of more than 128 KB" in complaint([write("b.po", endless)])
    monkeypatch.setattr(catalogs, "LARGEST", 1000)
    assert "is larger than" in complaint([write("c.po", PO * 3)])
    assert "is larger than" in complaint([write("c.mo", bytes(1001))])


def test_a_mo_whose_strings_overlap_or_lie_outside_is_refused(write):
    count = 2000                                     # each string is the whole file: gigabytes from kilobytes
    size = 28 + count * 16
    table = struct.pack("<II", size, 0) * count
    bomb = struct.pack("<IIIIIII", 0x950412DE, 0, count, 28, 28 + count * 8, 0, 0) + table * 2
    for data in (bomb, bomb[:40], bomb[:8] + b"\xff" * 20, bomb[:8]):
        assert "is a damaged .mo file" in complaint([write("a.mo", data)])


@given(st.data())
def test_a_catalog_or_memory_with_bytes_changed_gives_pairs_or_one_line(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("mutated")
    catalog = polib.pofile(PO)
    catalog.save_as_mofile(str(folder / "whole.mo"))
    name, whole = data.draw(st.sampled_from([
        ("a.po", PO.encode()), ("a.mo", (folder / "whole.mo").read_bytes()), ("a.tmx", tmx(*units()).encode()),
        ("a.jsonl", jsonl().encode()), ("a.tsv", tsv().encode())]))
    raw = bytearray(whole)
    same_length = data.draw(st.booleans())
    for _ in range(data.draw(st.integers(1, 6))):
        at, new = data.draw(st.integers(0, len(raw) - 5)), data.draw(st.binary(max_size=4))
        raw[at:at + (len(new) if same_length else data.draw(st.integers(0, 4)))] = new
    (folder / name).write_bytes(raw)
    on_bad_text = data.draw(st.sampled_from(["fail", "replace", "drop"]))
    try:
        found = pairs([folder / name], langs="fr-en", on_bad_text=on_bad_text)
    except DataError as error:
        assert "\n" not in str(error)
    else:
        assert all(side.strip() and "\n" not in side and side.encode() for pair in found for side in pair)


def test_a_pair_is_a_source_and_a_target():
    assert TextPair("un", "one").source == "un" and TextPair("un", "one").target == "one"
