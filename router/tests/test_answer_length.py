"""Learning how long answers are."""

from workslice_router.answer_length import AnswerLengths


def learned(lengths: AnswerLengths, *tokens: int, class_name: str = "short", bounded: bool = False) -> AnswerLengths:
    for one in tokens:
        lengths.learn("tiny", class_name, one, bounded=bounded, cut=False)
    return lengths


def test_before_anything_is_learned_the_setting_counts() -> None:
    lengths = AnswerLengths(512)
    assert (lengths.expected("tiny", "short"), lengths.longest("tiny")) == (512, 512)


def test_the_mean_is_learned_for_each_class() -> None:
    lengths = learned(learned(AnswerLengths(512), *[50] * 300), *[900] * 300, class_name="long")
    assert 50 <= lengths.expected("tiny", "short") < 60
    assert 890 < lengths.expected("tiny", "long") <= 900
    assert lengths.expected("other", "short") == 512


def test_one_answer_in_a_hundred_may_be_longer_than_the_longest() -> None:
    lengths = learned(AnswerLengths(512), *range(1, 1001))
    assert 990 <= lengths.longest("tiny") <= 1090


def test_a_few_short_answers_do_not_make_a_model_brief() -> None:
    assert learned(AnswerLengths(512), *[10] * 99).longest("tiny") == 512
    assert learned(AnswerLengths(512), *[10] * 100).longest("tiny") < 12
    assert learned(AnswerLengths(512), 4000).longest("tiny") >= 4000


def test_an_answer_with_a_bound_says_nothing_about_one_without() -> None:
    assert learned(AnswerLengths(512), *[5] * 500, bounded=True).longest("tiny") == 512


def test_answers_that_were_cut_make_the_next_ones_go_where_there_is_more_room() -> None:
    lengths = learned(AnswerLengths(512), *[100] * 490)
    for _ in range(10):
        lengths.learn("tiny", "short", 1900, bounded=False, cut=True)
    assert lengths.longest("tiny") >= 3800
