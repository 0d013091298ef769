"""What an operator does, whatever runs it: arithmetic, bytes touched and kernels started."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Work:
    """FLOPs and the bytes an op really touches: a ``Gather`` counts the rows it reads, not its table."""

    flops: float
    bytes_read: int
    bytes_written: int
    bytes_scattered: int = 0
    """The part of ``bytes_read + bytes_written`` that lies in rows at arbitrary addresses."""
    launches: int = 1
    """Kernels it starts: none for a view, one for most ops, many for control flow and recurrent ops."""
    serial_cycles: float = 0.0
    """Cycles that one core takes where a processor's kernel goes element by element, on one thread."""
    spread_cycles: float = 0.0
    """The same of kernels that divide the elements among all threads."""

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def dearer(self, other: Work) -> Work:
        """The most of both in every figure: no device takes longer for either of them."""
        return Work(*(max(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)))

    def repeated(self, times: int) -> Work:
        """This work done ``times`` times over."""
        return Work(
            self.flops * times,
            self.bytes_read * times,
            self.bytes_written * times,
            self.bytes_scattered * times,
            self.launches * times,
            self.serial_cycles * times,
            self.spread_cycles * times,
        )

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Flops per byte moved; 0 for an op that moves none."""
        return self.flops / self.bytes_moved if self.bytes_moved else 0.0


NO_WORK = Work(0.0, 0, 0, launches=0)
"""What a sum of works starts from."""
