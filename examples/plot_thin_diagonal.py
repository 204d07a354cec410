"""
A thin diagonal, pooled by each operator
========================================

x
"""
import matplotlib.pyplot as plt

plt.plot([1, 2])
