"""Whether this machine has what a plan needs, asked before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.devices import HOST, Provider
from hetpart.errors import DeviceUnavailableError
from hetpart.runtime.cuda import cuda_answers
from hetpart.runtime.providers import (
    ProviderChoice,
    ProviderOption,
    parse_providers,
    require_cuda_graphs,
    require_providers,
)
from hetpart.runtime.sessions import require_runtime

if TYPE_CHECKING:
    from hetpart.plan.model import Plan


def checked_providers(plan: Plan, given: ProviderOption, *, emulate: bool) -> dict[str, ProviderChoice]:
    """The providers that the user asks for, by device.

    Raises:
        InvalidOptionError: the option cannot be understood, or names a device that the plan has not.
        DeviceUnavailableError: this ONNX Runtime lacks one.
    """
    chosen = parse_providers(given)
    if chosen:
        require_providers(plan, chosen, require_runtime().get_available_providers(), emulate=emulate)
    return chosen


def require_devices(plan: Plan, *, emulate: bool, cuda_graph: bool = False, every: bool = False) -> None:
    """Every accelerator that the plan uses answers here; of those that it could use too where ``every`` is set.

    Raises:
        DeviceUnavailableError: one does not.
    """
    if cuda_graph:
        require_cuda_graphs(plan, emulate=emulate)
    host = plan.devices[HOST].device
    needed = [name for name in ([use.device for use in plan.devices] if every else plan.used_devices) if name != host]
    if not needed or emulate:
        return
    use = plan.device(needed[0])
    if use.provider == Provider.CPU:
        raise DeviceUnavailableError(
            f"the plan was made for {use.device} of the machine {plan.machine.name!r}, which is emulated",
            hint="run with --emulate (emulate=True)",
        )
    if use.provider not in require_runtime().get_available_providers():
        raise DeviceUnavailableError(
            f"the plan needs {', '.join(needed)}, and this ONNX Runtime has no {use.provider}",
            hint="install hetpart[gpu] where there is a GPU, or run with --emulate (emulate=True)",
        )
    for name in needed:
        if not cuda_answers(int(name.partition(":")[2] or 0)):
            raise DeviceUnavailableError(
                f"the plan needs {name} ({plan.device(name).model}), and no such CUDA device answers on this machine",
                hint="run where there is one, run with --emulate (emulate=True), or partition again with --budget 0",
            )
