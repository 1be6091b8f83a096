"""What became of decisions, as people read it (floor 4)."""

from __future__ import annotations

from typing import Any

from fleetfold.cli.output import coloured, console, count, escaped, print_table

WORDS = {
    "done": ("[green]done[/]", "[green]would be done[/]"),
    "no_change": ("[dim]no change[/]", "[dim]no change[/]"),
    "skipped": ("[yellow]skipped[/]", "[yellow]would be skipped[/]"),
    "refused": ("[bold red]refused[/]", "[bold red]would be refused[/]"),
    "failed": ("[bold red]failed[/]", "[bold red]failed[/]"),
}


def is_done(answer: dict[str, Any]) -> bool:
    """Say whether every node is as it was wished."""
    return not {"skipped", "refused", "failed"}.intersection(answer["counts"])


def print_answer(answer: dict[str, Any]) -> None:
    """Print what became, or would become, of each node."""
    is_dry_run = answer["dry_run"]
    print_table(
        ("node", "outcome", "state", "why", "held by"),
        (
            (
                escaped(item["id"]),
                WORDS[item["outcome"]][is_dry_run],
                _states(item),
                _why(item),
                escaped(", ".join(f"{hold['kind']} by {hold['owner']}" for hold in item["holds"])),
            )
            for item in answer["items"]
        ),
        caption=_counted(answer) + (": a dry run, nothing was done" if is_dry_run else ""),
    )


def print_node_labels(node: dict[str, Any]) -> None:
    """Print a node's labels after a declaration, and what follows from it."""
    out = console()
    change = node["change"]
    labels = ", ".join(f"{key}={value}" for key, value in sorted(node["labels"].items()))
    out.print(f"[bold]{escaped(node['id'])}[/]  {escaped(change['says'])}")
    out.print(f"  {'labels':<13}{escaped(labels)}")
    for sentence in change["follows"]:
        out.print(f"  {escaped(sentence)}")


def _states(item: dict[str, Any]) -> str:
    before, after = item["before"], item["after"]
    if before is None or after is None:
        return escaped(None)
    if before["state"] == after["state"]:
        return coloured(after["state"])
    return f"{coloured(before['state'])} → {coloured(after['state'])}"


def _why(item: dict[str, Any]) -> str:
    said = [item["says"], *([item["instead"]] if item["instead"] else []), *item["follows"]]
    return escaped("; ".join(said))


def _counted(answer: dict[str, Any]) -> str:
    told = ", ".join(
        f"{number:,} {outcome.replace('_', ' ')}" for outcome, number in sorted(answer["counts"].items())
    )
    return count(len(answer["items"]), "node") + (f": {told}" if told else "")
