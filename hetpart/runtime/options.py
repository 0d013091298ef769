# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""What a caller's ``onnxruntime.SessionOptions`` say, carried over to the sessions of a plan's partitions.

Every partition needs options of its own, and ONNX Runtime cannot copy any: so what can be read is.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from hetpart.errors import InvalidBundleError, InvalidOptionError
from hetpart.graph.provenance import EXACT
from hetpart.plan.cut_models import EMPTY

if TYPE_CHECKING:
    import onnxruntime

    from hetpart.plan.model import Plan

_FIELDS = (
    "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "enable_profiling", "execution_mode",
    "execution_order", "graph_optimization_level", "inter_op_num_threads", "log_verbosity_level", "logid",
    "use_deterministic_compute", "use_per_session_threads",
)  # fmt: skip
_FILES = ("profile_file_prefix", "optimized_model_filepath")
"""Every partition writes one of its own."""
_ENTRIES = (
    "mlas.use_lut_gemm", "optimization.constant_folding_max_output_size_in_bytes",
    "optimization.disable_specified_optimizers", "optimization.enable_cast_chain_elimination",
    "optimization.enable_gelu_approximation", "session.debug_layout_transformation",
    "session.disable_aot_function_inlining", "session.disable_double_qdq_remover", "session.disable_prepacking",
    "session.disable_qdq_constant_folding", "session.disable_quant_qdq", "session.dynamic_block_base",
    "session.enable_dq_matmulnbits_fusion", "session.enable_quant_qdq_cleanup", "session.force_spinning_stop",
    "session.graph_optimizations_loop_level", "session.inter_op.allow_spinning", "session.intra_op.allow_spinning",
    "session.intra_op.spin_backoff_max", "session.intra_op.spin_duration_us", "session.intra_op_thread_affinities",
    "session.qdq_matmulnbits_accuracy_level", "session.qdq_matmulnbits_block_size",
    "session.record_ep_graph_assignment_info", "session.set_denormal_as_zero", "session.strict_shape_type_inference",
    "session.use_device_allocator_for_initializers", "session.use_env_allocators",
)  # fmt: skip
"""Configuration entries that mean the same in a session of a part. They can be asked for by name alone."""
_LEFT_OUT = "optimization.disable_specified_optimizers"
_ROUNDING = (
    "LayerNormFusionL1", "LayerNormFusionL2", "MatMulScaleFusion", "QuickGeluFusion", "SimplifiedLayerNormFusion",
)  # fmt: skip
"""ONNX Runtime's names of what makes scales and epsilons attributes, which are float32."""
_SPOILING = {EXACT: _ROUNDING, EMPTY: ("MatMulAddFusion",)}
"""Optimisations by the mark of the nodes that they spoil. That fusion reshapes by sizes, of which 0 means another."""


def require_options(
    given: onnxruntime.SessionOptions | None, providers: object = None, provider_options: object = None
) -> None:
    """Options are such, and neither they nor arguments name a provider: the plan does.

    Raises:
        InvalidOptionError: they do, or the options are none, or ask for profiles in a folder that is none.
    """
    if given is not None and not hasattr(given, "has_providers"):
        raise InvalidOptionError(
            f"sess_options is a {type(given).__name__}",
            hint="give onnxruntime.SessionOptions, or options by their names",
        )
    if given is not None:
        _require_folder(given)
    if given is not None and given.has_providers():
        raise InvalidOptionError(
            "the session options name execution providers, and the plan says where every op runs",
            hint="leave them out; `hetpart partition` decides on devices",
        )
    for option, value in (("providers", providers), ("provider_options", provider_options)):
        if value is not None:
            raise InvalidOptionError(
                f"{option}={value!r} was given, and the plan says where every op runs",
                hint="leave it out, or write provider='cuda:0=NAME,option=value' for another provider of that device",
            )


def _require_folder(given: onnxruntime.SessionOptions) -> None:
    """ONNX Runtime writes no profile, and says nothing, where the folder is none."""
    folder = Path(given.profile_file_prefix).parent
    if given.enable_profiling and not folder.is_dir():
        raise InvalidOptionError(
            f"profiles are to be written to {str(folder)!r}, which is no folder",
            hint="make it, or give another profile_file_prefix",
        )


def carry(given: onnxruntime.SessionOptions, options: onnxruntime.SessionOptions, part: str) -> None:
    """Say in ``options`` what ``given`` says; files get the name of ``part`` in theirs."""
    for name in _FIELDS:
        setattr(options, name, getattr(given, name))
    if given.log_severity_level >= 0:
        options.log_severity_level = given.log_severity_level
    for name in _FILES:
        setattr(options, name, _named(getattr(given, name), part))
    for key in _ENTRIES:
        value = entry(given, key)
        if value is not None:
            options.add_session_config_entry(key, value)


def _named(path: str, part: str) -> str:
    stem, dot, suffix = path.rpartition(".")
    if not path or "/" in suffix or not dot:
        return f"{path}{part}_" if path else path
    return f"{stem}.{part}.{suffix}"


def leave_out(options: onnxruntime.SessionOptions, model: bytes | str) -> None:
    """Leave out the optimisations after which ``model`` would compute something else, or nothing."""
    found = [names for mark, names in _SPOILING.items() if isinstance(model, bytes) and mark.encode() in model]
    if found:
        others = entry(options, _LEFT_OUT)
        options.add_session_config_entry(_LEFT_OUT, ";".join([*([others] if others else []), *chain(*found)]))


def entry(given: onnxruntime.SessionOptions, key: str) -> str | None:
    """A configuration entry; ``None`` for one that was never made."""
    try:
        return given.get_session_config_entry(key)
    except RuntimeError:
        return None


def asked_threads(plan: Plan, given: onnxruntime.SessionOptions | None) -> int:
    """Threads of every session: those of ``given``, else the plan's.

    Raises:
        InvalidBundleError: the plan's are no number.
    """
    if given is not None and given.intra_op_num_threads:
        return given.intra_op_num_threads
    text = plan.options.get("threads", "0")
    if not text.isdecimal():
        raise InvalidBundleError(
            f"the plan asks for {text!r} threads, which is not a number", hint="give threads= yourself, or --threads"
        )
    return int(text)
