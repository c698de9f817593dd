"""Completions: by the real client against a real server, and what is refused."""

import json
import socket
import time

import pytest

import regard
from regard.data.tokens.characters import ByteTokenizer
from regard.decoding.sampling import Sampling
from regard.serve.completion import CompletionRow, Prompt, prompt_of
from regard.serve.server import ServerSettings

from ..conftest import line_of, wait_until

openai = pytest.importorskip("openai", reason="the real client, of the extra `dev`")

LM = "stories-transformer"
PROMPT = "One day Tom had a red"


@pytest.fixture(scope="module")
def told(runs):
    """The model itself, to compare with."""
    return regard.load(runs / LM, "cpu")


@pytest.fixture
def ask(running):
    with openai.OpenAI(base_url=f"{running().url}/v1", api_key="none", max_retries=0) as client:
        yield client


# ------------------------------------------------------------------------------------------ the client


def test_the_client_lists_the_language_models(ask):
    assert [model.id for model in ask.models.list()] == [LM, "stories-ngram"]
    assert ask.models.retrieve(LM).object == "model"
    with pytest.raises(openai.NotFoundError, match="there is no model 'nothing'"):
        ask.models.retrieve("nothing")


def test_a_completion_is_what_the_model_writes(ask, told):
    for temperature, top_p in ((0.0, 1.0), (1.0, 1.0), (0.8, 0.9)):
        made = ask.completions.create(
            model=LM, prompt=PROMPT, max_tokens=12, seed=7, temperature=temperature, top_p=top_p)
        assert made.choices[0].text == told.generate(
            PROMPT, new_tokens=12, seed=7, temperature=temperature, top_p=top_p)
        assert made.object == "text_completion" and made.model == LM
    read = len(told.tokenizer.encode(PROMPT))
    assert made.usage.prompt_tokens == read and made.usage.total_tokens == read + made.usage.completion_tokens


def test_streamed_pieces_together_are_the_whole(ask):
    same = dict(model=LM, prompt=PROMPT, max_tokens=20, seed=3)
    whole = ask.completions.create(**same)
    chunks = list(ask.completions.create(**same, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].usage == whole.usage and not chunks[-1].choices
    pieces = [chunk.choices[0] for chunk in chunks[:-1]]
    assert "".join(piece.text for piece in pieces) == whole.choices[0].text and len(pieces) > 3
    assert [piece.finish_reason for piece in pieces][-1] == whole.choices[0].finish_reason
    assert {piece.finish_reason for piece in pieces[:-1]} == {None}
    assert len({chunk.id for chunk in chunks}) == 1


def test_several_prompts_and_draws_are_counted_in_order(ask, told):
    prompts = [PROMPT, "Sara went to"]
    made = ask.completions.create(model=LM, prompt=prompts, n=3, max_tokens=5, seed=1)
    assert [choice.index for choice in made.choices] == list(range(6))
    for choice in made.choices:
        prompt, draw = prompts[choice.index // 3], choice.index % 3
        assert choice.text == "".join(told.stream(prompt, new_tokens=5, sampling=Sampling(seed=1), row=draw))
    assert len({choice.text for choice in made.choices[:3]}) > 1


def test_a_prompt_may_be_token_ids(ask, told):
    ids = told.tokenizer.encode(PROMPT).tolist()
    same = dict(model=LM, max_tokens=6, seed=2)
    texts = [ask.completions.create(prompt=prompt, **same).choices[0].text for prompt in (PROMPT, ids, [ids])]
    assert texts[0] == texts[1] == texts[2]


def test_no_seed_gives_another_text_each_time(ask):
    texts = {ask.completions.create(model=LM, prompt="", max_tokens=12).choices[0].text for _ in range(4)}
    assert len(texts) > 1


def test_a_text_that_ends_is_stopped_and_one_that_does_not_is_cut(ask):
    made = ask.completions.create(model="stories-ngram", prompt="", max_tokens=400, temperature=0.5, seed=0)
    assert made.choices[0].finish_reason == "stop" and made.usage.completion_tokens < 400
    assert ask.completions.create(model=LM, prompt="", max_tokens=2).choices[0].finish_reason == "length"


def test_a_stop_ends_the_text_before_it(ask):
    same = dict(model=LM, prompt=PROMPT, max_tokens=40, temperature=0)
    whole = ask.completions.create(**same).choices[0].text
    word = whole.split()[3]
    for stop in (f" {word}", ["nowhere to be seen", f" {word}"]):
        cut = ask.completions.create(**same, stop=stop).choices[0]
        assert cut.text == whole[:whole.index(f" {word}")] and cut.finish_reason == "stop"
    streamed = ask.completions.create(**same, stop=f" {word}", stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == cut.text


def test_log_probabilities_are_the_models_own(ask, told):
    import torch

    made = ask.completions.create(model=LM, prompt=PROMPT, max_tokens=6, seed=5, temperature=1.3, logprobs=3).choices[0]
    logs, text = made.logprobs, PROMPT + made.text
    ids = [told.tokenizer.bos, *told.tokenizer.encode(text).tolist()]
    with torch.no_grad():
        said = [told.language_model.step(torch.tensor([ids[:at]]), told.language_model.start(1, at))[0][0]
                for at in range(1, len(ids))]
    first = len(told.tokenizer.encode(PROMPT))
    expected = [float(each[ids[at + 1]]) for at, each in enumerate(said)][first:]
    assert logs.token_logprobs == pytest.approx(expected, abs=1e-5)
    assert "".join(logs.tokens) == made.text and [text[at:at + len(piece)] for at, piece in zip(
        logs.text_offset, logs.tokens, strict=True)] == logs.tokens
    for piece, value, top, each in zip(logs.tokens, logs.token_logprobs, logs.top_logprobs, said[first:], strict=True):
        assert top[piece] == value and 3 <= len(top) <= 4
        assert max(top.values()) == pytest.approx(float(each.max()), abs=1e-5)


def test_echo_gives_the_prompt_and_its_log_probabilities(ask, told):
    made = ask.completions.create(model=LM, prompt=PROMPT, max_tokens=0, echo=True, logprobs=0).choices[0]
    assert made.text == PROMPT and made.finish_reason == "length"
    assert "".join(made.logprobs.tokens) == PROMPT
    assert sum(made.logprobs.token_logprobs) == pytest.approx(-told.score(PROMPT).nats, abs=1e-4)
    both = ask.completions.create(model=LM, prompt=[PROMPT, "Sara"], max_tokens=3, echo=True, logprobs=1, seed=0)
    assert both.choices[0].logprobs.token_logprobs[:len(made.logprobs.tokens)] == pytest.approx(
        made.logprobs.token_logprobs, abs=1e-5)
    assert [choice.text.startswith(prompt) for choice, prompt in zip(both.choices, (PROMPT, "Sara"), strict=True)]


def test_the_ngram_too_is_completed(ask, runs):
    told = regard.load(runs / "stories-ngram")
    made = ask.completions.create(model="stories-ngram", prompt=PROMPT, max_tokens=5, seed=1, logprobs=2, echo=True)
    assert made.choices[0].text == PROMPT + told.generate(PROMPT, new_tokens=5, seed=1)


def test_a_prompt_longer_than_the_context_is_cut_and_that_is_said(ask):
    made = ask.completions.create(model=LM, prompt="Tom " * 300, max_tokens=2)
    assert "the prompt has" in made.notices[0]
    with pytest.raises(openai.BadRequestError, match="reads at most"):
        ask.completions.create(model=LM, prompt="Tom " * 300, max_tokens=2, echo=True, logprobs=1)


def test_the_client_takes_a_token(running, registry):
    from regard.serve.security import Security

    server = running(ServerSettings(Security("a-token-of-the-tests-own", "0.0.0.0")))
    asked = {"model": LM, "prompt": "", "max_tokens": 1}
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="a-token-of-the-tests-own", max_retries=0) as client:
        client.completions.create(**asked)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as client, \
            pytest.raises(openai.AuthenticationError, match="a token is needed"):
        client.completions.create(**asked)


# ---------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(("change", "status", "says"), [
    ({"model": "storys-transformer"}, 404, "did you mean stories-transformer?"),
    ({"model": "phrasebook"}, 400, "use /translate"),
    ({"model": "../stories-ngram"}, 404, "there is no model"),
    ({"suffix": "the end"}, 400, "left to right"),
    ({"presence_penalty": 0.5}, 400, "presence_penalty cannot be used"),
    ({"logit_bias": {"5": 1}}, 400, "logit_bias cannot be used"),
    ({"best_of": 3}, 400, "best_of"),
    ({"n": 9}, 422, "n: "),
    ({"prompt": ["a"] * 16, "n": 8}, 400, "more than 32 texts"),
    ({"prompt": "a" * 10_001}, 422, "prompt"),
    ({"prompt": ["a" * 6_000] * 2}, 400, "10,000"),
    ({"prompt": [10**6]}, 400, "no token 1000000"),
    ({"prompt": []}, 422, "prompt"),
    ({"prompt": {"text": "a"}}, 422, "prompt"),
    ({"prompt": "half \ud800 of a pair"}, 422, "prompt"),
    ({"max_tokens": -1}, 422, "max_tokens"),
    ({"max_tokens": 10**9}, 422, "max_tokens"),
    ({"temperature": -1}, 422, "temperature"),
    ({"top_p": 0}, 422, "top_p"),
    ({"logprobs": 6}, 422, "logprobs"),
    ({"stop": ""}, 422, "stop"),
    ({"stop": ["a"] * 5}, 422, "stop"),
    ({"max_tokns": 5}, 422, "max_tokns"),
])
def test_what_cannot_be_done_is_one_line(client, change, status, says):
    body = json.dumps({"model": LM, "prompt": "Once", "max_tokens": 2, **change})
    answer = client.post("/v1/completions", content=body, headers={"content-type": "application/json"})
    assert says in line_of(answer, status)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"a"', b"\xff\xfe", b"[" * 100_000, b"1e999",
                                  b'{"model": "stories-ngram", "temperature": NaN}'])
def test_a_body_that_is_no_request_is_one_line(client, body):
    status = 400 if body.startswith(b"[[") else 422                   # deeper than a parser goes
    line_of(client.post("/v1/completions", content=body, headers={"content-type": "application/json"}), status)


# ------------------------------------------------------------------------------------- clients that leave


LONG = 0               # a seed by which more than 80 tokens are written; by others it may be none


class Counting:
    """How many tokens the model is asked for: each step is slow, and counted."""

    def __init__(self, monkeypatch, model, seconds=0.02):
        self.steps, step = 0, model.step

        def slow(*args, **named):
            self.steps += 1
            time.sleep(seconds)
            return step(*args, **named)

        monkeypatch.setattr(model, "step", slow, raising=False)


def post(server, body):
    sent = socket.create_connection(("127.0.0.1", server.port))
    data = json.dumps(body).encode()
    sent.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(data) + data)
    return sent


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_stops_its_generation(running, registry, monkeypatch, stream):
    server, model = running(), registry.get(LM).trained.language_model
    counting = Counting(monkeypatch, model)
    asked = {"model": LM, "prompt": "", "max_tokens": 4000, "stream": stream, "logit_bias": {}, "seed": LONG}
    gone = post(server, asked)
    wait_until(lambda: counting.steps > 5, "it writes")
    gone.close()
    left = time.monotonic()
    wait_until(lambda: server.app.state.gate.running == 0, "its place is free")
    assert time.monotonic() - left < 5
    done = counting.steps
    time.sleep(0.3)
    assert counting.steps == done < 60                                 # it would have been more than 80


def test_a_client_that_goes_away_stops_its_translation(running, registry):
    server = running()
    opened = registry.get("phrasebook")
    passes = []

    def slow(*_):
        passes.append(1)
        time.sleep(0.1)

    hook = opened.trained.model.stack.register_forward_pre_hook(slow)
    try:
        data = json.dumps({"q": "le " * 3000, "source": "fr", "target": "en"}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as gone:
            gone.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(data) + data)
            wait_until(lambda: len(passes) > 2, "it translates")
        left = time.monotonic()
        wait_until(lambda: server.app.state.gate.running == 0, "its place is free")
        assert time.monotonic() - left < 5
        done = len(passes)
        time.sleep(0.3)
        assert len(passes) == done < 8                                 # it would have been 16
    finally:
        hook.remove()


def test_a_request_that_takes_too_long_is_503_and_streamed_it_says_so(running, registry, monkeypatch):
    server = running(ServerSettings(seconds=0.3))
    Counting(monkeypatch, registry.get(LM).trained.language_model)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.InternalServerError, match=r"0\.3 seconds") as refused:
            client.completions.create(model=LM, prompt="", max_tokens=4000, seed=LONG)
        assert refused.value.status_code == 503
        with pytest.raises(openai.APIError, match=r"0\.3 seconds"):
            list(client.completions.create(model=LM, prompt="", max_tokens=4000, seed=LONG, stream=True))
        wait_until(lambda: server.app.state.gate.running == 0, "the places are free")


def test_too_many_at_once_are_told_to_come_again(running, registry, monkeypatch):
    server = running(ServerSettings(running=1, queued=1))
    Counting(monkeypatch, registry.get(LM).trained.language_model)
    asked = {"model": LM, "prompt": "", "max_tokens": 4000, "seed": LONG}
    gate = server.app.state.gate
    first = post(server, asked)
    wait_until(lambda: gate.running == 1, "one runs")
    second = post(server, asked)
    wait_until(lambda: len(gate.waiting) == 1, "one waits")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client, \
            pytest.raises(openai.RateLimitError, match="try again") as refused:
        client.completions.create(**asked)
    assert int(refused.value.response.headers["retry-after"]) > 0
    first.close(), second.close()
    wait_until(lambda: gate.running == 0 and not gate.waiting, "all is free")


def test_the_failure_of_one_does_not_touch_another(running, registry, monkeypatch):
    server, model = running(), registry.get(LM).trained.language_model
    step, rare = model.step, model.vocab - 1                   # a token that the good text does not come to

    def fails(tokens, *rest):
        if rare in tokens.tolist()[0]:
            raise RuntimeError("a fault of ours")
        time.sleep(0.01)
        return step(tokens, *rest)

    monkeypatch.setattr(model, "step", fails, raising=False)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        good = client.completions.create(model=LM, prompt=[7], max_tokens=10, temperature=0, stream=True)
        next(iter(good))
        with pytest.raises(openai.InternalServerError, match="its log says why"):
            client.completions.create(model=LM, prompt=[rare], max_tokens=2)
        assert len(list(good)) > 1


# ----------------------------------------------------------------------------------------------- pieces


def test_pieces_never_split_a_character_and_stops_are_found_across_them():
    tokenizer = ByteTokenizer()
    row = CompletionRow(0, tokenizer, Prompt("", [], []), ["née"])
    taken = []
    for id in tokenizer.encode("Une journée"):
        row.push(int(id), (0.0, {}))
        taken.append(row.take()[0])
        if row.finish:
            break
    assert "".join(taken) == "Une jour" and row.finish == "stop"
    assert taken[1] == "" and taken[2] == "ne"                        # `n` might have been the beginning of it
    row = CompletionRow(0, tokenizer, Prompt("", [], []), [])
    pieces = []
    for id in tokenizer.encode("é€🙂"):
        row.push(int(id), None)
        pieces.append(row.take()[0])
    assert [piece for piece in pieces if piece] == ["é", "€", "🙂"]


def test_what_might_be_a_stop_is_held_back_and_let_go():
    tokenizer = ByteTokenizer()
    row = CompletionRow(0, tokenizer, Prompt("", [], []), ["abc"])
    taken = []
    for id in tokenizer.encode("xababd"):
        row.push(int(id), (0.0, {}))
        taken.append(row.take()[0])
    row.end("length")
    taken.append(row.take()[0])
    assert taken == ["x", "", "", "ab", "", "abd", ""]


def test_the_logs_of_a_stopped_text_are_of_what_is_shown():
    tokenizer = ByteTokenizer()
    row = CompletionRow(0, tokenizer, Prompt("", [], []), ["cd"])
    for id in tokenizer.encode("abcde"):
        if row.finish is None:
            row.push(int(id), (0.0, {}))
    text, logs = row.take()
    assert text == "ab" and logs["tokens"] == ["a", "b"] and logs["text_offset"] == [0, 1]


@pytest.mark.parametrize("text", ["", "a", "é🙂 b", "two words\n"])
def test_the_pieces_of_a_prompt_are_its_text(text):
    prompt = prompt_of(text, ByteTokenizer())
    assert "".join(prompt.pieces) == text == prompt.text and len(prompt.pieces) == len(prompt.ids)
