"""Token estimates in many scripts, and texts cut to a number of tokens."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcp_irx.errors import MissingExtra, RCPError
from rcp_irx.judging.budget import cut, estimate_tokens

pytestmark = pytest.mark.quick

MARKER = " [...]"

# The most tokens that any of seven vocabularies makes of a text, and which: o200k (gpt-oss), cl100k (GPT-4), Llama 3,
# Qwen 2 to 3 and 3.6, DeepSeek, Mistral's tekken; counted with their own tokenizers, without special tokens.
COUNTED = {
    "English": (16, "tekken", "The river rose two metres overnight, and by noon the old bridge was closed."),
    "German": (22, "qwen2-3", "Der Klimawandel wirkt sich auf die Wasserversorgung der größeren Städte aus."),
    "Finnish": (27, "qwen2-3", "Sinilevähavaintoja tehdään lähes jokaisena kesänä rannikkoalueilla."),
    "Vietnamese": (45, "cl100k", "Các đại biểu thảo luận về những giải pháp giảm phát thải và bảo vệ rừng ngập mặn."),
    "Russian": (36, "cl100k", "Жители обеспокоены: уровень воды в озере понизился почти на полметра."),
    "Kazakh": (64, "cl100k", "Ғалымдардың айтуынша, соңғы жылдары көлдің деңгейі айтарлықтай төмендеген."),
    "Greek": (74, "cl100k", "Οι κάτοικοι ανησυχούν για την αλιεία, ενώ η κυβέρνηση υπόσχεται μέτρα προστασίας."),
    "Georgian": (103, "llama3", "ადგილობრივი მოსახლეობა შეშფოთებულია ტურიზმის მომავლით."),
    "Arabic": (46, "cl100k", "اكتشف الباحثون أن منسوب المياه في البحيرة انخفض خلال السنوات الماضية."),
    "Hebrew": (64, "llama3", "החוקרים מצאו כי מפלס המים באגם ירד באופן ניכר בעשר השנים האחרונות."),
    "Hindi": (60, "cl100k", "पिछले दस वर्षों में झील का जलस्तर उल्लेखनीय रूप से कम हुआ है।"),
    "Tamil": (105, "llama3", "மீன்பிடித்தல் மற்றும் சுற்றுலாவின் எதிர்காலம் குறித்து மக்கள் கவலைப்படுகின்றனர்."),
    "Thai": (53, "cl100k", "ชาวบ้านในพื้นที่กังวลเกี่ยวกับอนาคตของการประมงและการท่องเที่ยว"),
    "Khmer": (161, "tekken", "ប្រជាជនក្នុងតំបន់មានការព្រួយបារម្ភអំពីអនាគតនៃការនេសាទ។"),
    "Burmese": (121, "llama3", "ဒေသခံများသည် ငါးဖမ်းလုပ်ငန်း၏ အနာဂတ်အတွက် စိုးရိမ်လျက်ရှိသည်။"),
    "Korean": (54, "cl100k", "주민들은 어업과 관광의 앞날을 걱정하고 있으며, 정부는 대책을 마련하겠다고 약속했다."),
    "Japanese": (48, "cl100k", "地元の住民は漁業や観光の将来を心配しており、政府は対策を講じると約束している。"),
    "Chinese": (46, "cl100k", "当地居民对渔业和旅游业的前景感到担忧，政府则承诺采取措施保护环境。"),
    "Traditional Chinese": (49, "cl100k", "如果不改變灌溉方式，水位還會繼續下降，候鳥的棲息地也將受到威脅。"),
    "digits": (47, "tekken", "2024-03-17 09:41:22  1,234,567.89  +49 30 901820"),
    "code": (
        29,
        "qwen3.6",
        "def total(values):\n    sum = 0.0\n    for v in values:\n        sum += v\n    return sum\n",
    ),
    "table": (
        45,
        "tekken",
        "| Year | Level (m) | Change |\n|------|----------:|:------:|\n| 1991 | 113.52 | -0.418 |\n",
    ),
    "URL": (36, "tekken", "https://data.example.org/v2/stations/DE-0472/series.json?from=2010-01-01&format=json"),
    "emoji": (56, "tekken", "So happy 😀😀 going to the beach 🏖️☀️ with my friends 👩‍👩‍👧‍👦 🎉🎉🎉"),
    "capitals": (31, "tekken", "NO MEMBER MAY VOTE ON A MATTER IN WHICH HE OR SHE HAS A DIRECT FINANCIAL INTEREST."),
}

FAMILY = "👨‍👩‍👧‍👦"  # 7 code points: four people and three joiners
PIECES = [
    *["a", "word", "Wort,", "naïve", "PyTorch", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "12", "3.14", "---", "(", "."],
    *["слово", "λόγος", "كلمة", "مَرْحَبًا", "שלום", "\u202b", "\u202c", "\u200f", "नमस्ते", "क्षि", "தமிழ்"],
    *["中文", "。", "日本語", "カタカナ", "한국어", "\u1112\u1161\u11ab", "สวัสดี", "ជំរាបសួរ", "မြန်မာ"],
    *["😀", FAMILY, "👍🏽", "❤️", "🇩🇪", "🇫🇷", "🇯", "\u200d", "\ufe0f", "e\u0301", "\u0301", "\x00", "\ufffd"],
]
texts = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
markers = st.sampled_from([MARKER, "", "…", "[cut]", "cut", "X", "7", "\n\n---\n", "  ", "（略）"])


def shown(text, max_tokens, marker=MARKER):
    """The start of a text that is shown, without the marker."""
    result, share = cut(text, max_tokens, marker)
    return result if share == 0 else result[: len(result) - len(marker)]


def characters(text):
    """Where the characters of a text end (Unicode's grapheme clusters)."""
    return {found.end() for found in pytest.importorskip("regex").finditer(r"\X", text)}


@pytest.mark.parametrize("kind", COUNTED)
def test_an_estimate_lies_between_the_most_tokens_counted_and_twice_as_many(kind):
    tokens, _, text = COUNTED[kind]
    assert tokens <= estimate_tokens(text) <= 2 * tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("the", 2),  # 0.90 for the first letter, 0.24 for each of the next
        ("1234567890", 11),  # Qwen, tekken: a token a digit; a text may follow a space, which is then one more
        ("中文", 4),  # 2 x 1.65
        ("😀", 4),  # tekken: a token a byte
        ("ก", 1),
        (" ", 1),
        ("ab" + " " * 100 + "ab", 9),  # a long run of spaces is few tokens
        ("\ud800", 3),  # half a surrogate pair is no character, and no reason to stop
    ],
)
def test_estimates_of_short_texts(text, tokens):
    assert estimate_tokens(text) == tokens


def test_chinese_and_thai_are_not_four_characters_a_token():
    assert estimate_tokens("水位下降" * 25) == 165
    assert estimate_tokens("ระดับน้ำ" * 25) == 200
    assert estimate_tokens("word " * 20) == 35  # 100 characters, too


def test_a_text_that_fits_is_unchanged():
    assert cut("the cat sat on the mat", 9) == ("the cat sat on the mat", 0.0)
    assert cut("", 0) == ("", 0.0)
    assert cut("a", 1) == ("a", 0.0)  # though no marker would fit


def test_a_cut_falls_between_words_and_its_share_counts_characters():
    text = "one two three four five six seven eight nine ten"  # 48 characters
    assert cut(text, 12) == ("one two three four five [...]", 25 / 48)
    assert cut(text, 12, marker="") == ("one two three four five six seven", 15 / 48)


def test_no_space_is_left_before_the_marker():
    assert cut("one two three\n\n    four five six seven eight nine ten", 10)[0] == "one two three [...]"


def test_a_first_word_that_is_too_long_by_itself_is_cut_inside():
    assert cut("Donaudampfschifffahrtsgesellschaftskapitän", 8, "...")[0] == "Donaudampfschiff..."


def test_a_run_of_more_than_100_characters_is_no_word():
    assert shown("Attached: " + "QUJD" * 500, 100).startswith("Attached: QUJDQUJD")
    assert shown("Attached: " + "q" * 100 + " and more", 30) == "Attached:"


def test_a_word_in_a_script_without_spaces_around_it_stays_whole():
    pytest.importorskip("regex")
    text = "我们在PyTorch上训练"
    starts = ["我", "我们", "我们在", "我们在PyTorch", "我们在PyTorch上", "我们在PyTorch上训", text]
    assert {shown(text, tokens, "") for tokens in range(2, 18)} == set(starts)


@pytest.mark.parametrize(
    "character",
    [
        *("e\u0301", "ạ̈̈̈̈", "क्ष", "นี้", "ទឹ"),  # letters with marks
        *("\u1112\u1161\u11ab", "한"),  # a Korean syllable in three parts, and in one
        *(FAMILY, "👍🏽", "🇩🇪", "🏳️‍🌈", "1️⃣"),
        *("\r\n",),
    ],
)
def test_a_character_as_people_see_it_stays_whole(character):
    pytest.importorskip("regex")
    text = character * 9
    for tokens in range(estimate_tokens(character + MARKER) + 1, estimate_tokens(text)):
        start = shown(text, tokens)
        assert start == character * (len(start) // len(character))
        assert start


def test_right_to_left_text_is_cut_at_its_logical_end():
    pytest.importorskip("regex")
    assert cut("שלום עולם, זה טקסט ארוך", 15) == ("שלום עולם, [...]", 13 / 23)


def test_a_heap_of_marks_is_no_character():
    pytest.importorskip("regex")
    text = "Z" + "\u0334" * 100_000
    assert len(shown(text, 1000)) == 498  # 2 tokens a mark
    assert shown("so " + text, 1000) == "so"


@pytest.mark.parametrize("text", ["the cat sat on the mat", "   the cat sat"])
@pytest.mark.parametrize("max_tokens", [3, 0, -1])
def test_too_few_tokens_for_the_marker_are_refused(text, max_tokens):
    with pytest.raises(RCPError, match=rf"cut to {max_tokens} tokens: the marker ' \[...\]' takes 4"):
        cut(text, max_tokens)


def test_too_few_tokens_for_the_first_character_are_refused():
    pytest.importorskip("regex")
    with pytest.raises(RCPError, match="first character does not fit"):
        cut(FAMILY * 2, 12)


def test_a_missing_regex_is_named_where_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "regex", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rcp-irx\[openai\]'"):
        cut("слово " * 100, 50)
    assert shown("word\r\n" * 100, 50).endswith("word")
    assert cut("слово", 50) == ("слово", 0.0)


@pytest.mark.parametrize("text", ["word ", "слово ", "水位下降", FAMILY, "QUJD", "\r\n", "\u0301"])
def test_100_000_characters_take_far_less_than_a_second(text):
    pytest.importorskip("regex")
    long = (text * 100_000)[:100_000]
    assert 0 < cut(long, estimate_tokens(long) - 1)[1] < 0.01


@given(texts, texts)
def test_lines_take_no_more_together_than_each_by_itself(one, other):
    together = estimate_tokens(f"{one}\n{other}")
    assert estimate_tokens(one) <= together <= estimate_tokens(one) + 1 + estimate_tokens(other)


@given(texts, st.integers(0, 80), markers)
def test_a_cut_is_the_longest_start_that_fits(text, max_tokens, marker):
    pytest.importorskip("regex")
    try:
        result, share = cut(text, max_tokens, marker)
    except RCPError:
        assert max_tokens < estimate_tokens(text[:64] + marker) + 1
        return
    assert estimate_tokens(result) <= max_tokens
    if estimate_tokens(text) <= max_tokens:
        assert (result, share) == (text, 0.0)
        return
    assert result.endswith(marker)
    start = result[: len(result) - len(marker)]
    assert text.startswith(start)
    assert share == (len(text) - len(start)) / len(text)
    assert 0 < share < 1
    assert len(start) in characters(text)
    assert cut(result, max_tokens, marker) == (result, 0.0)


@given(texts, st.integers(0, 80), st.integers(0, 40), markers)
def test_more_tokens_never_show_less(text, max_tokens, more, marker):
    pytest.importorskip("regex")
    try:
        less = shown(text, max_tokens, marker)
    except RCPError:
        return
    assert shown(text, max_tokens + more, marker).startswith(less)


@given(st.lists(st.sampled_from(["a", "bc", "word", "Wort", "слово", "كلمة", "שלום", "नमस्ते", "한국어"]), min_size=2))
def test_words_stay_whole_and_not_one_more_would_fit(words):
    pytest.importorskip("regex")
    text = " ".join(words)
    for max_tokens in range(12, estimate_tokens(text), 7):
        count = len(shown(text, max_tokens).split(" "))
        assert shown(text, max_tokens) == " ".join(words[:count])
        assert estimate_tokens(" ".join(words[: count + 1]) + MARKER) > max_tokens


def test_a_character_of_very_many_code_points_ends_no_run():
    pytest.importorskip("regex")
    one = "\U0001f3fb" * 1579
    for max_tokens in (32, 64, 263):
        result, share = cut(one, max_tokens)
        assert 0 < share < 1
        assert estimate_tokens(result) <= max_tokens
