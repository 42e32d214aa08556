# What a person types:
#   make run [EXPORT=DIR]       build, serve a directory to this host, print the mount command
#   make test                   everything, a real Linux kernel as the client included
#   make bench                  figures beside nfs-ganesha (test/bench/bench.mk)
#   make lab                    which I/O mode for what: the experiments (test/lab/lab.mk)
#   make lab-nfsd               ratios to the kernel's server, in a virtual machine (test/lab/nfsd/nfsd.mk)
#   make lint                   gofmt, vet, staticcheck
#   make connectathon CTHON=DIR run the built Connectathon suite in DIR (test/README.md)
#   make conformance SUITE=DIR EXPORT=PATH [SERVER=HOST:PORT]   run the built pynfs in DIR against a server
#   make conformance-single ...                                 likewise, the tests that are run one by one
#   make fuzz [FUZZ=FuzzCompound ROOM=./pkg/nfs4 TIME=10m]      look for COMPOUNDs that do harm
# SLUICE_REQUIRE_ALL=1 makes everything that would be skipped a failure.

EXPORT  ?=
# Tests with a kernel client or other clients, and all the rest. The first build the server themselves, which go's cache of
# results doesn't see: they are always run.
END_TO_END = ./test/kernel/... ./test/clients/...
UNITS      = $$(go list ./... | grep -vE '/test/(kernel|clients)(/|$$)')
# Rooms where goroutines share memory run under the race detector too.
RACED      = ./rpc/... ./pkg/...
STRICT     = $(if $(SLUICE_REQUIRE_ALL),-strict)

.PHONY: build
build:
	go build -o build/ ./cmd/sluice

.PHONY: run
run: build
	@test/scripts/run.sh build/sluice "$(EXPORT)"

.PHONY: packages
packages:
	@test/scripts/packages.sh test/testenv/packages.txt test/lab/packages.txt

.PHONY: test
test: packages
	go run ./test/testsum $(STRICT) $(UNITS)
	go run ./test/testsum $(STRICT) -race $(RACED)
	go run ./test/testsum $(STRICT) -count 1 -p 1 -parallel 3 -timeout 40m $(END_TO_END)

.PHONY: lint
lint:
	@unformatted=$$(gofmt -l cmd exports pkg rpc test xdr); \
		[ -z "$$unformatted" ] || { echo "gofmt would change:" $$unformatted; exit 1; }
	go vet ./...
	go tool staticcheck ./...

.PHONY: connectathon
connectathon: packages
	@[ -n "$(CTHON)" ] || { echo "CTHON=DIR must name the built suite's directory, see test/README.md"; exit 2; }
	SLUICE_CTHON=$(abspath $(CTHON)) go run ./test/testsum -strict -tags connectathon -timeout 40m \
		-run TestConnectathon -v ./test/kernel

.PHONY: conformance
conformance:
	@[ -n "$(SUITE)" ] && [ -n "$(EXPORT)" ] || { echo "usage: make conformance SUITE=DIR [SERVER=HOST:PORT] EXPORT=PATH, see test/README.md"; exit 2; }
	go run ./test/conformance -suite "$(SUITE)" -server "$(or $(SERVER),127.0.0.1:2049)" -export "$(EXPORT)" $(CONFORMANCE_FLAGS)

.PHONY: conformance-single
conformance-single:
	@$(MAKE) --no-print-directory conformance CONFORMANCE_FLAGS="-single $(CONFORMANCE_FLAGS)"

.PHONY: fuzz
fuzz:
	go test -run '^$$' -fuzz '^$(or $(FUZZ),FuzzCompound)$$' -fuzztime $(or $(TIME),10m) -parallel 1 $(or $(ROOM),./pkg/nfs4)

bench: bench-packages
.PHONY: bench-packages
bench-packages:
	@test/scripts/packages.sh test/bench/packages.txt

include test/bench/bench.mk
include test/lab/lab.mk
