# SPDX-License-Identifier: Apache-2.0
# A recipe for spack, as repos/NAME/packages/zerogauge/package.py. There is no address to download from: the source is a
# clone, by `spack develop --path CLONE zerogauge@0.1.0`.
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Zerogauge(CMakePackage):
    """Conformance suite, benchmark and reference implementation for ZeRO-style sharded training."""

    license("Apache-2.0", checked_by="zerogauge")

    version("0.1.0")

    variant("mpi", default=True, description="Ranks as MPI processes")
    variant("cuda", default=False, description="The device tier on GPUs")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("jansson")
    depends_on("hwloc")
    depends_on("xxhash")
    depends_on("popt")
    depends_on("liburing")
    depends_on("libaio")
    depends_on("libyaml")
    depends_on("mpi", when="+mpi")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+cuda")

    requires("platform=linux")

    def cmake_args(self):
        return [
            self.define("ZG_TESTS", False),
            self.define_from_variant("ZG_MPI", "mpi"),
            self.define_from_variant("ZG_CUDA", "cuda"),
        ]
