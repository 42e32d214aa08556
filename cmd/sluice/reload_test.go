package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
)

// reloads runs untilEnd with reloads that hang until told.
type reloads struct {
	hup    chan os.Signal
	failed chan error
	ended  chan error
	begun  chan struct{}
	hang   chan struct{}
	n      atomic.Int32
}

func newReloads(ctx context.Context, t *testing.T) *reloads {
	r := &reloads{hup: make(chan os.Signal), failed: make(chan error), ended: make(chan error, 1), begun: make(chan struct{}), hang: make(chan struct{})}
	go func() {
		r.ended <- untilEnd(ctx, r.hup, r.failed, func() {
			r.n.Add(1)
			r.begun <- struct{}{}
			<-r.hang
		})
	}()
	t.Cleanup(func() { close(r.hang) })
	return r
}

// A reload that hangs keeps nobody from ending the server, and signals that
// come meanwhile are answered by one reload more.
func TestReloadThatHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newReloads(ctx, t)
	r.hup <- syscall.SIGHUP
	<-r.begun
	for range 5 {
		r.hup <- syscall.SIGHUP
	}
	r.hang <- struct{}{}
	<-r.begun
	if got := r.n.Load(); got != 2 {
		t.Errorf("%d reloads, want 2", got)
	}
	cancel()
	if err := <-r.ended; err != nil {
		t.Errorf("the end: %v", err)
	}

	r = newReloads(t.Context(), t)
	r.hup <- syscall.SIGHUP
	<-r.begun
	broken := errors.New("broken")
	r.failed <- broken
	if err := <-r.ended; err != broken {
		t.Errorf("the end after a failure: %v", err)
	}
}
