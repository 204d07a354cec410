"""The compiled kernels; each instruction set is a package of its own. See pyx/ for their source."""
