# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Each makes .venv first; a stamp by content makes that quick the second time.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON := $(shell for p in python3.11 python3.12 python3 python; do \
            $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 && { echo $$p; break; }; done)
STAMP  := $(VENV)/.ready-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
WORKERS ?= 2

.PHONY: setup demo test check lint types packages clean
setup: $(STAMP)

$(STAMP):
	@test -n "$(PYTHON)" || { echo "Regard needs Python 3.11 or 3.12: install one, then run make again."; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version) (about two minutes, once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@rm -f $(VENV)/.ready-* && touch $@
	@echo "Ready: $(BIN)/regard"

demo: setup
	@$(BIN)/regard demo

test: setup packages
	@echo "Running the tests ..."
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

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

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
