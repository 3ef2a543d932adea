"""Benches: published methods side by side on the same concepts, by the same statistics."""

from covec.bench._run import detect as detect
from covec.bench.concepts import packaged as packaged
from covec.bench.result import DetectionBench as DetectionBench
