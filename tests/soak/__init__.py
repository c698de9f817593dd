"""The soak: campaigns against Regard that add up over hours, `make soak MINUTES=30 [ONLY=name] [SEED=0] [WORKERS=2]`.

A campaign is one file in `tests/soak/campaigns/`; it is found by itself. It sets CAMPAIGN (or a tuple, CAMPAIGNS):

    from tests.soak.campaign import Campaign, Failure

    def prepare(folder):                 # optional: once in each process, before its first case; heavy imports go here
        ...                              # `folder` is there as long as the process; what run() needs goes in globals

    def run(seed, folder):               # one case; all of it follows from the seed; `folder` is its own, and empty
        if broken:
            return Failure("one line on what was wrong")       # the runner adds the line that runs it again
        return None                      # a traceback, a crash, a killed process or a hang is a failure as well

    CAMPAIGN = Campaign("bit-flips", "a bit of a run folder is flipped, then it is loaded",
                        holds="refused, or the same numbers", ci=500, soak=50_000, run=run, prepare=prepare)

- Top-level imports of the file are light: no torch, no regard (`prepare` and `run` import them, and they stay).
- `warm()` imports, in the process that forks the cases, what several campaigns use; it changes nothing else there.
- Seeds are whole numbers from 0 on. CI runs 0 to ci - 1 of every campaign, in test_campaigns.py, in a fork of the
  test's process; where the short form is a test elsewhere, `short="tests/fuzz"` names it, and it is left out there.
- `patience` is how many seconds by the clock one case may take before it is killed as hung (120 unless given).
- `run_many(seeds, folder)` may stand beside run: a generator of (seed, None or Failure) that does many cases quicker.
- `alone=True` keeps every other campaign still while it runs, for what is timed. `here=False` says that this machine
  does not allow it. `also=("tests/fuzz",)` names files and folders, beside its own file and regard/, that say what a
  case is.
- `device="cuda"` needs a GPU: `make soak DEVICE=cuda` runs those. REGARD_SOAK_ON=cpu tries them without one.

The runner goes round the campaigns in turns (`--turn` seconds each, two at a time), each turn in a process of its own
with its own TMPDIR and REGARD_CACHE. What was done is kept in `bench/results/soak-cpu.json` (soak-cuda.json of a GPU),
by a hash of the code: stopped at any time (Ctrl-C, a kill), it goes on. Committed, the file lets hours add up over
sessions and machines, one after another, until the code changes. A campaign that failed 25 times rests. At the end
docs/reliability.md gets its table. `make soak ONLY=bit-flips SEED=17 COUNT=1` runs a case again, in sight.

Where only a folder comes back, copy the file there first: `cp bench/results/soak-cuda.json OUT`, then
`python -m tests.soak --device cuda --minutes 9 --no-page --state OUT`. Copy it back and commit it, and
`python -m tests.soak --device cuda --table` writes the table.
"""
