"""Says which systems the program in a wheel is for."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramHook(BuildHookInterface):  # type: ignore[type-arg]
    """A wheel with a program is for one architecture, and for every version of Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        arch = os.environ["ARCH"]
        # A static program runs with every C library.
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{arch}.manylinux2014_{arch}.musllinux_1_1_{arch}"
