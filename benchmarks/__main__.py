"""Run every benchmark, one after the other."""

from benchmarks import decoding, evaluation, heads, jobs, learner, reuse, startup, svms, training

for benchmark in (startup, heads, training, evaluation, decoding, reuse, jobs, svms, learner):
    print(f"== {benchmark.__name__}: {(benchmark.__doc__ or '').splitlines()[0]}", flush=True)
    benchmark.main()
