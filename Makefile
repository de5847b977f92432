# Two targets do everything on a fresh machine: "make demo" and "make test". See README.md.

SHELL := /bin/bash
BIN := bin/proxylab
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
GOLANGCI := v2.15.0

# A static binary: it runs on any node, also in an image that has nothing else.
export CGO_ENABLED := 0

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: demo build deps test-deps test conformance lint bench uml-kernel node-image e2e kind-test docker-up docker-down clean

demo: deps build ## play the quickstart scenario against four proxiers on a lab on this machine
	$(SUDO) $(BIN) run quickstart

build: ## the one binary
	go build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/proxylab

deps: ## install the Debian packages that are missing, and say so first
	@hack/deps.sh

test-deps:
	@hack/deps.sh test

test: test-deps build ## every test; those of the kernel and of the whole product run as root
	@hack/umlkernel >/dev/null || echo "no User Mode Linux kernel: tests of IPVS are skipped"
	hack/test.sh

conformance: deps build uml-kernel ## every behaviour of a Service proxy with every proxier, here and where there is IPVS
	hack/conformance.sh $(BIN)

lint: ## formatting, vet, golangci-lint
	hack/lint.sh $(GOLANGCI)

bench: ## Go benchmarks
	go test -run '^$$' -bench . -benchmem ./bench/... ./proxiers/services/... ./proxiers/iptables/...

uml-kernel: ## a User Mode Linux kernel with all that proxiers need, for --kernel uml; built once and kept
	@hack/umlkernel

node-image: docker-up ## a kind node image with Kubernetes, made without a registry; prints its name
	@$(SUDO) env "PATH=$$PATH" hack/node-image

kind-test: build ## the lab on kind: its tests, quickstart, a live swap, behaviours; nothing left in Docker
	KIND_TESTS=all hack/kind.sh $(BIN)

e2e: build docker-up ## the Kubernetes project's own tests of Services on kind, beside kube-proxy; writes docs/e2e.md
	@$(SUDO) env "PATH=$$PATH" hack/e2e/all $(BIN)

docker-up: ## a Docker daemon, where none runs
	@$(SUDO) hack/docker up

docker-down: ## end the daemon that docker-up started, and take back what it changed
	@$(SUDO) hack/docker down

clean: ## what was built, and what labs left on the machine
	@if [ -x $(BIN) ]; then $(SUDO) $(BIN) down --all; fi
	rm -rf bin
