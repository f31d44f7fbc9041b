"""The description of every tool: of our own as data, of a host tool by its signature."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from crabpot.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.tools.tool import Schema

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer"}
_FLAG: Schema = {"type": "boolean"}
_WORD: Schema = {"type": "string", "pattern": "^[^\\u0000]*$"}


def _path(description: str) -> Schema:
    return {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]+$", "description": description}


def _said(schema: Schema, description: str, **more: Any) -> Schema:
    return {**schema, **more, "description": description}


def _list_of(**properties: Schema) -> Schema:
    return {"type": "array", "items": {"type": "object", "properties": properties}}


_PATH = _path("relative to /workspace, or absolute as seen inside")
_FOLDER = _path("the folder to look in; default: the workspace")
_ENCODING = _said(_TEXT, "utf-8 (default), or base64 for bytes", enum=["utf-8", "base64"])
_PROCESS = {
    "id": _TEXT,
    "command": _TEXT,
    "running": _FLAG,
    "exit_code": {"type": ["integer", "null"]},
}

_ALL = (
    Tool(
        name="read",
        title="Read a file",
        description="Read a file as text by lines, or as base64 by bytes.",
        properties={
            "path": _PATH,
            "offset": _said(_COUNT, "where to start: a line, from 1; a byte with base64", minimum=0),
            "limit": _said(_COUNT, "how many lines, or bytes with base64", minimum=0),
            "encoding": _ENCODING,
        },
        required=("path",),
        data={
            "content": _TEXT,
            "encoding": _TEXT,
            "size": _COUNT,
            "lines": {"type": ["integer", "null"]},
            "truncated": _FLAG,
        },
        read_only=True,
        destructive=False,
        idempotent=True,
    ),
    Tool(
        name="write",
        title="Write a file",
        description="Create or replace a file, or add to its end; missing folders are made.",
        properties={
            "path": _PATH,
            "content": _said(_TEXT, "the new content of the file"),
            "encoding": _ENCODING,
            "append": _said(_FLAG, "add to the end instead"),
        },
        required=("path", "content"),
        data={"size": _COUNT, "created": _FLAG},
    ),
    Tool(
        name="edit",
        title="Edit a file",
        description="Replace text in a file. It must occur exactly once, unless all is true.",
        properties={
            "path": _PATH,
            "old": _said(_TEXT, "the text to replace, exactly as in the file, including white space", minLength=1),
            "new": _said(_TEXT, "the replacement"),
            "all": _said(_FLAG, "replace every occurrence"),
        },
        required=("path", "old", "new"),
        data={"replacements": _COUNT},
    ),
    Tool(
        name="apply_patch",
        title="Apply a patch",
        description=(
            "Change several files at once. The patch starts with *** Begin Patch and ends with *** End Patch; between "
            "them are *** Add File: PATH, *** Update File: PATH and *** Delete File: PATH with their lines. "
            "Either all of it applies or nothing does."
        ),
        properties={"patch": _said(_TEXT, "the whole patch")},
        required=("patch",),
        data={"files": _list_of(path=_TEXT, action=_TEXT)},
    ),
    Tool(
        name="grep",
        title="Search in files",
        description="Find lines by a regular expression, in files that are neither ignored, hidden nor binary.",
        properties={
            "pattern": _said(_TEXT, "a regular expression in Python's syntax"),
            "path": _path("a file, or the folder to look in; default: the workspace"),
            "glob": _said(_TEXT, "only files whose path matches, such as *.py"),
            "context": _said(_COUNT, "lines to show before and after", minimum=0, maximum=20),
            "ignore_case": _said(_FLAG, "ignore case"),
            "limit": _said(_COUNT, "the maximum number of matches (100)", minimum=1, maximum=1000),
        },
        required=("pattern",),
        data={
            "matches": _list_of(
                path=_TEXT,
                line=_COUNT,
                text=_TEXT,
                before={"type": "array", "items": _TEXT},
                after={"type": "array", "items": _TEXT},
            ),
            "truncated": _FLAG,
        },
        read_only=True,
        destructive=False,
        idempotent=True,
    ),
    Tool(
        name="glob",
        title="Find files",
        description="Find files by a pattern such as **/*.py, the newest first.",
        properties={
            "pattern": _said(_TEXT, "* within a folder, ** across folders; a / at the end finds folders", minLength=1),
            "path": _FOLDER,
            "limit": _said(_COUNT, "the maximum number of paths (1000)", minimum=1, maximum=10_000),
        },
        required=("pattern",),
        data={"paths": {"type": "array", "items": _TEXT}, "truncated": _FLAG},
        read_only=True,
        destructive=False,
        idempotent=True,
    ),
    Tool(
        name="ls",
        title="List a folder",
        description="List the entries of a folder by name.",
        properties={"path": _FOLDER, "all": _said(_FLAG, "include hidden entries")},
        data={
            "entries": _list_of(name=_TEXT, type=_TEXT, size=_COUNT, modified={"type": "number"}),
            "truncated": _FLAG,
        },
        read_only=True,
        destructive=False,
        idempotent=True,
    ),
    Tool(
        name="exec",
        title="Run a command",
        description="Run a command in the workspace and wait for its end, or keep it running in the background.",
        properties={
            "command": {
                "description": "shell text; or a program and its arguments as a list, without a shell",
                "anyOf": [_WORD, {"type": "array", "items": _WORD, "minItems": 1}],
            },
            "cwd": _path("the folder to start in; default: the workspace"),
            "timeout": _said({"type": "number"}, "the time limit in seconds", exclusiveMinimum=0),
            "env": _said({"type": "object", "additionalProperties": _TEXT}, "environment variables to add"),
            "stdin": _said(_TEXT, "its standard input"),
            "background": _said(_FLAG, "return at once with a process for the tool `process`"),
            "detach": _said(_FLAG, "what it leaves running lives until the sandbox ends, under the tool `process`"),
            "tty": {
                "description": "give it a terminal",
                "anyOf": [
                    _FLAG,
                    {
                        "type": "object",
                        "properties": {
                            "rows": {"type": "integer", "minimum": 1, "maximum": 1000},
                            "cols": {"type": "integer", "minimum": 1, "maximum": 1000},
                        },
                        "required": ["rows", "cols"],
                    },
                ],
            },
        },
        required=("command",),
        data={"process": _TEXT},
        open_world=True,
    ),
    Tool(
        name="process",
        title="Manage a background command",
        description="List background commands, poll for new output, write to one, end it, or wait for its end.",
        properties={
            "action": _said(_TEXT, "what to do", enum=["list", "poll", "write", "kill", "wait"]),
            "id": _said(_TEXT, "which one; for every action but list"),
            "data": _said({"type": ["string", "null"]}, "for write: its input; null ends the input"),
        },
        required=("action",),
        data={"processes": _list_of(**_PROCESS), **_PROCESS},
    ),
)

BUILT_IN: dict[str, Tool] = {tool.name: tool for tool in _ALL}


def describe(name: str, function: Callable[..., Any] | None) -> Tool:
    """Describe a built-in tool, or a host tool by its signature and the first line of its docstring."""
    if name in BUILT_IN or function is None:
        return BUILT_IN[name]
    said = (inspect.getdoc(function) or f"The host tool {name}.").split("\n", 1)[0]
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        # Written in C without a signature: its arguments are unknown.
        return Tool(name=name, title=name, description=said, closed=False, open_world=True)
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return Tool(
        name=name,
        title=name,
        description=said,
        properties={one.name: _annotated(one.annotation) for one in named},
        required=tuple(one.name for one in named if one.default is one.empty),
        closed=not any(one.kind is one.VAR_KEYWORD for one in parameters),
        open_world=True,
    )


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def _annotated(annotation: Any) -> Schema:
    """Return the schema of a plain type; anything else is left to the tool itself."""
    named = {kind.__name__: word for kind, word in _TYPES.items()}
    word = named.get(annotation) if isinstance(annotation, str) else _TYPES.get(annotation)
    return {} if word is None else {"type": word}
