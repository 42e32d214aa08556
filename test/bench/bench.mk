# `make bench` measures sluice beside nfs-ganesha and prints the table of figures.
#   ROWS    rows, comma separated, or figures, extra, all (build/bench -list names them)
#   ROUNDS  rounds of each row        SECS  seconds of each measurement
#   SLUICE  a server to measure that is built already
#   DIR     a directory on the disk to measure on
#   PEER=false leaves nfs-ganesha out
# A run of all figures writes docs/benchmarks/nfsv3.{md,json}, a part of them
# build/bench-part.{md,json}; OUT=FILE names another place.
ROWS   ?= figures
ROUNDS ?= 5
SECS   ?= 2
PEER   ?= true
DIR    ?= /var/tmp
OUT    ?= $(if $(filter figures all,$(ROWS)),docs/benchmarks/nfsv3,build/bench-part)

# `make bench-splice` compares moving data without a copy with copying it, READ and WRITE, and
# writes docs/benchmarks/splice.{md,json}.
#   BLOCKS  matched blocks of each comparison
#   SECS    seconds of each run, 0.4 if not given
#   PARTS   size (READ by size), mixed (READ by threshold), write, comma separated, or all.
#           A part that is not run stays as it was in the files.
PARTS  ?= all
BLOCKS ?= 15

.PHONY: bench-splice
bench-splice: SECS = 0.4
bench-splice: OUT = docs/benchmarks/splice
bench-splice:
	mkdir -p build
	go build -o build/ ./test/bench/nfsload ./test/bench $(if $(SLUICE),,./cmd/sluice)
	build/bench -splice '$(PARTS)' -rounds $(BLOCKS) -secs $(SECS) -dir '$(DIR)' \
		-sluice '$(or $(SLUICE),build/sluice)' -nfsload build/nfsload -out '$(OUT)'

.PHONY: bench
bench:
	mkdir -p build
	go build -o build/ ./test/bench/nfsload ./test/bench $(if $(SLUICE),,./cmd/sluice)
	build/bench -rows '$(ROWS)' -rounds $(ROUNDS) -secs $(SECS) -peer=$(PEER) -dir '$(DIR)' \
		-sluice '$(or $(SLUICE),build/sluice)' -nfsload build/nfsload -out '$(OUT)'
