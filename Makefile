# A newcomer needs Python 3.11, Java 17 and a network. `make help` lists the targets.

PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CONSTRAINTS := $(wildcard constraints.txt)

# Tests start hundreds of processes. Without bytecode files, each would compile all sources.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test versions fuzz campaign bench figures benchmark silence soak lint format audit clean images reproduce test-cluster kind-up minikube-up

BASE_IMAGE ?= python:3.11-slim
TAG        ?= dev
IMAGES     ?= services dev spark
FRAMES     ?= 10000000
SEEDS      ?= 1000000
MINUTES    ?= 60
PACKING    ?= together
# helm/spojoin/README.md describes the options of image builds.
ARGUMENT    = $(if $(2),--build-arg $(1)='$(2)')
BUILD       = env DOCKER_BUILDKIT=1 docker build --build-arg BASE_IMAGE=$(BASE_IMAGE) --build-arg SOURCE_DATE_EPOCH=$(COMMITTED) \
	$(call ARGUMENT,HTTP_PROXY,$(or $(HTTP_PROXY),$(http_proxy))) $(call ARGUMENT,HTTPS_PROXY,$(or $(HTTPS_PROXY),$(https_proxy))) \
	$(call ARGUMENT,NO_PROXY,$(or $(NO_PROXY),$(no_proxy))) $(call ARGUMENT,PIP_INDEX_URL,$(PIP_INDEX_URL)) \
	$(call ARGUMENT,SPOJOIN_MAVEN_URL,$(MAVEN_URL)) $(if $(CA),--secret id=ca$(COMMA)src=$(CA)) $(BUILD_OPTIONS)
COMMA      := ,
COMMITTED   = $(or $(shell git log -1 --format=%ct 2>/dev/null),315532800)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create the environment, with the command .venv/bin/spojoin

run: $(READY) ## send real flights from PySpark through Kafka and all services, and check the results by Spark (report/); ALL=1: four queries
	@$(BIN)/loadgen demo $(if $(ALL),--all)

PYTEST := $(BIN)/python -m pytest --durations=20 $(if $(LONG),--long)

# Integration tests wait more than they compute, so they get more workers than cores. Each worker takes up to 3 GiB.
test: $(READY) ## run ruff, mypy and every test; LONG=1 adds values and seeds, and an hour
	@$(MAKE) --no-print-directory -j 2 lint versions
	$(PYTEST) tests/unit -n 3 --dist worksteal
	$(PYTEST) tests/simulation -n 2 --dist worksteal
	$(PYTEST) tests/integration -m "not alone" -n 3 --dist loadfile --no-loadscope-reorder -rs
	$(PYTEST) tests/integration -m alone

versions: $(READY) ## run core tests and the README with the oldest and the newest versions that the bounds allow
	$(BIN)/python -m tests.support.versions $(if $(LONG),--long)

fuzz: $(READY) ## try twenty times as many examples of each property as the tests do, then mutate FRAMES=10000000 messages
	$(BIN)/python -m pytest tests/unit -n 2 --hypothesis-profile search
	$(BIN)/python -m tests.support.wire_fuzz --frames $(FRAMES)

campaign: $(READY) ## simulate SEEDS=1000000 new seeds on all cores, from FROM=seed on; a second start continues the first (report/campaign)
	$(BIN)/loadgen simulate --campaign report/campaign --seeds $(SEEDS) $(addprefix --from ,$(FROM))

bench: $(READY) ## measure every promised speed (bench-results/)
	$(BIN)/loadgen promises

figures: $(READY) ## measure the papers' figures on this machine (report/figures) in at most 40 minutes; QUICK=1: 5 minutes; ONLY=name: one figure
	$(BIN)/loadgen papers $(if $(QUICK),--quick) $(addprefix --only ,$(ONLY))

benchmark: $(READY) ## measure other engines and all methods on the same data, and check every total (report/benchmark); QUICK=1: a short run
	$(BIN)/loadgen engines run $(if $(QUICK),--quick)

silence: $(READY) ## measure how long results are silent after kills and stops, with standbys, PACKING=together (report/silence)
	$(BIN)/loadgen silence --packing $(PACKING) --output report/silence

soak: $(READY) ## cause random faults and changes for MINUTES=60, recompute every result, watch memory and disk; SEED=seed repeats a run (report/soak)
	$(BIN)/loadgen soak --minutes $(MINUTES) $(addprefix --seed ,$(SEED)) --output report/soak

images: ## build the container images (BASE_IMAGE, TAG; CA, MAVEN_URL, PIP_INDEX_URL and proxies: helm/spojoin/README.md)
	$(BUILD) --file docker/services.Dockerfile --tag spojoin:$(TAG) .
	$(BUILD) --file docker/dev.Dockerfile --tag spojoin-dev:$(TAG) .
	$(BUILD) --file docker/spark.Dockerfile --tag spojoin-spark:$(TAG) .

reproduce: ## build IMAGES="services dev spark" twice without a cache, and compare their layers
	$(PYTHON) docker/reproduce.py --epoch $(COMMITTED) $(IMAGES) -- $(BUILD)

test-cluster: $(READY) ## install, break, rescale and remove a release on the cluster that KUBECONFIG names
	$(BIN)/python -m pytest tests/cluster --run-cluster

kind-up: images ## create a kind cluster with the images and a demo release
	kind get clusters | grep -qx spojoin || kind create cluster --name spojoin
	kind load docker-image --name spojoin spojoin:$(TAG) spojoin-dev:$(TAG) spojoin-spark:$(TAG)
	$(DEMO) --kube-context kind-spojoin

minikube-up: images ## create a minikube cluster with the images and a demo release
	minikube status --profile spojoin >/dev/null || minikube start --profile spojoin
	minikube image load --profile spojoin spojoin:$(TAG) spojoin-dev:$(TAG) spojoin-spark:$(TAG)
	$(DEMO) --kube-context spojoin

DEMO = helm upgrade --install demo helm/spojoin --namespace spojoin --create-namespace --set demo.enabled=true \
	--set image.tag=$(TAG) --set devImage.tag=$(TAG) --set sparkImage.tag=$(TAG) --wait --timeout 5m

lint: $(READY) ## run ruff and mypy, and check generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m helm.tables --check

format: $(READY) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

audit: $(READY) ## list the images' parts (report/sbom, CycloneDX) and their known vulnerabilities; fails if advisories are unavailable
	$(PYTHON) -m venv .cache/audit
	.cache/audit/bin/python -m pip install --quiet pip-audit==2.10.1 cyclonedx-bom==7.5.0
	.cache/audit/bin/python docker/audit.py report/sbom $(addprefix --lock ,constraints.txt $(wildcard docker/*.lock)) \
		$$($(BIN)/python -m loadgen.load.jars) $(addprefix --image ,$(addsuffix :$(TAG),spojoin spojoin-dev spojoin-spark))

clean: ## remove the environment and all generated files
	rm -rf $(VENV) report bench-results .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Made again when dependencies change. Sources are installed in place, so their changes need no set-up.
$(READY): pyproject.toml loadgen/pyproject.toml protos/spojoin.proto $(CONSTRAINTS)
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is missing: install it, or give its path: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@command -v java >/dev/null || test -x "$$JAVA_HOME/bin/java" || { echo "Java is missing: install Java 17 (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME" >&2; exit 2; }
	@$(PYTHON) set_up.py $(VENV) $(CONSTRAINTS)
	@touch $@
