# SPDX-License-Identifier: Apache-2.0
"""The base class of adapters whose trainer has all ranks in one process, as JAX has its devices."""
from zerogauge.adapter import Adapter


class OneProcess(Adapter):
    """backward receives a list: the loss of each rank. All other methods are as in Adapter, called once for all ranks;
    case.rank is 0."""

    def micro_steps(self, step):
        ranks = [self.case.gradients(step, rank) for rank in range(self.case.world)]
        return list(zip(*ranks))

    def forward(self, gradients):
        return [super(OneProcess, self).forward(one) for one in gradients]

    def write_seen(self, step, seen):
        for rank in range(self.case.world):
            self.case.write_seen(step, seen, rank)

    @classmethod
    def launch(cls, arguments):
        cls.serve(0, arguments, arguments.scratch)
