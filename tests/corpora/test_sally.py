"""Sally's story: the name at the end is the one from the beginning, exactly as far away as was asked."""

import re
from collections import Counter

import pytest

from regard.corpora import sally
from regard.errors import SettingError

STORIES = list(sally.generate(3000, seed=3))


def words(text):
    """Words and marks, by a pattern of its own."""
    return re.findall(r"[A-Za-z]+|[^A-Za-z\s]", text)


def test_the_name_from_the_beginning_comes_back_at_the_end_and_nowhere_between():
    for story in STORIES:
        found = words(story.text)
        assert found[-2:] == [found[0], '"'] == [story.name, '"'] and found.count(story.name) == 2
        named = [word for word in found if word in (*sally.GIRLS, *sally.BOYS)]
        assert named == [story.name] * 2                                    # nor is anybody else named
        assert story.text[story.answer:] == f'{story.name}"'
        assert story.prompt == story.text[:story.answer].removesuffix(" ")


def test_the_distance_is_counted_in_words_and_marks_from_name_to_name():
    for story in STORIES:
        first, last = (at for at, word in enumerate(words(story.text)) if word == story.name)
        assert story.distance == last - first and len(words(story.prompt)) == last
    counts = Counter(story.distance for story in STORIES)
    assert set(counts) == set(range(20, 121)) and max(counts.values()) < 60             # 30 on average


@pytest.mark.parametrize("distance", [20, 21, 22, 23, 57, 400])
def test_any_distance_is_met_exactly(distance):
    found = list(sally.generate(20, distances=(distance, distance)))
    assert {story.distance for story in found} == {distance} and len({story.name for story in found}) > 5


def test_pronouns_tell_one_half_of_the_names_and_no_more():
    for story in STORIES:
        said = {word.lower() for word in words(story.text)} & {"she", "he"}
        assert said == {"she" if story.name in sally.GIRLS else "he"}
    assert {story.name for story in STORIES} == {*sally.GIRLS, *sally.BOYS}
    assert len(sally.GIRLS) == len(sally.BOYS) == 24 == len({*sally.GIRLS, *sally.BOYS}) / 2


def test_a_story_is_of_one_part_whatever_the_seed():
    texts = {part: {story.text for seed in (0, 1) for story in sally.generate(1000, seed, part=part)}
             for part in sally.PARTS}
    assert sum(map(len, texts.values())) == len(set().union(*texts.values())) > 5900
    assert {part: {sally.Story(text).name for text in found} == {*sally.GIRLS, *sally.BOYS}
            for part, found in texts.items()} == dict.fromkeys(sally.PARTS, True)


def test_the_lectures_story_is_a_prompt_near_and_far():
    near, far = sally.PROMPTS
    assert near == 'Sally looked around and saw a field. It was nice. She went here. Someone said "Hi,'
    assert len(words(near)) == 21 and len(words(far)) == 89
    known = {word for story in STORIES for word in words(story.text)}
    assert {*words(near), *words(far)} <= known


@pytest.mark.parametrize("distances", [(5, 30), (40, 30)])
def test_impossible_distances_are_refused(distances):
    with pytest.raises(SettingError, match="give the shorter first, and none below 20"):
        sally.generate(3, distances=distances)
