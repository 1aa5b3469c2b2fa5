"""Drives devices by NVIDIA's driver API, or by AMD's HIP, which has the same functions by other
names.

A backend gives a :class:`~unladen.backends._gpu.cuda_like.vendor.Vendor`: the names of the driver,
of its functions and of the compiler, and what sets the maker's devices apart. All else is here.
"""
