# The lab: experiments about the I/O modes. Each target prints tables and writes
# docs/benchmarks/lab-N-NAME.{md,json}; root, a quiet machine, about a quarter of
# an hour for all and 10 GiB below DIR.
#   make lab            all of these
#   make lab-stream     streams larger and smaller than the server's memory
#   make lab-noisy      a streaming writer beside a reader that wants short latencies
#   make lab-neighbour  what a stream leaves of a neighbour's page cache
#   make lab-misaligned records that fit no page, small random reads, a hot set written again
#   make lab-page       puts tables of the results into docs/choosing-a-mode.md
#   make lab-quick      tries that all of it works; figures without meaning, in build/
#   ROUNDS  blocks of each workload   SECS    seconds of each measurement
#   MEMORY  MiB of the small server   SLUICE  a server to measure that is built already
#   DIR     a directory on an ext4 disk
#   LABOUT  where the results go, docs/benchmarks if not said
MEMORY ?= 1024
LABOUT ?= docs/benchmarks
LABS    = lab-stream lab-noisy lab-neighbour lab-misaligned

.PHONY: lab lab-build lab-page lab-quick $(LABS)
lab $(LABS): ROUNDS = 4
lab $(LABS): SECS = 2
lab: $(LABS)

lab-build:
	@test/scripts/packages.sh test/lab/packages.txt
	mkdir -p build
	go build -o build/ ./test/lab $(if $(SLUICE),,./cmd/sluice)

$(LABS): lab-build
	build/lab -rounds $(ROUNDS) -secs $(SECS) -memory $(MEMORY) -dir '$(DIR)' -sluice '$(or $(SLUICE),build/sluice)' -out '$(LABOUT)' $(@:lab-%=%)

lab-quick: lab-build
	build/lab -quick -dir '$(DIR)' -sluice '$(or $(SLUICE),build/sluice)' -out build all

lab-page:
	go run ./test/lab page docs

include test/lab/nfsd/nfsd.mk
