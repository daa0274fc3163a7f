"""The tokenizer: any string comes back, one token a digit, words with their space, an identity of its own."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arl_mini.envs import Calc, Quest
from arl_mini.models.tokenizer import END, SPECIALS, build, decode, encode, fingerprint, pieces
from tests.core.drawn import CHECKED

WORDS = build(Quest.words)
NONE = build()
TOKENIZERS = pytest.mark.parametrize("tokenizer", [WORDS, NONE], ids=["words", "no words"])
PARTS = [" ", "  ", "\n", "key", " key", "7", " 12", "é", "<end>", "<", "act>", "😀", "\0"]
text = st.text() | st.lists(st.sampled_from(PARTS)).map("".join)


@TOKENIZERS
@CHECKED
@given(text)
@example("")
@example(" ")
@example("   a  b\n\n\tc ")
@example("<act> go north</act><obs></obs><end><pad>")
@example("<end")
@example("½ ٣ 🇩🇪 👩‍👧 é é ﷺ  ​x")
@example("".join(chr(i) for i in range(256)))
def test_any_string_comes_back(tokenizer, text):
    ids = encode(tokenizer, text)
    assert decode(tokenizer, list(ids)) == text
    assert tokenizer.decode(tokenizer.encode(text)) == text  # also without our two functions
    assert tokenizer.unk_token_id is None and all(0 <= i < len(tokenizer) for i in ids)


@TOKENIZERS
@CHECKED
@given(st.integers(0, 10**15), st.booleans())
def test_every_digit_is_one_token(tokenizer, number, spaced):
    """` 3901` is ` 3`, `9`, `0`, `1`; also inside expressions."""
    digits = str(number)
    written = f" {digits}" if spaced else digits
    cut = [decode(tokenizer, [i]) for i in encode(tokenizer, written)]
    assert cut == ([f" {digits[0]}", *digits[1:]] if spaced else list(digits))
    assert [decode(tokenizer, [i]) for i in encode(tokenizer, f"{digits}*{digits}")] == [*digits, "*", *digits]


def test_words_are_one_token_with_the_space_before_them():
    for word in pieces(Quest.words):
        assert len(encode(WORDS, word)) == 1
    assert [decode(WORDS, [i]) for i in encode(WORDS, " find key open door .")] == [" find", " key", " open", " door", " ."]
    assert len(encode(WORDS, "key")) == 3 and len(encode(WORDS, " keys")) == 5  # another word is spelled


def test_special_tokens_are_one_token_and_only_they_are_special():
    assert [encode(WORDS, s) for s in SPECIALS] == [(i,) for i in range(len(SPECIALS))]
    assert set(WORDS.all_special_ids) <= set(range(len(SPECIALS)))
    assert WORDS.eos_token == END and WORDS.pad_token != END  # padding is not an end


def test_a_partial_character_has_no_exact_text():
    """The one case where text is not enough: single bytes of é decode to a placeholder, and encode to other ids."""
    half = encode(WORDS, "é")[:1]
    assert decode(WORDS, list(half)) == "�" and encode(WORDS, "�") != half


def test_other_ids_may_read_the_same():
    """decode is not one-to-one, which is why training never goes through text."""
    spelled = [encode(WORDS, c)[0] for c in (" ", "k", "e", "y")]
    assert decode(WORDS, spelled) == " key" and encode(WORDS, " key") != tuple(spelled)


def test_pieces_are_what_the_tokenizer_cuts():
    said = " 47 boxes of 83 pens how many ?<act> py 47*83</act>"
    assert pieces(" 47 boxes") == [" 4", "7", " boxes"]
    calc = build(Calc.words)
    for piece in pieces(said):
        assert len(encode(calc, piece)) == 1 or piece == "\n"


def test_building_from_words_or_from_their_text_is_the_same():
    assert fingerprint(build(pieces(Quest.words))) == fingerprint(build(Quest.words)) == fingerprint(WORDS)


def test_the_fingerprint_knows_words_and_their_order():
    a, b = build([" red", " blue"]), build([" blue", " red"])
    assert len({fingerprint(t) for t in (a, b, build([" red"]), NONE, WORDS)}) == 5
    assert fingerprint(build([" red", " blue"])) == fingerprint(a) and len(fingerprint(a)) == 16


def test_a_saved_tokenizer_is_the_same(tmp_path):
    from transformers import AutoTokenizer

    WORDS.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert fingerprint(again) == fingerprint(WORDS) and again.chat_template == WORDS.chat_template
    assert again.encode(" go north 12é<end>") == WORDS.encode(" go north 12é<end>")
    assert (again.pad_token_id, again.eos_token_id) == (WORDS.pad_token_id, WORDS.eos_token_id)
