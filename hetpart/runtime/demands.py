"""Whether this machine has what a plan needs, asked before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.devices import HOST, Provider
from hetpart.errors import DeviceUnavailableError
from hetpart.runtime.sessions import cuda_answers, require_runtime

if TYPE_CHECKING:
    from hetpart.plan.model import Plan


def require_devices(plan: Plan, *, emulate: bool) -> None:
    """Every accelerator of the plan answers here.

    Raises:
        DeviceUnavailableError: one does not.
    """
    host = plan.devices[HOST].device
    needed = [name for name in plan.used_devices if name != host]
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
