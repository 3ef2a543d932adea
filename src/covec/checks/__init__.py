"""Checks: the contract of each verb as code, run over every registered method by discovery."""
