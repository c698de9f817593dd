"""Machines: GPUs and the links between them, as their makers state them.

Speeds are of one direction, since an all-reduce sends and receives at the same time: half of what a data sheet adds up.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from regard.errors import SettingError, did_you_mean

MOST_GPUS = 2**16
IN_ONE_MACHINE = 8                     # GPUs, in the usual servers
GIGABIT = 1e9 / 8                      # bytes
# Bytes a second of 16 lanes: 16 or 32 GT/s each, of which 128 bits in 130 are data.
PCIE_4, PCIE_5 = (rate * 1e9 * 16 * 128 / 130 / 8 for rate in (16, 32))


@dataclass(frozen=True)
class GPU:
    """A GPU as its data sheet has it."""

    name: str
    tflops: float                      # of dense products in bfloat16
    memory: float                      # bytes
    copies: float                      # bytes a second that its memory reads and writes
    nvlink: float                      # bytes a second in one direction; 0: it has none
    pcie: float                        # the same
    sheet: str = "NVIDIA's data sheet"

    @property
    def source(self) -> str:
        return f"{self.sheet}: {self.tflops:g} TFLOP/s, {self.memory / 1e9:g} GB"


GPUS = {gpu.name: gpu for gpu in (
    GPU("H200", 989, 141e9, 4.8e12, 450e9, PCIE_5),
    GPU("H100", 989, 80e9, 3.35e12, 450e9, PCIE_5),
    GPU("B200", 2250, 180e9, 7.7e12, 900e9, PCIE_5),
    GPU("A100", 312, 80e9, 2.04e12, 300e9, PCIE_4),
    GPU("L40S", 362, 48e9, 0.86e12, 0.0, PCIE_4),
    GPU("RTX4090", 165, 24e9, 1.01e12, 0.0, PCIE_4),
)}


@dataclass(frozen=True)
class Link:
    """The slowest link between two neighbours of a ring: no message is faster."""

    name: str
    speed: float                       # bytes a second in one direction
    source: str


@dataclass(frozen=True)
class Machines:
    """So many GPUs of one kind, and the link between them; one GPU has none."""

    gpu: GPU
    count: int
    link: Link | None


def parse_gpus(text: str) -> tuple[list[int], GPU]:
    """Return the numbers and the kind of `8xH200`, or of `2x8xH200`: two machines of eight."""
    found = re.fullmatch(r"(?:([0-9]{1,6})x)?(?:([0-9]{1,6})x)?([a-z].*)", "".join(text.lower().split()))
    if found is None:
        raise SettingError(f"--gpus {text}: write it as 8xH200, or 2x8xH200 for two machines")
    *numbers, kind = found.groups()
    gpu = {name.lower(): gpu for name, gpu in GPUS.items()}.get(kind)
    if gpu is None:
        raise SettingError(f"--gpus {text}: no figures of a GPU {kind.upper()}{did_you_mean(kind.upper(), GPUS)}; "
                           f"known: {', '.join(GPUS)}")
    counts = [int(number) for number in numbers if number is not None]
    if not 1 <= math.prod(counts) <= MOST_GPUS:
        raise SettingError(f"--gpus {text}: give 1 to {MOST_GPUS:,} GPUs")
    return counts, gpu


def parse_link(text: str, gpu: GPU) -> Link:
    """Return the link of this name: nvlink, pcie, or gigabits a second as in `100G`."""
    name = text.strip().lower()
    if name == "nvlink":
        if not gpu.nvlink:
            raise SettingError(f"--link nvlink: the {gpu.name} has none; give --link pcie")
        return Link("NVLink", gpu.nvlink, f"{gpu.sheet} of the {gpu.name}: {2 * gpu.nvlink / 1e9:g} GB/s both ways")
    if name == "pcie":
        rate = 32 if gpu.pcie == PCIE_5 else 16
        return Link("PCIe", gpu.pcie, f"PCI-SIG: 16 lanes of {rate} GT/s, 128 bits in 130")
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?g", name) and float(name[:-1]) > 0:
        return Link(f"{name[:-1]} Gb/s", float(name[:-1]) * GIGABIT, "as given, 8 bits a byte")
    raise SettingError(f"--link {text}: give nvlink, pcie, or gigabits a second, e.g. 100G"
                       + did_you_mean(name, ("nvlink", "pcie")))


def find_machines(gpus: str, link: str | None) -> Machines:
    """Return the machines that a user means; of the links the usual one of a single machine, unless one is given."""
    counts, gpu = parse_gpus(gpus)
    count = math.prod(counts)
    if link is not None:
        found = parse_link(link, gpu)
        return Machines(gpu, count, found if count > 1 else None)
    if count > IN_ONE_MACHINE or (len(counts) == 2 and counts[0] > 1):
        raise SettingError(f"--gpus {gpus} stand in several machines: give what connects these, e.g. --link 400G")
    return Machines(gpu, count, parse_link("nvlink" if gpu.nvlink else "pcie", gpu) if count > 1 else None)
