"""Intervals, spreads and aggregation over layers: plain functions of numbers, no torch."""
