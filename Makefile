# Everything a newcomer needs, from nothing: Python 3.11, Java 17 and a network. `make help` lists the targets.

PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CONSTRAINTS := $(wildcard constraints.txt)

# Processes are started by the hundred, and each would compile all sources where bytecode isn't kept.
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
# What builds of images are told: docker/README.md. An argument is left out if it is empty.
ARGUMENT    = $(if $(2),--build-arg $(1)='$(2)')
BUILD       = env DOCKER_BUILDKIT=1 docker build --build-arg BASE_IMAGE=$(BASE_IMAGE) --build-arg SOURCE_DATE_EPOCH=$(COMMITTED) \
	$(call ARGUMENT,HTTP_PROXY,$(or $(HTTP_PROXY),$(http_proxy))) $(call ARGUMENT,HTTPS_PROXY,$(or $(HTTPS_PROXY),$(https_proxy))) \
	$(call ARGUMENT,NO_PROXY,$(or $(NO_PROXY),$(no_proxy))) $(call ARGUMENT,PIP_INDEX_URL,$(PIP_INDEX_URL)) \
	$(call ARGUMENT,SPOJOIN_MAVEN_URL,$(MAVEN_URL)) $(if $(CA),--secret id=ca$(COMMA)src=$(CA)) $(BUILD_OPTIONS)
COMMA      := ,
COMMITTED   = $(or $(shell git log -1 --format=%ct 2>/dev/null),315532800)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make the environment; the command is then .venv/bin/spojoin

run: $(READY) ## real flights from PySpark through Kafka and all services, checked against the oracle (report/)
	@$(BIN)/loadgen demo

test: lint versions ## every test, after ruff and mypy
	$(BIN)/python -m pytest tests/unit -n 3
	$(BIN)/python -m pytest tests/simulation -n 2
	$(BIN)/python -m pytest tests/integration -m "not alone" -n 2 --dist loadfile -rs
	$(BIN)/python -m pytest tests/integration -m alone

versions: $(READY) ## core tests and README as pip installs them: oldest and newest versions that the bounds allow, Python 3.11 to 3.13
	$(BIN)/python -m tests.support.versions

fuzz: $(READY) ## search for new counterexamples of the properties, ten times as many as tests look at, then mutate FRAMES=10000000 messages
	$(BIN)/python -m pytest tests/unit -n 2 --hypothesis-profile search
	$(BIN)/python -m tests.support.wire_fuzz --frames $(FRAMES)

campaign: $(READY) ## simulate SEEDS=1000000 fresh seeds on all cores, FROM=seed on; started again, it goes on (report/campaign)
	$(BIN)/spojoin simulate --campaign report/campaign --seeds $(SEEDS) $(addprefix --from ,$(FROM))

bench: $(READY) ## every speed that is promised, measured (bench-results/)
	$(BIN)/loadgen promises

figures: $(READY) ## the papers' figures, measured on this machine (report/figures), at most 40 minutes; QUICK=1: 5; ONLY=name redraws one
	$(BIN)/loadgen papers $(if $(QUICK),--quick) $(addprefix --only ,$(ONLY))

benchmark: $(READY) ## other engines and all methods on the same data, every total checked (report/benchmark); QUICK=1 is short
	$(BIN)/loadgen engines run $(if $(QUICK),--quick)

silence: $(READY) ## how long results are silent when services are killed and stopped, PACKING=together, with standbys (report/silence)
	$(BIN)/loadgen silence --packing $(PACKING) --output report/silence

soak: $(READY) ## faults and changes at random for MINUTES=60, every result recomputed, memory and disk watched; SEED=seed repeats (report/soak)
	$(BIN)/loadgen soak --minutes $(MINUTES) $(addprefix --seed ,$(SEED)) --output report/soak

images: ## build the container images (BASE_IMAGE, TAG; CA, MAVEN_URL, PIP_INDEX_URL and proxies: docker/README.md)
	$(BUILD) --file docker/services.Dockerfile --tag spojoin:$(TAG) .
	$(BUILD) --file docker/dev.Dockerfile --tag spojoin-dev:$(TAG) .
	$(BUILD) --file docker/spark.Dockerfile --tag spojoin-spark:$(TAG) .

reproduce: ## build IMAGES="services dev spark" twice without a cache, and compare their layers
	$(PYTHON) docker/reproduce.py --epoch $(COMMITTED) $(IMAGES) -- $(BUILD)

test-cluster: $(READY) ## install, break, rescale and remove a release on the cluster that KUBECONFIG names
	$(BIN)/python -m pytest tests/cluster --run-cluster

kind-up: images ## a kind cluster with the images and a demo release
	kind get clusters | grep -qx spojoin || kind create cluster --name spojoin
	kind load docker-image --name spojoin spojoin:$(TAG) spojoin-dev:$(TAG) spojoin-spark:$(TAG)
	$(DEMO) --kube-context kind-spojoin

minikube-up: images ## a minikube cluster with the images and a demo release
	minikube status --profile spojoin >/dev/null || minikube start --profile spojoin
	minikube image load --profile spojoin spojoin:$(TAG) spojoin-dev:$(TAG) spojoin-spark:$(TAG)
	$(DEMO) --kube-context spojoin

DEMO = helm upgrade --install demo helm/spojoin --namespace spojoin --create-namespace --set demo.enabled=true \
	--set image.tag=$(TAG) --set devImage.tag=$(TAG) --set sparkImage.tag=$(TAG) --wait --timeout 5m

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m helm.tables --check

format: $(READY) ## bring the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

audit: $(READY) ## what images are made of (report/sbom, CycloneDX), and what of it is vulnerable; fails where advisories can't be had
	$(PYTHON) -m venv .cache/audit
	.cache/audit/bin/python -m pip install --quiet pip-audit==2.10.1 cyclonedx-bom==7.5.0
	.cache/audit/bin/python docker/audit.py report/sbom $(addprefix --lock ,constraints.txt $(wildcard docker/*.lock)) \
		$$($(BIN)/python -m loadgen.load.jars) $(addprefix --image ,$(addsuffix :$(TAG),spojoin spojoin-dev spojoin-spark))

clean: ## remove the environment and everything that was made
	rm -rf $(VENV) report bench-results .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Made again when what is installed changes. Sources are installed in place and need no new set-up.
$(READY): pyproject.toml loadgen/pyproject.toml protos/spojoin.proto $(CONSTRAINTS)
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is missing: install it, or say where it is: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@command -v java >/dev/null || test -x "$$JAVA_HOME/bin/java" || { echo "Java is missing: install Java 17 (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(addprefix --constraint ,$(CONSTRAINTS)) --editable '.[all,dev]' --editable './loadgen[all]'
	$(BIN)/spojoin fetch
	$(BIN)/loadgen fetch
	$(BIN)/spojoin warm-up
	@touch $@
