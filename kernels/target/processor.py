"""The processor that kernels are compiled for."""

import llvmlite.binding as ll
from numba.core import codegen, config


def processor():
    """Name and features of the processor to compile for; NUMBA_CPU_NAME and NUMBA_CPU_FEATURES overrule the host's."""
    name = config.CPU_NAME or ll.get_host_cpu_name()
    features = config.CPU_FEATURES if config.CPU_FEATURES is not None else codegen.get_host_cpu_features()
    if "+avx512f" in features.split(",") and "prefer-256-bit" not in features:
        features += (
            ",-prefer-256-bit"  # LLVM tunes server processors to half their vector width; kernels gain from all of it
        )
    return name, features
