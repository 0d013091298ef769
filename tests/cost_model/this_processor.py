"""What runs a session on this machine's processor."""

from __future__ import annotations

from hetpart.cost_model.detect import this_processor
from hetpart.cost_model.session.lane import Lane
from hetpart.cost_model.session.layout import Blocks
from hetpart.devices import Provider


def own_lane(*, thrifty: bool = False, threads: int = 1) -> Lane:
    """Threads of it; some kernels take room for each."""
    return Lane(Provider.CPU, threads, thrifty=thrifty, blocks=Blocks(this_processor().channel_block))
