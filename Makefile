# Everything starts from a fresh clone with `python3 -m venv` and pip; nothing else is assumed. The targets campaign,
# faults, damaged, places, gates, changing and memory keep each trial, and go on from there when they are called again.
#
#   make demo      set up, then the bundled corpus to verified shards and a report (demo-output/)
#   make test      set up, then the tests
#   make quick-test  set up, then the tests that need no Ray, no training and little time (a minute)
#   make coverage  set up, then the tests, and which lines of the code they ran
#   make check     set up, then format, lint, types and the site; lint-docker and lint-forge are parts of it
#   make docs      the pages of docs/ as a site in site/; a broken link is an error (seconds)
#   make package   set up, then the sdist and the wheel built, looked into, and used in clean environments (minutes)
#   make lowest    the quick tests with the lowest versions that pyproject.toml allows, in an environment of their own
#   make speed-guard  set up, then the hottest paths against their recorded speed (seconds)
#   make campaign  every long search, one after the other, and one table of them (many hours); stopped, it goes on when it
#                  is called again. ONLY='kills signals' names some, SHORT=1 does a tiny slice of each (half an hour),
#                  and benchmarks/campaigns.toml lists them. The tests in their long forms are ONLY=tests (some hours)
#   make losses    the laws of what must not be lost in silence, in their long forms (half an hour)
#   make clients   every export read by the real trainers' code, in environments of their own, and every
#                  model class of transformers under our masks (minutes)
#   make bench     kernels against their limits and peers, as a table (minutes)
#   make compare   ten settings of objectives on the bundled corpus, a small model of each (half an hour)
#   make faults    every fault planted into datasets of every objective, as a table (minutes)
#   make tiers     what the tests cost, by tier, and the slowest, as the last `make test` has noted them
#   make mutants   faults planted into the product's code that a change can reach, and whether tests notice them
#   make drawn-faults SEED=0  300 faults drawn at random, and whether the tests that reach them notice (hours)
#   make damaged   every committed file of a finished run damaged, each value signed, and sound runs (4 hours)
#   make places    disks that fill, readers that go, users without a home; it mounts, so as root (2 hours)
#   make gates     models learn from correct and from wrong rows of every objective, as a table (an hour)
#   make gpu-check every dataset of that run trained on, on a GPU if there is one, as a table
#   make browser RUNS='demo-output ...'  reports of runs in Chromium, desktop and phone, as lines of JSON
#   make changing  input files changed at 60 moments while a run reads them, as a table (minutes)
#   make memory    inputs made to break the bound of memory, each run within it, as a table (hours)
#   make scale CORPUS='/data/*.jsonl.zst'   a run over that corpus, measured from the outside
#   make signatures  deduplication of 10 million synthetic signatures within 2 GiB, as a table (ten minutes)
#   make growth CORPUS='/data/*.jsonl.zst'  runs over 10, 100 and 1,000 MB made of that corpus, as a table
#   make end-to-end CORPUS='/data/*.jsonl.zst'   texts to tokens beside other programs, CPU and memory (an hour)
#   make figures   every measuring script: what it answers, what it needs, and its call
#   make figure NAME=kernels [CORPUS='/data/*.jsonl.zst' ...]   one of them (benchmarks/targets.toml)
#   make clean     remove what the above made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
  --constraint constraints.txt
DEMO ?= demo-output
SCALE ?= scale-output
CLIENTS ?= clients-output
RUNS ?= $(DEMO)
FAULTS ?= faults-output
CAMPAIGN ?= campaign-output
CHANGING ?= changing-output
DAMAGED ?= damaged-output
PLACES ?= places-output
COMPARE ?= compare-output
GATES ?= gates-output
REACH ?= reach-output
SEED ?= 0
NUMBER ?= 300
MEMORY ?= memory-output
GROWTH ?= growth-output
SIGNATURES ?= signatures-output
END_TO_END ?= end-to-end-output
LOWEST ?= .venv-lowest
WORKERS ?= $(shell nproc)
COMPARE_RUN = $(BIN)/shardmill run examples/compare.toml --workers $(WORKERS) --output $(COMPARE)
# Its datasets and their exact checks; what trains on them comes after it.
GATES_RUN = $(BIN)/shardmill run benchmarks/objectives.toml --output $(GATES) --workers $(WORKERS) \
  --set verify.learning=false
CLM_ALONE = --set 'datasets=[{name="clm"}]'

.PHONY: setup demo test quick-test coverage check lint-docker lint-forge docs package lowest speed-guard campaign losses clients \
  bench faults compare gates \
  gpu-check browser tiers mutants drawn-faults changing damaged places memory scale growth signatures end-to-end figures figure clean

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

$(VENV)/.installed: $(VENV)/.small
	@echo "setup 2 of 3: torch, Ray, and what tests and examples need"
	@$(BIN)/python -c '$(EXTRAS)' run dev examples > $(VENV)/extras.txt
	@$(INSTALL) --requirement $(VENV)/extras.txt || $(NO_PACKAGES)
	@touch $@

$(VENV)/.ready: $(VENV)/.small
	@echo "setup 3 of 3: a small run, whose kernels are compiled and kept"
	@$(BIN)/shardmill run benchmarks/compiled.toml --workers 0 --output $(VENV)/compiled --replace \
	  > $(VENV)/compiled.log 2>&1 || { cat $(VENV)/compiled.log; exit 1; }
	@rm -r $(VENV)/compiled
	@touch $@

# Tests draw rows of every objective: on the second core, while pip installs, if `make --jobs=2` is told of it.
$(VENV)/.kernels: $(VENV)/.ready
	@echo "tests: a small run of every objective, whose kernels are compiled and kept"
	@$(BIN)/shardmill run benchmarks/objectives.toml --workers 0 --output $(VENV)/kernels --replace \
	  --set 'sources=[{name="code",paths=["../examples/corpus/code/go.jsonl.zst"],root="../examples/corpus"}]' \
	  --set tokenizer.train.vocab_size=1500 --set packing.seq_len=64 --set verify.learning=false \
	  > $(VENV)/kernels.log 2>&1 || { cat $(VENV)/kernels.log; exit 1; }
	@rm -r $(VENV)/kernels
	@touch $@

$(VENV)/.complete: $(VENV)/.installed $(VENV)/.ready
	@touch $@
	@echo "setup: done. Next: \"make demo\" turns the bundled corpus into shards and a report, \"make test\" runs the" \
	  "tests; \". $(BIN)/activate\" puts the command shardmill on your path."

demo: setup
	$(BIN)/shardmill run examples/quickstart.toml --output $(DEMO) --workers $(WORKERS)

# Files in the order of their names: by the number of their tests the longest would come last. Tests that
# fail are run again with what pytest can say of an assertion, which it takes half a minute to prepare.
test: setup $(VENV)/.kernels
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --assert plain || \
	  { $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; exit 1; }

quick-test: setup $(VENV)/.kernels
	$(BIN)/python -m pytest --numprocesses auto -m 'not slow' --hypothesis-profile quick \
	  tests/stages tests/pipeline tests/docs

# How much of the code the tests run; lines that only workers run are not seen.
coverage: setup $(VENV)/.kernels
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder \
	  --cov pipeline --cov stages --cov shardmill --cov-report term

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
	NUMBA_CACHE_DIR=$(abspath $(LOWEST))/numba $(LOWEST)/bin/python -m pytest -p no:anyio --numprocesses auto -m 'not slow' -k 'not (fixed_size_list or generated_pages)' \
	  --hypothesis-profile quick \
	  tests/stages tests/pipeline tests/docs --ignore tests/stages/filtering/test_language.py \
	  --ignore tests/stages/dedup/test_semantic.py \
	  --ignore tests/stages/tokenizer/test_parity_training.py --ignore tests/pipeline/test_balanced_text.py

speed-guard: setup
	$(BIN)/python benchmarks/speed_guard.py

campaign: setup $(VENV)/.kernels
	$(BIN)/python benchmarks/campaigns.py $(CAMPAIGN) --jobs $(WORKERS) $(if $(ONLY),--only $(ONLY)) \
	  $(if $(SHORT),--short) $(if $(CORPUS),--corpus '$(CORPUS)')

losses: setup
	SHARDMILL_CAMPAIGN=full $(BIN)/python -m pytest --numprocesses auto --dist loadfile -o faulthandler_timeout=0 \
	  tests/laws/test_delimited_dialects.py tests/laws/test_columns_and_numbers.py tests/laws/test_warc_bodies.py \
	  tests/laws/test_web_encodings.py tests/laws/test_web_streams.py tests/laws/test_page_charsets.py \
	  tests/laws/test_generations_missing.py tests/laws/test_generations_replaced.py \
	  tests/laws/test_lineage.py tests/laws/test_growth_sides.py tests/laws/test_weights_stay_within.py \
	  tests/laws/test_later_generations_keep.py tests/pipeline/test_mix_rules.py tests/laws/test_earlier_runs.py

clients: setup
	$(BIN)/python clients/run.py --cache $(CLIENTS)
	$(BIN)/python clients/masked_models.py

bench: setup
	$(BIN)/python benchmarks/kernels.py

faults: setup
	$(BIN)/python benchmarks/planted_faults.py $(FAULTS) --continue

damaged: setup
	$(BIN)/python benchmarks/damaged_files.py $(DAMAGED)/files --seeds 20 --continue
	$(BIN)/python benchmarks/signed_values.py $(DAMAGED)/signed --continue
	$(BIN)/python benchmarks/sound_runs.py $(DAMAGED)/sound --cases 20 --continue

places: setup
	$(BIN)/python benchmarks/gone_readers.py $(PLACES)/readers --cases 240 --continue
	$(BIN)/python benchmarks/filling_disks.py $(PLACES)/disks --cases 200 --continue
	$(BIN)/python benchmarks/other_users.py $(PLACES)/users --continue

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

gates: setup
	$(GATES_RUN)
	$(BIN)/python benchmarks/learning_gates.py $(GATES)/datasets/* --jobs $(WORKERS) --seeds 5 --fault-seeds 2 \
	  --json $(GATES)/gates.jsonl --continue

# Elsewhere: PYTHONPATH=. python3 benchmarks/gpu_check.py DIR, with numpy, xxhash, pydantic and torch.
gpu-check: setup
	$(GATES_RUN)
	$(BIN)/python benchmarks/gpu_check.py $(GATES) --large --json $(GATES)/gpu-check.json

browser: setup
	$(INSTALL) --editable '.[browser]'
	$(BIN)/python benchmarks/browser_check.py $(RUNS) --screenshots browser-output

mutants: setup $(VENV)/.kernels
	$(BIN)/python benchmarks/mutants.py --jobs $(WORKERS)

# Three times as long as `make test`, since every line is looked at.
$(REACH): setup $(VENV)/.kernels
	COVERAGE_FILE=$(REACH) $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder \
	  --cov pipeline --cov stages --cov shardmill --cov-context test --cov-report ''

drawn-faults: $(REACH)
	$(BIN)/python benchmarks/drawn_faults.py --seed $(SEED) --number $(NUMBER) --reach $(REACH) drawn-faults-$(SEED)-output.jsonl
	$(BIN)/python benchmarks/mutants.py drawn-faults-$(SEED)-output.jsonl --jobs $(WORKERS) --reach named \
	  --results drawn-faults-$(SEED)-results-output.jsonl

tiers: setup
	$(BIN)/python benchmarks/tiers.py

changing: setup
	$(BIN)/python benchmarks/changing_inputs.py $(CHANGING) --continue

memory: setup
	$(BIN)/python benchmarks/adversarial_memory.py $(MEMORY) --continue

scale: setup
	@test -n "$(CORPUS)" || { echo "name the files: make scale CORPUS='/data/*.jsonl.zst'"; exit 2; }
	$(BIN)/python benchmarks/scale.py benchmarks/scale.toml --corpus '$(CORPUS)' --output $(SCALE) \
	  --workers $(WORKERS) --command $(BIN)/shardmill --json $(SCALE).json

signatures: setup
	$(BIN)/python benchmarks/synthetic_signatures.py $(SIGNATURES) --limit 2GiB --json $(SIGNATURES).json

growth: setup
	@test -n "$(CORPUS)" || { echo "name the files: make growth CORPUS='/data/*.jsonl.zst'"; exit 2; }
	$(BIN)/python benchmarks/growth.py --corpus '$(CORPUS)' --cache $(GROWTH) --command $(BIN)/shardmill \
	  --json $(GROWTH).json

end-to-end: setup
	@test -n "$(CORPUS)" || { echo "name the files: make end-to-end CORPUS='/data/*.jsonl.zst'"; exit 2; }
	$(BIN)/python benchmarks/end_to_end.py --corpus '$(CORPUS)' --cache $(END_TO_END) \
	  --json $(END_TO_END).json

figures: setup
	@$(BIN)/python benchmarks/targets.py

# Variables such as CORPUS reach it by the environment, as make exports those of its command line.
figure: setup
	@test -n "$(NAME)" || { echo "name one of those that make figures lists: make figure NAME=kernels"; exit 2; }
	$(BIN)/python benchmarks/targets.py $(NAME)

clean:
	rm -rf $(VENV) $(LOWEST) $(DEMO) $(CLIENTS) $(FAULTS) $(COMPARE) $(GATES) $(SCALE) $(SCALE).json $(SCALE).out \
	  $(REACH) drawn-faults-*-output.jsonl $(CAMPAIGN) $(FAULTS).jsonl $(CHANGING).jsonl $(MEMORY).jsonl \
	  $(CHANGING) $(PLACES) $(DAMAGED) $(MEMORY) $(GROWTH) $(GROWTH).json \
	  $(SIGNATURES) $(SIGNATURES).json $(END_TO_END) $(END_TO_END).json browser-output figures-output site build dist \
	  *.egg-info
