"""`creditscope inspect`: prints the blocks, states and read rule that an audit of a model would use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from creditscope.commands import Plugins, command, parsing, say
from creditscope.errors import InvalidInput

if TYPE_CHECKING:
    from torch import nn

    from creditscope.stream.states import Stream

SAMPLES = 2
READS = {
    "first": "first token (the one that the head reads)",
    "mean": "mean over tokens (the head reads several tokens)",
    "all": "every position (each has its own logits)",
    "auto": "the whole state; mean over positions for a convolutional state",
}


@command("inspect")
def inspect(
    model: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="Function that returns the network.")],
    input: Annotated[
        str | None,
        typer.Option(
            metavar="SHAPE", help="Shape of one sample, such as 3x224x224; default: the input size the model declares."
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=2**31, help="Inputs are token numbers below N, not images.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the function. Repeatable.")
    ] = None,
    blocks: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Path of a block list, or module names separated by commas."),
    ] = None,
    read: Annotated[str, typer.Option(metavar="RULE", help="auto, first, mean, all or a token index.")] = "auto",
    plugin: Plugins = None,
) -> int:
    """Show the stream that an audit would use: the blocks, the shapes of the states, and the read rule.

    Example: `creditscope inspect timm:create_model --option model_name=vit_tiny_patch16_224 --input 3x224x224`
    """
    settings, shape = parsing.pairs(option, "--option", "depth=12"), _shape(input)
    import torch

    from creditscope.auditing.traces import as_input_error
    from creditscope.batch import Batch
    from creditscope.commands.material import model_from
    from creditscope.stream.find import find_stream
    from creditscope.stream.isolation import undisturbed

    network = model_from(model, settings)
    stream = find_stream(network, parsing.blocks(blocks), parsing.read(read))
    inputs = _inputs(stream.model, shape, tokens)
    with undisturbed(stream.model), as_input_error(stream.model, Batch(inputs, torch.zeros(SAMPLES))):
        stream.settle(inputs)
        say(drawn(stream, inputs, model))
    return 0


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise InvalidInput(
            f"--input {text} is not a shape.\nThe model could not be run. Pass one sample's shape, such as 3x224x224."
        )
    return shape


def _inputs(model: nn.Module, shape: tuple[int, ...] | None, tokens: int | None) -> Any:
    """Two random samples of that shape; without one, the inputs that the model declares."""
    import torch

    generator = torch.Generator().manual_seed(0)
    own: Any = getattr(model, "dummy_inputs", None)
    if shape is None and isinstance(own, dict):
        return dict(own)
    configured: Any = getattr(model, "default_cfg", None) or {}
    shape = shape or tuple(configured.get("input_size", ()))
    if not shape:
        raise InvalidInput(
            f"Cannot infer the input shape of {type(model).__name__}.\n"
            "The model must run once to find its blocks. Pass the shape of one sample: --input 3x224x224, or for token "
            "numbers --input 16 --tokens 30000."
        )
    if tokens is not None:
        return torch.randint(0, tokens, (SAMPLES, *shape), generator=generator)
    return torch.randn(SAMPLES, *shape, generator=generator)


def drawn(stream: Stream, inputs: Any, path: str) -> str:
    """The tree of a stream: blocks, the shape of every state, the read rule, and how to choose others."""
    import torch

    from creditscope.stream.find import OTHER_STREAMS

    with torch.no_grad():
        forward = stream.run(inputs)
    names = {id(module): name for name, module in stream.model.named_modules()}
    blocks = stream.blocks
    kinds = " or ".join(dict.fromkeys(type(block).__name__ for block in blocks))
    count = "1 block" if len(blocks) == 1 else f"{len(blocks)} blocks"
    lines = [f"{type(stream.model).__name__}: a stream of {count} ({kinds})"]
    for layer, state in enumerate(forward.hiddens):
        lines.append(f"├─ h_{layer:<3} {_sizes(state)}")
        if layer < len(blocks):
            lines.append(f"│     {names[id(blocks[layer])]}  {type(blocks[layer]).__name__}")
    lines += [
        f"└─ logits {_sizes(forward.logits)}",
        "",
        f"State vector: {_reading(stream)}",
        *(f"Other streams: {guard.text}" for name, guard in stream.checks().items() if name == OTHER_STREAMS),
        *_other_ways(stream, path),
    ]
    return "\n".join(lines)


def _sizes(tensor: Any) -> str:
    return f"({', '.join(['N', *map(str, tensor.shape[1:])])})"


def _reading(stream: Stream) -> str:
    rule = stream.rule
    return READS[rule] if isinstance(rule, str) else f"token {rule}"


def _other_ways(stream: Stream, path: str) -> list[str]:
    from creditscope.stream.states import block_lists

    return [
        "",
        "To use other blocks or another vector, here and in the audit:",
        f"  creditscope inspect {path} --blocks PATH   a block list, or module names separated by commas",
        f"  creditscope inspect {path} --read RULE     first, mean, all or a token index",
        block_lists(stream.model),
    ]
