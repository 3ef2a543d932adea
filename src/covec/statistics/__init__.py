"""Figures, intervals, nulls, permutation tests, multiplicity and splits: what every number that leaves covec rests on."""
