"""Figures, intervals, nulls, permutation tests, multiplicity and splits: what the numbers that leave covec rest on."""
