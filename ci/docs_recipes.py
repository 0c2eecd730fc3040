# SPDX-License-Identifier: Apache-2.0
"""The recipes of packaging/ for spack, conda-forge and containers, for ci/docs: what can be said of them offline."""
import ast
import re
import subprocess

from docs_page import ROOT

# A library by pkg-config's name, or of find_library: spack's and conda-forge's package.
LIBRARIES = {"jansson": ("jansson", "jansson"), "hwloc": ("hwloc", "libhwloc"), "libxxhash": ("xxhash", "xxhash"),
             "popt": ("popt", "popt"), "liburing": ("liburing", "liburing"), "yaml-0.1": ("libyaml", "yaml"),
             "aio": ("libaio", "libaio")}
SPACK_OTHERS = {"c", "cmake", "pkgconfig", "mpi", "cuda", "nccl"}
CONDA = {"schema_version": None, "context": {"version"}, "package": {"name", "version"}, "source": {"path"},
         "build": {"number", "skip", "script"}, "requirements": {"build", "host", "run"}, "tests": None,
         "about": {"summary", "license", "license_file"}}
CONDA_OTHERS = {"cmake", "make", "pkg-config", "python", "pip", "scikit-build-core", "numpy", "${{ compiler('c') }}",
                "${{ stdlib('c') }}"}


def text_of(file):
    return (ROOT / file).read_text(encoding="utf-8")


def commands(file, lines, verify):
    """Each is a command line, whose files and options of CMake exist."""
    cmake = text_of("CMakeLists.txt") + text_of("cmake/install.cmake")
    for line in lines:
        verify(subprocess.run(["bash", "-n", "-c", line], check=False).returncode == 0, file, f"not a command: {line}")
        for path in re.findall(r"(?<![\w./-])(?:ci|cmake)/[\w.]+", line):
            verify((ROOT / path).is_file(), file, f"{path}: no such file")
        for option in re.findall(r"\bZG_\w+", line):
            verify(option in cmake, file, f"no such option of CMake: {option}")


def spack(file, version, libraries, verify):
    body = ast.parse(text_of(file))
    recipe = next(node for node in body.body if isinstance(node, ast.ClassDef))
    calls = [node for node in ast.walk(recipe) if isinstance(node, ast.Call)]
    said = {name: [ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == name]
            for name in ("version", "depends_on", "license", "self.define", "self.define_from_variant")}
    verify(recipe.name == "Zerogauge", file, "spack finds the class by the package's name: Zerogauge")
    verify(said["version"] == [version], file, f"its version is not {version}")
    names = {re.match(r"[\w-]+", need)[0] for need in said["depends_on"]}
    expected = {LIBRARIES[library][0] for library in libraries} | SPACK_OTHERS
    verify(names == expected, file, f"it depends on {names}, and the build on {expected}")
    commands(file, said["self.define"] + said["self.define_from_variant"], verify)


def conda(file, version, libraries, verify):
    import yaml
    recipe = yaml.safe_load(text_of(file))
    verify(set(recipe) == set(CONDA), file, f"its parts are not {', '.join(CONDA)}")
    for part, keys in CONDA.items():
        verify(keys is None or set(recipe[part]) == keys, file, f"{part} has not the keys {keys}")
    verify(recipe["schema_version"] == 1 and recipe["context"]["version"] == version, file,
           f"it is not of schema version 1 and version {version}")
    needs = [need for part in recipe["requirements"].values() for need in part]
    names = {need if need.startswith("$") else need.split()[0] for need in needs}
    expected = {LIBRARIES[library][1] for library in libraries} | CONDA_OTHERS
    verify(names == expected, file, f"it needs {names}, and the build {expected}")
    backend = re.search(r"scikit-build-core(>=[\d.]+)", text_of("pyproject.toml"))[1]
    verify(f"scikit-build-core {backend}" in needs, file, f"pyproject.toml needs scikit-build-core{backend}")
    commands(file, recipe["build"]["script"], verify)


def container(file, verify):
    text = text_of(file)
    for line in re.findall(r"^[^#\n].*", text, re.M):
        verify(re.match(r"(FROM|COPY|WORKDIR|RUN|ENV|ENTRYPOINT) ", line), file, f"no instruction: {line}")
    verify(set(re.findall(r"--from=(\S+)", text)) == set(re.findall(r" AS (\w+)$", text, re.M)), file,
           "its stages are not those that it copies from")
    commands(file, re.findall(r"^RUN (.*)", text, re.M), verify)


def recipes(verify):
    cmake = text_of("CMakeLists.txt")
    version = re.search(r"project\(zerogauge VERSION (\S+)", cmake)[1]
    libraries = re.findall(r"^pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET (\S+)\)", cmake, re.M)
    libraries += re.findall(r"^find_library\(\w+ (\w+) REQUIRED\)", cmake, re.M)
    verify(set(libraries) == set(LIBRARIES), "ci/docs_recipes.py", f"the build needs {libraries}")
    spack("packaging/recipes/package.py", version, libraries, verify)
    container("packaging/Containerfile", verify)
    try:
        conda("packaging/recipes/recipe.yaml", version, libraries, verify)
    except ImportError:
        print("SKIP: packaging/recipes/recipe.yaml: no PyYAML here")
