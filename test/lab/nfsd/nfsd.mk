# `make lab-nfsd` measures sluice beside the kernel's NFS server, in a virtual
# machine that needs neither KVM nor root, and prints tables of ratios. A quarter
# of an hour.
#   ROWS    rows, comma separated, or all (build/lab-nfsd -list names them)
#   ROUNDS  rounds of each row        SECS  seconds of each measurement
#   KINDS   counted, parallel or both: docs/benchmarks/lab-5-nfsd.md says what they are
#   DIR     a directory with 1 GiB free
# A run of everything writes docs/benchmarks/lab-5-nfsd.{md,json} and keeps the page's
# part that a person wrote, a part of it build/lab-5-nfsd.{md,json}; OUT=FILE names
# another place.
COMMA := ,
.PHONY: lab-nfsd
lab-nfsd: ROWS = all
lab-nfsd: KINDS = counted,parallel
lab-nfsd: ROUNDS = 5
lab-nfsd: SECS = 1
lab-nfsd: OUT = $(if $(filter allcounted$(COMMA)parallel,$(ROWS)$(KINDS)),docs/benchmarks/lab-5-nfsd,build/lab-5-nfsd)
lab-nfsd:
	@test/scripts/packages.sh test/lab/nfsd/packages.txt
	mkdir -p build/static
	CGO_ENABLED=0 go build -o build/static/ ./cmd/sluice ./test/bench/nfsload ./test/lab/nfsd/guest
	go build -o build/lab-nfsd ./test/lab/nfsd
	build/lab-nfsd -rows '$(ROWS)' -kinds '$(KINDS)' -rounds $(ROUNDS) -secs $(SECS) -dir '$(DIR)' -out '$(OUT)'
