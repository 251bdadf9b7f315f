"""How many tokens a text takes at most, guessed without a tokenizer, and texts cut to fit a number of them.

How many tokens a document may take, and what is told of the cuts, is for others.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rcp_irx.errors import MissingExtra, RCPError

TOKEN = 100
"""Costs are whole hundredths of a token, so that sums of them are exact."""

LONGEST_WORD = 100
"""A run of more characters than this without a space is no word (base64, rows of emoji) and may be cut inside."""

ENOUGH = 32
"""Tokens in which every character of usual text fits beside a marker: one that does not is cut inside."""

LONGEST_CHARACTER = 64
"""More code points than this (a heap of combining marks) are no character that a person sees, and may be cut inside."""

_COMMON = 6
"""Letters of a Latin word that are likely to be part of a long token; those after them are not."""

_RANGES = (  # first code point, cost of a character, whether the script writes words without spaces between them
    (0x0000, 100, 0),  # control characters; what the rest of ASCII costs is in _costs
    (0x0080, 150, 0),  # signs
    (0x00C0, 110, 0),  # Latin with accents
    (0x0100, 150, 0),
    (0x0180, 200, 0),  # rare Latin letters, phonetic signs, combining marks
    (0x0370, 200, 0),  # Greek: capitals
    (0x03AC, 106, 0),  # Greek
    (0x0400, 140, 0),  # Cyrillic: capitals
    (0x0430, 73, 0),  # Cyrillic: the Russian small letters
    (0x0450, 200, 0),  # Cyrillic: letters of other languages
    (0x0530, 213, 0),  # Armenian
    (0x0590, 190, 0),  # Hebrew points
    (0x05D0, 115, 0),  # Hebrew
    (0x0600, 200, 0),
    (0x0620, 85, 0),  # Arabic
    (0x064B, 200, 0),  # Arabic vowels; letters of Persian, Urdu, Kurdish, Uyghur
    (0x0800, 300, 0),
    (0x0900, 125, 0),  # Devanagari
    (0x0980, 145, 0),  # Bengali
    (0x0A00, 205, 0),  # Gurmukhi, Gujarati
    (0x0B00, 310, 0),  # Odia
    (0x0B80, 154, 0),  # Tamil
    (0x0C00, 205, 0),  # Telugu, Kannada
    (0x0D00, 190, 0),  # Malayalam
    (0x0D80, 320, 0),  # Sinhala
    (0x0E00, 100, 1),  # Thai
    (0x0E80, 300, 1),  # Lao, Tibetan
    (0x1000, 210, 1),  # Burmese
    (0x10A0, 215, 0),  # Georgian
    (0x1100, 300, 0),  # Hangul jamo, Ethiopic, scripts with few readers: a token a byte
    (0x1780, 300, 1),  # Khmer
    (0x1800, 300, 0),
    (0x1E00, 200, 0),  # Latin with two accents (Vietnamese)
    (0x1F00, 290, 0),  # Greek with ancient accents
    (0x2000, 150, 0),  # dashes, quotation marks, invisible signs
    (0x2030, 200, 0),  # currencies, letter-like signs, arrows
    (0x2200, 250, 0),  # mathematics, technical signs
    (0x2500, 200, 0),  # boxes and shapes
    (0x2600, 300, 0),  # pictures, Braille
    (0x3000, 110, 1),  # punctuation of Chinese and Japanese, hiragana, katakana
    (0x3100, 300, 1),
    (0x4E00, 165, 1),  # Chinese characters
    (0xA000, 300, 1),
    (0xAC00, 140, 0),  # Hangul
    (0xD7A4, 300, 0),
    (0xFF00, 180, 1),  # full width
    (0xFF61, 260, 1),  # half width
    (0x10000, 400, 0),  # emoji, ancient scripts
    (0x20000, 400, 1),  # rare Chinese characters
)
_STARTS, _COSTS, _SPACELESS = (np.array(column) for column in zip(*_RANGES, strict=True))
_SPACES = np.array([code for code in range(0x3001) if chr(code).isspace()] + [0x200B])


def estimate_tokens(text: str) -> int:
    """How many tokens a present-day tokenizer makes of a text at most, within reason.

    Every kind of character has a cost, set by what the byte-pair vocabularies of GPT-4, gpt-oss, Llama 3, Qwen 2 to
    3.6, DeepSeek and Mistral (tekken) make of it: usual text of any script takes about half to 1.1 times the estimate
    with the one of them that suits it least. Others may need far fewer: a quarter for some scripts of India.
    """
    return -(-int(_costs(text).sum()) // TOKEN)


def cut(text: str, max_tokens: int, marker: str = " [...]") -> tuple[str, float]:
    """The text if it fits, else its longest start that fits together with the marker; and the share not shown.

    Words stay whole, and in scripts without spaces between words the characters as people see them; only a first
    word that is too long by itself, or a run of more than 100 characters without a space, is cut between characters.

    Returns
    -------
    tuple of str and float
        What is shown, at most `max_tokens` by `estimate_tokens`; characters not shown / characters of the text.

    Raises
    ------
    RCPError
        If the text does not fit and `max_tokens` is too small for the marker and a character.
    MissingExtra
        If a text beyond ASCII must be cut and the package regex is not installed.
    """
    costs = _costs(text)
    if costs.sum() <= max_tokens * TOKEN:
        return text, 0.0
    spent = costs.cumsum()
    word_fits, any_fits = (
        int(np.searchsorted(spent, max_tokens * TOKEN - _added(marker, starts), "right"))
        for starts in (("0", "x" * _COMMON), ("0", "x" * _COMMON, ""))
    )
    seen = text[: word_fits + 1]
    ends = _character_ends(seen)
    word_ends, ends = ends[_between_words(seen)[ends - 1]], ends[ends <= any_fits]
    if len(word_ends):
        end = int(word_ends[-1])
    elif len(ends):
        end = int(ends[-1])
    elif any_fits > LONGEST_CHARACTER or (any_fits > 0 and max_tokens >= ENOUGH):
        end = any_fits
    else:
        raise RCPError(
            f"a text of {len(text)} characters cannot be cut to {max_tokens} tokens: the marker {marker!r} takes"
            f" {estimate_tokens(marker)}, and the text's first character does not fit beside it; allow more tokens"
        )
    return text[:end] + marker, (len(text) - end) / len(text)


def _codes(text: str) -> np.ndarray:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)


def _costs(text: str) -> np.ndarray:
    """What each character adds, in hundredths of a token; it depends on the characters before and on none after."""
    code = _codes(text)
    padded = np.concatenate([[0x0B, 0x0B], code])  # a text starts as if after white space of another kind
    before, earlier = padded[1:-1], padded[:-2]

    def among(codes: np.ndarray, *spans: str) -> np.ndarray:
        return np.logical_or.reduce([(codes >= ord(span[0])) & (codes <= ord(span[-1])) for span in spans])

    spaces, signs = ("\t\r", " "), ("!/", ":@", "[`", "{~")
    small, capital, digit, space = (among(code, *spans) for spans in (("az",), ("AZ",), ("09",), spaces))
    after_space = among(before, *spaces)
    index = np.arange(len(code))
    letter = small | capital | among(code, "Àɏ")
    place = index - np.maximum.accumulate(np.where(letter, -1, index))  # in its word, from 1
    blank, same = code == ord(" "), code == before
    rules = (
        (capital & among(before, "AZ"), 62),
        ((capital | small) & (place == 1), 90),
        (capital, 125),
        (small, np.where(place <= _COMMON, 24, 45)),
        (digit, np.where(after_space, 200, 100)),  # some read digit by digit, and the space before by itself
        (blank & ~after_space, 10),  # part of the next word's token
        (blank & same & among(earlier, *spaces), 5),
        (space & same & ~blank, 30),
        (space, 100),
        (among(code, *signs) & same, 20),
        (among(code, *signs) & among(before, *signs), 75),
    )
    return np.select([rule for rule, _ in rules], [cost for _, cost in rules], _COSTS[_range(code)])


def _range(code: np.ndarray) -> np.ndarray:
    """The row of `_RANGES` that a code point is in."""
    return np.searchsorted(_STARTS, code, "right") - 1


@lru_cache(maxsize=16)
def _added(marker: str, starts: tuple[str, ...]) -> int:
    """The most that a marker adds to a text that ends like one of these."""
    return max(int(_costs(start + marker).sum() - _costs(start).sum()) for start in starts)


def _character_ends(text: str) -> np.ndarray:
    """The positions inside a text where characters as people see them end (UAX 29: grapheme clusters)."""
    if text.isascii():
        code = _codes(text)
        return np.flatnonzero((code[:-1] != ord("\r")) | (code[1:] != ord("\n"))) + 1
    try:
        import regex
    except ImportError:
        raise MissingExtra("regex", "openai") from None
    return np.cumsum([len(character) for character in regex.findall(r"\X", text)])[:-1]


def _between_words(text: str) -> np.ndarray:
    """For each position inside a text, from 1: does a cut there leave words whole?"""
    code = _codes(text)
    space, spaceless = np.isin(code, _SPACES), _SPACELESS[_range(code)] == 1
    index = np.arange(len(code))
    place = index - np.maximum.accumulate(np.where(space | spaceless, index, -1))  # in its word, from 1
    return ~space[:-1] & (space[1:] | spaceless[1:] | spaceless[:-1] | (place[:-1] >= LONGEST_WORD))
