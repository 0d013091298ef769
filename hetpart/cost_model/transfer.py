"""Bytes × Link → seconds."""

from __future__ import annotations

from hetpart.devices import Link, Machine


def transfer_seconds(nbytes: int, link: Link) -> float:
    """Seconds to copy ``nbytes`` over ``link``: its latency, then what the runtime's copies reach of its bandwidth."""
    return link.latency + nbytes / link.copy_bandwidth


def copy_seconds(machine: Machine, nbytes: int, source: int, target: int) -> float:
    """Seconds to copy ``nbytes`` between two devices of ``machine``, by index.

    The copy goes through the host where no link joins the two. One from a device to itself takes no time.
    """
    if source == target:
        return 0.0
    names = machine.devices[source].name, machine.devices[target].name
    for link in machine.links:
        if (link.source, link.target) == names:
            return transfer_seconds(nbytes, link)
    up = machine.link(names[0], machine.host.name)
    down = machine.link(machine.host.name, names[1])
    return transfer_seconds(nbytes, up) + transfer_seconds(nbytes, down)
