.PHONY: help demo test lint docs coverage bench fuzz mutants qemu release matrix

help:   ; @sed -n 's/^\([a-z]*\): .* [#] /make \1\t/p' Makefile
demo:   ; @bash tools/demo.sh           # the main job on a small lake that Spark writes
test:   ; @bash tools/test.sh           # what the tests need, the build, and the tests
lint:   ; @bash tools/lint.sh           # style, types, stubs, shell scripts, workflows
docs:   ; @bash tools/docs.sh           # the documentation as a site, into build/site
coverage: ; @bash tools/coverage.sh     # the branches that the default tier takes
bench:  ; @bash tools/bench.sh          # benchmarks against peers
fuzz:   ; @bash tools/fuzz.sh           # every fuzz target for a minute, under sanitizers
mutants: ; @bash tools/mutants.sh       # faults planted in the product, each of which the tests must notice
qemu:   ; @bash tools/qemu.sh           # the kernels' tests for aarch64, emulated
release: ; @bash tools/release.sh       # the sdist and wheels of a release into dist/, tested
matrix: ; @bash tools/matrix.sh         # the oldest and newest versions of what the package stands on
