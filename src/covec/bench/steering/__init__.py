"""The bench of steering: every way to steer at equal divergence on neutral text, beside prompting and nulls."""

from covec.bench.steering._run import DOSES as DOSES
from covec.bench.steering._run import steer as steer
from covec.bench.steering._subject import packaged as packaged
from covec.bench.steering.result import SteeringBench as SteeringBench
