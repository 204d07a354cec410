"""Checks of what callers give: numbers, arrays, boxes, pyramids, and arrays for results.

The modules have an underscore because "boxes" and "levels" are names of arguments everywhere.
"""
