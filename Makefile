# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Each makes .venv first; stamps by content make that quick the second time. `make test` adds to what `make demo` installs.

VENV  := .venv
BIN   := $(VENV)/bin
ASKED := $(PYTHON)
override PYTHON := $(shell sh install/find_python.sh $(ASKED))
SUM   := $(shell cat pyproject.toml constraints.txt install/environment.py install/requirements.py | cksum | cut -d' ' -f1)
PIP   := $(VENV)/.pip-$(SUM)
DEMO  := $(VENV)/.demo-$(SUM)
DEV   := $(VENV)/.dev-$(SUM)
SITE  := $(VENV)/.docs-$(SUM)
WORKERS ?= 2
COUNT ?= 300
SEED ?= 7
MINUTES ?= 0

.PHONY: setup demo test check lint types packages mutants ranks soak notebooks house resolve interop audit docs models wheel walk clean a-python same-python
setup: $(DEV)

$(PIP): | same-python
	@test -x $(BIN)/python || { echo "Making $(VENV) with $$($(PYTHON) --version) ..."; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python install/environment.py pip
	@rm -f $(VENV)/.ready-* $(VENV)/.pip-* && touch $@

$(DEMO): | $(PIP)
	@echo "Installing into $(VENV) what the demo and the page need ..."
	@$(BIN)/python install/environment.py demo
	@rm -f $(VENV)/.demo-* $(VENV)/.dev-* && touch $@
	@echo "Ready: $(BIN)/regard"

$(DEV): | $(PIP)
	@echo "Installing into $(VENV) what the tests need ..."
	@$(BIN)/python install/environment.py dev
	@rm -f $(VENV)/.demo-* $(VENV)/.dev-* && touch $(DEMO) $@
	@echo "Ready: $(BIN)/regard, and the tests"

a-python:
	@test -n "$(PYTHON)" || { test -z "$(ASKED)" || echo "PYTHON=$(ASKED) does not run here, or is another version."; \
	  echo "Regard needs Python 3.11, 3.12, 3.13 or 3.14: install one, then run make again."; exit 1; }

# Where a Python is asked for by PYTHON=..., .venv must have that one.
same-python: a-python
	@test -z "$(ASKED)" || test ! -x $(BIN)/python || test "$$($(BIN)/python --version)" = "$$($(PYTHON) --version)" || { \
	  echo "$(VENV) has $$($(BIN)/python --version), not $$($(PYTHON) --version): run make clean first, or leave PYTHON out."; \
	  exit 1; }

demo: $(DEMO)
	@$(BIN)/regard demo

# Compiled modules are kept, whatever the environment says: workers and commands would else compile each one again.
test: setup packages
	@echo "Running the tests ..."
	@env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The page is tested in a real browser, and captions on emoji of a real font; where these cannot be had, the tests
# say so and are skipped.
WANTED = $$(command -v chromium >/dev/null || command -v google-chrome >/dev/null || echo chromium) \
         $$(find /usr/share/fonts -iname 'NotoColorEmoji*' 2>/dev/null | grep -q . || echo fonts-noto-color-emoji)
packages:
	@wanted="$(WANTED)"; [ -z "$$(echo $$wanted)" ] || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing for the tests: $$wanted ..." && \
	  apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$wanted >/dev/null; } || \
	  echo "Not here, and cannot be installed: $$wanted. Tests that need it will be skipped."

check: lint types test

lint: setup
	@$(BIN)/ruff check .

types: setup
	@$(BIN)/mypy

# Small faults are planted in copies of the code; a test must fail with each. Stopped, it goes on where it was.
mutants: setup
	@$(BIN)/python -m mutants --count $(COUNT) --seed $(SEED) --workers $(WORKERS)

# Training on 2, 3 and 4 ranks, every family and task on 2 to 4, and every way to lose one: some 25 minutes.
ranks: setup
	@for count in 2 3 4; do REGARD_RANKS=$$count OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/training/test_ranks.py \
	  tests/training/test_sharded_ranks.py || exit 1; done
	@REGARD_RANKS=2 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/training/test_every_family_on_ranks.py \
	  tests/training/test_lost_ranks.py

# Campaigns of faults in turns, for hours; stopped, it goes on. `make soak MINUTES=30 ONLY=name`; tests/soak/ says more.
soak: setup
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --minutes $(MINUTES) --workers $(WORKERS) $(if $(ONLY),--only $(ONLY)) \
	  $(if $(DEVICE),--device $(DEVICE)) $(if $(filter command line,$(origin SEED)),--seed $(SEED)) $(if $(filter command line,$(origin COUNT)),--count $(COUNT))

# The lectures' notebooks, each from top to bottom; with their outputs and pictures they are in build/notebooks.
notebooks: setup
	@$(BIN)/python -m notebooks.run $(if $(LECTURE),--lecture $(LECTURE))

# Whether pip finds a version of everything, with each Python that is here.
resolve: $(PIP)
	@$(BIN)/python install/resolve.py

# The site, from the Markdown of docs/: build/docs/html. Warnings are errors, and so is a dead link.
docs: $(SITE)
	@$(BIN)/python -m docs.site.build

# The built site in Chromium: three widths, light and dark, axe, search, looks. It wants `make docs` and `make test` before.
seen: docs setup
	@$(BIN)/python -m tests.website.seen

$(SITE): | $(PIP)
	@echo "Installing into $(VENV) what builds the site ..."
	@$(BIN)/python install/environment.py docs
	@rm -f $(VENV)/.docs-* && touch $@

# The small models that come with Regard, trained anew: some minutes. `make models ONLY=phrasebook` makes one.
models: setup
	@$(BIN)/python install/make_models.py $(ONLY)

# The built wheel, in an empty environment outside the tree; and the README, as a stranger follows it.
wheel: a-python
	@$(PYTHON) install/try_wheel.py

walk: a-python
	@$(PYTHON) install/walk_readme.py

house:                       # counts of the tree: what a reader opens, and what the design forbids
	@$(PYTHON) bench/house.py

# llama.cpp is compiled for this, which takes some minutes: it has an environment of its own, and CI does without it.
interop: $(DEV)
	@test -x $(VENV)/interop/bin/python || $(BIN)/python -m venv $(VENV)/interop
	@$(BIN)/python -c "import site, pathlib; print(site.getsitepackages()[0])" > \
	  "$$($(VENV)/interop/bin/python -c 'import site; print(site.getsitepackages()[0])')/regard.pth"
	@$(VENV)/interop/bin/python -m pip install -qq --disable-pip-version-check llama-cpp-python==0.3.36
	@$(VENV)/interop/bin/python bench/interop.py

# Known holes in what is installed, where an advisory database can be reached. CI does not need it.
audit: $(PIP)
	@test -x $(VENV)/audit/bin/pip-audit || { $(BIN)/python -m venv $(VENV)/audit && \
	  $(VENV)/audit/bin/python -m pip install -qq --disable-pip-version-check pip-audit; }
	@$(VENV)/audit/bin/python install/audit.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
