"""Measure Crabpot beside the limit and its peers, as ratios in one run."""
