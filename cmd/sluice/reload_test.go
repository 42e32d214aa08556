package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
)

// A reload that hangs keeps nobody from ending the server, and signals that
// come meanwhile are answered by one reload more.
func TestReloadThatHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hup, failed := make(chan os.Signal), make(chan error)
	var n atomic.Int32
	begun, hang := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	loop := func() {
		ended <- untilEnd(ctx, hup, failed, func() {
			n.Add(1)
			begun <- struct{}{}
			<-hang
		})
	}
	go loop()
	hup <- syscall.SIGHUP
	<-begun
	for range 5 {
		hup <- syscall.SIGHUP
	}
	hang <- struct{}{}
	<-begun
	if got := n.Load(); got != 2 {
		t.Errorf("%d reloads, want 2", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
	close(hang)

	ctx, hang = t.Context(), make(chan struct{})
	go loop()
	hup <- syscall.SIGHUP
	<-begun
	broken := errors.New("broken")
	failed <- broken
	if err := <-ended; err != broken {
		t.Errorf("the end after a failure: %v", err)
	}
	close(hang)
}
