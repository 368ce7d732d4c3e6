"""Conversations ask for what their answers tell, and answer with the text itself."""

import random

from tools.train_demo.corpus import Passage
from tools.train_demo.dialogue import CONTINUE_REQUEST, converse, named
from tools.train_demo.tool_calls import TOOLS, tool_conversation
from tools.train_demo.topics import Topics, find_topics

STORY = "Then a fox met an owl, and the fox saw Dorothy. The fox ran home."
TEXTS = [STORY, *["So they met Dorothy, and Dorothy ran."] * 12]


def topics() -> Topics:
    return find_topics(TEXTS)


def test_topics_are_listed_nouns_and_names_that_mark_the_passage() -> None:
    found = topics()
    assert found.names == {"Dorothy"}
    assert found.of(STORY) == ["fox", "owl", "Dorothy"]


def test_a_list_of_topics_has_articles_only_before_nouns() -> None:
    assert named(["fox"], topics()) == "a fox"
    assert named(["owl", "Dorothy"], topics()) == "an owl and Dorothy"
    assert named(["fox", "owl", "Dorothy"], topics()) == "a fox, an owl and Dorothy"


def test_the_answer_to_a_story_request_is_the_whole_story() -> None:
    asked = set()
    for seed in range(40):
        talk = converse([Passage(STORY, is_story=True)], topics(), random.Random(seed))
        if talk.tools:
            continue
        request, reply = talk.messages[-2:]
        assert reply["content"] == STORY
        assert "fox" in request["content"]
        assert ("thinking" in reply) == (talk.effort != "low")
        asked.add(request["content"])
    assert len(asked) > 5


def test_a_request_to_continue_and_its_answer_make_the_passage() -> None:
    text = "Nobody came. They waited long. It grew late."
    talk = converse([Passage(text, is_story=False)], topics(), random.Random(3))
    request, reply = talk.messages[-2:]
    assert request["content"] == CONTINUE_REQUEST.format("Nobody came.")
    assert f"Nobody came. {reply['content']}" == text


def test_turns_follow_the_passages() -> None:
    both = [Passage(STORY, is_story=True), Passage("A hen sat. A hen ran.", is_story=False)]
    talk = converse(both, topics(), random.Random(1))
    roles = [message["role"] for message in talk.messages if message["role"] != "system"]
    assert roles == ["user", "assistant"] * 2


def test_a_tool_call_names_an_offered_tool_and_the_answer_tells_its_result() -> None:
    for seed in range(30):
        messages, offered = tool_conversation(random.Random(seed), reasons=seed % 2 == 0)
        call = messages[1]["tool_calls"][0]["function"]
        assert TOOLS[call["name"]] in offered
        assert all(value in messages[0]["content"] for value in call["arguments"].values())
        assert ("thinking" in messages[1]) == (seed % 2 == 0)
        if len(messages) > 2:
            assert messages[2]["content"] in messages[3]["content"]
