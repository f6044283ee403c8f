"""`tpuc generate`: write text with a compiled language model on the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from tpuc_driver.api.command import COUNT, FILE, NUMBER, POSITIVE, App, Command, check_inputs, open_session, pass_app


@click.command(
    "generate",
    cls=Command,
    section="Run and measure",
    examples=('tpuc generate FILE --prompt "Once upon a time" --tokenizer model/',),
)
@click.argument("file", type=FILE)
@click.option(
    "--prompt",
    "prompts",
    required=True,
    multiple=True,
    metavar="TEXT",
    help="The text to continue; several for a file compiled with --batch.",
)
@click.option("--tokenizer", type=FILE, metavar="DIR", help="The model's folder; by default `config` beside the file.")
@click.option("--chat", is_flag=True, help="Put the prompt into the model's chat template.")
@click.option("--max-tokens", type=POSITIVE, default=64, show_default=True, help="Maximum number of tokens.")
@click.option("--temperature", type=NUMBER, default=0.0, show_default=True, help="0 takes the likeliest token.")
@click.option("--top-k", type=COUNT, default=0, show_default=True, help="Draw from this many likeliest tokens; 0: all.")
@click.option("--top-p", type=NUMBER, default=1.0, show_default=True, help="Draw from this share of likelihood.")
@click.option(
    "--repetition-penalty",
    type=NUMBER,
    default=1.0,
    show_default=True,
    help="Divide logits of the tokens so far by this; multiply negative ones.",
)
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Start of the random numbers.")
@pass_app
def command(
    app: App, file: Path, prompts: tuple[str, ...], tokenizer: Path | None, max_tokens: int, seed: int, **chosen: Any
) -> None:
    """Write text with a compiled language model, on the simulator of its chip.

    Text appears token by token, that of further prompts when all are complete; then come the tokens per second that the
    chip is predicted to reach.
    """
    from tpuc_llm.choosing import Sampling
    from tpuc_llm.generation import generate, opened_decoder
    from tpuc_llm.text import Tokenizer

    check_inputs(file, tokenizer)
    words = Tokenizer.open(tokenizer or file.parent / "config")
    session = open_session(app)
    opened, decoder = session.opened(file), opened_decoder(session, file)
    ids = [words.chat(prompt) if chosen["chat"] else words.encode(prompt) for prompt in prompts]
    sampling = Sampling(chosen["temperature"], chosen["top_k"], chosen["top_p"], chosen["repetition_penalty"])
    written = generate(decoder, ids, max_tokens, words.ends, sampling, seed)
    shown = words.decode(ids[0])
    app.stream(visible_text(shown))
    for number, token in written:
        ids[number].append(token)
        text = words.decode(ids[0])
        if not text.endswith("\ufffd"):  # half of a character; the next token completes it
            app.stream(visible_text(text[len(shown) :]))
            shown = text
    app.result("")
    for others in ids[1:]:
        app.result(visible_text(words.decode(others)))
    cycles = decoder.cycles(opened.chip.profiles)
    if cycles is not None:
        clock = opened.chip.description.clock_hz
        first, following = (
            count * share / clock for count, share in zip(cycles, (len(ids), 1 / len(ids)), strict=True)
        )
        app.result(
            f"predicted on {opened.chip.description.name}: first token after {first * 1000:.1f} ms, then "
            f"{1 / following:,.1f} tokens per second"
        )


def visible_text(text: str) -> str:
    """Return text without control characters, lines kept: what a network writes must not drive the terminal."""
    return "".join(one for one in text if one in "\n\t" or one.isprintable())
