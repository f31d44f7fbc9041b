"""`audit`: show the last records, or one in full; export all as JSON lines; verify the chain."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from crabpot.audit.reading import AuditReader
from crabpot.doors.cli.frame import FAILED, OK, note
from crabpot.doors.cli.show import visible
from crabpot.errors import CrabpotError
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.doors.cli.frame import Frame

# What every record of a server has, or what its line begins with.
_PLAIN = ("number", "time", "hash", "kind", "server", "event")


def audit(frame: Frame, options: Namespace) -> int:
    """Show or export records, or verify the chain."""
    if options.action == "replay":
        from crabpot.doors.cli.replay import replay  # noqa: PLC0415  the other actions need no gateway

        return replay(frame, options)
    reader = AuditReader(frame.app().around.state)
    if options.action == "verify":
        count, broken = reader.verify()
        print(f"{counted(count, 'record')}: {'the chain holds' if broken is None else broken}")
        return OK if broken is None else FAILED
    if options.action == "show":
        record = reader.one(options.number)
        if record is None:
            raise CrabpotError(f"there is no record {options.number}")
        print(json.dumps(record, indent=2))
        return OK
    session = options.session
    if options.action == "export":
        for record in reader.all(options.after):
            if session is None or record.get("session") == session:
                print(json.dumps(record, separators=(",", ":")))
        return OK
    records = reader.last(
        options.count, wanted=None if session is None else lambda record: record.get("session") == session
    )
    for record in records:
        print(json.dumps(record) if options.json else _line(record))
    if not records:
        note("the log is empty")
    return OK


def _line(record: dict[str, Any]) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(record["time"]))
    of_gateway = _of_gateway(record)
    if of_gateway is not None:
        return visible(f"{record['number']:>6} {when} {record['kind']:<6} {of_gateway}")
    if record["kind"] in ("request", "answer"):
        return visible(
            f"{record['number']:>6} {when} {record['kind']:<7} {_request_text(record)}  [{record.get('session')}]"
        )
    if record["kind"] == "connection":
        what = f"connection {record['answer']:<8} {record['destination']}: {record['because']}"
        more = f" ({_counted(record['repeated'])} more)" if "repeated" in record else ""
        return visible(f"{record['number']:>6} {when} {what}{more}  [{record['session']}]")
    if record["kind"] == "review":
        done = f"{record['action']} in {record['folder']}, by {record['by']}: {_done(record)}"
        return visible(f"{record['number']:>6} {when} review {done}  [{record['session']}]")
    if record["kind"] == "snapshot":
        what = f"{record['action']} {record.get('name') or record['to']}, by {record['by']}"
        return visible(f"{record['number']:>6} {when} snapshot {what}  [{record['session']}]")
    if record["kind"] == "port":
        at = "" if record["at"] is None else f" at 127.0.0.1:{record['at']}"
        what = f"port   {record['action']} {record['port']} inside{at}"
        return visible(f"{record['number']:>6} {when} {what}  [{record['session']}]")
    took = f"{record['duration_ms']:.1f} ms" if "duration_ms" in record else ""
    args = record.get("args", {})
    what = args.get("command") or args.get("path") or ""
    start = (
        f"{record['number']:>6} {when} {record['kind']:<6} {record.get('place', ''):<7} {_how(record):<18} {took:>10}"
    )
    where = f"[{record.get('session')}; {record.get('rule')}]"
    return visible(f"{start} {record.get('tool', '')} {what}  {where}{_warnings(record)}")


def _warnings(record: dict[str, Any]) -> str:
    return "".join(f"  ! {warning}" for warning in record.get("warnings", ()))


def _of_gateway(record: dict[str, Any]) -> str | None:
    """Return what a record says that is the gateway's own, and no session's; None for any other."""
    if record["kind"] == "open":
        weak = [clause["name"] for clause in record["clauses"] if clause["state"] != "enforced"]
        kept = f"every clause enforced but {', '.join(weak)}" if weak else "every clause enforced"
        return f"{record['sandbox']} by {record['backend']}: {kept}{_warnings(record)}"
    if record["kind"] == "verify":
        counts = ", ".join(f"{count} {state}" for state, count in record["claims"].items() if count)
        return f"{record['session']} on {record['backend']}: {counts}"
    if record["kind"] == "server":
        told = ", ".join(f"{name} {value}" for name, value in record.items() if name not in _PLAIN)
        return f"{record['server']}: {record['event']} {told}"
    if record["kind"] == "reload":
        adopted = "adopted" if record["adopted"] else f"refused: {record['because']}"
        return f"configuration {record['config'][:12]} {adopted}"
    if record["kind"] == "withheld":
        what = f"{_counted(record)} of kind {record['of']} not written one by one, {record['bytes']} bytes"
        # One that was written before principals were told apart has none.
        return f"{what}  [{record.get('principal') or 'agent ' + record['agent']}]"
    return None


def _counted(record: dict[str, Any]) -> str:
    since, until = (time.strftime("%H:%M:%S", time.localtime(record[name])) for name in ("since", "until"))
    return f"{record['count']} from {since} to {until}"


def _done(record: dict[str, Any]) -> str:
    lists = {name: told for name, told in record.get("done", {}).items() if isinstance(told, dict)}
    return ", ".join(f"{told['count']} {name}" for name, told in lists.items()) or "begins"


def _request_text(record: dict[str, Any]) -> str:
    if record["kind"] == "request":
        return f"{record['request']} asks for {record['shown']} ({record['rule']})"
    said = f"allowed, {record['grant']}" if record["allowed"] else "denied"
    why = f": {record['reason']}" if record["reason"] else ""
    return f"{record['request']} {said}, by {record['by']}{why}"


def _how(record: dict[str, Any]) -> str:
    if record["kind"] == "intent":
        return ""
    if record["kind"] == "gap":
        return f"{record['dropped']} not written"
    if record["kind"] == "retired":
        return f"1 to {record['until']} retired"
    code = record.get("exit_code")
    return str(record.get("error") or ("ok" if record.get("success") else f"exit {code}"))
