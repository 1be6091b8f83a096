"""Commands of operators: cordon … restore, maintenance, label (floor 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from events.ids import node_id
from fleetfold.cli.client import Api, node_path
from fleetfold.cli.decision_view import is_done, print_answer, print_node_labels
from fleetfold.cli.decision_words import ALL, changes_of, end_of, selector_of
from fleetfold.cli.output import print_json

REFUSED = 1
AT_ONCE = 1_000
# What the API takes of nodes that are named one by one.
NO_REASON = "(no reason given)"
"""What is kept where somebody at a terminal says none."""

Nodes = Annotated[list[str] | None, typer.Argument(help="The ids of the nodes.", metavar="NODE...")]
Selector = Annotated[
    list[str] | None,
    typer.Option(
        "--selector",
        "-l",
        help="The nodes that fit: zone, pool, region, state, liveness, intent, dialect, name, label or match "
        "(a pattern of ids), as NAME=VALUE; may be repeated. `all` means every node.",
        metavar="NAME=VALUE",
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", "-r", help="Why; it is shown with the node.")]
Owner = Annotated[str | None, typer.Option("--owner", help="Whose hold it is; default: operator.")]
Until = Annotated[
    str | None,
    typer.Option("--until", help="When the hold ends by itself: 30m, 2h, 7d or a time.", metavar="WHEN"),
]
Sticky = Annotated[bool, typer.Option("--sticky", help="The hold outlives a replacement of the machine.")]
Force = Annotated[bool, typer.Option("--force", help="End every owner's hold, and not only one's.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a selection is acted on.")]
Actor = Annotated[str | None, typer.Option("--actor", help="Who decides; default: your login name.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Server = Annotated[
    str | None,
    typer.Option("--server", help="Address of the API; default: where the settings say.", metavar="URL"),
]

HOLDS = {
    "cordon": ("cordon", "Keep new work away from nodes."),
    "drain": ("drain", "Keep new work away from nodes, and have their work move away."),
    "enter": ("enter_maintenance", "Take nodes into maintenance: silence is expected."),
}
RELEASES = {
    "uncordon": ("uncordon", "End a cordon. What other owners hold stays."),
    "undrain": ("undrain", "End a drain. What other owners hold stays."),
    "leave": ("leave_maintenance", "Take nodes out of maintenance. What other owners hold stays."),
}


def add_to(app: typer.Typer) -> None:
    """Give the program these commands."""
    maintenance = typer.Typer(
        no_args_is_help=True,
        help="Take nodes into maintenance, and out of it.\n\n**Examples:**\n\n"
        "- `fleetfold maintenance enter edge-17 --reason firmware --until 2h`\n"
        "- `fleetfold maintenance leave edge-17`",
    )
    for name, (action, says) in HOLDS.items():
        (maintenance if name == "enter" else app).command(name)(_holding(name, action, says))
    for name, (action, says) in RELEASES.items():
        (maintenance if name == "leave" else app).command(name)(_releasing(name, action, says))
    app.add_typer(maintenance, name="maintenance")
    for command in (retire, restore, label):
        app.command()(command)


def retire(
    *,
    nodes: Nodes = None,
    selector: Selector = None,
    reason: Reason = None,
    force: Annotated[bool, typer.Option("--force", help="Also where workloads are allocated.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    actor: Actor = None,
    is_json: Json = False,
    server: Server = None,
) -> None:
    """Take nodes out of the fleet for good; each is kept as a tombstone with its history.

    **Examples:**

    - `fleetfold retire edge-17 --reason "returned to the vendor"`
    - `fleetfold retire --selector zone=eu-1a --selector state=lost --dry-run`
    """
    said = {"action": "retire", "reason": reason or NO_REASON, "force": force}
    _decide(nodes, selector, said, dry_run=dry_run, yes=yes, actor=actor, is_json=is_json, server=server)


def restore(
    *,
    nodes: Nodes = None,
    selector: Selector = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    actor: Actor = None,
    is_json: Json = False,
    server: Server = None,
) -> None:
    """Take a retirement back. The holds that a node had stand again.

    **Examples:**

    - `fleetfold restore edge-17`
    """
    said = {"action": "restore", "reason": reason or ""}
    _decide(nodes, selector, said, dry_run=dry_run, yes=yes, actor=actor, is_json=is_json, server=server)


def label(
    *,
    node: Annotated[str, typer.Argument(help="The id of the node.")],
    changes: Annotated[
        list[str],
        typer.Argument(help="KEY=VALUE declares a label, KEY- takes one away.", metavar="CHANGE..."),
    ],
    reason: Reason = None,
    actor: Actor = None,
    is_json: Json = False,
    server: Server = None,
) -> None:
    """Declare labels of a node, over what its agent reports.

    **Examples:**

    - `fleetfold label edge-17 tier=gold rack=7`
    - `fleetfold label edge-17 tier-`
    """
    said = {"labels": changes_of(changes), "reason": reason or "", "actor": actor or _login()}
    with Api(server) as api:
        answer = api.patch(node_path(node), said)
    if is_json:
        print_json(answer)
    else:
        print_node_labels(answer)


def _holding(name: str, action: str, says: str) -> Callable[..., None]:
    def command(
        *,
        nodes: Nodes = None,
        selector: Selector = None,
        reason: Reason = None,
        owner: Owner = None,
        until: Until = None,
        sticky: Sticky = False,
        dry_run: DryRun = False,
        yes: Yes = False,
        actor: Actor = None,
        is_json: Json = False,
        server: Server = None,
    ) -> None:
        end = None if until is None else end_of(until)
        said = {"action": action, "reason": reason or NO_REASON, "until": end, "sticky": sticky}
        said |= {"owner": owner} if owner else {}
        _decide(nodes, selector, said, dry_run=dry_run, yes=yes, actor=actor, is_json=is_json, server=server)

    spelled = _spelled(name)
    command.__doc__ = (
        f"{says}\n\n**Examples:**\n\n"
        f'- `fleetfold {spelled} edge-17 --reason "disk 3 fails" --until 2h`\n'
        f"- `fleetfold {spelled} --selector zone=eu-1a --selector label=tier=gold --dry-run`\n"
        f"- `fleetfold {spelled} --selector 'match=cn12[1-5]' --owner hw-team --yes`"
    )
    return command


def _releasing(name: str, action: str, says: str) -> Callable[..., None]:
    def command(
        *,
        nodes: Nodes = None,
        selector: Selector = None,
        reason: Reason = None,
        owner: Owner = None,
        force: Force = False,
        dry_run: DryRun = False,
        yes: Yes = False,
        actor: Actor = None,
        is_json: Json = False,
        server: Server = None,
    ) -> None:
        said: dict[str, Any] = {"action": action, "reason": reason or "", "force": force}
        said |= {"owner": owner} if owner else {}
        _decide(nodes, selector, said, dry_run=dry_run, yes=yes, actor=actor, is_json=is_json, server=server)

    spelled = _spelled(name)
    command.__doc__ = (
        f"{says}\n\n**Examples:**\n\n"
        f"- `fleetfold {spelled} edge-17`\n"
        f"- `fleetfold {spelled} --selector 'match=cn12[1-5]' --dry-run`\n"
        f"- `fleetfold {spelled} edge-17 --owner hw-team`"
    )
    return command


def _spelled(name: str) -> str:
    return f"maintenance {name}" if name in ("enter", "leave") else name


def _decide(
    nodes: list[str] | None,
    selector: list[str] | None,
    said: dict[str, Any],
    *,
    dry_run: bool,
    yes: bool,
    actor: str | None,
    is_json: bool,
    server: str | None,
) -> None:
    """Act on the nodes, print what became of each, and end with 1 where not all was done."""
    if not nodes and not selector:
        raise typer.BadParameter("name nodes, or select some with --selector", param_hint="NODE...")
    selected = selector_of(selector or ())
    nodes = [node_id(node) for node in nodes or ()]
    asked = {**said, "actor": actor or _login()}
    with Api(server) as api:
        if selected and not dry_run and not yes:
            would = _ask(api, nodes, selected, {**asked, "dry_run": True})
            _confirm(would, is_json=is_json)
            # What was shown is meant: neither a node that fits only since then, nor one that fits no more.
            nodes = [node_id(item["id"]) for item in would["items"]]
            selected.pop(ALL, None)
        answer = _ask(api, nodes, selected, {**asked, "dry_run": dry_run})
    if is_json:
        print_json(answer)
    else:
        print_answer(answer)
    if not is_done(answer):
        raise typer.Exit(REFUSED)


def _ask(api: Api, nodes: Sequence[str], selected: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Return one answer about all nodes; many that are named one by one are asked for in turn."""
    if not nodes:
        return api.post("/actions", {**said, "selector": selected})
    parts = [nodes[at : at + AT_ONCE] for at in range(0, len(nodes), AT_ONCE)]
    answers = [api.post("/actions", {**said, "selector": {**selected, "ids": ids}}) for ids in parts]
    whole = answers[-1]
    for before in answers[:-1]:
        for outcome, count in before["counts"].items():
            whole["counts"][outcome] = whole["counts"].get(outcome, 0) + count
    whole["items"] = [item for answer in answers for item in answer["items"]]
    return whole


def _confirm(would: dict[str, Any], *, is_json: bool) -> None:
    """Show what would happen and ask; where nobody can answer, that is wrong usage."""
    import sys  # noqa: PLC0415 - a name for one question

    if is_json or sys.stdin is None or not sys.stdin.isatty():
        raise typer.BadParameter("a selection is acted on with --yes, or looked at with --dry-run")
    print_answer(would)
    if not would["items"]:
        raise typer.Exit
    typer.confirm("Do it?", abort=True)


def _login() -> str:
    import getpass  # noqa: PLC0415 - reads the password database

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"
