"""Run pieces of Python one after the other in one namespace; requests and answers are lines of JSON.

A request is {"code", "envs"}; the answers to it are outputs, results and an error, then {"type": "done"}.
"""

import ast
import asyncio
import base64
import inspect
import io
import json
import os
import sys
import threading
import time
import traceback
from typing import Any

KINDS = {
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
}
LONGEST = 8192
METHODS = {f"_repr_{name}_": name for name in KINDS.values() if name != "pdf"}

answers = os.fdopen(os.dup(1), "wb", buffering=0)
requests = os.fdopen(os.dup(0), "rb")
lock = threading.Lock()
space = {"__name__": "__main__", "__builtins__": __builtins__}


def say(kind: str, **words: Any) -> None:
    """Send one answer."""
    line = json.dumps({"type": kind, **words}).encode() + b"\n"
    with lock:
        while line:
            line = line[answers.write(line) :]


class Output(io.TextIOBase):
    """A stream of the program, which is sent on as it is written."""

    encoding = "utf-8"

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.held = ""

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def write(self, text: str) -> int:
        """Send text on."""
        self.held += text
        if "\n" in text or len(self.held) > LONGEST:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Send on what is held."""
        held, self.held = self.held, ""
        if held:
            say(self.kind, text=held, timestamp=time.time_ns())


def bundle(value: Any) -> dict[str, Any]:
    """Return the value as each kind of text or picture that it knows to be."""
    found = {}
    made = getattr(value, "_repr_mimebundle_", None)
    if made is not None and not isinstance(value, type):
        try:
            given = made()
            for kind, data in (given[0] if isinstance(given, tuple) else given).items():
                if kind in KINDS:
                    found[KINDS[kind]] = data
        except Exception:
            pass
    for method, name in METHODS.items():
        made = None if isinstance(value, type) else getattr(value, method, None)
        if made is not None and name not in found:
            try:
                data = made()
            except Exception:
                continue
            if data is not None:
                found[name] = data[0] if isinstance(data, tuple) else data
    for name, data in found.items():
        found[name] = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    figure = getattr(value, "savefig", None)
    if figure is not None and "png" not in found and not isinstance(value, type):
        found["png"] = picture(value)
    return {"text": repr(value), **found}


def picture(figure: Any) -> str:
    """Return a figure as PNG, in base64."""
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return base64.b64encode(data.getvalue()).decode()


def display(*values: Any, **_options: Any) -> None:
    """Show values in the middle of the code."""
    for value in values:
        say("result", is_main_result=False, **bundle(value))


def figures() -> None:
    """Show the figures that the code drew, and begin new ones."""
    plots = sys.modules.get("matplotlib.pyplot")
    if plots is not None:
        for number in plots.get_fignums():
            figure = plots.figure(number)
            say("result", is_main_result=False, text=repr(figure), png=picture(figure))
        plots.close("all")


def run(code: str) -> None:
    """Run code, and show the value of its last expression."""
    tree = ast.parse(code, "<cell>", "exec")
    final = tree.body[-1] if tree.body else None
    last = final.value if isinstance(final, ast.Expr) else None
    del tree.body[len(tree.body) - (last is not None) :]
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    wait(eval(compile(tree, "<cell>", "exec", flags), space))
    if last is not None:
        value = wait(eval(compile(ast.Expression(last), "<cell>", "eval", flags), space))
        if value is not None:
            space["_"] = value
            say("result", is_main_result=True, **bundle(value))
    figures()


def wait(value: Any) -> Any:
    """Return a value that the code may have to be waited for."""
    return loop.run_until_complete(value) if inspect.iscoroutine(value) else value


os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)
os.environ.setdefault("MPLBACKEND", "Agg")
sys.stdout, sys.stderr = Output("stdout"), Output("stderr")
sys.path.insert(0, "")
space["display"] = display
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
for number, line in enumerate(requests, 1):
    request = json.loads(line)
    before = dict(os.environ)
    os.environ.update(request.get("envs") or {})
    try:
        say("number_of_executions", execution_count=number)
        run(request["code"])
    except BaseException as error:
        shown = traceback.TracebackException.from_exception(error)
        # The frames above the cell are this program's own.
        shown.stack = traceback.StackSummary.from_list([one for one in shown.stack if one.filename != "<string>"])
        said = "".join(shown.format())
        say("error", name=type(error).__name__, value=str(error), traceback=said)
    finally:
        os.environ.clear()
        os.environ.update(before)
    sys.stdout.flush()
    sys.stderr.flush()
    say("done")
