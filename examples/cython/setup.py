"""Builds scores.pyx: python setup.py build_ext --inplace, with roicy, cython and setuptools."""

import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

OPENMP = ["-fopenmp"] if sys.platform == "linux" else []  # elsewhere it runs on one thread
scores = Extension("scores", ["scores.pyx"], extra_compile_args=OPENMP, extra_link_args=OPENMP)
setup(name="scores", ext_modules=cythonize([scores], language_level=3))
