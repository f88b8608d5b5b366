"""The command line: parsing, printing, errors and exit codes.

0 pass, 1 fail, 3 inconclusive; 2 invalid input, 70 a crash of creditscope, 74 a disk or an output that is full or
broken, 75 memory or processes ran out, 130 Ctrl-C.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import traceback
from collections.abc import Sequence
from functools import wraps
from typing import Annotated, Any

import typer
from typer.main import get_command

from creditscope import __version__
from creditscope.commands import Command, Plugins, commands, groups, say
from creditscope.errors import BAD_INPUT, CreditscopeError
from creditscope.machine import machine_error
from creditscope.registry import did_you_mean
from creditscope.terminal import clamp_width, complain, discard_output, flush, open_streams

CRASH, INTERRUPTED = 70, 130
COLLECTED = (50_000, 20, 20)  # rare searches for cycles, which took up to a quarter of a report of 10,000 runs
UNUSABLE = (errno.ENAMETOOLONG, errno.ELOOP)  # a path that no file system would take
FORBIDDEN = (errno.EACCES, errno.EPERM)  # a path that this user may not use
# typer carries a click of its own in some versions: its base of all usage errors, whichever click that is
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"creditscope {__version__}")
        raise typer.Exit


def _start(
    plugin: Plugins = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Audit networks trained without backprop: check what their accuracy and alignment really show.

    Exit codes: 0 pass, 1 fail, 3 inconclusive, 2 invalid input, 70 crash of creditscope, 74 disk or output full,
    75 out of memory, 130 Ctrl-C.
    """
    from creditscope.plugins import load_installed_plugins

    load_installed_plugins()


def application() -> typer.Typer:
    """The program with every command of the folder `commands`; "study run" is the command `run` of a group `study`."""
    app = typer.Typer(
        name="creditscope",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_start)
    programs = {"": app}
    for name, function in commands.items():
        group, _, action = name.rpartition(" ")
        if group not in programs:
            programs[group] = typer.Typer(no_args_is_help=True, help=groups[group])
            app.add_typer(programs[group], name=group)
        programs[group].command(action, no_args_is_help=False)(_interruptible(function))
    return app


def _interruptible(function: Command) -> Command:
    """The command with a message on Ctrl-C, which typer would not print."""

    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> int:
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt as error:
            return _interrupted(str(error))

    return command


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    clamp_width()
    try:
        code = get_command(application()).main(
            args=None if arguments is None else list(arguments), prog_name="creditscope", standalone_mode=False
        )
        flush()
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort) as error:
        return _interrupted(str(error))
    except CreditscopeError as error:
        complain(f"Error: {error}")
        return (machine_error(error) or error).exit_code
    except USAGE_ERROR as error:
        _show_usage(error)
        return BAD_INPUT
    except Exception as error:  # noqa: BLE001  any other error is a fault of the machine or of creditscope
        return _failed(error)
    except BaseException as error:  # noqa: BLE001  click returns its own exits, so this one is a user's
        return _ended(error)


def _ended(error: BaseException) -> int:
    """The exit code where a user's code ended the program: that must not pass for a verdict."""
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    if isinstance(error.__context__, BrokenPipeError) and last.f_globals.get("__name__") == "rich.console":
        discard_output()  # help through `| head`: rich ends the program
        return 0
    by = f"sys.exit({error.code!r})" if isinstance(error, SystemExit) else type(error).__name__
    complain(traceback.format_exc())
    complain(
        f"Error: a module or function that this command called ended the program with {by}.\n"
        'No verdict was reached. Remove the call, or guard it with `if __name__ == "__main__":`.'
    )
    return BAD_INPUT


def _failed(error: Exception) -> int:
    """The exit code of an error that nobody expected: the machine lacked something, or creditscope has a bug."""
    lacking = machine_error(error)
    if lacking is not None:
        discard_output()  # it may be what is full
        complain(f"Error: {lacking}")
        return lacking.exit_code
    if isinstance(error, OSError) and error.errno in UNUSABLE:
        complain(
            f"Error: {str(error.filename)[:80]!r} cannot be a path: {os.strerror(error.errno or 0)}.\n"
            "Nothing can be read or written there. Give another name."
        )
        return BAD_INPUT
    if isinstance(error, OSError) and error.errno in FORBIDDEN and error.filename is not None:
        complain(
            f"Error: {str(error.filename)[:200]!r} cannot be read or written: {os.strerror(error.errno or 0)}.\n"
            "The command cannot go on without it. Check its permissions and those of its folder, or give another path."
        )
        return BAD_INPUT
    complain(traceback.format_exc())
    complain(
        f"creditscope {__version__} crashed. This is a bug in creditscope, not an error in your input.\n"
        "Please report it: the command, the text above, and the output of `creditscope --version`."
    )
    return CRASH


def _show_usage(error: Any) -> None:
    """An error of click: an option that does not exist in our words, any other one in click's."""
    if not hasattr(error, "possibilities") or error.ctx is None:
        text = io.StringIO()
        error.show(text)
        complain(text.getvalue().rstrip("\n"))
        return
    known = [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("--")]
    hint = did_you_mean(error.option_name, known)
    path = error.ctx.command_path
    complain(f"Error: {path} has no option {error.option_name}.{hint}\n`{path} --help` lists all options.")


def main() -> None:
    """The entry point of the program `creditscope`."""
    gc.set_threshold(*COLLECTED)
    open_streams()
    sys.exit(run())


def _interrupted(message: str) -> int:
    complain(message or "Interrupted. Nothing was left half-written.")
    return INTERRUPTED
