"""Run every benchmark, one after the other."""

from benchmarks import decoding, reuse, selection, svms

for benchmark in (selection, decoding, reuse, svms):
    print(f"== {benchmark.__name__}: {(benchmark.__doc__ or '').splitlines()[0]}")
    benchmark.main()
