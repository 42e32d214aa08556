// Package gentest is what xdrgen makes of gentest.x, which has every construct
// of its language. It is here to be compiled and tested.
package gentest

//go:generate go run sluice/cmd/xdrgen gentest.x
