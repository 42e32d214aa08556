// Command xdrgen turns an XDR protocol file (RFC 4506, with the program blocks
// of RFC 5531) into Go types that encode and decode themselves with package
// sluice/xdr.
//
//	xdrgen [-pkg NAME] FILE.x
//
// writes FILE_gen.go, the types and constants, and FILE_gen_test.go, the list
// of all types that the tests walk through, beside FILE.x. NAME defaults to
// the package that go generate runs in ($GOPACKAGE).
//
// Plan: lex.go makes tokens, parse.go a syntax tree (ast.go), resolve.go looks
// up names and computes sizes (types.go), emit.go and codec.go print Go. The
// first error ends the run, as file:line:col: what is wrong.
//
// What the language has beyond the RFCs: // comments, which become Go doc
// comments when they stand directly above a definition; the names int32,
// uint32, int64 and uint64; and four annotations, each as a comment on the line
// where the field or definition that it is about ends:
//
//	opaque data<>;              //@payload   a xdr.Payload instead of bytes
//	nfs_opnum4 ops<>;           //@count     only the count; the elements are the caller's to read or write
//	enum layouttype4 { ... };   //@open      values that are not listed are decoded too
//	typedef uint32 bitmap4<>;   //@own       the Go type, with Encode and Decode, is written by hand in the package
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	pkg := flag.String("pkg", os.Getenv("GOPACKAGE"), "name of the Go package")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: xdrgen [-pkg NAME] FILE.x")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 || !strings.HasSuffix(flag.Arg(0), ".x") {
		flag.Usage()
		os.Exit(2)
	}
	if *pkg == "" {
		fmt.Fprintln(os.Stderr, "xdrgen: no package name: run under go generate, or give -pkg NAME")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *pkg); err != nil {
		fmt.Fprintln(os.Stderr, "xdrgen:", err)
		os.Exit(1)
	}
}

func run(path, pkg string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	code, test, err := generate(path, pkg, src)
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(path, ".x")
	if err := os.WriteFile(base+"_gen.go", code, 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+"_gen_test.go", test, 0o644)
}

// generate returns the two Go files for the protocol file src. path serves
// error messages and the files' headers.
func generate(path, pkg string, src []byte) (code, test []byte, err error) {
	tree, err := parse(path, string(src))
	if err != nil {
		return nil, nil, err
	}
	spec, err := resolve(path, tree)
	if err != nil {
		return nil, nil, err
	}
	spec.pkg, spec.source = pkg, filepath.Base(path)
	if code, err = emit(spec); err != nil {
		return nil, nil, err
	}
	test, err = emitTest(spec)
	return code, test, err
}
